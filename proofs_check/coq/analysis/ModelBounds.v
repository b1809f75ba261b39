(* lem:bound_basic_func and its sharp forms for the model's own f~, c and p, every valid mask: only rows with a choice
   (two or more allowed positions) count, in any other row f~ and f agree.                                       *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model LipschitzGradient LipschitzProducts PLTrueGradient.
Open Scope R_scope.

(* in a row without a choice a probability vector on the allowed positions is the mask *)
Lemma no_choice n m sigma j : valid_row n m -> probability n sigma -> (forall l, sigma l * m l = sigma l) ->
  rsum n m <= 1 -> (j < n)%nat -> sigma j = m j.
Proof.
  intros [H01 _] Hs Hm S Hj.
  assert (P : forall l, (l < n)%nat -> 0 <= m l - sigma l).
  { intros l Hl. pose proof (probability_le1 n sigma Hs l Hl). specialize (Hm l).
    destruct (H01 l) as [E | E]; rewrite E in *; lra. }
  pose proof (rsum_ge_term n (fun l => m l - sigma l) j P Hj) as T. cbv beta in T.
  rewrite rsum_minus, (proj2 Hs) in T. specialize (P j Hj). lra.
Qed.

Section Bounds.
Variables (n d : nat) (X W Mc M : mat).
Hypothesis HMc : valid_mask n Mc.
Notation F := (f n d X Mc (had M W)).
Notation F0 := (f n d X Mc W).
Notation C := (c n d X W Mc M).
Notation q := (c_times_f n d X W Mc M).
Notation mean_of := (row_means n d X W Mc M).
Notation n_e := (choices n Mc).

Lemma c_no_choice i j : (i < n)%nat -> (j < n)%nat -> rsum n (Mc i) <= 1 -> C i j = 0.
Proof.
  intros Hi Hj S. unfold c.
  rewrite (no_choice n (Mc i) (F i) j), (no_choice n (Mc i) (F0 i) j); try assumption; try ring;
    try (apply HMc, Hi); try (apply f_probability; assumption); intro l; apply f_mask_idem; assumption.
Qed.

Lemma F_sq i : (i < n)%nat -> sqnorm n (F i) <= 1.
Proof. intro Hi. apply sqnorm_probability_le1, f_probability; assumption. Qed.

Lemma C_sq i : (i < n)%nat -> sqnorm n (C i) <= 2.
Proof.
  intro Hi. apply Rle_trans with (sqnorm n (F i) + sqnorm n (F0 i)).
  - unfold sqnorm. rewrite <- rsum_plus. apply rsum_le; intros j Hj. unfold c.
    pose proof (f_nonneg n d X Mc HMc (had M W) i j Hi). pose proof (f_nonneg n d X Mc HMc W i j Hi). nra.
  - pose proof (F_sq i Hi). pose proof (sqnorm_probability_le1 n (F0 i) (f_probability n d X Mc HMc W i Hi)). lra.
Qed.

Lemma q_sq i : (i < n)%nat -> sqnorm n (q i) <= 1.
Proof.
  intro Hi. apply Rle_trans with (sqnorm n (F i)); [|apply F_sq, Hi]. apply rsum_le; intros j Hj.
  unfold c_times_f. pose proof (c_abs_le1 n d X W Mc HMc M i j Hi Hj).
  assert (C i j * C i j <= 1) by nra. pose proof (sq_nonneg (F i j)).
  replace (F i j * C i j * (F i j * C i j)) with (F i j * F i j * (C i j * C i j)) by ring. nra.
Qed.

Lemma mean_abs i : (i < n)%nat -> mean_of i * mean_of i <= 1.
Proof.
  intro Hi. assert (Rabs (mean_of i) <= 1).
  { unfold row_means. eapply Rle_trans; [apply rsum_abs_le|]. rewrite <- (f_sum n d X Mc HMc (had M W) i Hi).
    apply rsum_le; intros j Hj. unfold c_times_f. pose proof (c_abs_le1 n d X W Mc HMc M i j Hi Hj).
    pose proof (f_nonneg n d X Mc HMc (had M W) i j Hi). rewrite Rabs_mult, (Rabs_pos_eq (F i j)) by assumption.
    assert (Rabs (C i j) <= 1) by (apply Rabs_le; lra). pose proof (Rabs_pos (C i j)). nra. }
  apply Rabs_le_between in H. nra.
Qed.

(* sum over the rows with a choice *)
Lemma rows k (g : nat -> R) : 0 <= k -> (forall i, (i < n)%nat -> g i <= k) ->
  (forall i, (i < n)%nat -> rsum n (Mc i) <= 1 -> g i = 0) -> rsum n g <= k * n_e.
Proof.
  intros k0 H H0. unfold choices. rewrite <- rsum_scal. apply rsum_le; intros i Hi.
  destruct (Rlt_dec 1 (rsum n (Mc i))) as [Y | N]; [specialize (H i Hi); lra|]. rewrite H0 by (try assumption; lra). lra.
Qed.

Lemma n_e_le : n_e <= INR n.
Proof.
  unfold choices. replace (INR n) with (INR n * 1) by ring. rewrite <- rsum_const. apply rsum_le; intros i _.
  destruct (Rlt_dec 1 (rsum n (Mc i))); lra.
Qed.

Lemma sqnorm_zero (v : vec) : (forall j, (j < n)%nat -> v j = 0) -> sqnorm n v = 0.
Proof. intro H. apply rsum_zero; intros j Hj. rewrite H by exact Hj. ring. Qed.

Theorem model_bounds_choices :
  nsq n n C <= 2 * n_e /\ nsq n n q <= n_e /\ nsq n n (diagonal mean_of) <= n_e.
Proof.
  split; [|split]; [|rewrite <- (Rmult_1_l n_e)|rewrite <- (Rmult_1_l n_e)]; apply rows; try lra.
  - exact C_sq.
  - intros i Hi S. apply sqnorm_zero; intros j Hj. apply c_no_choice; assumption.
  - exact q_sq.
  - intros i Hi S. apply sqnorm_zero; intros j Hj. unfold c_times_f. rewrite c_no_choice by assumption. ring.
  - intros i Hi. change (sqnorm n (diagonal mean_of i) <= 1). rewrite sqnorm_diagonal by exact Hi. apply mean_abs, Hi.
  - intros i Hi S. change (sqnorm n (diagonal mean_of i) = 0). rewrite sqnorm_diagonal by exact Hi. unfold row_means.
    rewrite rsum_zero; [ring|]. intros j Hj. unfold c_times_f. rewrite c_no_choice by assumption. ring.
Qed.

Lemma root k A : 0 <= k -> nsq n n A <= k * k * INR n -> nF n n A <= k * sqrt (INR n).
Proof.
  intros k0 H. pose proof (pos_INR n). apply nF_le_of_nsq; [apply Rmult_le_pos; [exact k0 | apply sqrt_pos]|].
  replace (k * sqrt (INR n) * (k * sqrt (INR n))) with (k * k * (sqrt (INR n) * sqrt (INR n))) by ring.
  rewrite sqrt_sqrt by assumption. exact H.
Qed.

Theorem model_bounds : let r := sqrt (INR n) in
  nF n n F <= r /\ nF n n C <= 2 * r /\ nF n n q <= 2 * r /\
  (forall i j, (i < n)%nat -> (j < n)%nat -> 0 <= F i j <= 1) /\
  (forall i, (i < n)%nat -> sqnorm n (F i) <= 1) /\ nF n n (diagonal mean_of) <= 2 * INR n /\
  nF n n (fun i j => mean_of i * F i j) <= r /\ nF n n (p n d X W Mc M) <= 3 * r.
Proof.
  destruct model_bounds_choices as [H1 [H2 H3]]. pose proof n_e_le as E. pose proof (pos_INR n) as N.
  assert (FF : nsq n n F <= INR n).
  { replace (INR n) with (INR n * 1) by ring. rewrite <- rsum_const. apply rsum_le; intros i Hi. apply F_sq, Hi. }
  cbv zeta. repeat split.
  - rewrite <- (Rmult_1_l (sqrt (INR n))). apply root; lra.
  - apply root; lra.
  - apply root; lra.
  - apply f_nonneg; assumption.
  - apply f_le1; assumption.
  - exact F_sq.
  - apply nF_le_of_nsq; [lra|]. eapply Rle_trans; [exact H3|]. eapply Rle_trans; [exact E|].
    destruct n as [|k]; [simpl; lra|]. rewrite S_INR in *. pose proof (pos_INR k). nra.
  - rewrite <- (Rmult_1_l (sqrt (INR n))). apply root; [lra|]. eapply Rle_trans; [|rewrite !Rmult_1_l; exact FF].
    apply rsum_le; intros i Hi. apply rsum_le; intros j _. pose proof (mean_abs i Hi). pose proof (sq_nonneg (F i j)).
    replace (mean_of i * F i j * (mean_of i * F i j)) with (mean_of i * mean_of i * (F i j * F i j)) by ring. nra.
  - pose proof (p_norm_half_c n d X W Mc M HMc). assert (nF n n C <= 2 * sqrt (INR n)) by (apply root; lra).
    pose proof (sqrt_pos (INR n)). lra.
Qed.
End Bounds.

(* ---- as Trusted.v states them ---- *)
Definition checked_model_bounds_choices : Statement.model_bounds_choices := model_bounds_choices.
Definition checked_model_bounds : Statement.model_bounds := model_bounds.
