(* IEEE arithmetic rounds as the model does, and the hypotheses of the bounds are met. *)
Require Import Reals Lra Lia ZArith List Permutation.
From Flocq Require Import Core Relative Plus_error.
From AttnPrune.analysis Require Import Sums.
From AttnPrune.rounding Require Import Radius Trees Online Forward Weights.
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

Theorem hypotheses_met : let u := bpow radix2 (- 24) in let w := bpow radix2 (- 8) in let h := bpow radix2 (- 149) in
  let hx := exp (- 99) in exists F s sh a p v l A y0 y, row 2 u 64 hx 1 F s sh a 0 100 (changes p) p /\
  changes p 0 = 1%nat /\ weight F sh p 0 = 0 /\ shift p < sh 1%nat /\ carried u h F sh own_weight p l /\
  carried u h F sh (times_value u h w h v) p A /\ divided u h A l y0 /\ rounded_times w h 2 y0 y /\
  let E := exponent u 64 1 100 0 s a (changes p) in
  0 < remaining 2 (prob 2 s) E /\ lost_share 2 u 64 hx 1 h 0 100 (changes p) s (prob 2 s) E < 1.
Proof.
  intros u w h hx. assert (Hu : 0 <= u <= / 1000000) by (unfold u; simpl; lra). assert (Hw : 0 <= w) by (unfold w; simpl; lra).
  assert (Hh : 0 <= h <= / 1000000) by (unfold h; simpl; lra).
  assert (Hx : 0 < hx <= / 100).
  { unfold hx. split; [apply exp_pos|]. replace (- 99) with (Ropp 99) by lra. rewrite exp_Ropp. pose proof (exp_ineq1_le 99). apply Rinv_le_contravar; lra. }
  set (s := fun j : nat => INR j * 100). set (v := fun j : nat => INR (S j)).
  set (p := meet 99 (weigh 0 0) (weigh 99 1)). set (F := fun a b : R => if Rle_dec (a - b) (- 99) then 0 else exp (a - b)).
  assert (s0 : s 0%nat = 0) by (unfold s; simpl; ring). assert (s1 : s 1%nat = 100) by (unfold s; simpl; ring).
  assert (C0 : changes p 0 = 1%nat).
  { unfold p. simpl. destruct (Req_EM_T 0 99) as [E|_]; [lra|reflexivity]. }
  assert (C1 : changes p 1 = 0%nat).
  { unfold p. simpl. destruct (Req_EM_T 99 99) as [_|N]; [reflexivity|lra]. }
  assert (F0 : forall a, F a a = 1).
  { intro a. unfold F. rewrite Rminus_eq_0. destruct (Rle_dec 0 (- 99)); [lra|apply exp_0]. }
  assert (F1 : F 0 99 = 0) by (unfold F; destruct (Rle_dec (0 - 99) (- 99)); [reflexivity|lra]).
  assert (Fine : forall k t x, 0 <= k -> 0 <= t -> fl k t x x).
  { intros k t x Hk Ht. unfold fl. rewrite Rminus_eq_0, Rabs_R0. pose proof (Rabs_pos x). nra. }
  set (l := F 0 0 * F 0 99 + F 100 99). set (A := F 0 0 * 1 * F 0 99 + F 100 99 * 2).
  set (E := exponent u 64 1 100 0 s (fun _ => 0) (changes p)).
  assert (R : 99 / 100 <= remaining 2 (prob 2 s) E).
  { unfold E, remaining, exponent. cbn [rsum]. rewrite Rplus_0_l, C0, C1. rewrite s0, s1.
    assert (G : forall k, (k <= 2)%nat -> grow (64 * u) k <= 1 + / 1000).
    { intros k Hk. eapply Rle_trans; [apply (grow_mono (64 * u) k 2); [lra|exact Hk]|].
      unfold grow. simpl. rewrite Rmult_1_r. rewrite <- (Rinv_inv (1 + / 1000)).
      apply Rinv_le_contravar; [|]; nra. }
    assert (X : forall t, 0 <= t <= 100 -> exp (0 + 2 * u * (100 - t + 0 + 0 + 2 * 1)) <= 1 + / 1000).
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
    assert (Ek : forall t k, 0 <= t <= 100 -> (k <= 2)%nat ->
      exp (0 + 2 * u * (100 - t + 0 + 0 + 2 * 1)) * grow (64 * u) k - 1 <= / 100).
    { intros t k Ht Hk. pose proof (X t Ht). pose proof (G k Hk). pose proof (exp_pos (0 + 2 * u * (100 - t + 0 + 0 + 2 * 1))).
      pose proof (grow_pos (64 * u) k ltac:(lra)).
      assert (exp (0 + 2 * u * (100 - t + 0 + 0 + 2 * 1)) * grow (64 * u) k <= (1 + / 1000) * (1 + / 1000))
        by (apply Rmult_le_compat; lra). lra. }
    pose proof (Ek 0 2%nat ltac:(lra) ltac:(lia)) as E0. pose proof (Ek 100 1%nat ltac:(lra) ltac:(lia)) as E1.
    pose proof (Rmult_le_compat_l _ _ _ (Rlt_le _ _ P0) E0) as M0. pose proof (Rmult_le_compat_l _ _ _ (Rlt_le _ _ P1) E1) as M1.
    lra. }
  exists F, s, s, (fun _ => 0), p, v, l, A, (A / l), (A / l).
  repeat split; try (unfold u in *; simpl; lra); try lia; try (simpl; lra).
  - exact F0.
  - intros a b. exists (a - b). split; [rewrite Rminus_eq_0, Rabs_R0; pose proof (Rabs_pos (a - b)); nra|].
    unfold F. destruct (Rle_dec (a - b) (- 99)) as [L|_]; [|apply Fine; lra]. unfold fl. pose proof (exp_pos (a - b)).
    apply exp_le in L. fold hx in L. rewrite (Rabs_left1 (0 - exp (a - b))), (Rabs_pos_eq (exp (a - b))) by lra. nra.
  - unfold Rminus. rewrite Rplus_opp_r, Rabs_R0. lra.
  - destruct j as [|[|j]]; [rewrite s0|rewrite s1|lia]; lra.
  - unfold each_once, p. simpl. apply Permutation_refl.
  - simpl. rewrite s0, F0, F1. ring.
  - unfold p. cbn [carried shift]. rewrite s0, s1. exists (F 0 0), (F 100 99), (F 0 0 * F 0 99), (F 100 99). unfold own_weight.
    repeat split; [right; apply Fine; lra|left; split; lra|apply exactly; lra].
  - unfold p. cbn [carried shift]. rewrite s0, s1.
    exists (F 0 0 * 1), (F 100 99 * 2), (F 0 0 * 1 * F 0 99), (F 100 99 * 2). unfold times_value, v. simpl INR.
    replace (1 + 1) with 2 by ring.
    repeat split; [exists (F 0 0)|exists (F 100 99)|right; apply Fine; lra|left; split; lra|apply exactly; lra];
      (split; apply Fine; lra).
  - left. apply Fine; lra.
  - simpl. exists (A / l). split; [exists (A / l); split; [reflexivity|]|]; apply Fine; lra.
  - fold E. lra.
  - unfold lost_share, reciprocal, lost. cbn [rsum]. rewrite C0, C1, Rabs_R1. fold E.
    pose proof (lse_top 2 s 1 ltac:(lia)) as Top. rewrite s1 in Top. set (q := remaining 2 (prob 2 s) E) in *.
    assert (X1 : exp (100 + 0 - lse 2 s) <= 1) by (rewrite <- exp_0; apply exp_le; lra).
    assert (X2 : exp ((1 + 2 * u) * 1) <= 9).
    { apply Rle_trans with (exp (1 + 1)); [apply exp_le; lra|]. rewrite exp_plus. pose proof exp_le_3. pose proof (exp_pos 1). nra. }
    assert (X3 : 0 <= (1 + u) ^ 2 * (1 + 64 * u + hx) <= 102 / 100) by (simpl; nra).
    set (m := (1 + u) ^ 2 * (1 + 64 * u + hx)) in *.
    assert (X4 : 0 <= m ^ 2 <= 105 / 100) by (simpl; nra).
    assert (X5 : 0 <= 0 + (INR 2 * hx + 0) * 1 + (INR 1 * hx + 0) * 1 + INR (3 * 2) * h <= 31 / 1000) by (simpl; lra).
    set (d := 0 + (INR 2 * hx + 0) * 1 + (INR 1 * hx + 0) * 1 + INR (3 * 2) * h) in *.
    assert (X6 : 0 <= exp ((1 + 2 * u) * 1) * (1 + 0) * m ^ 2 <= 10).
    { pose proof (exp_pos ((1 + 2 * u) * 1)). set (t := exp _) in *. split; [nra|]. nra. }
    set (c := exp ((1 + 2 * u) * 1) * (1 + 0) * m ^ 2) in *.
    assert (X7 : 0 <= c * d <= 31 / 100) by nra.
    assert (X8 : 0 <= grow u (2 * (2 - 1)) * exp (100 + 0 - lse 2 s) <= 101 / 100).
    { pose proof (exp_pos (100 + 0 - lse 2 s)). assert (G : 0 < grow u (2 * (2 - 1)) <= 101 / 100).
      { split; [apply grow_pos; lra|]. unfold grow. simpl. rewrite Rmult_1_r. rewrite <- (Rinv_inv (101 / 100)).
        apply Rinv_le_contravar; nra. }
      nra. }
    assert (X9 : 0 < / q <= 102 / 100).
    { split; [apply Rinv_0_lt_compat; lra|]. rewrite <- (Rinv_inv (102 / 100)). apply Rinv_le_contravar; lra. }
    unfold Rdiv at 1. set (x := grow u _ * exp _) in *. assert (x * / q <= 104 / 100) by nra. assert (0 <= x * / q) by nra. nra.
Qed.
Definition checked_hypotheses_met : Statement.hypotheses_met := hypotheses_met.
