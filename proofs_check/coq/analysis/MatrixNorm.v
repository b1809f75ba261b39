(* The Frobenius norm and inner product of m x n matrices over the standard reals.
     nsq m n A = ||A||_F^2      ip m n A B = <A, B>      nF m n A = ||A||_F
   A vector is an m x 1 matrix.                                                   *)
Require Import Reals Lra Lia.
From AttnPrune.analysis Require Import Sums.
Open Scope R_scope.

Lemma ip_self m n A : ip m n A A = nsq m n A.
Proof. reflexivity. Qed.

Lemma nsq_ext m n A B : (forall i j, (i < m)%nat -> (j < n)%nat -> A i j = B i j) ->
  nsq m n A = nsq m n B.
Proof. intro H. apply rsum_ext; intros i Hi. apply rsum_ext; intros j Hj. rewrite H; auto. Qed.

Lemma ip_ext m n A B A' B' :
  (forall i j, (i < m)%nat -> (j < n)%nat -> A i j = A' i j) ->
  (forall i j, (i < m)%nat -> (j < n)%nat -> B i j = B' i j) -> ip m n A B = ip m n A' B'.
Proof.
  intros H H'. apply rsum_ext; intros i Hi. apply rsum_ext; intros j Hj. rewrite H, H'; auto.
Qed.

Lemma nsq_nonneg m n A : 0 <= nsq m n A.
Proof. apply rsum_nonneg; intros. apply rsum_nonneg; intros. nra. Qed.

Lemma nF_nonneg m n A : 0 <= nF m n A.
Proof. apply sqrt_pos. Qed.

Lemma nF_sq m n A : nF m n A * nF m n A = nsq m n A.
Proof. apply sqrt_sqrt, nsq_nonneg. Qed.

Lemma ip_sym m n A B : ip m n A B = ip m n B A.
Proof. apply rsum_ext; intros i _. apply rsum_ext; intros j _. ring. Qed.

Lemma ip_scal_r m n A B k : ip m n A (fun i j => k * B i j) = k * ip m n A B.
Proof.
  unfold ip. rewrite <- rsum_scal. apply rsum_ext; intros i _. rewrite <- rsum_scal.
  apply rsum_ext; intros j _. ring.
Qed.

Lemma ip_plus_l m n A B D : ip m n (fun i j => A i j + B i j) D = ip m n A D + ip m n B D.
Proof.
  unfold ip. rewrite <- rsum_plus. apply rsum_ext; intros i _. rewrite <- rsum_plus.
  apply rsum_ext; intros j _. ring.
Qed.

Lemma ip_sub_l m n A B D : ip m n (msub A B) D = ip m n A D - ip m n B D.
Proof.
  unfold ip, msub. rewrite <- rsum_minus. apply rsum_ext; intros i _. rewrite <- rsum_minus.
  apply rsum_ext; intros j _. ring.
Qed.

Lemma nsq_scal m n A k : nsq m n (fun i j => k * A i j) = k * k * nsq m n A.
Proof.
  unfold nsq. rewrite <- rsum_scal. apply rsum_ext; intros i _. rewrite <- rsum_scal.
  apply rsum_ext; intros j _. ring.
Qed.

Lemma nsq_transpose m n A : nsq m n A = nsq n m (fun i j => A j i).
Proof. unfold nsq. rewrite rsum_exchange. reflexivity. Qed.

Lemma nsq_plus m n A B :
  nsq m n (fun i j => A i j + B i j) = nsq m n A + nsq m n B + 2 * ip m n A B.
Proof.
  unfold nsq, ip. rewrite <- rsum_scal, <- !rsum_plus. apply rsum_ext; intros i _.
  rewrite <- rsum_scal, <- !rsum_plus. apply rsum_ext; intros j _. ring.
Qed.

Lemma ip_cauchy_schwarz_sq m n A B : ip m n A B * ip m n A B <= nsq m n A * nsq m n B.
Proof.
  induction m as [|m IH]; [unfold ip, nsq; simpl; lra|].
  apply (cauchy_schwarz_step (ip m n A B) _ (nsq m n A) (nsq m n B));
    try apply nsq_nonneg; try (apply rsum_nonneg; intros; nra); [exact IH|].
  apply rsum_cauchy_schwarz.
Qed.

Lemma ip_cauchy_schwarz m n A B : Rabs (ip m n A B) <= nF m n A * nF m n B.
Proof.
  apply Rabs_le_of_sqr; [apply Rmult_le_pos; apply nF_nonneg|].
  replace (nF m n A * nF m n B * (nF m n A * nF m n B)) with (nsq m n A * nsq m n B)
    by (rewrite <- !nF_sq; ring).
  apply ip_cauchy_schwarz_sq.
Qed.

Lemma nF_le_of_nsq m n A r : 0 <= r -> nsq m n A <= r * r -> nF m n A <= r.
Proof.
  intros Hr H. unfold nF. rewrite <- (sqrt_square r Hr). apply sqrt_le_1_alt, H.
Qed.

Lemma nsq_le_of_nF m n A r : nF m n A <= r -> nsq m n A <= r * r.
Proof.
  intro H. rewrite <- nF_sq. pose proof (nF_nonneg m n A). apply Rmult_le_compat; assumption.
Qed.

Lemma nF_triangle m n A B : nF m n (fun i j => A i j + B i j) <= nF m n A + nF m n B.
Proof.
  pose proof (nF_nonneg m n A). pose proof (nF_nonneg m n B).
  apply nF_le_of_nsq; [lra|].
  rewrite nsq_plus, <- (nF_sq m n A), <- (nF_sq m n B).
  pose proof (ip_cauchy_schwarz m n A B). pose proof (Rle_abs (ip m n A B)). nra.
Qed.

Lemma nF_scal m n A k : nF m n (fun i j => k * A i j) = Rabs k * nF m n A.
Proof.
  unfold nF. rewrite nsq_scal, sqrt_mult_alt by nra. f_equal. apply sqrt_Rsqr_abs.
Qed.

Lemma nsq_entry m n A i j : (i < m)%nat -> (j < n)%nat -> A i j * A i j <= nsq m n A.
Proof.
  intros Hi Hj.
  apply Rle_trans with (rsum n (fun j => A i j * A i j)).
  - apply (rsum_ge_term n (fun j => A i j * A i j)); [intros; nra | exact Hj].
  - apply (rsum_ge_term m (fun i => rsum n (fun j => A i j * A i j))); [|exact Hi].
    intros; apply rsum_nonneg; intros; nra.
Qed.
