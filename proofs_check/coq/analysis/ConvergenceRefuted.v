(* thm:our_convergence with its printed mu is FALSE without a mask (reading "full"), and with
   the causal mask when delta is taken over the allowed positions; with the causal mask and
   delta over all positions it is vacuous (MaskReadings.v).

   Instance: n = d = 2, X = I, W = (1/100) [[1,-1],[-1,1]], M_0 = 0, beta = 1, delta = 1/4,
   R = 3/2, lam = L(0)/1000, eps = L(0)/4, any step eta < 1/L.
   No iteration is computed.  The printed mu is 2 min|W| beta delta = s/2 with s = 1/100, so
   that T = 4 L(0)/(eta mu eps n^2) = 8/(eta s); every step moves M by at most 1.1 eta s ||c_0||,
   hence ||M_t|| <= 9 ||c_0|| up to T, ||c_t - c_0|| <= 9 s ||c_0||, and L_attn(M_t) stays above
   0.8 L_attn(0), where the theorem promises that some M_t is below n^2 (xi + eps)/2 < 0.6 L_attn(0).

   The refuted statement is the weakest reading of "min_t L_attn(M_t) + ... ||M_t||^2": the two
   iterates may differ.                                                                   *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model Gradient.
From AttnPrune.analysis Require Import PLRefuted LipschitzGradient Descent Confinement PLTrueGradient OnesWitness ConvergenceInstance.
Open Scope R_scope.

Section Refutation.
Variable Mc : mat.
Hypothesis HMc : valid_mask 2 Mc.
Hypothesis Hc0 : exists i j, (i < 2)%nat /\ (j < 2)%nat /\ c 2 2 X2 Ws Mc zeros i j <> 0.
Hypothesis Hf0 : delta_allowed Mc 2 (f 2 2 X2 Mc (had zeros Ws)) (/ 2).
Notation L0 := (ConvergenceInstance.L0 Mc).
Notation lam0 := (ConvergenceInstance.lam0 Mc).

Lemma our_convergence_refuted_on : ~ our_convergence unit_lam (fun _ => box) (fun _ _ => True) Mc (delta_allowed Mc) mu_paper.
Proof.
  intro H.
  destruct (lam0_bounds Mc HMc Hc0) as [[l0 l1] l2]. pose proof (c0_pos Mc Hc0) as C.
  assert (P0 : 0 < L0) by (rewrite L0_c0; nra).
  set (LP := L_paper 2 2 lam0 (3 / 2)).
  assert (LP60 : 60 <= LP).
  { unfold LP, L_paper. change (INR 2) with (1 + 1).
    assert (1 <= sqrt (1 + 1)) by (rewrite <- sqrt_1 at 1; apply sqrt_le_1_alt; lra).
    assert (0 <= ((1 + 1) ^ 3 * sqrt (1 + 1) - 1) * 0) by lra. simpl pow. nra. }
  set (eta := / (2 * LP)).
  assert (e0 : 0 < eta) by (apply Rinv_0_lt_compat; lra).
  assert (eLP : eta * (2 * LP) = 1) by (unfold eta; field; lra).
  assert (e1 : eta <= 1) by nra.
  assert (st : eta * (lam0 + 5 / 4 * (2 * s * (2 * s))) <= 2).
  { assert (lam0 + 5 / 4 * (2 * s * (2 * s)) <= 2) by (unfold s; lra).
    assert (eta * (lam0 + 5 / 4 * (2 * s * (2 * s))) <= eta * 2) by (apply Rmult_le_compat_l; lra). lra. }
  assert (es : 0 < eta * s) by (apply Rmult_lt_0_compat; unfold s in *; lra).
  set (bound := 8 / (eta * s)).
  assert (b0 : 0 < bound) by (unfold bound; apply Rdiv_lt_0_compat; lra).
  destruct (archimed bound) as [U1 U2].
  assert (Hup : (0 <= up bound)%Z) by (apply le_IZR; lra).
  (* T is bound rounded up: up bound or up bound - 1 *)
  assert (exT : exists T, INR T - 1 < bound <= INR T).
  { destruct (Rle_lt_dec (IZR (up bound) - 1) bound) as [Q | Q]; [|lra].
    destruct (Req_dec (IZR (up bound) - 1) bound) as [Eq | Ne].
    - assert (Hup1 : (0 <= up bound - 1)%Z) by (apply le_IZR; rewrite minus_IZR; lra).
      exists (Z.to_nat (up bound - 1)). rewrite INR_IZR_INZ, Z2Nat.id, minus_IZR by exact Hup1. lra.
    - exists (Z.to_nat (up bound)). rewrite INR_IZR_INZ, Z2Nat.id by exact Hup. lra. }
  destruct exT as [T HT].
  assert (inT : forall t, (t < T)%nat -> INR t <= 8 / (eta * s) + 1).
  { intros t Ht. apply lt_INR in Ht. fold bound. lra. }
  assert (Wmin : is_min s 2 Ws).
  { split; [intros; rewrite Ws_abs; lra|]. exists 0%nat, 0%nat. repeat split; try lia. apply Ws_abs. }
  assert (Wmax : is_max s 2 Ws).
  { split; [intros; rewrite Ws_abs; lra|]. exists 0%nat, 0%nat. repeat split; try lia. apply Ws_abs. }
  destruct (H 2%nat 2%nat X2 Ws lam0 1 (/ 4) s s (3 / 2) eta (L0 / 4) zeros T) as [t [t' [Ht [Ht' [_ B]]]]];
    try lia; try lra; try assumption; try (unfold unit_lam; lra).
  - intros i j _ _; unfold zeros; lra.
  - exact X2_gram.
  - unfold s; lra.
  - apply nF_le_of_nsq; [lra|]. rewrite nsq_X2. lra.
  - apply nF_le_of_nsq; [lra|]. unfold nsq, Ws, W2, s; simpl. lra.
  - fold LP. unfold eta. apply Rinv_lt_contravar; nra.
  - intros t Ht. apply (delta_stays Mc HMc Hc0 Hf0 eta e0 e1 st). apply inT, Ht.
  - rewrite (loss_zero Mc).
    replace (4 * L0 / (eta * mu_paper s 1 (/ 4) * (L0 / 4) * (INR 2 * INR 2))) with bound; [exact HT|].
    unfold bound, mu_paper. change (INR 2) with (1 + 1). field. unfold s in *; lra.
  - pose proof (attention_loss_stays Mc HMc Hc0 eta e0 e1 st t (inT t Ht)) as A.
    set (Mt := gd (grad 2 2 X2 Ws Mc lam0) eta zeros t) in *.
    set (Mt' := gd (grad 2 2 X2 Ws Mc lam0) eta zeros t') in *.
    assert (Q : 0 <= lam0 * lam0 / (mu_paper s 1 (/ 4) * (INR 2 * INR 2)) * nsq 2 2 Mt').
    { apply Rmult_le_pos; [|apply nsq_nonneg]. apply Rlt_le, Rdiv_lt_0_compat.
      - apply Rmult_lt_0_compat; assumption.
      - unfold mu_paper, s. change (INR 2) with (1 + 1). lra. }
    assert (X : xi_theorem 2 2 X2 s lam0 (mu_paper s 1 (/ 4)) <= 48 * lam0).
    { unfold xi_theorem, mu_paper. rewrite nsq_X2. change (INR 2) with (1 + 1).
      assert (S1 : 1 <= sqrt (1 + 1)) by (rewrite <- sqrt_1 at 1; apply sqrt_le_1_alt; lra).
      replace (12 / ((1 + 1) * sqrt (1 + 1)) * s * 2 * lam0 * (1 + 1) / (2 * s * 1 * / 4))
        with (48 * lam0 * / sqrt (1 + 1)) by (unfold s; field; lra).
      assert (/ sqrt (1 + 1) <= 1) by (apply Rle_trans with (/ 1); [apply Rinv_le_contravar|]; lra).
      apply Rle_trans with (48 * lam0 * 1); [apply Rmult_le_compat_l|]; lra. }
    assert (X' : xi_theorem 2 2 X2 s lam0 (mu_paper s 1 (/ 4)) <= 48 / 1000 * L0) by (unfold ConvergenceInstance.lam0 in X at 2; lra).
    change (INR 2) with (1 + 1) in B, Q.
    replace (Lattn 2 2 X2 Ws Mc Mt / ((1 + 1) * (1 + 1))) with (/ 4 * Lattn 2 2 X2 Ws Mc Mt) in B by field.
    lra.
Qed.
End Refutation.

Lemma c_zero_not_zero Mc i : (i < 2)%nat -> Mc i 0%nat = 1 -> Mc i 1%nat = 1 -> c 2 2 X2 Ws Mc zeros i i <> 0.
Proof.
  intros Hi M0 M1.
  assert (E : c 2 2 X2 Ws Mc zeros i i = / 2 - exp s / (exp s + exp (- s))).
  { unfold c. rewrite !f_X2 by assumption. unfold had, zeros. rewrite !Rmult_0_l, exp_0, M0, M1.
    two_cases i; rewrite ?M0, ?M1; unfold Ws, W2; simpl;
      replace (s * 1) with s by ring; replace (s * -1) with (- s) by ring.
    - rewrite !Rmult_1_r. lra.
    - rewrite !Rmult_1_r, (Rplus_comm (exp (- s))). lra. }
  rewrite E. assert (exp (- s) < exp s) by (apply exp_increasing; unfold s; lra).
  pose proof (exp_pos (- s)). set (x := exp s) in *. set (y := exp (- s)) in *.
  assert (x / (x + y) > / 2); [|lra].
  apply Rmult_gt_reg_l with (x + y); [lra|]. replace ((x + y) * (x / (x + y))) with x by (field; lra). lra.
Qed.

Lemma f_zero_half Mc : valid_mask 2 Mc -> delta_allowed Mc 2 (f 2 2 X2 Mc (had zeros Ws)) (/ 2).
Proof.
  intros HMc i j Hi Hj E. rewrite f_X2 by assumption. unfold had, zeros. rewrite !Rmult_0_l, exp_0, E.
  pose proof (f_sum 2 2 X2 Mc HMc zeros i Hi) as _.
  assert (B : 1 <= 1 * Mc i 0%nat + 1 * Mc i 1%nat <= 2).
  { destruct (proj1 (HMc i Hi) 0%nat) as [A0 | A0]; destruct (proj1 (HMc i Hi) 1%nat) as [A1 | A1];
      rewrite A0, A1; try lra. exfalso. two_cases j; lra. }
  apply Rmult_le_reg_r with (1 * Mc i 0%nat + 1 * Mc i 1%nat); [lra|].
  replace (1 * 1 / (1 * Mc i 0%nat + 1 * Mc i 1%nat) * (1 * Mc i 0%nat + 1 * Mc i 1%nat)) with 1 by (field; lra).
  lra.
Qed.

(* no mask, delta over all positions *)
Theorem our_convergence_full_refuted : ~ our_convergence unit_lam (fun _ => box) (fun _ _ => True) full (delta_all full) mu_paper.
Proof.
  intro H. apply (our_convergence_refuted_on full (full_valid 2)).
  - exists 0%nat, 0%nat. repeat split; try lia. apply c_zero_not_zero; [lia | reflexivity | reflexivity].
  - apply f_zero_half, full_valid.
  - intros n d X W lam beta delta wmin wmax R0 eta eps M0 T Hn Hd HM Hl Hb HX Hdl Hw Hmin Hmax HR HXR HWR He HeL Hep
      M mu Hf. apply (H n d X W lam beta delta wmin wmax R0 eta eps M0 T); try assumption.
    intros t Ht i j Hi Hj. apply Hf; [exact Ht | exact Hi | exact Hj | reflexivity].
Qed.

(* the causal mask, delta over the allowed positions *)
Theorem our_convergence_causal_allowed_refuted :
  ~ our_convergence unit_lam (fun _ => box) (fun _ _ => True) causal (delta_allowed causal) mu_paper.
Proof.
  apply (our_convergence_refuted_on causal (causal_valid 2)).
  - exists 1%nat, 1%nat. repeat split; try lia. apply c_zero_not_zero; [lia | reflexivity | reflexivity].
  - apply f_zero_half, causal_valid.
Qed.

(* ---- as Trusted.v states them ---- *)
Definition checked_our_convergence_full_refuted : Statement.our_convergence_full_refuted := our_convergence_full_refuted.
Definition checked_our_convergence_causal_allowed_refuted : Statement.our_convergence_causal_allowed_refuted := our_convergence_causal_allowed_refuted.
