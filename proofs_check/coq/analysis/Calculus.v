(* fix:calculus: the lines of fac:calculus, entry by entry, with shapes that multiply: in the
   fourth line of Part 3 Z is k x m, as X^T is m x n.  Where the paper differentiates vectors
   or matrices, x i and X i j stand for their entries as functions of t.                    *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model Gradient.
Open Scope R_scope.

(* Part 1:  d f^n = n f^{n-1} df *)
Theorem calculus_power (f : R -> R) n t df : is_derive f t df ->
  is_derive (fun s => f s ^ n) t (INR n * f t ^ pred n * df).
Proof. intro H. evar_last; [apply (is_derive_pow f n t df H)|]. ring. Qed.

(* Part 2, lines 1 and 2, and Part 3, line 1, are sums of such products *)
Theorem calculus_hadamard (x y : R -> R) t dx dy : is_derive x t dx -> is_derive y t dy ->
  is_derive (fun s => x s * y s) t (dx * y t + dy * x t).
Proof.
  intros Hx Hy. evar_last; [apply (is_derive_mult x y t dx dy Hx Hy); intros; apply Rmult_comm|].
  unfold plus, mult; simpl. unfold mult; simpl. ring.
Qed.

Theorem calculus_inner n (x y : nat -> R -> R) (dx dy : vec) t :
  (forall i, (i < n)%nat -> is_derive (x i) t (dx i)) ->
  (forall i, (i < n)%nat -> is_derive (y i) t (dy i)) ->
  is_derive (fun s => rsum n (fun i => x i s * y i s)) t
    (rsum n (fun i => dx i * y i t) + rsum n (fun i => x i t * dy i)).
Proof.
  intros Hx Hy. evar_last.
  - apply (is_derive_rsum n (fun i s => x i s * y i s) (fun i => dx i * y i t + dy i * x i t)).
    intros i Hi. apply calculus_hadamard; auto.
  - rewrite <- rsum_plus. apply rsum_ext; intros i _. ring.
Qed.

(* Part 3, line 2:  d exp(f) = exp(f) o df *)
Theorem calculus_exp (f : R -> R) t df : is_derive f t df ->
  is_derive (fun s => exp (f s)) t (exp (f t) * df).
Proof.
  intro H. evar_last; [apply (is_derive_comp exp f t (exp (f t)) df);
                       [apply is_derive_Reals, derivable_pt_lim_exp | exact H]|].
  unfold scal; simpl. unfold mult; simpl. ring.
Qed.

(* Part 3, line 3:  d(X Z) = dX Z,  X : n x m, Z : m x d constant *)
Theorem calculus_right_factor m (X : nat -> nat -> R -> R) (dX Z : mat) t i b :
  (forall k, (k < m)%nat -> is_derive (X i k) t (dX i k)) ->
  is_derive (fun s => rsum m (fun k => X i k s * Z k b)) t (rsum m (fun k => dX i k * Z k b)).
Proof.
  intro H. apply (is_derive_rsum m (fun k s => X i k s * Z k b) (fun k => dX i k * Z k b)).
  intros k Hk. evar_last; [apply (calculus_hadamard (X i k) (fun _ => Z k b) t (dX i k) 0); [auto|]|].
  - apply (is_derive_const (Z k b) t).
  - ring.
Qed.

(* Part 3, line 4:  d(Z X^T) = Z dX^T,  Z : k x m constant, X : n x m *)
Theorem calculus_left_factor m (X : nat -> nat -> R -> R) (dX Z : mat) t a j :
  (forall k, (k < m)%nat -> is_derive (X j k) t (dX j k)) ->
  is_derive (fun s => rsum m (fun k => Z a k * X j k s)) t (rsum m (fun k => Z a k * dX j k)).
Proof.
  intro H. apply (is_derive_rsum m (fun k s => Z a k * X j k s) (fun k => Z a k * dX j k)).
  intros k Hk. evar_last; [apply (is_derive_scal (X j k) t (Z a k) (dX j k)), H, Hk|]. reflexivity.
Qed.

(* Part 3, line 5 *)
Theorem calculus_sum n (f : nat -> R -> R) (df : vec) t :
  (forall i, (i < n)%nat -> is_derive (f i) t (df i)) ->
  is_derive (fun s => rsum n (fun i => f i s)) t (rsum n df).
Proof. apply is_derive_rsum. Qed.

(* Part 3, line 6, and Part 2, line 3, which is a single row:  dX / dX_ab = e_a e_b^T *)
Theorem calculus_entry (X : mat) a b i j :
  is_derive (fun t => upd X a b t i j) (X a b) (unit_matrix a b i j).
Proof.
  apply (is_derive_ext (fun t => X i j + (t - X a b) * unit_matrix a b i j)).
  - intro t. rewrite upd_line. reflexivity.
  - auto_derive; [trivial|]. ring.
Qed.

(* ---- as Trusted.v states them ---- *)
Definition checked_calculus_power : Statement.calculus_power := calculus_power.
Definition checked_calculus_hadamard : Statement.calculus_hadamard := calculus_hadamard.
Definition checked_calculus_inner : Statement.calculus_inner := calculus_inner.
Definition checked_calculus_exp : Statement.calculus_exp := calculus_exp.
Definition checked_calculus_right_factor : Statement.calculus_right_factor := calculus_right_factor.
Definition checked_calculus_left_factor : Statement.calculus_left_factor := calculus_left_factor.
Definition checked_calculus_sum : Statement.calculus_sum := calculus_sum.
Definition checked_calculus_entry : Statement.calculus_entry := calculus_entry.
