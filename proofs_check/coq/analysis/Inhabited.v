(* Two tokens in two features that meet the hypotheses of the theorems on descent, convexity and the printed theorem from
   M = 1, with a residual that is not 0: X = I, W = signs/16, lam = 1.

   ||M|| <= 2 makes the logits at most 1/8, so that allowed entries are at least 1/4; K = 1/8; and ||c(0)|| <= K = 1/8
   <= (1/3)/sqrt 5.                                                                                                   *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model Gradient RowHessian LipschitzGradient LipschitzSharp OnesWitness PLAttained.
Open Scope R_scope.

Definition sixteenth : mat := fun i j => signs i j / 16.

Lemma sixteenth_abs i j : Rabs (sixteenth i j) = / 16.
Proof. unfold sixteenth, Rdiv. rewrite Rabs_mult, signs_abs, Rabs_pos_eq; lra. Qed.

Lemma exp_eighth : exp (/ 8) <= 6 / 5 /\ 5 / 6 <= exp (- / 8).
Proof.
  assert (B : exp (/ 8) <= 6 / 5).
  { pose proof (exp_ineq1_le (- / 8)) as H. rewrite exp_Ropp in H. pose proof (exp_pos (/ 8)).
    apply Rmult_le_reg_r with (/ exp (/ 8)); [apply Rinv_0_lt_compat; assumption|]. rewrite Rinv_r by lra. lra. }
  split; [exact B|]. rewrite exp_Ropp. replace (5 / 6) with (/ (6 / 5)) by field.
  apply Rinv_le_contravar; [apply exp_pos | exact B].
Qed.

Lemma exp_near x : Rabs x <= / 8 -> 5 / 6 <= exp x <= 6 / 5.
Proof.
  intro H. apply Rabs_le_between in H. destruct exp_eighth as [U D]. split.
  - eapply Rle_trans; [exact D|]. destruct (proj1 H) as [Q | <-]; [left; apply exp_increasing, Q | right; reflexivity].
  - eapply Rle_trans; [|exact U]. destruct (proj2 H) as [Q | ->]; [left; apply exp_increasing, Q | right; reflexivity].
Qed.

Lemma entry_small M i j : (i < 2)%nat -> (j < 2)%nat -> nF 2 2 M <= 2 -> Rabs (had M sixteenth i j) <= / 8.
Proof.
  intros Hi Hj HM. unfold had. rewrite Rabs_mult, sixteenth_abs.
  assert (Rabs (M i j) <= 2); [|lra].
  apply Rabs_le_of_sqr; [lra|]. apply Rle_trans with (nsq 2 2 M); [apply nsq_entry; assumption|].
  rewrite <- nF_sq. pose proof (nF_nonneg 2 2 M). nra.
Qed.

Lemma ball_floor M : nF 2 2 M <= INR 2 -> delta_all full 2 (f 2 2 identity full (had M sixteenth)) (/ 4).
Proof.
  intros HM i j Hi Hj. change (INR 2) with (1 + 1) in HM. rewrite (f_identity 2%nat) by assumption. simpl.
  pose proof (exp_near _ (entry_small M i j Hi Hj ltac:(lra))).
  pose proof (exp_near _ (entry_small M i 0 Hi ltac:(lia) ltac:(lra))).
  pose proof (exp_near _ (entry_small M i 1 Hi ltac:(lia) ltac:(lra))).
  set (s := 0 + _ + _). assert (0 < s <= 12 / 5) by (unfold s; lra).
  apply Rmult_le_reg_r with s; [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra. lra.
Qed.

Lemma identity_gram : gram_ge 2 2 identity 1.
Proof. intro v. right. unfold identity; simpl. ring. Qed.

Lemma K_eighth : logit_bound 2 2 identity sixteenth full (/ 8).
Proof.
  replace (/ 8) with (/ 16 * nsq 2 2 identity) by (unfold nsq, identity; simpl; field).
  apply logit_bound_frobenius; [apply full_valid | lra | intros; rewrite sixteenth_abs; lra].
Qed.

Lemma residual : 0 < nsq 2 2 (c 2 2 identity sixteenth full zeros) /\ nF 2 2 (c 2 2 identity sixteenth full zeros) <= / 8.
Proof.
  split.
  - assert (C : c 2 2 identity sixteenth full zeros 0%nat 0%nat < 0).
    { unfold c. rewrite (f_uniform 2%nat ltac:(lia)), (f_identity 2%nat) by lia. simpl.
      unfold sixteenth, signs; simpl.
      assert (L : exp (-1 / 16) < exp (1 / 16)) by (apply exp_increasing; lra).
      pose proof (exp_pos (-1 / 16)). set (x := exp (-1 / 16)) in *. set (y := exp (1 / 16)) in *.
      assert (/ (1 + 1) < y / (0 + y + x)); [|lra].
      apply Rmult_lt_reg_r with (0 + y + x); [lra|]. replace (y / (0 + y + x) * (0 + y + x)) with y by (field; lra). lra. }
    apply Rlt_le_trans with (c 2 2 identity sixteenth full zeros 0%nat 0%nat * c 2 2 identity sixteenth full zeros 0%nat 0%nat);
      [nra | apply nsq_entry; lia].
  - pose proof (lip_c_half_K 2 2 identity sixteenth full (/ 8) (full_valid 2) K_eighth ones zeros) as Q.
    assert (E : nF 2 2 (msub (c 2 2 identity sixteenth full zeros) (c 2 2 identity sixteenth full ones))
      = nF 2 2 (c 2 2 identity sixteenth full zeros)).
    { unfold nF. f_equal. apply nsq_ext; intros. unfold msub. rewrite c_ones. ring. }
    assert (B : nF 2 2 (msub zeros ones) <= 2) by (apply nF_le_of_nsq; [lra|]; unfold nsq, msub, zeros, ones; simpl; lra).
    rewrite E in Q. lra.
Qed.

Theorem hypotheses_met : exists n d X W K fmin beta delta w R0, (0 < n)%nat /\ (0 < d)%nat /\
  INR d * INR d <= 361 * INR n ^ 5 /\ 0 < nsq n n (c n d X W full zeros) /\
  (forall s, 0 < s -> exists eta, step_ok n d X W full 1 (5 / 4) K eta s) /\ 0 < 1 - C_minus * (K * K) /\
  0 < fmin /\ delta_allowed full n (f n d X full W) fmin /\ nF n n (c n d X W full zeros) <= fmin / sqrt 5 /\
  0 < beta /\ gram_ge n d X beta /\ 0 < delta /\ 0 < w /\ is_min w d W /\ is_max w d W /\
  1 < R0 /\ nF n d X <= R0 /\ nF d d W <= R0 /\
  forall M, nF d d M <= INR d -> delta_all full n (f n d X full (had M W)) delta.
Proof.
  exists 2%nat, 2%nat, identity, sixteenth, (/ 8), (/ 3), 1, (/ 4), (/ 16), 2. destruct residual as [C1 C2].
  assert (Wm : is_min (/ 16) 2 sixteenth /\ is_max (/ 16) 2 sixteenth).
  { split; (split; [intros; rewrite sixteenth_abs; lra|]); exists 0%nat, 0%nat;
      (repeat split; [lia | lia | apply sixteenth_abs]). }
  split; [lia|]. split; [lia|]. split; [simpl; lra|]. split; [exact C1|]. split.
  { intros s Hs. exists (s / 2). split; [apply full_valid|]. split; [lra|]. split; [exact row_constant_five_quarters|].
    split; [exact K_eighth|]. split; lra. }
  split; [pose proof C_minus_value; lra|]. split; [lra|]. split.
  { intros i j Hi Hj _. rewrite (f_identity 2%nat) by assumption. simpl.
    assert (E : forall a b, Rabs (sixteenth a b) <= / 8) by (intros; rewrite sixteenth_abs; lra).
    pose proof (exp_near _ (E i j)). pose proof (exp_near _ (E i 0%nat)). pose proof (exp_near _ (E i 1%nat)).
    set (s := 0 + _ + _). assert (0 < s <= 12 / 5) by (unfold s; lra).
    apply Rmult_le_reg_r with s; [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra. lra. }
  split.
  { eapply Rle_trans; [exact C2|]. assert (S : sqrt 5 <= 5 / 2).
    { rewrite <- (sqrt_square (5 / 2)) by lra. apply sqrt_le_1_alt. lra. }
    assert (0 < sqrt 5) by (apply sqrt_lt_R0; lra). apply Rmult_le_reg_r with (sqrt 5); [assumption|].
    unfold Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra. lra. }
  split; [lra|]. split; [exact identity_gram|]. split; [lra|]. split; [lra|]. split; [apply Wm|]. split; [apply Wm|].
  split; [lra|]. split; [apply nF_le_of_nsq; [lra|]; unfold nsq, identity; simpl; lra|]. split.
  { apply nF_le_of_nsq; [lra|]. unfold nsq, sixteenth, signs; simpl; lra. }
  exact ball_floor.
Qed.

(* ---- as Trusted.v states them ---- *)
Definition checked_hypotheses_met : Statement.hypotheses_met := hypotheses_met.
