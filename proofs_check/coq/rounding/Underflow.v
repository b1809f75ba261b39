(* The output and log sum exp with what underflow takes: beside the computed sums run those that lose nothing. *)
Require Import Reals Lra Lia List Permutation.
From AttnPrune.analysis Require Import Sums.
From AttnPrune.rounding Require Import Radius Trees Online Forward Weights Shadow.
Open Scope R_scope.

Section Row.
Variables (n : nat) (u e hx tau h : R) (F : R -> R -> R) (s sh a : vec) (amax top : R) (count : nat -> nat).
Hypotheses (Hu2 : 2 * u <= 1) (Hx : 0 <= hx) (Hh : 0 <= h).
Let G := kept u e F.
Let E := exponent u e tau top amax s a count.
Let X := reciprocal n u amax top s (prob n s) E.
Let eta := lost_share n u e hx tau h amax top count s (prob n s) E.
Hypotheses (Left : 0 < remaining n (prob n s) E) (Share : eta < 1).

Lemma kept_row p : row n u e hx tau F s sh a amax top count p -> row n u e 0 tau G s sh a amax top count p.
Proof.
  intros (Hu & He & Hn & HF & R). repeat split; try apply R; try assumption; try apply Hu; try apply He;
    apply (kept_exponential u e hx F Hu He HF).
Qed.

(* one sum, whatever is stored of its weights *)
Lemma sum_shadow w hw x (one one0 : nat -> R -> R -> Prop) p y : 0 <= w < 1 -> 0 <= hw ->
  row n u e hx tau F s sh a amax top count p ->
  (forall j g g0 t, one j g t -> Rabs (g - g0) <= hx -> exists t0, one0 j g0 t0 /\
    Rabs (t - t0) <= (1 + u) * (1 + w) * ((hx + hw) * Rabs (x j)) + h /\
    Rabs t0 <= (1 + u) * (1 + w) * Rabs g0 * Rabs (x j)) ->
  carried u h F sh one p y ->
  exists y0, carried u 0 G sh one0 p y0 /\ Rabs (y - y0) <= lost n u e hx tau h w hw count x.
Proof.
  intros Hw Hhw (Hu & He & Hn & HF & Hs & Ho & Hc & Htop & Tau & Hch) One C.
  assert (B1 : 1 <= 1 + e * u + hx) by lra. set (B := 1 + e * u + hx) in *.
  set (M := (1 + u) ^ 2 * B). assert (M1 : 1 + u <= M) by (unfold M; nra).
  assert (KM : (1 + u) * (1 + w) <= (1 + w) * M) by nra.
  assert (KM2 : (1 + u) * (1 + w) * (1 + e * u) <= (1 + w) * M).
  { apply Rle_trans with ((1 + u) * (1 + w) * B); [apply Rmult_le_compat_l; [nra|unfold B; lra]|].
    unfold M. replace ((1 + w) * ((1 + u) ^ 2 * B)) with ((1 + u) * ((1 + u) * (1 + w) * B)) by ring.
    assert (0 <= (1 + u) * (1 + w) * B) by (apply Rmult_le_pos; nra). nra. }
  destruct (carried_shadow u e hx tau h w hw F sh Hu Hu2 He HF Tau Hx Hh Hw Hhw one one0 x) with (p := p) (y := y)
    as (y0 & Y0 & Y1 & _); [|exact Hc|exact C|].
  - intros j g g0 t Ht Hg H0. destruct (One j g g0 t Ht Hg) as (t0 & T0 & T1 & T2). exists t0. fold B. fold M.
    pose proof (Rabs_pos (x j)) as Xp. split; [exact T0|split].
    + assert (0 <= (hx + hw) * Rabs (x j)) by (apply Rmult_le_pos; lra).
      eapply Rle_trans; [exact T1|]. rewrite (Rmult_plus_distr_l ((1 + w) * M)). apply Rplus_le_compat; [apply Rmult_le_compat_r; assumption|].
      assert (1 <= (1 + w) * M) by nra. nra.
    + eapply Rle_trans; [exact T2|]. rewrite (Rabs_pos_eq g0) by tauto. apply Rmult_le_compat_r; [exact Xp|].
      set (T := exp ((1 + 2 * u) * tau)) in *. assert (0 < T) by apply exp_pos.
      apply Rle_trans with ((1 + u) * (1 + w) * (T * (1 + e * u))); [apply Rmult_le_compat_l; [nra|tauto]|].
      replace ((1 + u) * (1 + w) * (T * (1 + e * u))) with (T * ((1 + u) * (1 + w) * (1 + e * u))) by ring.
      apply Rmult_le_compat_l; lra.
  - exists y0. split; [exact Y0|]. eapply Rle_trans; [exact Y1|]. unfold lost. fold B. fold M.
    rewrite (length_once _ _ Ho), (lsum_once _ _ _ Ho).
    replace (exp ((1 + 2 * u) * tau) * ((1 + w) * M) * M ^ (n - 1)) with (exp ((1 + 2 * u) * tau) * (1 + w) * M ^ n).
    2: { replace (M ^ n) with (M * M ^ (n - 1)) by (change (M * M ^ (n - 1)) with (M ^ S (n - 1)); f_equal; lia). ring. }
    apply Rmult_le_compat_l.
    { apply Rmult_le_pos; [apply Rmult_le_pos; [left; apply exp_pos|lra]|apply pow_le; lra]. }
    apply Rplus_le_compat.
    + apply rsum_le. intros j Hj. apply Rmult_le_compat_r; [apply Rabs_pos|]. apply Rplus_le_compat_r, Rmult_le_compat_r; [exact Hx|].
      apply le_INR. specialize (Hch j Hj). lia.
    + apply Rmult_le_compat_r; [exact Hh|]. rewrite mult_INR. simpl (INR 3). lra.
Qed.

Lemma own_shadow j g g0 t : 0 <= u -> own_weight j g t -> Rabs (g - g0) <= hx -> exists t0, own_weight j g0 t0 /\
  Rabs (t - t0) <= (1 + u) * (1 + 0) * ((hx + 0) * Rabs 1) + h /\ Rabs t0 <= (1 + u) * (1 + 0) * Rabs g0 * Rabs 1.
Proof.
  intros Hu -> Hg. exists g0. split; [reflexivity|]. rewrite Rabs_R1. pose proof (Rabs_pos g0). split; nra.
Qed.

Lemma times_shadow w hw v j g g0 t : 0 <= u -> 0 <= w < 1 -> 0 <= hw -> times_value u h w hw v j g t ->
  Rabs (g - g0) <= hx -> exists t0, times_value u 0 w 0 v j g0 t0 /\
  Rabs (t - t0) <= (1 + u) * (1 + w) * ((hx + hw) * Rabs (v j)) + h /\
  Rabs t0 <= (1 + u) * (1 + w) * Rabs g0 * Rabs (v j).
Proof.
  intros Hu Hw Hhw (q & Hq & Ht) Hg.
  destruct (fl_shadow w hw g g0 q ltac:(lra) Hhw Hq) as (q0 & Q0 & Q1).
  destruct (fl_shadow u h (q * v j) (q0 * v j) t Hu Hh Ht) as (t0 & T0 & T1).
  exists t0. pose proof (Rabs_pos (v j)) as V. pose proof (Rabs_pos (g - g0)). split; [exists q0; split; assumption|split].
  - eapply Rle_trans; [exact T1|]. apply Rplus_le_compat_r. replace (q * v j - q0 * v j) with ((q - q0) * v j) by ring.
    rewrite Rabs_mult, Rmult_assoc. apply Rmult_le_compat_l; [lra|]. rewrite <- Rmult_assoc. apply Rmult_le_compat_r; [exact V|]. nra.
  - eapply Rle_trans; [apply (rounded_le u _ _ Hu T0)|]. rewrite Rabs_mult, !Rmult_assoc. apply Rmult_le_compat_l; [lra|].
    rewrite <- Rmult_assoc. apply Rmult_le_compat_r; [exact V|]. apply rounded_le; [lra|exact Q0].
Qed.

(* the row sum is not far below the one that loses nothing, nor is that small *)
Lemma row_sum_shadow pl p l : row n u e hx tau F s sh a amax top count p -> row n u e hx tau F s sh a amax top count pl ->
  (forall j, (j < n)%nat -> weight G sh pl j = weight G sh p j) -> carried u h F sh own_weight pl l ->
  0 < l /\ / l <= X / (1 - eta) /\ near (INR (2 * (n - 1)) * lam u - ln (1 - eta)) (rsum n (place G sh p)) l.
Proof.
  intros Rp Rl Same C. pose proof Rp as (Hu & He & Hn & HF & Hs & Ho & Hc & Htop & Tau & Hch). pose proof Rl as (_ & _ & _ & _ & _ & Ol & _).
  destruct (sum_shadow 0 0 (fun _ => 1) own_weight own_weight pl l ltac:(lra) ltac:(lra) Rl
    (fun j g g0 t => own_shadow j g g0 t (proj1 Hu)) C) as (l0 & L0 & L1).
  pose proof (row_sum n u e tau G s sh a amax top count p (kept_row p Rp) pl l0 Ol Same L0) as N.
  destruct (row_weights n u e tau G s sh a amax top count p (kept_row p Rp)) as (t & Ht & Et).
  set (r := radius u e tau top amax s a count) in *.
  assert (HE : forall j, E j = exp (r j) - 1) by (intro j; apply radius_exponent; exact He).
  pose proof Left as Left'. rewrite (remaining_ext _ _ _ _ HE) in Left'.
  pose proof (T_remaining n (prob n s) t r (fun j _ => Rlt_le _ _ (prob_pos n s j Hn)) (prob_sum n s Hn) Ht) as TB.
  rewrite <- (remaining_ext _ _ _ _ HE) in TB.
  set (Z := rsum n (fun i => exp (s i))). pose proof (total_pos n s Hn) as HZ. fold Z in HZ.
  set (T := rsum n (fun j => prob n s j * exp (t j))) in *.
  assert (S1 : rsum n (place G sh p) = exp (- shift p) * Z * T).
  { unfold T. rewrite <- rsum_scal. apply rsum_ext. intros j Hj. rewrite Et by exact Hj. unfold prob. fold Z. field. lra. }
  set (q := remaining n (prob n s) E) in *. pose proof (exp_pos (- shift p)) as E1.
  assert (S0 : 0 < rsum n (place G sh p)) by (rewrite S1; repeat apply Rmult_lt_0_compat; lra).
  pose proof (near_bounds _ _ _ (Rlt_le _ _ S0) N) as [NL _].
  set (g := grow u (2 * (n - 1))). assert (Gp : 0 < g) by (apply grow_pos; exact Hu).
  assert (Ex : exp (- (INR (2 * (n - 1)) * lam u)) = / g) by (rewrite exp_Ropp, exp_lam by exact Hu; reflexivity).
  rewrite Ex in NL.
  assert (Xp : 0 < X) by (unfold X, reciprocal; apply Rdiv_lt_0_compat; [apply Rmult_lt_0_compat; [exact Gp|apply exp_pos]|exact Left]).
  assert (Low : / X <= l0).
  { eapply Rle_trans; [|exact NL]. unfold X, reciprocal. fold g. fold q.
    replace (/ (g * exp (top + amax - lse n s) / q)) with (exp (- (top + amax)) * Z * q * / g).
    2: { unfold Rminus. rewrite exp_plus, !exp_Ropp. unfold lse. fold Z. rewrite exp_ln by exact HZ.
         pose proof (exp_pos (top + amax)). field. repeat split; lra. }
    apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat; exact Gp|]. rewrite S1, !Rmult_assoc.
    apply Rmult_le_compat; [left; apply exp_pos|apply Rmult_le_pos; lra|apply exp_le; lra|].
    apply Rmult_le_compat_l; [lra|]. exact TB. }
  assert (Ip : 0 < / X) by (apply Rinv_0_lt_compat; exact Xp).
  assert (L0p : 0 < l0) by lra.
  set (H := lost n u e hx tau h 0 0 count (fun _ => 1)) in *.
  assert (H0 : 0 <= H) by (eapply Rle_trans; [apply Rabs_pos|exact L1]).
  assert (Eta : eta = H * X) by reflexivity. assert (Eta0 : 0 <= eta) by (rewrite Eta; apply Rmult_le_pos; lra).
  assert (HL : H <= eta * l0).
  { apply Rle_trans with (eta * / X); [right; rewrite Eta; field; lra|]. apply Rmult_le_compat_l; assumption. }
  assert (Bl : l0 * (1 - eta) <= l <= l0 * (1 + eta)) by (unfold Rabs in L1; destruct (Rcase_abs _); lra).
  assert (Lp : 0 < l) by nra. split; [exact Lp|split].
  - replace (X / (1 - eta)) with (/ (/ X * (1 - eta))) by (field; lra). apply Rinv_le_contravar; [|].
    + apply Rmult_lt_0_compat; lra.
    + apply Rle_trans with (l0 * (1 - eta)); [apply Rmult_le_compat_r; lra|lra].
  - unfold Rminus. apply near_trans with l0; [exact N|]. 
    assert (Rabs (l - l0) <= eta * l0) by lra.
    change (- ln (1 - eta)) with (lam eta). apply rounded_near; [lra|]. unfold rounded, fl. rewrite (Rabs_pos_eq l0) by lra. lra.
Qed.
End Row.

Lemma times_loses w hw x x' y : 0 <= w -> 0 <= hw -> rounded_times w hw 2 x y ->
  exists y', rounded_times w 0 2 x' y' /\ Rabs (y - y') <= (1 + w) ^ 2 * Rabs (x - x') + (2 + w) * hw.
Proof.
  intros Hw Hh (z & (z1 & -> & Hz) & Hy). destruct (fl_shadow w hw x x' z Hw Hh Hz) as (z' & Z0 & Z1).
  destruct (fl_shadow w hw z z' y Hw Hh Hy) as (y' & Y0 & Y1). exists y'. split.
  - exists z'. split; [exists x'; split; [reflexivity|exact Z0]|exact Y0].
  - eapply Rle_trans; [exact Y1|]. pose proof (Rmult_le_compat_l (1 + w) _ _ ltac:(lra) Z1). lra.
Qed.

Lemma lost_le n u e hx tau h w hw count x x' : 0 <= u -> 0 <= e * u -> 0 <= hx -> 0 <= w -> 0 <= hw ->
  (forall j, (j < n)%nat -> Rabs (x j) <= Rabs (x' j)) -> lost n u e hx tau h w hw count x <= lost n u e hx tau h w hw count x'.
Proof.
  intros Hu He Hx Hw Hhw L. unfold lost. apply Rmult_le_compat_l.
  - apply Rmult_le_pos; [apply Rmult_le_pos; [left; apply exp_pos|lra]|apply pow_le; nra].
  - apply Rplus_le_compat_r, rsum_le. intros j Hj. apply Rmult_le_compat_l; [|apply L; exact Hj].
    pose proof (Rmult_le_pos _ _ (pos_INR (S (count j))) Hx). lra.
Qed.

Theorem output_error n u e hx tau h w hw F s sh a amax top count pl p v vh eps l A y0 y : 0 <= w < 1 -> 2 * u <= 1 ->
  0 <= hx -> 0 <= h -> 0 <= hw -> row n u e hx tau F s sh a amax top count p ->
  row n u e hx tau F s sh a amax top count pl ->
  (forall H, (forall x, H x x = 1) -> forall j, (j < n)%nat -> weight H sh pl j = weight H sh p j) ->
  (forall j, (j < n)%nat -> Rabs (vh j - v j) <= eps j) ->
  carried u h F sh own_weight pl l -> carried u h F sh (times_value u h w hw vh) p A -> divided u h A l y0 ->
  rounded_times w hw 2 y0 y ->
  let E := exponent u e tau top amax s a count in 0 < remaining n (prob n s) E ->
  let eta := lost_share n u e hx tau h amax top count s (prob n s) E in eta < 1 ->
  let C := grow u (2 * n - 1) * grow w 1 in let G := grow u (2 * n) * grow w 2 / (1 - eta) in
  Rabs (y - output n s v) <= output_bound n (prob n s) E v (fun _ => C - 1) G (output n s v) +
    G * rsum n (fun j => grown n (prob n s) E j * C * eps j) + (1 + w) ^ 2 * ((1 + u) ^ 2 *
    (lost n u e hx tau h w hw count (fun j => Rabs (v j) + eps j) *
      reciprocal n u amax top s (prob n s) E / (1 - eta)) + h) + (2 + w) * hw.
Proof.
  intros Hw Hu2 Hx Hh Hhw Rp Rl Same Hv Cl CA Hd Hy E Left eta Share C G.
  pose proof Rp as (Hu & He & Hn & HF & _). pose proof (kept_exponential u e hx F Hu He HF) as [G1 _].
  destruct (row_sum_shadow n u e hx tau h F s sh a amax top count Hu2 Hx Hh Left Share pl p l Rp Rl
    (Same (kept u e F) G1) Cl) as (Lp & Li & N).
  destruct (sum_shadow n u e hx tau h F s sh a amax top count Hu2 Hx Hh w hw vh (times_value u h w hw vh)
    (times_value u 0 w 0 vh) p A Hw Hhw Rp
    (fun j g g0 t => times_shadow u hx h Hh w hw vh j g g0 t (proj1 Hu) Hw Hhw) CA) as (A0 & CA0 & HA').
  assert (HA : Rabs (A - A0) <= lost n u e hx tau h w hw count (fun j => Rabs (v j) + eps j)).
  { eapply Rle_trans; [exact HA'|]. apply lost_le; try tauto; try lra. intros j Hj. pose proof (Hv j Hj) as V.
    replace (vh j) with (v j + (vh j - v j)) by ring. eapply Rle_trans; [apply Rabs_triang|].
    eapply Rle_trans; [|apply Rle_abs]. lra. }
  clear HA'. fold E in Li, N. fold eta in Li, N.
  set (X := reciprocal n u amax top s (prob n s) E) in *. set (H := lost n u e hx tau h w hw count (fun j => Rabs (v j) + eps j)) in *.
  assert (Q : Rabs (A / l - A0 / l) <= H * X / (1 - eta)).
  { replace (A / l - A0 / l) with ((A - A0) * / l) by (unfold Rdiv; ring). rewrite Rabs_mult, (Rabs_pos_eq (/ l)).
    2: { left. apply Rinv_0_lt_compat. exact Lp. }
    unfold Rdiv at 1. rewrite Rmult_assoc. apply Rmult_le_compat; [apply Rabs_pos|left; apply Rinv_0_lt_compat; exact Lp|exact HA|exact Li]. }
  set (Q0 := H * X / (1 - eta)) in *. assert (Q0p : 0 <= Q0) by (eapply Rle_trans; [apply Rabs_pos|exact Q]).
  assert (D : exists y0', divided u 0 A0 l y0' /\ Rabs (y0 - y0') <= (1 + u) ^ 2 * Q0 + h).
  { destruct Hd as [Hd|(r & Hr & Hd)].
    - destruct (fl_shadow u h (A / l) (A0 / l) y0 (proj1 Hu) Hh Hd) as (z & Z0 & Z1). exists z. split; [left; exact Z0|].
      eapply Rle_trans; [exact Z1|]. apply Rplus_le_compat_r. apply Rle_trans with ((1 + u) * Q0); [apply Rmult_le_compat_l; lra|].
      apply Rmult_le_compat_r; [exact Q0p|nra].
    - destruct (fl_shadow u h (A * r) (A0 * r) y0 (proj1 Hu) Hh Hd) as (z & Z0 & Z1). exists z.
      split; [right; exists r; split; assumption|]. eapply Rle_trans; [exact Z1|]. apply Rplus_le_compat_r.
      replace ((1 + u) ^ 2 * Q0) with ((1 + u) * ((1 + u) * Q0)) by ring. apply Rmult_le_compat_l; [lra|].
      replace (A * r - A0 * r) with ((A - A0) * r) by ring. rewrite Rabs_mult.
      apply Rle_trans with (Rabs (A - A0) * ((1 + u) * Rabs (/ l))); [apply Rmult_le_compat_l; [apply Rabs_pos|apply rounded_le; [lra|exact Hr]]|].
      replace (Rabs (A - A0) * ((1 + u) * Rabs (/ l))) with ((1 + u) * Rabs (A / l - A0 / l)).
      2: { replace (A / l - A0 / l) with ((A - A0) * / l) by (unfold Rdiv; ring). rewrite Rabs_mult. ring. }
      apply Rmult_le_compat_l; lra. }
  destruct D as (y0' & D0 & D1). destruct (times_loses w hw y0 y0' y (proj1 Hw) Hhw Hy) as (y' & Y0 & Y1).
  pose proof (output_near n u e tau w (kept u e F) s sh a amax top count p v vh eps l A0 y0' y' _ Hw
    (kept_row n u e hx tau F s sh a amax top count p Rp) Hv N CA0 D0 Y0 Left) as B. fold E in B. cbv zeta in B. fold C in B.
  replace (exp (INR (2 * (n - 1)) * lam u - ln (1 - eta)) * (grow u 2 * grow w 2)) with G in B.
  2: { unfold G. replace (INR (2 * (n - 1)) * lam u - ln (1 - eta)) with (INR (2 * (n - 1)) * lam u + - ln (1 - eta)) by ring.
       rewrite exp_plus, exp_lam, exp_Ropp, exp_ln by (try assumption; lra).
       replace (2 * n)%nat with (2 * (n - 1) + 2)%nat by lia.
       replace (grow u (2 * (n - 1) + 2)) with (grow u (2 * (n - 1)) * grow u 2); [unfold Rdiv; ring|].
       rewrite <- !exp_lam, <- exp_plus, plus_INR by exact Hu. f_equal. ring. }
  replace (y - output n s v) with ((y' - output n s v) + (y - y')) by ring.
  eapply Rle_trans; [apply Rabs_triang|]. rewrite (Rplus_assoc (_ + _)). apply Rplus_le_compat; [exact B|].
  eapply Rle_trans; [exact Y1|]. apply Rplus_le_compat_r, Rmult_le_compat_l; [nra|exact D1].
Qed.
Definition checked_output_error : Statement.output_error := fun n u e hx tau h w hw F s sh a amax top count pl p v vh eps
  l A y0 y => output_error n u e hx tau h w hw F s sh a amax top count pl p v vh eps l A y0 y.

(* how far log sum exp is above the last shift *)
Lemma shift_near tau s p i : climbing tau s p -> In i (keys p) -> s i - tau <= shift p.
Proof.
  induction p as [m j|m a IHa b IHb]; simpl; intros C I.
  - destruct I as [->|[]]. lra.
  - destruct C as (Ca & Cb & La & Lb). apply in_app_or in I. destruct I as [I|I]; [specialize (IHa Ca I)|specialize (IHb Cb I)]; lra.
Qed.

Theorem lse_error n u e hx tau h k F s sh a amax top count p l g y : 2 * u <= 1 -> 0 <= hx -> 0 <= h ->
  row n u e hx tau F s sh a amax top count p -> 0 <= k -> (exists i, (i < n)%nat /\ s i = top) ->
  carried u h F sh own_weight p l -> Rabs (g - ln l) <= k * u * Rabs (ln l) -> rounded u (shift p + g) y ->
  let E := exponent u e tau top amax s a count in 0 < remaining n (prob n s) E ->
  let eta := lost_share n u e hx tau h amax top count s (prob n s) E in eta < 1 ->
  let B := ln (grow u (2 * (n - 1)) / remaining n (prob n s) E / (1 - eta)) in
  let B' := B + k * u * (lse n s - top + amax + tau + B) in
  Rabs (y - lse n s) <= B' + u * (Rabs (lse n s) + B').
Proof.
  intros Hu2 Hx Hh Rp Hk (i & Hi & Top) Cl Hg Hy E Left eta Share B B'.
  pose proof Rp as (Hu & He & Hn & HF & Hs & Ho & Hc & Htop & Tau & _).
  destruct (row_sum_shadow n u e hx tau h F s sh a amax top count Hu2 Hx Hh Left Share p p l Rp Rp
    (fun _ _ => eq_refl) Cl) as (_ & _ & N). fold E in N. fold eta in N.
  assert (D : Rabs (lse n s - shift p) <= lse n s - top + amax + tau).
  { pose proof (lse_top n s i Hi) as L. rewrite Top in L. destruct (Hs i Hi) as (Ha & Hm & _).
    pose proof (shift_near tau sh p i Hc (proj2 (in_once n (keys p) i Ho) Hi)) as S.
    assert (top - amax <= sh i) by (unfold Rabs in Ha; destruct (Rcase_abs _); lra).
    assert (0 <= amax) by (pose proof (Rabs_pos (sh i - s i)); lra).
    unfold Rabs; destruct (Rcase_abs _); lra. }
  pose proof (lse_near n u e tau k _ (kept u e F) s sh a amax top count p l g y _
    (kept_row n u e hx tau F s sh a amax top count p Rp) Hk N Hg Hy Left D) as R. fold E in R. cbv zeta in R.
  assert (BB : exp (INR (2 * (n - 1)) * lam u - ln (1 - eta)) / remaining n (prob n s) E =
    grow u (2 * (n - 1)) / remaining n (prob n s) E / (1 - eta)).
  { unfold Rminus at 1. rewrite exp_plus, exp_lam, exp_Ropp, exp_ln by (try assumption; lra). unfold Rdiv. ring. }
  rewrite BB in R. exact R.
Qed.
Definition checked_lse_error : Statement.lse_error := fun n u e hx tau h k F s sh a amax top count p l g y =>
  lse_error n u e hx tau h k F s sh a amax top count p l g y.
