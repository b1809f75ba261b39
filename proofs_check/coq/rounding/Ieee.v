(* IEEE arithmetic rounds as the model does, and the hypotheses of the bounds are met. *)
Require Import Reals Lra Lia ZArith List Permutation.
From Flocq Require Import Core Relative Plus_error.
From AttnPrune.analysis Require Import Sums.
From AttnPrune.rounding Require Import Radius Trees Online Forward.
Open Scope R_scope.

Lemma half_ulp prec : / 2 * bpow radix2 (- prec + 1) = bpow radix2 (- prec).
Proof. rewrite bpow_plus. replace (bpow radix2 1) with 2 by (simpl; lra). field. Qed.

Theorem ieee_rounds prec emin x : (0 < prec)%Z ->
  fl (bpow radix2 (- prec)) (bpow radix2 (emin - 1)) x (ieee prec emin x).
Proof.
  intro Hp. unfold fl, ieee.
  destruct (error_N_FLT radix2 emin prec Hp (fun n => negb (Z.even n)) x) as (eps & eta & He & Hh & _ & ->).
  rewrite half_ulp in He. replace (/ 2 * bpow radix2 emin) with (bpow radix2 (emin - 1)) in Hh.
  2: { unfold Z.sub. rewrite bpow_plus. change (bpow radix2 (- (1))) with (/ 2). ring. }
  replace (x * (1 + eps) + eta - x) with (eps * x + eta) by ring.
  eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_mult.
  pose proof (Rmult_le_compat_r _ _ _ (Rabs_pos x) He). lra.
Qed.
Definition checked_ieee_rounds : Statement.ieee_rounds := fun prec emin x => ieee_rounds prec emin x.

Theorem ieee_normal prec emin x : (0 < prec)%Z -> bpow radix2 (emin + prec - 1) <= Rabs x ->
  rounded (bpow radix2 (- prec)) x (ieee prec emin x).
Proof.
  intros Hp Hx. unfold rounded, fl. rewrite Rplus_0_r, <- half_ulp. apply relative_error_N_FLT; assumption.
Qed.
Definition checked_ieee_normal : Statement.ieee_normal := fun prec emin x => ieee_normal prec emin x.

Theorem ieee_adds prec emin x y : (0 < prec)%Z -> format prec emin x -> format prec emin y ->
  rounded (bpow radix2 (- prec)) (x + y) (ieee prec emin (x + y)).
Proof.
  intros Hp Fx Fy. unfold rounded, fl, ieee. rewrite Rplus_0_r.
  destruct (@FLT_plus_error_N_ex radix2 emin prec Hp (fun n => negb (Z.even n)) x y Fx Fy) as (eps & He & ->).
  replace ((x + y) * (1 + eps) - (x + y)) with (eps * (x + y)) by ring. rewrite Rabs_mult.
  apply Rmult_le_compat_r; [apply Rabs_pos|]. eapply Rle_trans; [exact He|]. unfold u_ro. rewrite half_ulp.
  pose proof (bpow_gt_0 radix2 (- prec)). apply (Rmult_le_reg_r (1 + bpow radix2 (- prec))); [lra|].
  unfold Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra. nra.
Qed.
Definition checked_ieee_adds : Statement.ieee_adds := fun prec emin x y => ieee_adds prec emin x y.

Lemma exactly u x : 0 <= u -> rounded u x x.
Proof. intro H. unfold rounded, fl. rewrite Rminus_eq_0, Rabs_R0. pose proof (Rabs_pos x). nra. Qed.

Theorem hypotheses_met : let u := bpow radix2 (- 24) in let w := bpow radix2 (- 8) in exists F s sh a p v l A y0 y,
  row 2 u 64 F s sh a 0 1 (changes p) p /\ changes p 0 = 1%nat /\ carried u F sh own_weight p l /\
  carried u F sh (times_value u w v) p A /\ divided u A l y0 /\ rounded_times w 2 y0 y /\
  0 < remaining 2 (prob 2 s) (exponent u 64 1 0 s a (changes p)).
Proof.
  intros u w. assert (Hu : 0 <= u <= / 1000000) by (unfold u; simpl; lra). assert (Hw : 0 <= w) by (unfold w; simpl; lra).
  set (s := fun j : nat => INR j). set (v := fun j : nat => INR (S j)).
  set (p := meet 1 (weigh 0 0) (weigh 1 1)). set (F := fun a b : R => exp (a - b)).
  assert (C0 : changes p 0 = 1%nat).
  { unfold p. simpl. destruct (Req_EM_T 0 1) as [E|_]; [lra|reflexivity]. }
  assert (C1 : changes p 1 = 0%nat).
  { unfold p. simpl. destruct (Req_EM_T 1 1) as [_|N]; [reflexivity|lra]. }
  assert (F0 : forall a, F a a = 1) by (intro a; unfold F; rewrite Rminus_eq_0; apply exp_0).
  set (l := F 0 0 * F 0 1 + F 1 1). set (A := F 0 0 * 1 * F 0 1 + F 1 1 * 2).
  exists F, s, s, (fun _ => 0), p, v, l, A, (A / l), (A / l). repeat split; try (unfold u in *; simpl; lra); try lia.
  - exact F0.
  - intros a b. exists (a - b). split; [rewrite Rminus_eq_0, Rabs_R0; pose proof (Rabs_pos (a - b)); nra|].
    apply exactly. nra.
  - unfold Rminus. rewrite Rplus_opp_r, Rabs_R0. lra.
  - unfold s. destruct j as [|[|j]]; simpl; [lra|lra|lia].
  - unfold each_once, p. simpl. apply Permutation_refl.
  - unfold p. simpl. exists (F 0 0), (F 1 1), (F 0 0 * F 0 1), (F 1 1). unfold own_weight, s. simpl.
    repeat split; [right; apply exactly; lra|left; split; lra|apply exactly; lra].
  - unfold p. simpl. exists (F 0 0 * 1), (F 1 1 * 2), (F 0 0 * 1 * F 0 1), (F 1 1 * 2). unfold times_value, s, v. simpl.
    replace (1 + 1) with 2 by ring.
    repeat split; [exists (F 0 0)|exists (F 1 1)|right; apply exactly; lra|left; split; lra|apply exactly; lra];
      (split; apply exactly; lra).
  - left. apply exactly. lra.
  - simpl. exists (A / l). split; [exists (A / l); split; [reflexivity|]|]; apply exactly; exact Hw.
  - unfold remaining, exponent. cbn [rsum]. rewrite Rplus_0_l, C0, C1. change (s 0%nat) with 0. change (s 1%nat) with 1.
    assert (G : forall k, (k <= 2)%nat -> grow (64 * u) k <= 1 + / 1000).
    { intros k Hk. eapply Rle_trans; [apply (grow_mono (64 * u) k 2); [lra|exact Hk]|].
      unfold grow. simpl. rewrite Rmult_1_r. rewrite <- (Rinv_inv (1 + / 1000)).
      apply Rinv_le_contravar; [|]; nra. }
    assert (X : forall t, 0 <= t <= 1 -> exp (0 + 2 * u * (1 - t + 0 + 0)) <= 1 + / 1000).
    { intros t Ht. apply Rle_trans with (exp (ln (1 + / 1000))); [|rewrite exp_ln; lra].
      apply exp_le. apply Rle_trans with (/ 2000).
      - nra.
      - assert (Q : exp (/ 2000) <= 1 + / 1000).
        { pose proof (exp_ineq1_le (- / 2000)) as Q. rewrite exp_Ropp in Q.
          rewrite <- (Rinv_inv (exp (/ 2000))), <- (Rinv_inv (1 + / 1000)). apply Rinv_le_contravar; [|].
          - lra.
          - lra. }
        rewrite <- (ln_exp (/ 2000)). pose proof (exp_pos (/ 2000)).
        destruct Q as [Q|Q]; [left; apply ln_increasing; assumption|rewrite Q; lra]. }
    pose proof (prob_sum 2 s ltac:(lia)) as P. simpl in P.
    pose proof (prob_pos 2 s 0 ltac:(lia)) as P0. pose proof (prob_pos 2 s 1 ltac:(lia)) as P1.
    assert (E : forall t k, 0 <= t <= 1 -> (k <= 2)%nat ->
      exp (0 + 2 * u * (1 - t + 0 + 0)) * grow (64 * u) k - 1 <= / 100).
    { intros t k Ht Hk. pose proof (X t Ht). pose proof (G k Hk). pose proof (exp_pos (0 + 2 * u * (1 - t + 0 + 0))).
      pose proof (grow_pos (64 * u) k ltac:(lra)).
      assert (exp (0 + 2 * u * (1 - t + 0 + 0)) * grow (64 * u) k <= (1 + / 1000) * (1 + / 1000))
        by (apply Rmult_le_compat; lra). lra. }
    pose proof (E 0 2%nat ltac:(lra) ltac:(lia)) as E0. pose proof (E 1 1%nat ltac:(lra) ltac:(lia)) as E1.
    pose proof (Rmult_le_compat_l _ _ _ (Rlt_le _ _ P0) E0) as M0. pose proof (Rmult_le_compat_l _ _ _ (Rlt_le _ _ P1) E1) as M1.
    lra.
Qed.
Definition checked_hypotheses_met : Statement.hypotheses_met := hypotheses_met.
