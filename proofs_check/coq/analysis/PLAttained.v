(* fix:PL_ineq is attained: X = I, |W| = 1, M = 0, where f~ is uniform, p = c/n and
   ||W o (X^T p X)||^2 = ||c||^2/n^2; with W = 1 on the diagonal and -1 off it c is not 0.  *)
Require Import Reals Lra Lia.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model.
Open Scope R_scope.

Definition identity : mat := fun i j => if Nat.eqb i j then 1 else 0.
Definition signs : mat := fun i j => if Nat.eqb i j then 1 else -1.

Lemma signs_abs i j : Rabs (signs i j) = 1.
Proof. unfold signs, Rabs. destruct (Nat.eqb i j); destruct (Rcase_abs _); lra. Qed.

Lemma rsum_identity k a g : (a < k)%nat -> rsum k (fun i => identity i a * g i) = g a.
Proof.
  intro H. rewrite <- (rsum_delta k a g H). apply rsum_ext; intros i _. unfold identity.
  destruct (Nat.eqb i a); ring.
Qed.

Lemma identity_sym i j : identity i j = identity j i.
Proof. unfold identity. rewrite Nat.eqb_sym. reflexivity. Qed.

(* X^T q X = q for X = I *)
Lemma identity_sandwich n (q : mat) a b : (a < n)%nat -> (b < n)%nat ->
  rsum n (fun i => rsum n (fun j => identity i a * q i j * identity j b)) = q a b.
Proof.
  intros Ha Hb. rewrite (rsum_ext n _ (fun i => identity i a * q i b)); [apply (rsum_identity n a (fun i => q i b)), Ha|].
  intros i _. rewrite <- (rsum_identity n b (q i) Hb), <- rsum_scal. apply rsum_ext; intros j _. ring.
Qed.

Section Instance.
Variable n : nat.
Hypothesis Hn : (2 <= n)%nat.

Lemma INR_n : 2 <= INR n.
Proof. apply (le_INR 2), Hn. Qed.

Lemma logit_identity V i j : (i < n)%nat -> (j < n)%nat -> logit n identity V i j = V i j.
Proof.
  intros Hi Hj. rewrite <- (identity_sandwich n V i j Hi Hj). apply rsum_ext; intros a _. apply rsum_ext; intros b _.
  rewrite (identity_sym i a), (identity_sym j b). reflexivity.
Qed.

Lemma f_identity V i j : (i < n)%nat -> (j < n)%nat ->
  f n n identity full V i j = exp (V i j) / rsum n (fun l => exp (V i l)).
Proof.
  intros Hi Hj. unfold f, alpha, u, full. rewrite logit_identity, Rmult_1_r by assumption. f_equal.
  apply rsum_ext; intros l Hl. rewrite logit_identity by assumption. ring.
Qed.

Lemma f_uniform W i j : (i < n)%nat -> (j < n)%nat -> f n n identity full (had zeros W) i j = / INR n.
Proof.
  intros Hi Hj. rewrite f_identity by assumption. pose proof INR_n.
  assert (E : forall k l, exp (had zeros W k l) = 1).
  { intros k l. unfold had, zeros. rewrite Rmult_0_l. apply exp_0. }
  rewrite E, (rsum_ext n _ (fun _ => 1)) by (intros; apply E). rewrite rsum_const. field. lra.
Qed.

Lemma p_uniform W i j : (i < n)%nat -> (j < n)%nat ->
  p n n identity W full zeros i j = / INR n * c n n identity W full zeros i j.
Proof.
  intros Hi Hj. unfold p. rewrite f_uniform by assumption.
  rewrite (rsum_ext n _ (fun k => / INR n * c n n identity W full zeros i k))
    by (intros; rewrite f_uniform by assumption; ring).
  rewrite rsum_scal. change (rsum n (fun k => c n n identity W full zeros i k)) with (rsum n (c n n identity W full zeros i)).
  rewrite c_sum by (try apply full_valid; assumption). ring.
Qed.

(* the diagonal of f is above 1/n *)
Lemma c_not_zero : c n n identity signs full zeros 0%nat 0%nat < 0.
Proof.
  pose proof INR_n. unfold c. rewrite f_uniform, f_identity by lia. change (signs 0%nat 0%nat) with 1.
  assert (S : rsum n (fun l => exp (signs 0%nat l)) < INR n * exp 1).
  { rewrite <- rsum_const. destruct n as [|[|k]]; [lia | lia |]. clear.
    assert (forall m, rsum (S (S m)) (fun l => exp (signs 0%nat l)) < rsum (S (S m)) (fun _ => exp 1)); [|auto].
    assert (L : exp (-1) < exp 1) by (apply exp_increasing; lra).
    induction m as [|m IH]; [unfold signs; simpl; lra|].
    change (rsum (S (S m)) (fun l => exp (signs 0%nat l)) + exp (-1) < rsum (S (S m)) (fun _ => exp 1) + exp 1). lra. }
  assert (0 < rsum n (fun l => exp (signs 0%nat l))).
  { apply Rlt_le_trans with (exp (signs 0%nat 0%nat)); [apply exp_pos|].
    apply (rsum_ge_term n (fun l => exp (signs 0%nat l))); [intros; left; apply exp_pos | lia]. }
  set (s := rsum n (fun l => exp (signs 0%nat l))) in *. pose proof (exp_pos 1).
  assert (/ INR n < exp 1 / s); [|lra].
  apply Rmult_lt_reg_l with (INR n * s); [nra|]. replace (INR n * s * / INR n) with s by (field; lra).
  replace (INR n * s * (exp 1 / s)) with (INR n * exp 1) by (field; lra). exact S.
Qed.

Theorem PL_attained_signs : exists X W, let M := zeros in
  gram_ge n n X 1 /\ is_min 1 n W /\ delta_all full n (f n n X full (had M W)) (/ INR n) /\
  0 < nsq n n (c n n X W full M) /\
  nsq n n (adjoint n X W (p n n X W full M)) = (1 * 1 * / INR n) * (1 * 1 * / INR n) * nsq n n (c n n X W full M).
Proof.
  exists identity, signs. cbv zeta. repeat split.
  - intro v. right. rewrite Rmult_1_l. apply rsum_ext; intros a Ha.
    rewrite (rsum_ext n (fun i => v i * identity i a) (fun i => identity i a * v i)) by (intros; ring).
    rewrite rsum_identity by exact Ha. reflexivity.
  - intros; rewrite signs_abs; lra.
  - exists 0%nat, 0%nat. repeat split; try lia. apply signs_abs.
  - intros i j Hi Hj. rewrite f_uniform by assumption. lra.
  - apply Rlt_le_trans with (c n n identity signs full zeros 0%nat 0%nat * c n n identity signs full zeros 0%nat 0%nat).
    + pose proof c_not_zero. nra.
    + apply nsq_entry; lia.
  - rewrite !Rmult_1_l. rewrite <- nsq_scal.
    apply rsum_ext; intros a Ha. apply rsum_ext; intros b Hb. unfold adjoint.
    rewrite identity_sandwich, p_uniform by assumption.
    assert (E : signs a b * signs a b = 1).
    { unfold signs. destruct (Nat.eqb a b); ring. }
    set (s := signs a b) in *. set (z := / INR n * c n n identity signs full zeros a b).
    transitivity (s * s * (z * z)); [ring|]. rewrite E. ring.
Qed.
End Instance.

(* ---- as Trusted.v states them ---- *)
Definition checked_PL_attained_signs : Statement.PL_attained_signs := PL_attained_signs.
