(* lem:mat_view_b1, lem:mat_view_b2, lem:mat_view_b3: the sums of B1, B2, B3 as matrices.
     p1 = c o f~,   p2 = diag(p1 1) f~,   p = p1 - p2  (def:p)                          *)
Require Import Reals Lra Lia.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model Gradient.
Open Scope R_scope.

Section MatrixView.
Variables (n d : nat) (X W Mc M : mat) (a b : nat).
Notation f := (Analysis.f n d X Mc (had M W)).
Notation c := (Analysis.c n d X W Mc M).
Notation B1 := (Analysis.B1 n d X W Mc M a b).
Notation B2 := (Analysis.B2 n d X W Mc M a b).

Notation p1 := (Analysis.p1 n d X W Mc M).
Notation p2 := (Analysis.p2 n d X W Mc M).

Lemma p_split i j : p n d X W Mc M i j = p1 i j - p2 i j.
Proof. reflexivity. Qed.

(* Part 1:  C1 = c_ij f~_ij (W o (X_i X_j^T)), entry (a, b) *)
Theorem mat_view_b1_part1 i j : B1 i j = c i j * f i j * (W a b * (X i a * X j b)).
Proof. unfold Analysis.B1. ring. Qed.

(* Part 2:  sum_ij C1 = W o (X^T p1 X), entry (a, b) *)
Theorem mat_view_b1_part2 :
  rsum n (fun i => rsum n (fun j => B1 i j)) = adjoint n X W p1 a b.
Proof.
  unfold adjoint. rewrite <- rsum_scal. apply rsum_ext; intros i _. rewrite <- rsum_scal.
  apply rsum_ext; intros j _. unfold Analysis.B1, p1. ring.
Qed.

(* Part 1:  C2 = - c_ij f~_ij diag(X_i) W diag(X^T f~_i), entry (a, b) *)
Theorem mat_view_b2_part1 i j :
  B2 i j = - (c i j * f i j * (X i a * W a b * rsum n (fun l => X l b * f i l))).
Proof.
  unfold Analysis.B2. f_equal. f_equal. rewrite <- rsum_scal. apply rsum_ext; intros l _. ring.
Qed.

(* Part 2:  sum_ij C2 = - W o (X^T p2 X), entry (a, b) *)
Theorem mat_view_b2_part2 :
  rsum n (fun i => rsum n (fun j => B2 i j)) = - adjoint n X W p2 a b.
Proof.
  unfold adjoint. rewrite Ropp_mult_distr_l, <- rsum_scal. apply rsum_ext; intros i _.
  assert (E : rsum n (fun j => X i a * p2 i j * X j b)
              = X i a * rsum n (p1 i) * rsum n (fun l => X l b * f i l)).
  { rewrite <- rsum_scal. apply rsum_ext; intros j _. unfold p2. ring. }
  rewrite E.
  rewrite (rsum_ext n _ (fun j => (- (X i a * W a b * rsum n (fun l => X l b * f i l))) * p1 i j)).
  - rewrite rsum_scal. change (rsum n (fun i0 => p1 i i0)) with (rsum n (p1 i)). ring.
  - intros j _. rewrite mat_view_b2_part1. unfold p1. ring.
Qed.

(* C3 = lam M, entry (a, b), and the gradient as the sum of the three *)
Theorem mat_view_b3 lam : B3 lam M a b = lam * M a b.
Proof. reflexivity. Qed.

Lemma gradient_in_parts lam : grad n d X W Mc lam M a b = adjoint n X W p1 a b - adjoint n X W p2 a b + lam * M a b.
Proof.
  unfold grad. f_equal. unfold adjoint. rewrite <- Rmult_minus_distr_l. f_equal.
  rewrite <- rsum_minus. apply rsum_ext; intros i _. rewrite <- rsum_minus.
  apply rsum_ext; intros j _. rewrite p_split. ring.
Qed.
End MatrixView.

(* ---- as Trusted.v states them ---- *)
Definition checked_mat_view_b1_part1 : Statement.mat_view_b1_part1 := mat_view_b1_part1.
Definition checked_mat_view_b1_part2 : Statement.mat_view_b1_part2 := mat_view_b1_part2.
Definition checked_mat_view_b2_part1 : Statement.mat_view_b2_part1 := mat_view_b2_part1.
Definition checked_mat_view_b2_part2 : Statement.mat_view_b2_part2 := mat_view_b2_part2.
Definition checked_mat_view_b3 : Statement.mat_view_b3 := fun lam M a b => mat_view_b3 M a b lam.
