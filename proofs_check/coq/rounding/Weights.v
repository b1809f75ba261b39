(* Weights computed anew: divided by the row sum, or through log sum exp; and outputs made of them. *)
Require Import Reals Lra Lia List Permutation.
From AttnPrune.analysis Require Import Sums.
From AttnPrune.rounding Require Import Radius Trees Online Forward.
Open Scope R_scope.

Lemma ln_le a b : 0 < a -> a <= b -> ln a <= ln b.
Proof. intros Ha [H|H]; [left; apply ln_increasing; assumption|rewrite H; lra]. Qed.

Lemma near_rel x r y : 0 <= x -> near r x y -> Rabs (y - x) <= x * (exp r - 1).
Proof.
  intros Hx (t & Ht & ->). replace (x * exp t - x) with (x * (exp t - 1)) by ring.
  rewrite Rabs_mult, Rabs_pos_eq by exact Hx. apply Rmult_le_compat_l; [exact Hx|apply expm1_abs, Ht].
Qed.

Lemma opposite_inverse x : 0 < x -> 1 - / x <= x - 1.
Proof.
  intro H. apply (Rmult_le_reg_r x); [exact H|]. rewrite Rmult_minus_distr_r, Rinv_l by lra.
  pose proof (Rle_0_sqr (x - 1)) as Q. unfold Rsqr in Q. lra.
Qed.

(* T, what the row sum is off by, lies between 1/g and g *)
Section Total.
Variables (n : nat) (p t r : vec).
Hypotheses (P0 : forall j, (j < n)%nat -> 0 <= p j) (P1 : rsum n p = 1)
  (Ht : forall j, (j < n)%nat -> Rabs (t j) <= r j).
Let E : vec := fun j => exp (r j) - 1.
Let T := rsum n (fun j => p j * exp (t j)).
Hypothesis Left : 0 < remaining n p E.

Lemma T_bounds : remaining n p E <= T <= / remaining n p E.
Proof.
  split; [apply (T_remaining n p t r P0 P1 Ht)|].
  assert (U : T <= 1 + rsum n (fun j => p j * E j)).
  { unfold T. rewrite <- P1 at 1. rewrite <- rsum_plus. apply rsum_le. intros j Hj.
    pose proof (expE n t r Ht j Hj) as H. pose proof (P0 j Hj).
    assert (exp (t j) <= 1 + E j) by (unfold Rabs in H; destruct (Rcase_abs _); unfold E; lra). nra. }
  unfold remaining in *. set (q := rsum n (fun j => p j * E j)) in *.
  apply Rle_trans with (1 + q); [exact U|]. apply (Rmult_le_reg_r (1 - q)); [exact Left|]. rewrite Rinv_l by lra.
  pose proof (Rle_0_sqr q) as Q. unfold Rsqr in Q. lra.
Qed.
End Total.

(* log of a row sum that is near the sum of the weights *)
Lemma lse_near n u e tau k D F s sh a amax top count p l g y d : row n u e 0 tau F s sh a amax top count p -> 0 <= k ->
  near d (rsum n (place F sh p)) l -> Rabs (g - ln l) <= k * u * Rabs (ln l) -> rounded u (shift p + g) y ->
  let E := exponent u e tau top amax s a count in 0 < remaining n (prob n s) E -> Rabs (lse n s - shift p) <= D ->
  let B := ln (exp d / remaining n (prob n s) E) in let B' := B + k * u * (D + B) in
  Rabs (y - lse n s) <= B' + u * (Rabs (lse n s) + B').
Proof.
  intros Row Hk (th & Hth & El) Hg Hy E Left HD B B'. pose proof Row as (Hu & He & Hn & HF & Hs & Hop & Hc & _).
  destruct (row_weights n u e tau F s sh a amax top count p Row) as (t & Ht & Et).
  set (r := radius u e tau top amax s a count) in *.
  assert (HE : forall j, E j = exp (r j) - 1) by (intro j; apply radius_exponent; exact He).
  pose proof Left as Left'. rewrite (remaining_ext _ _ _ _ HE) in Left'.
  pose proof (T_bounds n (prob n s) t r (fun j _ => Rlt_le _ _ (prob_pos n s j Hn)) (prob_sum n s Hn) Ht Left') as TB.
  rewrite <- (remaining_ext _ _ _ _ HE) in TB.
  set (T := rsum n (fun j => prob n s j * exp (t j))) in *. set (q := remaining n (prob n s) E) in *.
  set (Z := rsum n (fun i => exp (s i))). pose proof (total_pos n s Hn) as HZ. fold Z in HZ.
  assert (S1 : rsum n (place F sh p) = exp (- shift p) * Z * T).
  { unfold T. rewrite <- rsum_scal. apply rsum_ext. intros j Hj. rewrite Et by exact Hj. unfold prob. fold Z. field. lra. }
  rewrite S1 in El. pose proof (exp_pos (- shift p)) as E1. pose proof (exp_pos th) as E2.
  assert (L : ln l = lse n s - shift p + (ln T + th)).
  { rewrite El. assert (0 < exp (- shift p) * Z) by (apply Rmult_lt_0_compat; lra).
    assert (0 < exp (- shift p) * Z * T) by (apply Rmult_lt_0_compat; lra).
    rewrite !ln_mult, !ln_exp by lra. unfold lse. fold Z. ring. }
  assert (Bt : Rabs (ln T + th) <= B).
  { unfold B, Rdiv. rewrite ln_mult by (try apply exp_pos; apply Rinv_0_lt_compat; exact Left).
    rewrite ln_exp. pose proof (Rabs_triang (ln T) th).
    assert (Rabs (ln T) <= ln (/ q)).
    { pose proof (ln_le q T Left (proj1 TB)) as L1. pose proof (ln_le T (/ q) ltac:(lra) (proj2 TB)) as L2.
      rewrite ln_Rinv in * by exact Left. unfold Rabs. destruct (Rcase_abs _); lra. }
    lra. }
  assert (B0 : 0 <= B) by (pose proof (Rabs_pos (ln T + th)); lra).
  assert (Hln : Rabs (ln l) <= D + B).
  { rewrite L. pose proof (Rabs_triang (lse n s - shift p) (ln T + th)). lra. }
  assert (Ku : 0 <= k * u) by (apply Rmult_le_pos; lra).
  assert (G1 : Rabs (shift p + g - lse n s) <= B').
  { replace (shift p + g - lse n s) with ((ln T + th) + (g - ln l)) by (rewrite L; ring).
    eapply Rle_trans; [apply Rabs_triang|]. pose proof (Rmult_le_compat_l _ _ _ Ku Hln). unfold B'. lra. }
  unfold rounded, fl in Hy. rewrite Rplus_0_r in Hy.
  assert (Rabs (shift p + g) <= Rabs (lse n s) + B').
  { replace (shift p + g) with (lse n s + (shift p + g - lse n s)) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. lra. }
  replace (y - lse n s) with ((y - (shift p + g)) + (shift p + g - lse n s)) by ring.
  eapply Rle_trans; [apply Rabs_triang|]. assert (u * Rabs (shift p + g) <= u * (Rabs (lse n s) + B')) by (apply Rmult_le_compat_l; lra).
  lra.
Qed.

Theorem weight_divided n u e tau w F F' s sh sh' a amax top count p l q y j : 0 <= w < 1 ->
  row n u e 0 tau F s sh a amax top count p -> carried u 0 F sh own_weight p l -> exponential u e 0 F' ->
  logits_off n s sh' a amax top -> (forall i, (i < n)%nat -> sh' i <= shift p + tau) -> (j < n)%nat ->
  divided u 0 (F' (sh' j) (shift p)) l q -> rounded w q y -> let E := exponent u e tau top amax s a count in
  0 < remaining n (prob n s) E -> Rabs (y - prob n s j) <=
  prob n s j * ((1 + E j) / remaining n (prob n s) E * (grow u (2 * n) * grow w 1) - 1).
Proof.
  intros Hw Row Hl HF' Hs' Htop' Hj Hd Hq E Left. pose proof Row as (Hu & He & Hn & HF & Hs & Hop & Hc & Htop & Tau & _).
  pose proof (row_sum n u e tau F s sh a amax top count p Row p l Hop (fun _ _ => eq_refl) Hl) as Nl.
  destruct (row_weights n u e tau F s sh a amax top count p Row) as (t & Ht & Et).
  set (r := radius u e tau top amax s a count) in *.
  assert (HE : forall j, E j = exp (r j) - 1) by (intro i; apply radius_exponent; exact He).
  pose proof Left as Left'. rewrite (remaining_ext _ _ _ _ HE) in Left'.
  pose proof (T_bounds n (prob n s) t r (fun j _ => Rlt_le _ _ (prob_pos n s j Hn)) (prob_sum n s Hn) Ht Left') as TB.
  rewrite <- (remaining_ext _ _ _ _ HE) in TB.
  set (T := rsum n (fun j => prob n s j * exp (t j))) in *. set (R0 := remaining n (prob n s) E) in *.
  set (Z := rsum n (fun i => exp (s i))). pose proof (total_pos n s Hn) as HZ. fold Z in HZ.
  assert (S1 : rsum n (place F sh p) = exp (- shift p) * Z * T).
  { unfold T. rewrite <- rsum_scal. apply rsum_ext. intros i Hi. rewrite Et by exact Hi. unfold prob. fold Z. field. lra. }
  rewrite S1 in Nl. pose proof (exp_pos (- shift p)) as E1.
  (* the new exponential *)
  pose proof (exponential_near u e F' He HF' (sh' j) (shift p)) as NF.
  destruct (Hs' j Hj) as (Ha & Hm & Ht0). pose proof (Htop' j Hj) as Hcl.
  assert (Far : Rabs (sh' j - shift p) <= shift p - sh' j + 2 * tau) by (unfold Rabs; destruct (Rcase_abs _); lra).
  assert (NG : near (r j) (exp (- shift p) * exp (s j)) (F' (sh' j) (shift p))).
  { destruct NF as (x & Hx & Ex). exists (sh' j - s j + x). split.
    - eapply Rle_trans; [apply Rabs_triang|]. unfold r, radius.
      assert (D : shift p - sh' j + 2 * tau <= top - s j + a j + amax + 2 * tau) by (unfold Rabs in Ha; destruct (Rcase_abs _); lra).
      assert (2 * u * Rabs (sh' j - shift p) <= 2 * u * (top - s j + a j + amax + 2 * tau)) by (apply Rmult_le_compat_l; lra).
      rewrite S_INR. pose proof (pos_INR (count j)). pose proof (lam_nonneg (e * u) He).
      assert (0 <= INR (count j) * lam (e * u)) by (apply Rmult_le_pos; assumption). lra.
    - rewrite Ex, <- !exp_plus. f_equal. ring. }
  assert (NT : near (ln (/ R0)) 1 T).
  { exists (ln T). split; [|rewrite exp_ln; lra].
    pose proof (ln_le R0 T Left (proj1 TB)) as L1. pose proof (ln_le T (/ R0) ltac:(lra) (proj2 TB)) as L2.
    rewrite ln_Rinv in * by exact Left. unfold Rabs. destruct (Rcase_abs _); lra. }
  assert (Nl' : near (ln (/ R0) + INR (2 * (n - 1)) * lam u) (exp (- shift p) * Z) l).
  { apply near_trans with (exp (- shift p) * Z * T); [|exact Nl].
    rewrite <- (Rmult_1_r (exp (- shift p) * Z)) at 1. apply near_scale. exact NT. }
  pose proof (near_mul _ _ _ _ _ _ NG (near_inv _ _ _ Nl')) as Q.
  replace (exp (- shift p) * exp (s j) * / (exp (- shift p) * Z)) with (prob n s j) in Q
    by (unfold prob; fold Z; field; lra).
  pose proof (near_trans _ _ _ _ _ Q (divided_near n u e tau F s sh a amax top count p Row _ _ _ Hd)) as Q1.
  pose proof (near_trans _ _ _ _ _ Q1 (rounded_near _ _ _ Hw Hq)) as Q2.
  pose proof (near_rel _ _ _ (Rlt_le _ _ (prob_pos n s j Hn)) Q2) as B.
  replace ((1 + E j) / R0 * (grow u (2 * n) * grow w 1)) with
    (exp (r j + (ln (/ R0) + INR (2 * (n - 1)) * lam u) + 2 * lam u + lam w)); [exact B|].
  rewrite HE, <- !exp_lam by assumption. unfold Rdiv.
  rewrite <- (exp_ln (/ R0)) at 2 by (apply Rinv_0_lt_compat; exact Left).
  replace (1 + (exp (r j) - 1)) with (exp (r j)) by ring. rewrite <- !exp_plus. f_equal.
  replace (2 * n)%nat with (2 * (n - 1) + 2)%nat by lia. rewrite plus_INR. simpl (INR 2). simpl (INR 1). ring.
Qed.
Definition checked_weight_divided : Statement.weight_divided := fun n u e tau w F F' s sh sh' a amax top count p l q y j =>
  weight_divided n u e tau w F F' s sh sh' a amax top count p l q y j.

Lemma lse_top n s j : (j < n)%nat -> s j <= lse n s.
Proof.
  intro Hj. unfold lse. rewrite <- (ln_exp (s j)) at 1. apply ln_le; [apply exp_pos|].
  apply (rsum_ge_term n (fun i => exp (s i))); [intros; left; apply exp_pos|exact Hj].
Qed.

Lemma prob_lse n s j : (0 < n)%nat -> prob n s j = exp (s j - lse n s).
Proof.
  intro H. unfold prob, lse, Rminus, Rdiv. pose proof (total_pos n s H). rewrite exp_plus, exp_Ropp, exp_ln by assumption. reflexivity.
Qed.

Lemma exp_lse n s : (0 < n)%nat -> exp (lse n s) = rsum n (fun j => exp (s j)).
Proof. intro H. apply exp_ln, total_pos, H. Qed.

Theorem joined_exact k (n : nat -> nat) (s v : nat -> vec) : (0 < k)%nat -> (forall i, (i < k)%nat -> (0 < n i)%nat) ->
  let Z := rsum k (fun i => rsum (n i) (fun j => exp (s i j))) in
  lse k (fun i => lse (n i) (s i)) = ln Z /\ output k (fun i => lse (n i) (s i)) (fun i => output (n i) (s i) (v i)) =
  rsum k (fun i => rsum (n i) (fun j => exp (s i j) * v i j)) / Z.
Proof.
  intros Hk Hn Z. assert (E : rsum k (fun i => exp (lse (n i) (s i))) = Z).
  { apply rsum_ext. intros i Hi. apply exp_lse, Hn, Hi. }
  split; [unfold lse at 1; rewrite E; reflexivity|]. unfold output at 1, prob. rewrite E. unfold Rdiv. rewrite <- rsum_scal_r.
  apply rsum_ext. intros i Hi. rewrite exp_lse by (apply Hn, Hi). unfold output.
  pose proof (total_pos (n i) (s i) (Hn i Hi)) as T.
  rewrite (rsum_ext (n i) (fun j => prob (n i) (s i) j * v i j)
    (fun j => exp (s i j) * v i j * / rsum (n i) (fun j => exp (s i j)))) by (intros; unfold prob, Rdiv; ring).
  rewrite rsum_scal_r. set (N := rsum (n i) (fun j => exp (s i j) * v i j)). set (T' := rsum (n i) _) in *.
  replace (T' * / Z * (N * / T')) with (N * / Z * (T' * / T')) by ring. rewrite Rinv_r by lra. ring.
Qed.
Definition checked_joined_exact : Statement.joined_exact := fun k n s v => joined_exact k n s v.

Lemma by_lse u e w x g y c : 0 <= w < 1 -> 0 <= u -> 0 <= e * u < 1 -> Rabs (x - c) <= 2 * u * Rabs c ->
  rounded (e * u) (exp x) g -> rounded w g y -> near (2 * u * Rabs c + lam (e * u) + lam w) (exp c) y.
Proof.
  intros Hw Hu He Hx Hg Hy. apply near_trans with g; [|apply rounded_near; assumption].
  apply near_trans with (exp x); [|apply rounded_near; assumption].
  exists (x - c). split; [exact Hx|]. rewrite <- exp_plus. f_equal. ring.
Qed.

Theorem weight_of_lse n u e w s a b L x g y j sj : 0 <= w < 1 -> 0 <= u -> 0 <= e * u < 1 -> (j < n)%nat ->
  Rabs (sj - s j) <= a -> Rabs (L - lse n s) <= b -> Rabs (x - (sj - L)) <= 2 * u * Rabs (sj - L) ->
  rounded (e * u) (exp x) g -> rounded w g y -> Rabs (y - prob n s j) <= prob n s j *
  (exp (a + b + 2 * u * (lse n s - s j + a + b)) * (grow (e * u) 1 * grow w 1) - 1).
Proof.
  intros Hw Hu He Hj Ha Hb Hx Hg Hy. assert (Hn : (0 < n)%nat) by lia.
  pose proof (by_lse u e w x g y _ Hw Hu He Hx Hg Hy) as N. pose proof (lse_top n s j Hj) as Top.
  assert (A : Rabs (sj - L) <= lse n s - s j + a + b).
  { replace (sj - L) with ((sj - s j) + (s j - lse n s) - (L - lse n s)) by ring. unfold Rminus at 1.
    eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_Ropp.
    pose proof (Rabs_triang (sj - s j) (s j - lse n s)) as Q. rewrite (Rabs_left1 (s j - lse n s)) in Q by lra. lra. }
  assert (2 * u * Rabs (sj - L) <= 2 * u * (lse n s - s j + a + b)) by (apply Rmult_le_compat_l; lra).
  assert (M : near (a + b + 2 * u * (lse n s - s j + a + b) + lam (e * u) + lam w) (prob n s j) y).
  { rewrite prob_lse by exact Hn. eapply near_weaken; [|apply near_trans with (exp (sj - L)); [|exact N]].
    2: { exists ((sj - s j) - (L - lse n s)). split; [apply Rle_refl|]. rewrite <- exp_plus. f_equal. ring. }
    pose proof (Rabs_triang (sj - s j) (- (L - lse n s))) as Q. rewrite Rabs_Ropp in Q. unfold Rminus in *. lra. }
  pose proof (near_rel _ _ _ (Rlt_le _ _ (prob_pos n s j Hn)) M) as B.
  replace (exp (a + b + 2 * u * (lse n s - s j + a + b)) * (grow (e * u) 1 * grow w 1)) with
    (exp (a + b + 2 * u * (lse n s - s j + a + b) + lam (e * u) + lam w)); [exact B|].
  rewrite <- !exp_lam, <- !exp_plus by assumption. f_equal. simpl. ring.
Qed.
Definition checked_weight_of_lse : Statement.weight_of_lse :=
  fun n u e w s a b L x g y j sj => weight_of_lse n u e w s a b L x g y j sj.

Theorem weight_of_lse_at_most n u e hx w hw s sh a b L x g y j sj : 0 <= w < 1 -> 0 <= u -> 2 * u <= 1 -> 0 <= e * u < 1 ->
  0 <= hx -> 0 <= b -> (j < n)%nat -> Rabs (sh j - s j) <= a -> Rabs (sj - s j) <= a -> lse n sh - b <= L ->
  Rabs (x - (sj - L)) <= 2 * u * Rabs (sj - L) -> fl (e * u) hx (exp x) g -> fl w hw g y ->
  y <= (exp ((1 + 2 * u) * (2 * a + b)) * (1 + e * u) + hx) * (1 + w) + hw.
Proof.
  intros Hw Hu Hu2 He Hx Hb Hj Ha Hsj HL X G Y. pose proof (lse_top n sh j Hj) as Top. pose proof (exp_pos x) as Ex.
  assert (A : sj - L <= 2 * a + b) by (unfold Rabs in Ha, Hsj; destruct (Rcase_abs (sh j - s j)), (Rcase_abs (sj - s j)); lra).
  assert (A0 : 0 <= a) by (pose proof (Rabs_pos (sj - s j)); lra).
  assert (Q : x <= (1 + 2 * u) * (2 * a + b)).
  { assert (x <= (sj - L) + 2 * u * Rabs (sj - L)) by (unfold Rabs in X at 1; destruct (Rcase_abs _); lra).
    unfold Rabs in *. destruct (Rcase_abs (sj - L)); nra. }
  apply exp_le in Q. set (C := exp ((1 + 2 * u) * (2 * a + b))) in *.
  assert (G1 : g <= C * (1 + e * u) + hx).
  { unfold fl in G. rewrite (Rabs_pos_eq (exp x)) in G by lra.
    assert (g <= exp x * (1 + e * u) + hx) by (unfold Rabs in G; destruct (Rcase_abs _); lra).
    assert (exp x * (1 + e * u) <= C * (1 + e * u)) by (apply Rmult_le_compat_r; lra). lra. }
  assert (0 <= C * (1 + e * u)) by (apply Rmult_le_pos; lra).
  unfold fl in Y. unfold Rabs in Y. destruct (Rcase_abs (y - g)), (Rcase_abs g); nra.
Qed.
Definition checked_weight_of_lse_at_most : Statement.weight_of_lse_at_most :=
  fun n u e hx w hw s sh a b L x g y j sj => weight_of_lse_at_most n u e hx w hw s sh a b L x g y j sj.
