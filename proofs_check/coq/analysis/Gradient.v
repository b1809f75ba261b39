(* The closed form of the gradient is the gradient: thm:mat_view_l and the lemmas that
   lead to it, for all n, d, X, W, M (not only M in the box) and every valid mask.

   "is_derive g t g'" is Coquelicot's derivative of a real function.  Partial derivatives
   are taken along upd M a b t; grad_directional gives the derivative along any line,
   which the Lipschitz and descent theorems use.

     k i j = W_ab X_ia X_jb  is the vector W_{i1,j1} X_{i0,i1} X_{*,j1} of the paper.     *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model.
Open Scope R_scope.

Section Gradient.
Variables (n d : nat) (X W Mc : mat).
Hypothesis HMc : valid_mask n Mc.

Notation logit := (logit d X).
Notation u := (u d X).
Notation alpha := (alpha n d X Mc).
Notation f := (f n d X Mc).
Notation c := (c n d X W Mc).
Notation p := (p n d X W Mc).
Notation Lattn := (Lattn n d X W Mc).
Notation Lreg := (Lreg d).
Notation L := (L n d X W Mc).
Notation grad := (grad n d X W Mc).
Notation adjoint := (adjoint n X W).

(* ---- derivatives along the line M + t D ---- *)
Section Line.
Variables (M D : mat) (t : R).
Let Mt := mline M t D.
Let v := logit (had D W).

Lemma f_line i j : (i < n)%nat ->
  is_derive (fun t => f (had (mline M t D) W) i j) t (jacobian n (f (had Mt W) i) (v i) j).
Proof.
  intro Hi.
  apply (is_derive_ext (fun t => softmax n (Mc i) (fun l => logit (had M W) i l + t * v i l) j)).
  { intro s. rewrite f_softmax. apply softmax_ext. intro l. symmetry. apply logit_line. }
  evar_last; [apply softmax_derive, HMc, Hi|].
  unfold jacobian, mean.
  assert (E : forall q, softmax n (Mc i) (fun l => logit (had M W) i l + t * v i l) q = f (had Mt W) i q).
  { intro q. rewrite f_softmax. apply softmax_ext. intro l. symmetry. apply logit_line. }
  rewrite E. do 2 f_equal. apply rsum_ext; intros l _. rewrite E. reflexivity.
Qed.

Lemma c_line i j : (i < n)%nat ->
  is_derive (fun t => c (mline M t D) i j) t (jacobian n (f (had Mt W) i) (v i) j).
Proof.
  intro Hi. unfold Analysis.c. evar_last.
  - apply (is_derive_minus (fun t => f (had (mline M t D) W) i j) (fun _ => f W i j));
      [apply f_line, Hi | apply is_derive_const].
  - unfold minus, plus, opp, zero; simpl. ring.
Qed.

Lemma Lattn_line : is_derive (fun t => Lattn (mline M t D)) t (ip n n (p Mt) v).
Proof.
  unfold Analysis.Lattn. evar_last.
  - apply (is_derive_scal (fun t => nsq n n (c (mline M t D)))).
    apply (is_derive_rsum n (fun i t => rsum n (fun j => c (mline M t D) i j * c (mline M t D) i j))
             (fun i => rsum n (fun j => 2 * (c Mt i j * jacobian n (f (had Mt W) i) (v i) j)))).
    intros i Hi.
    apply (is_derive_rsum n (fun j t => c (mline M t D) i j * c (mline M t D) i j)
             (fun j => 2 * (c Mt i j * jacobian n (f (had Mt W) i) (v i) j))).
    intros j _. evar_last.
    + apply (is_derive_mult (fun t => c (mline M t D) i j) (fun t => c (mline M t D) i j));
        [apply c_line, Hi | apply c_line, Hi | intros; apply Rmult_comm].
    + unfold plus, mult; simpl. fold Mt. ring.
  - unfold mult; simpl. unfold ip. rewrite <- rsum_scal. apply rsum_ext; intros i Hi.
    rewrite rsum_scal. rewrite <- Rmult_assoc, Rinv_l, Rmult_1_l by lra.
    (* <c, J v> = Cov(c, v) = Cov(v, c) = <v, J c> = <p, v> *)
    rewrite (ip_jacobian n (f (had Mt W) i) (f_probability n d X Mc HMc (had Mt W) i Hi)).
    rewrite (rsum_ext n (fun j => p Mt i j * v i j)
               (fun j => v i j * jacobian n (f (had Mt W) i) (c Mt i) j)).
    + rewrite (ip_jacobian n (f (had Mt W) i) (f_probability n d X Mc HMc (had Mt W) i Hi)).
      unfold covariance. apply rsum_ext; intros j _. ring.
    + intros j _. rewrite (p_jacobian n d X W Mc). ring.
Qed.

Lemma Lreg_line lam : is_derive (fun t => Lreg lam (mline M t D)) t (lam * ip d d Mt D).
Proof.
  unfold Analysis.Lreg. evar_last.
  - apply (is_derive_scal (fun t => nsq d d (mline M t D))).
    apply (is_derive_rsum d (fun i t => rsum d (fun j => mline M t D i j * mline M t D i j))
             (fun i => rsum d (fun j => 2 * (Mt i j * D i j)))).
    intros i _.
    apply (is_derive_rsum d (fun j t => mline M t D i j * mline M t D i j)
             (fun j => 2 * (Mt i j * D i j))).
    intros j _. unfold Mt, mline. auto_derive; [trivial|]. ring.
  - unfold mult; simpl. unfold ip. rewrite <- !rsum_scal. apply rsum_ext; intros i _.
    rewrite <- !rsum_scal. apply rsum_ext; intros j _. field.
Qed.

(* d/dt L(M + t D) = <grad L(M + t D), D> *)
Theorem mat_view_l_directional lam :
  is_derive (fun t => L lam (mline M t D)) t (ip d d (grad lam Mt) D).
Proof.
  unfold Analysis.L. evar_last.
  - apply (is_derive_plus (fun t => Lattn (mline M t D)) (fun t => Lreg lam (mline M t D)));
      [apply Lattn_line | apply Lreg_line].
  - unfold plus; simpl. unfold v. rewrite <- (adjoint_ip n d X W (p Mt) D).
    unfold Analysis.grad. rewrite ip_plus_l. f_equal.
    unfold ip. rewrite <- rsum_scal. apply rsum_ext; intros i _. rewrite <- rsum_scal.
    apply rsum_ext; intros j _. ring.
Qed.
End Line.

(* ---- partial derivatives: the line in the direction of the unit matrix E_ab ---- *)
Section Partial.
Variables (M : mat) (a b : nat).
Hypothesis Ha : (a < d)%nat.
Hypothesis Hb : (b < d)%nat.
Notation unit_matrix := (Analysis.unit_matrix a b).
Notation k i j := (W a b * X i a * X j b).
Notation B1 := (Analysis.B1 n d X W Mc M a b).
Notation B2 := (Analysis.B2 n d X W Mc M a b).

Lemma upd_line t i j : upd M a b t i j = mline M (t - M a b) unit_matrix i j.
Proof.
  unfold upd, mline, Analysis.unit_matrix.
  destruct (Nat.eqb i a) eqn:Ea; destruct (Nat.eqb j b) eqn:Eb; simpl; try ring.
  apply Nat.eqb_eq in Ea. apply Nat.eqb_eq in Eb. subst. ring.
Qed.

Lemma ip_unit A : ip d d A unit_matrix = A a b.
Proof.
  unfold ip, Analysis.unit_matrix.
  rewrite (rsum_ext d _ (fun i => if Nat.eqb i a then rsum d (fun j => if Nat.eqb j b then A i j else 0) else 0)).
  - rewrite (rsum_delta d a (fun i => rsum d (fun j => if Nat.eqb j b then A i j else 0)) Ha).
    apply (rsum_delta d b (fun j => A a j) Hb).
  - intros i _. destruct (Nat.eqb i a); simpl.
    + apply rsum_ext; intros j _. destruct (Nat.eqb j b); ring.
    + apply rsum_zero; intros; ring.
Qed.

Lemma logit_unit i j : logit (had unit_matrix W) i j = k i j.
Proof.
  unfold Analysis.logit.
  transitivity (ip d d (fun a0 b0 => X i a0 * W a0 b0 * X j b0) unit_matrix).
  - apply rsum_ext; intros a0 _. apply rsum_ext; intros b0 _. unfold had. ring.
  - rewrite ip_unit. ring.
Qed.

Lemma mline_0 D i j : mline M 0 D i j = M i j.
Proof. unfold mline. ring. Qed.

(* from a line derivative at 0 to a partial derivative at M_ab *)
Lemma partial_of_line (F : mat -> R) l :
  (forall A B, (forall i j, (i < d)%nat -> (j < d)%nat -> A i j = B i j) -> F A = F B) ->
  is_derive (fun t => F (mline M t unit_matrix)) 0 l -> is_derive (fun t => F (upd M a b t)) (M a b) l.
Proof.
  intros Fext H.
  apply (is_derive_ext (fun t => F (mline M (t - M a b) unit_matrix))).
  { intro t. apply Fext; intros i j _ _. symmetry. apply upd_line. }
  evar_last.
  - apply (is_derive_comp (fun t => F (mline M t unit_matrix)) (fun t => t - M a b)).
    + rewrite Rminus_diag_eq by reflexivity. exact H.
    + auto_derive; [trivial | reflexivity].
  - unfold scal; simpl. unfold mult; simpl. ring.
Qed.

Lemma f_at_0 D i j : f (had (mline M 0 D) W) i j = f (had M W) i j.
Proof. apply f_ext; intros; unfold had; rewrite mline_0; reflexivity. Qed.

Lemma c_at_0 D i j : c (mline M 0 D) i j = c M i j.
Proof. apply c_ext; intros; apply mline_0. Qed.

Lemma f_mask_ext i j A B :
  (forall i j, (i < d)%nat -> (j < d)%nat -> A i j = B i j) -> f (had A W) i j = f (had B W) i j.
Proof. intro H. apply f_ext; intros; unfold had; rewrite H; auto. Qed.

(* lem:mask_hadamard:  d(M o W)/dM_ab = W_ab e_a e_b^T, entry by entry *)
Theorem mask_hadamard i j :
  is_derive (fun t => had (upd M a b t) W i j) (M a b) (W a b * unit_matrix i j).
Proof.
  apply (is_derive_ext (fun t => (M i j + (t - M a b) * unit_matrix i j) * W i j)).
  { intro t. unfold had. rewrite upd_line. reflexivity. }
  auto_derive; [trivial|]. unfold Analysis.unit_matrix.
  destruct (Nat.eqb i a) eqn:Ea; destruct (Nat.eqb j b) eqn:Eb; simpl; try ring.
  apply Nat.eqb_eq in Ea. apply Nat.eqb_eq in Eb. subst. ring.
Qed.

(* lem:grad_one_row_mat:  d(X (M o W) X^T)_{i}/dM_ab = W_ab X_ia X_{*,b} *)
Theorem grad_one_row_mat i j :
  is_derive (fun t => logit (had (upd M a b t) W) i j) (M a b) (W a b * X i a * X j b).
Proof.
  apply (partial_of_line (fun A => logit (had A W) i j)).
  - intros A B H. apply logit_ext; intros; unfold had; rewrite H; auto.
  - apply (is_derive_ext (fun t => logit (had M W) i j + t * k i j)).
    + intro t. rewrite logit_line, logit_unit. reflexivity.
    + auto_derive; [trivial|]. ring.
Qed.

(* lem:grad_exp_func:  d u~_i/dM_ab = u~_i o (W_ab X_ia X_{*,b}) *)
Theorem grad_exp_func i j :
  is_derive (fun t => u (had (upd M a b t) W) i j) (M a b) (u (had M W) i j * (W a b * X i a * X j b)).
Proof.
  unfold Analysis.u. evar_last.
  - apply (is_derive_comp exp (fun t => logit (had (upd M a b t) W) i j)).
    + apply is_derive_Reals, derivable_pt_lim_exp.
    + apply grad_one_row_mat.
  - unfold scal; simpl. unfold mult; simpl. rewrite Rmult_comm. f_equal. f_equal.
    apply logit_ext; intros a0 b0 _ _. unfold had. rewrite upd_line. unfold mline. ring.
Qed.

(* lem:grad_sum:  d alpha~_i/dM_ab = <u~_i o (Mc)_i, W_ab X_ia X_{*,b}> *)
Theorem grad_sum i :
  is_derive (fun t => alpha (had (upd M a b t) W) i) (M a b)
    (rsum n (fun j => u (had M W) i j * Mc i j * (W a b * X i a * X j b))).
Proof.
  unfold Analysis.alpha.
  apply (is_derive_rsum n (fun j t => u (had (upd M a b t) W) i j * Mc i j)
           (fun j => u (had M W) i j * Mc i j * (W a b * X i a * X j b))).
  intros j _.
  apply (is_derive_ext (fun t => Mc i j * u (had (upd M a b t) W) i j)); [intro; apply Rmult_comm|].
  evar_last; [apply (is_derive_scal (fun t => u (had (upd M a b t) W) i j)), grad_exp_func|]. ring.
Qed.

(* lem:grad_soft_prob:
   d f~_ij/dM_ab = f~_ij W_ab X_ia X_jb - f~_ij <f~_i, W_ab X_ia X_{*,b}> *)
Theorem grad_soft_prob i j : (i < n)%nat ->
  is_derive (fun t => f (had (upd M a b t) W) i j) (M a b)
    (f (had M W) i j * k i j - f (had M W) i j * rsum n (fun l => f (had M W) i l * k i l)).
Proof.
  intro Hi. apply (partial_of_line (fun A => f (had A W) i j)); [apply f_mask_ext|].
  evar_last; [apply f_line, Hi|]. unfold jacobian, mean. rewrite f_at_0, logit_unit.
  rewrite (rsum_ext n _ (fun l => f (had M W) i l * k i l))
    by (intros; rewrite f_at_0, logit_unit; reflexivity). ring.
Qed.

(* lem:grad_one_unit: the same derivative for c = f~ - f *)
Theorem grad_one_unit i j : (i < n)%nat ->
  is_derive (fun t => c (upd M a b t) i j) (M a b)
    (f (had M W) i j * k i j - f (had M W) i j * rsum n (fun l => f (had M W) i l * k i l)).
Proof.
  intro Hi. unfold Analysis.c. evar_last.
  - apply (is_derive_minus (fun t => f (had (upd M a b t) W) i j) (fun _ => f W i j));
      [apply grad_soft_prob, Hi | apply is_derive_const].
  - unfold minus, plus, opp, zero; simpl. ring.
Qed.

Lemma c_mat_ext A B : (forall i j, (i < d)%nat -> (j < d)%nat -> A i j = B i j) -> Lattn A = Lattn B.
Proof. intro H. unfold Analysis.Lattn. f_equal. apply nsq_ext; intros. apply c_ext, H. Qed.

(* lem:grad_rec:  dLattn/dM_ab = sum_ij (B1 + B2).  The sum extends over both terms
   (the statement lacks the brackets, and one line of its proof drops the sums). *)
Theorem grad_rec :
  is_derive (fun t => Lattn (upd M a b t)) (M a b) (rsum n (fun i => rsum n (fun j => B1 i j + B2 i j))).
Proof.
  apply partial_of_line; [apply c_mat_ext|].
  evar_last; [apply Lattn_line|]. unfold ip. apply rsum_ext; intros i _.
  unfold Analysis.B1, Analysis.B2. rewrite rsum_plus.
  set (s := rsum n (fun l => f (had M W) i l * k i l)).
  set (q := rsum n (fun j => c M i j * f (had M W) i j)).
  rewrite (rsum_ext n (fun j => - (c M i j * f (had M W) i j * s))
             (fun j => (- s) * (c M i j * f (had M W) i j))) by (intros; ring).
  rewrite (rsum_ext n _ (fun j => c M i j * f (had M W) i j * k i j - q * (f (had M W) i j * k i j))).
  - rewrite rsum_minus, !rsum_scal. fold q. fold s. ring.
  - intros j _. rewrite logit_unit. unfold Analysis.p. rewrite c_at_0, f_at_0.
    rewrite (rsum_ext n _ (fun l => c M i l * f (had M W) i l))
      by (intros; rewrite c_at_0, f_at_0; reflexivity). fold q. ring.
Qed.

(* lem:grad_reg:  dLreg/dM_ab = lam M_ab *)
Theorem grad_reg lam : is_derive (fun t => Lreg lam (upd M a b t)) (M a b) (lam * M a b).
Proof.
  apply partial_of_line.
  - intros A B H. unfold Analysis.Lreg. f_equal. apply nsq_ext, H.
  - evar_last; [apply Lreg_line|]. rewrite ip_unit, mline_0. reflexivity.
Qed.

(* lem:grad_loss_func:  dL/dM_ab = sum_ij (B1 + B2) + B3,  B3 = lam M_ab *)
Theorem grad_loss_func lam :
  is_derive (fun t => L lam (upd M a b t)) (M a b)
    (rsum n (fun i => rsum n (fun j => B1 i j + B2 i j)) + lam * M a b).
Proof.
  unfold Analysis.L.
  apply (is_derive_plus (fun t => Lattn (upd M a b t)) (fun t => Lreg lam (upd M a b t)));
    [apply grad_rec | apply grad_reg].
Qed.

(* thm:mat_view_l:  dL/dM = W o (X^T p X) + lam M, entry (a, b) *)
Theorem mat_view_l lam : is_derive (fun t => L lam (upd M a b t)) (M a b) (grad lam M a b).
Proof.
  evar_last; [apply grad_loss_func|]. unfold Analysis.grad. f_equal.
  rewrite <- (ip_unit (adjoint (p M))), adjoint_ip.
  unfold ip. apply rsum_ext; intros i _. unfold Analysis.B1, Analysis.B2. rewrite rsum_plus.
  set (s := rsum n (fun l => f (had M W) i l * k i l)).
  set (q := rsum n (fun j => c M i j * f (had M W) i j)).
  rewrite (rsum_ext n (fun j => - (c M i j * f (had M W) i j * s))
             (fun j => (- s) * (c M i j * f (had M W) i j))) by (intros; ring).
  rewrite (rsum_ext n (fun j => p M i j * _)
             (fun j => c M i j * f (had M W) i j * k i j - q * (f (had M W) i j * k i j))).
  - rewrite rsum_minus, !rsum_scal. fold q. fold s. ring.
  - intros j _. rewrite logit_unit. unfold Analysis.p. fold q. ring.
Qed.
End Partial.
End Gradient.

(* ---- as Trusted.v states them ---- *)
Definition checked_mat_view_l_directional : Statement.mat_view_l_directional := mat_view_l_directional.
Definition checked_mask_hadamard : Statement.mask_hadamard := mask_hadamard.
Definition checked_grad_one_row_mat : Statement.grad_one_row_mat := grad_one_row_mat.
Definition checked_grad_exp_func : Statement.grad_exp_func := grad_exp_func.
Definition checked_grad_sum : Statement.grad_sum := grad_sum.
Definition checked_grad_soft_prob : Statement.grad_soft_prob := grad_soft_prob.
Definition checked_grad_one_unit : Statement.grad_one_unit := grad_one_unit.
Definition checked_grad_rec : Statement.grad_rec := grad_rec.
Definition checked_grad_reg : Statement.grad_reg := grad_reg.
Definition checked_grad_loss_func : Statement.grad_loss_func := grad_loss_func.
Definition checked_mat_view_l : Statement.mat_view_l.
Proof. intros n d X W Mc HMc M lam a b Ha Hb. apply mat_view_l; assumption. Qed.
