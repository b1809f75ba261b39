(* From M_0 = 1 the printed theorem is false as well, for two tokens in very many features, for every number of steps.

   n = 2, r = 10^6, d = r^2; x_2 = (1, ..., 1)/r and x_1 = (1, -1, 1, -1, 0, ...)/2, orthonormal; W = 1/d, beta = 1,
   lam = 1/r^3, delta = 1/18.  On the ball ||M|| <= d, which descent does not leave, logits are at most 1, so that allowed
   entries of f~ are at least 1/(2 e^2) >= 1/18; the printed mu is 1/(9 d).  With s = ||M||/d the theorem asks for
     ||c||^2/2 + 9 s^2 <= 216/r + 2 eps,
   while ||c|| >= 1/6 - s, because c_22(0) = 1/2 - e/(e+1): for s <= 1/12 the first term exceeds it, else the second.    *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model Gradient.
From AttnPrune.analysis Require Import LipschitzGradient Descent OnesWitness Confinement PLTrueGradient PLOperator FromOnes.
Open Scope R_scope.

Definition r : R := 1000000.
Definition w : R := / (r * r).
Definition Wc : mat := fun _ _ => w.
Definition Xs : mat := fun i a =>
  if Nat.eqb i 0 then match a with O => / 2 | 1%nat => - / 2 | 2%nat => / 2 | 3%nat => - / 2 | _ => 0 end else / r.

Lemma rsum_four d g : (4 <= d)%nat -> (forall i, (4 <= i)%nat -> g i = 0) -> rsum d g = g 0%nat + g 1%nat + g 2%nat + g 3%nat.
Proof.
  intros H Z. induction d as [|d IH]; [lia|]. destruct (Nat.eq_dec d 3) as [-> | Ne]; [simpl; ring|].
  simpl. rewrite IH, (Z d) by lia. ring.
Qed.

Section Refutation.
Variables (d : nat) (Mc : mat).
Hypothesis Hd : INR d = r * r.
Hypothesis Hd4 : (4 <= d)%nat.
Hypothesis HMc : valid_mask 2 Mc.
Hypothesis Hc0 : Mc 1%nat 0%nat = 1.
Hypothesis Hc1 : Mc 1%nat 1%nat = 1.
Notation F M := (f 2 d Xs Mc (had M Wc)).
Notation c := (c 2 d Xs Wc Mc).

Lemma w_d : w * INR d = 1.
Proof. rewrite Hd. unfold w, r. field. Qed.

Lemma x0_sq : rsum d (fun a => Xs 0%nat a * Xs 0%nat a) = 1.
Proof. rewrite rsum_four; [unfold Xs; simpl; field | exact Hd4|]. intros [|[|[|[|i]]]] Hi; try lia. unfold Xs; simpl; ring. Qed.

Lemma x1_sq : rsum d (fun a => Xs 1%nat a * Xs 1%nat a) = 1.
Proof. unfold Xs; simpl. rewrite rsum_const, Hd. unfold r. field. Qed.

Lemma x_cross (k : R) : rsum d (fun a => Xs 0%nat a * k) = 0.
Proof.
  rewrite rsum_four; [unfold Xs; simpl; field | exact Hd4|]. intros [|[|[|[|i]]]] Hi; try lia. unfold Xs; simpl; ring.
Qed.

Lemma x_sq i : (i < 2)%nat -> rsum d (fun a => Xs i a * Xs i a) = 1.
Proof. destruct i as [|[|i]]; [intros; exact x0_sq | intros; exact x1_sq | lia]. Qed.

Lemma Xs_nsq : nsq 2 d Xs = 2.
Proof. unfold nsq; simpl. rewrite x0_sq, x1_sq. ring. Qed.

Lemma Xs_gram : gram_ge 2 d Xs 1.
Proof.
  intro v. simpl. right.
  rewrite (rsum_ext d _ (fun a => v 0%nat * v 0%nat * (Xs 0%nat a * Xs 0%nat a)
    + (v 1%nat * v 1%nat * (Xs 1%nat a * Xs 1%nat a) + 2 * v 0%nat * v 1%nat * (Xs 0%nat a * / r)))).
  - rewrite !rsum_plus, !rsum_scal, x0_sq, x1_sq, x_cross. ring.
  - intros a _. assert (X1 : Xs 1%nat a = / r) by reflexivity. rewrite X1. ring.
Qed.

Lemma w_pos : 0 < w.
Proof. unfold w, r. apply Rinv_0_lt_compat. lra. Qed.

Lemma Wc_abs i j : Rabs (Wc i j) = w.
Proof. unfold Wc. apply Rabs_pos_eq. left. exact w_pos. Qed.

Lemma Wc_norm : nF d d Wc <= 3 / 2.
Proof.
  apply nF_le_of_nsq; [lra|]. unfold nsq, Wc. rewrite (rsum_ext d _ (fun _ => INR d * (w * w))) by (intros; apply rsum_const).
  rewrite rsum_const. replace (INR d * (INR d * (w * w))) with (w * INR d * (w * INR d)) by ring. rewrite w_d. lra.
Qed.

(* |z_ij| <= w ||M|| *)
Lemma logit_small M i j : (i < 2)%nat -> (j < 2)%nat -> Rabs (logit d Xs (had M Wc) i j) <= w * nF d d M.
Proof.
  intros Hi Hj. replace (logit d Xs (had M Wc) i j) with (ip d d (fun a b => w * (Xs i a * Xs j b)) M).
  2:{ unfold logit, ip, had, Wc. apply rsum_ext; intros a _. apply rsum_ext; intros b _. ring. }
  eapply Rle_trans; [apply ip_cauchy_schwarz|]. apply Rmult_le_compat_r; [apply nF_nonneg|].
  rewrite nF_scal, (Rabs_pos_eq w) by (left; exact w_pos). rewrite <- (Rmult_1_r w) at 2.
  apply Rmult_le_compat_l; [left; exact w_pos|]. apply nF_le_of_nsq; [lra|]. rewrite (nsq_outer d (Xs i) (Xs j)).
  unfold sqnorm. rewrite !x_sq by assumption. lra.
Qed.

(* on the ball allowed entries of f~ are at least 1/18 *)
Lemma delta_ball M : nF d d M <= INR d -> delta_allowed Mc 2 (F M) (/ 18).
Proof.
  intros HM i j Hi Hj E. assert (Z : forall k, (k < 2)%nat -> -1 <= logit d Xs (had M Wc) i k <= 1).
  { intros k Hk. apply Rabs_le_between. eapply Rle_trans; [apply logit_small; assumption|].
    rewrite <- w_d. apply Rmult_le_compat_l; [left; exact w_pos | exact HM]. }
  assert (up : forall x, x <= 1 -> exp x <= 3).
  { intros x Hx. apply Rle_trans with (exp 1); [|exact exp_le_3].
    destruct Hx as [Hx | ->]; [left; apply exp_increasing, Hx | right; reflexivity]. }
  assert (lo : / 3 <= exp (logit d Xs (had M Wc) i j)).
  { rewrite <- (Ropp_involutive (logit d Xs (had M Wc) i j)), exp_Ropp. apply Rinv_le_contravar; [apply exp_pos|].
    apply up. destruct (Z j Hj). lra. }
  unfold f, u. rewrite E, Rmult_1_r.
  assert (A : 0 < alpha 2 d Xs Mc (had M Wc) i <= 6).
  { split; [apply alpha_pos; assumption|]. unfold alpha, u; simpl.
    destruct (Z 0%nat ltac:(lia)) as [_ Z0]. destruct (Z 1%nat ltac:(lia)) as [_ Z1].
    pose proof (up _ Z0). pose proof (up _ Z1).
    pose proof (exp_pos (logit d Xs (had M Wc) i 0%nat)). pose proof (exp_pos (logit d Xs (had M Wc) i 1%nat)).
    destruct (proj1 (HMc i Hi) 0%nat) as [-> | ->]; destruct (proj1 (HMc i Hi) 1%nat) as [-> | ->]; lra. }
  apply Rmult_le_reg_r with (alpha 2 d Xs Mc (had M Wc) i); [lra|].
  unfold Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra. lra.
Qed.

Lemma c_zeros : c zeros 1%nat 1%nat <= - / 6.
Proof.
  assert (Lg : forall i j, logit d Xs Wc i j = w * rsum d (Xs i) * rsum d (Xs j)).
  { intros i j. unfold logit, Wc. rewrite Rmult_assoc, rsum_mult_rsum, <- rsum_scal. apply rsum_ext; intros a _.
    rewrite <- rsum_scal. apply rsum_ext; intros b _. ring. }
  assert (S0 : rsum d (Xs 0%nat) = 0).
  { rewrite <- (x_cross 1). apply rsum_ext; intros; ring. }
  assert (S1 : rsum d (Xs 1%nat) = r).
  { unfold Xs; simpl. rewrite rsum_const, Hd. unfold r. field. }
  assert (Z : forall i j, logit d Xs (had zeros Wc) i j = 0).
  { intros i j. unfold logit, had, zeros. apply rsum_zero; intros a _. apply rsum_zero; intros b _. ring. }
  unfold Analysis.c, f, alpha, u; simpl. rewrite !Z, !Lg, S0, S1, Hc0, Hc1, exp_0.
  replace (w * r * 0) with 0 by ring. replace (w * r * r) with 1 by (unfold w, r; field). rewrite exp_0.
  assert (E1 : 2 < exp 1) by (pose proof (exp_ineq1 1 ltac:(lra)); lra).
  assert (2 / 3 <= exp 1 * 1 / (0 + 1 * 1 + exp 1 * 1)); [|lra].
  apply Rmult_le_reg_r with (0 + 1 * 1 + exp 1 * 1); [lra|].
  replace (exp 1 * 1 / (0 + 1 * 1 + exp 1 * 1) * (0 + 1 * 1 + exp 1 * 1)) with (exp 1) by (field; lra). lra.
Qed.

Lemma K_bound2 : logit_bound 2 d Xs Wc Mc (2 * w).
Proof.
  replace (2 * w) with (w * nsq 2 d Xs) by (rewrite Xs_nsq; ring).
  apply logit_bound_frobenius; [exact HMc | left; exact w_pos | intros; rewrite Wc_abs; lra].
Qed.

(* ||c|| >= 1/6 - ||M||/d *)
Lemma c_lower M : / 6 - w * nF d d M <= nF 2 2 (c M).
Proof.
  pose proof (lip_c_half_K 2 d Xs Wc Mc (2 * w) HMc K_bound2 M zeros) as Lc.
  assert (E : nF d d (msub zeros M) = nF d d M).
  { rewrite <- (Rmult_1_l (nF d d M)). replace 1 with (Rabs (-1)) by (rewrite Rabs_left; lra). rewrite <- nF_scal.
    unfold nF. f_equal. apply nsq_ext; intros. unfold msub, zeros. ring. }
  rewrite E in Lc. assert (B : / 6 <= nF 2 2 (c zeros)).
  { pose proof c_zeros. apply Rsqr_incr_0_var; [|apply nF_nonneg]. unfold Rsqr. rewrite nF_sq.
    apply Rle_trans with (c zeros 1%nat 1%nat * c zeros 1%nat 1%nat); [nra | apply nsq_entry; lia]. }
  assert (T : nF 2 2 (c zeros) <= nF 2 2 (c M) + nF 2 2 (msub (c zeros) (c M))).
  { eapply Rle_trans; [|apply nF_triangle]. right. unfold nF. f_equal. apply nsq_ext; intros. unfold msub. ring. }
  lra.
Qed.

Let lam : R := / (r * r * r).
Let mu := mu_paper w 1 (/ 18).

(* no M at all satisfies the guarantee with eps = 1/4000 *)
Lemma no_guarantee M : ~ Lattn 2 d Xs Wc Mc M / (INR 2 * INR 2) + lam * lam / (mu * (INR 2 * INR 2)) * nsq d d M
  <= (xi_theorem 2 d Xs w lam mu + / 4000) / 2.
Proof.
  intro H. set (s := w * nF d d M). assert (s0 : 0 <= s) by (apply Rmult_le_pos; [left; exact w_pos | apply nF_nonneg]).
  pose proof (c_lower M) as C. fold s in C.
  assert (E2 : lam * lam / (mu * (INR 2 * INR 2)) * nsq d d M = 9 / 4 * (s * s)).
  { unfold s. rewrite <- nF_sq. unfold mu, mu_paper, lam, w, r. simpl. field. }
  assert (X : xi_theorem 2 d Xs w lam mu <= 108 / r).
  { unfold xi_theorem. rewrite Xs_nsq, Hd. change (INR 2) with (1 + 1).
    assert (S1 : 1 <= sqrt (1 + 1)) by (rewrite <- sqrt_1 at 1; apply sqrt_le_1_alt; lra).
    replace (12 / ((1 + 1) * sqrt (1 + 1)) * w * 2 * lam * (r * r) / mu) with (108 / r * / sqrt (1 + 1))
      by (unfold mu, mu_paper, lam, w, r; field; lra).
    assert (/ sqrt (1 + 1) <= 1) by (apply Rle_trans with (/ 1); [apply Rinv_le_contravar|]; lra).
    rewrite <- (Rmult_1_r (108 / r)) at 2. apply Rmult_le_compat_l; [unfold r; lra | assumption]. }
  rewrite E2 in H. unfold Lattn in H. rewrite <- nF_sq in H. change (INR 2) with (1 + 1) in H.
  pose proof (nF_nonneg 2 2 (c M)) as N0. set (y := nF 2 2 (c M)) in *. unfold r in X.
  destruct (Rle_lt_dec s (/ 12)); nra.
Qed.

Lemma refuted_from_ones : ~ our_convergence unit_lam (fun _ _ M => M = ones) eq Mc (delta_allowed Mc) mu_paper.
Proof.
  intro H. pose proof w_pos as W0.
  assert (D0 : 0 < INR d) by (rewrite Hd; unfold r; lra).
  assert (l0 : 0 < lam <= 1).
  { unfold lam, r. split; [apply Rinv_0_lt_compat; lra|]. rewrite <- Rinv_1. apply Rinv_le_contravar; lra. }
  set (LP := L_paper 2 d lam (3 / 2)).
  assert (LP0 : 0 < LP).
  { unfold LP, L_paper. assert (0 < sqrt (INR 2)) by (apply sqrt_lt_R0; simpl; lra). change (INR 2 ^ 3) with ((1 + 1) ^ 3).
    assert (0 < 30 * INR d * ((1 + 1) ^ 3 * sqrt (INR 2)) * (3 / 2) ^ 6) by (repeat apply Rmult_lt_0_compat; lra). lra. }
  set (eta := / (2 * LP)). assert (e0 : 0 < eta) by (apply Rinv_0_lt_compat; lra).
  assert (eL : eta < / L_paper 2 d lam (3 / 2)) by (unfold eta; fold LP; apply Rinv_lt_contravar; nra).
  assert (mu0 : 0 < mu) by (unfold mu, mu_paper; lra).
  set (q := 4 * L 2 d Xs Wc Mc lam ones / (eta * mu * / 4000 * (INR 2 * INR 2))).
  assert (q0 : 0 < q).
  { unfold q. rewrite ones_loss. simpl INR. apply Rdiv_lt_0_compat; repeat apply Rmult_lt_0_compat; lra. }
  destruct (archimed q) as [U1 U2]. assert (Hup : (0 <= up q)%Z) by (apply le_IZR; lra).
  assert (exT : exists T, INR T - 1 < q <= INR T).
  { destruct (Rle_lt_dec (IZR (up q) - 1) q) as [Q | Q]; [|lra].
    destruct (Req_dec (IZR (up q) - 1) q) as [Eq | Ne].
    - assert (Hup1 : (0 <= up q - 1)%Z) by (apply le_IZR; rewrite minus_IZR; lra).
      exists (Z.to_nat (up q - 1)). rewrite INR_IZR_INZ, Z2Nat.id, minus_IZR by exact Hup1. lra.
    - exists (Z.to_nat (up q)). rewrite INR_IZR_INZ, Z2Nat.id by exact Hup. lra. }
  destruct exT as [T HT].
  assert (Wm : forall m, m = w -> is_min m d Wc /\ is_max m d Wc).
  { intros m ->. split; (split; [intros; rewrite Wc_abs; lra|]); exists 0%nat, 0%nat; (repeat split; [lia | lia | apply Wc_abs]). }
  assert (RX : nF 2 d Xs <= 3 / 2) by (apply nF_le_of_nsq; [lra | rewrite Xs_nsq; lra]).
  pose proof (paper_step 2 d lam (3 / 2) eta ltac:(lia) ltac:(lia) (proj1 l0) ltac:(lra) e0 eL) as St.
  pose proof (logit_bound_R3 2 d Xs Wc Mc (3 / 2) HMc ltac:(lra) RX Wc_norm) as HK.
  destruct (H 2%nat d Xs Wc lam 1 (/ 18) w w (3 / 2) eta (/ 4000) ones T) as [t [t' [Ht [_ [<- B]]]]];
    try lia; try lra; try assumption; try reflexivity; try apply (Wm w eq_refl).
  - exact Xs_gram.
  - exact Wc_norm.
  - intros t Ht. apply delta_ball.
    apply (confinement_ball 2 d Xs Wc Mc lam HMc (proj1 l0) (5 / 4) _ eta row_constant_five_quarters HK e0 t). lra.
  - exact (no_guarantee _ B).
Qed.
End Refutation.

Lemma large : exists d, INR d = r * r /\ (4 <= d)%nat.
Proof.
  exists (Z.to_nat 1000000000000). split.
  - rewrite INR_IZR_INZ, Z2Nat.id by lia. unfold r. lra.
  - apply Nat2Z.inj_le. rewrite Z2Nat.id; lia.
Qed.

Theorem our_convergence_from_ones_refuted : ~ our_convergence unit_lam (fun _ _ M => M = ones) eq full (delta_all full) mu_paper.
Proof.
  intro H. destruct large as [d [Hd H4]]. apply (refuted_from_ones d full Hd H4 (full_valid 2) eq_refl eq_refl).
  intros n d' X W lam beta delta wmin wmax R0 eta eps M0 T Hn Hd' HM Hl Hb HX Hdl Hw Hmin Hmax HR HXR HWR He HeL Hep
    M mu Hf. apply (H n d' X W lam beta delta wmin wmax R0 eta eps M0 T); try assumption.
  intros t Ht i j Hi Hj. apply Hf; [exact Ht | exact Hi | exact Hj | reflexivity].
Qed.

Theorem our_convergence_causal_allowed_from_ones_refuted :
  ~ our_convergence unit_lam (fun _ _ M => M = ones) eq causal (delta_allowed causal) mu_paper.
Proof. destruct large as [d [Hd H4]]. exact (refuted_from_ones d causal Hd H4 (causal_valid 2) eq_refl eq_refl). Qed.

(* the same instance with delta over the whole ball, for every M *)
Theorem our_convergence_ball_refuted : exists n d X W lam beta delta wmin wmax R0 eps, (0 < n)%nat /\ (0 < d)%nat /\
  0 < lam <= 1 /\ 0 < beta /\ gram_ge n d X beta /\ 0 < delta /\ 0 < wmin /\ is_min wmin d W /\ is_max wmax d W /\
  1 < R0 /\ nF n d X <= R0 /\ nF d d W <= R0 /\ 0 < eps /\
  (forall M, nF d d M <= INR d -> delta_all full n (f n d X full (had M W)) delta) /\
  forall M, ~ guarantee n d X W full lam wmax (mu_paper wmin beta delta) eps M.
Proof.
  destruct large as [d [Hd H4]]. pose proof w_pos as W0.
  exists 2%nat, d, Xs, Wc, (/ (r * r * r)), 1, (/ 18), w, w, (3 / 2), (/ 4000).
  assert (Wm : is_min w d Wc /\ is_max w d Wc).
  { split; (split; [intros; rewrite Wc_abs; lra|]); exists 0%nat, 0%nat; (repeat split; [lia | lia | apply Wc_abs]). }
  split; [lia|]. split; [lia|]. split.
  { unfold r. split; [apply Rinv_0_lt_compat; lra|]. rewrite <- Rinv_1. apply Rinv_le_contravar; lra. }
  split; [lra|]. split; [exact (Xs_gram d Hd H4)|]. split; [lra|]. split; [exact W0|].
  split; [apply Wm|]. split; [apply Wm|]. split; [lra|].
  split; [apply nF_le_of_nsq; [lra | rewrite (Xs_nsq d Hd H4); lra]|]. split; [exact (Wc_norm d Hd)|]. split; [lra|].
  split.
  - intros M HM i j Hi Hj. apply (delta_ball d full Hd H4 (full_valid 2) M HM i j Hi Hj). reflexivity.
  - intros M. exact (no_guarantee d full Hd H4 (full_valid 2) eq_refl eq_refl M).
Qed.

(* what fix:our_convergence asks for, new:our_convergence_sharp has with kappa = min|W| beta and l = delta *)
Lemma sharp_of_corrected n d X W Mc lam beta delta wmin wmax K C eta eps T :
  corrected_hypotheses n d X W Mc lam beta delta wmin wmax K C eta eps T ->
  sharp_hypotheses n d X W Mc lam C K eta eps T (wmin * beta) delta.
Proof.
  intros [Hn [Hs [Hb [HX [Hd [Hw [_ [HW [HT [Heps [Hf HN]]]]]]]]]]].
  split; [exact Hn|]. split; [exact HT|]. split; [exact Heps|]. split; [exact Hs|].
  split; [apply (kappa_at_least n d X W Mc beta wmin wmax); try assumption; lra|].
  split; [repeat apply Rmult_lt_0_compat; assumption|]. split.
  - intros t Ht. apply gap_at_least; [apply Hs | lra | apply Hf, Ht].
  - eapply Rle_trans; [|exact HN]. right. unfold mu_corrected. f_equal; [ring | f_equal; ring].
Qed.

(* the hypotheses of fix:our_convergence and of new:our_convergence_sharp can be met, with c <> 0 off M = 1 *)
Theorem corrected_hypotheses_met : exists n d X W lam beta delta wmin wmax K C eta eps T,
  corrected_hypotheses n d X W full lam beta delta wmin wmax K C eta eps T /\
  sharp_hypotheses n d X W full lam C K eta eps T (wmin * beta) delta /\ 0 < nsq n n (c n d X W full zeros).
Proof.
  enough (exists n d X W lam beta delta wmin wmax K C eta eps T,
    corrected_hypotheses n d X W full lam beta delta wmin wmax K C eta eps T /\ 0 < nsq n n (c n d X W full zeros))
    as [n [d [X [W [lam [beta [delta [wmin [wmax [K [C [eta [eps [T [H Z]]]]]]]]]]]]]]].
  { exists n, d, X, W, lam, beta, delta, wmin, wmax, K, C, eta, eps, T.
    split; [exact H|]. split; [exact (sharp_of_corrected _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ H) | exact Z]. }
  destruct large as [d [Hd H4]]. pose proof (full_valid 2) as Hv. pose proof w_pos as W0.
  set (Cw := 5 / 4 * (2 * w * (2 * w))). assert (C0 : 0 < Cw) by (unfold Cw; nra).
  set (eta := / (1 + Cw)). assert (e0 : 0 < eta) by (apply Rinv_0_lt_compat; lra).
  set (B := 2 * 1 * (INR d * INR d) / (eta * mu_corrected w 1 (/ 18) * 1 * (INR 2 * INR 2))).
  assert (exT : exists T, B < INR T).
  { destruct (archimed (Rabs B)) as [U _]. exists (Z.to_nat (up (Rabs B))). pose proof (Rle_abs B). pose proof (Rabs_pos B).
    rewrite INR_IZR_INZ, Z2Nat.id; [lra | apply le_IZR; lra]. }
  destruct exT as [T HT].
  exists 2%nat, d, Xs, Wc, 1, 1, (/ 18), w, w, (2 * w), (5 / 4), eta, 1, (S T).
  assert (HK : logit_bound 2 d Xs Wc full (2 * w)) by (apply K_bound2; assumption).
  assert (St : step_ok 2 d Xs Wc full 1 (5 / 4) (2 * w) eta 1).
  { repeat split; try exact e0; try lra; try apply HK; try apply Hv; try apply row_constant_five_quarters; try assumption.
    fold Cw. unfold eta. right. field. lra. }
  split; [|].
  - unfold corrected_hypotheses. cbv zeta. repeat (split; [first [lia | lra | exact St | idtac]|]).
    + exact (Xs_gram d Hd H4).
    + rewrite Wc_abs. lra.
    + rewrite Wc_abs. lra.
    + intros t _. apply (delta_ball d full Hd H4 Hv).
      apply (confinement_ball 2 d Xs Wc full 1 Hv Rlt_0_1 (5 / 4) (2 * w) eta row_constant_five_quarters HK e0 t).
      destruct St as [_ [_ [_ [_ [_ Q]]]]]. lra.
    + fold B. rewrite S_INR. lra.
  - pose proof (c_zeros d full Hd H4 eq_refl eq_refl) as Z.
    apply Rlt_le_trans with (c 2 d Xs Wc full zeros 1%nat 1%nat * c 2 d Xs Wc full zeros 1%nat 1%nat); [nra|].
    apply nsq_entry; lia.
Qed.

(* ---- as Trusted.v states them ---- *)
Definition checked_our_convergence_from_ones_refuted : Statement.our_convergence_from_ones_refuted := our_convergence_from_ones_refuted.
Definition checked_our_convergence_causal_allowed_from_ones_refuted : Statement.our_convergence_causal_allowed_from_ones_refuted := our_convergence_causal_allowed_from_ones_refuted.
Definition checked_corrected_hypotheses_met : Statement.corrected_hypotheses_met := corrected_hypotheses_met.
Definition checked_our_convergence_ball_refuted : Statement.our_convergence_ball_refuted := our_convergence_ball_refuted.
