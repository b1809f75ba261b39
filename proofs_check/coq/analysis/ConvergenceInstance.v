(* The instance of ConvergenceRefuted.v: n = d = 2, X = I, W = s [[1,-1],[-1,1]] with s = 1/100,
   M_0 = 0, lam = L(0)/1000, and gradient descent with any step eta <= 1.
     c_le, lamM_le            on the sublevel set ||c|| <= c_0 and lam ||M|| <= (s/10) c_0
     gradient_le              ||grad L(M_t)|| <= 1.1 s c_0
     moved_le                 ||M_t|| <= 9 c_0 for t <= 8/(eta s) + 1
     attention_loss_stays     L_attn(M_t) >= 0.8 L_attn(0) for these t
     delta_stays              allowed entries of f~(M_t) are at least 1/4 for these t          *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model Gradient.
From AttnPrune.analysis Require Import PLRefuted LipschitzGradient Descent Confinement PLTrueGradient OnesWitness.
Open Scope R_scope.

Definition s := / 100.
Definition Ws : mat := fun i j => s * W2 i j.

Lemma Ws_abs i j : Rabs (Ws i j) = s.
Proof. unfold Ws. rewrite Rabs_mult, W2_abs, Rabs_pos_eq by (unfold s; lra). ring. Qed.

Lemma nsq_X2 : nsq 2 2 X2 = 2.
Proof. unfold nsq, X2; simpl; ring. Qed.

(* For any mask in which some row has two allowed positions, written as the two facts that are
   used: c(0) is not 0, and f~(0) is at least 1/2 where allowed. *)
Section Instance.
Variable Mc : mat.
Hypothesis HMc : valid_mask 2 Mc.
Hypothesis Hc0 : exists i j, (i < 2)%nat /\ (j < 2)%nat /\ c 2 2 X2 Ws Mc zeros i j <> 0.
Hypothesis Hf0 : delta_allowed Mc 2 (f 2 2 X2 Mc (had zeros Ws)) (/ 2).
Notation cc M := (c 2 2 X2 Ws Mc M).
Definition c0 := nF 2 2 (cc zeros).
Definition L0 := Lattn 2 2 X2 Ws Mc zeros.
Definition lam0 := L0 / 1000.

Lemma HK : logit_bound 2 2 X2 Ws Mc (2 * s).
Proof.
  replace (2 * s) with (s * nsq 2 2 X2) by (rewrite nsq_X2; ring).
  apply logit_bound_frobenius; [exact HMc | unfold s; lra | intros; rewrite Ws_abs; lra].
Qed.

Lemma c0_pos : 0 < c0.
Proof.
  destruct Hc0 as [i [j [Hi [Hj Ne]]]]. unfold c0, nF. apply sqrt_lt_R0.
  apply Rlt_le_trans with (cc zeros i j * cc zeros i j); [nra | apply nsq_entry; assumption].
Qed.

(* ||c_0|| <= K/2 ||1 - 0|| = 2 s *)
Lemma c0_small : c0 <= 2 * s.
Proof.
  pose proof (lip_c_half_K 2 2 X2 Ws Mc (2 * s) (HMc) HK ones zeros) as H.
  assert (E1 : nF 2 2 (msub (cc zeros) (cc ones)) = c0).
  { unfold c0, nF. f_equal. apply nsq_ext; intros. unfold msub. rewrite c_ones. ring. }
  assert (E2 : nF 2 2 (msub zeros ones) = 2).
  { unfold nF, nsq, msub, zeros, ones; simpl.
    replace (0 + (0 + (0 - 1) * (0 - 1) + (0 - 1) * (0 - 1)) + (0 + (0 - 1) * (0 - 1) + (0 - 1) * (0 - 1)))
      with (2 * 2) by ring. apply sqrt_square; lra. }
  rewrite E1, E2 in H. lra.
Qed.

Lemma L0_c0 : L0 = / 2 * (c0 * c0).
Proof. unfold L0, Lattn, c0. rewrite nF_sq. reflexivity. Qed.

Lemma lam0_bounds : 0 < lam0 <= s * s / 100 /\ lam0 <= 1.
Proof.
  unfold lam0. rewrite L0_c0. pose proof c0_pos. pose proof c0_small.
  assert (0 < c0 * c0 <= 2 * s * (2 * s)) by nra. unfold s in *. lra.
Qed.

Variable eta : R.
Hypothesis He : 0 < eta.
Hypothesis He1 : eta <= 1.
Hypothesis Hstep : eta * (lam0 + 5 / 4 * (2 * s * (2 * s))) <= 2.
Let M := gd (grad 2 2 X2 Ws Mc lam0) eta zeros.

Lemma loss_zero : L 2 2 X2 Ws Mc lam0 zeros = L0.
Proof. unfold L, Lreg, L0. replace (nsq 2 2 zeros) with 0 by (unfold nsq, zeros; simpl; ring). ring. Qed.

Lemma loss_le t : L 2 2 X2 Ws Mc lam0 (M t) <= L0.
Proof.
  destruct lam0_bounds as [[l0 _] _]. rewrite <- loss_zero.
  apply (gd_monotone 2 2 (L 2 2 X2 Ws Mc lam0) (grad 2 2 X2 Ws Mc lam0) (lam0 + 5 / 4 * (2 * s * (2 * s)))).
  - apply loss_gradient; exact HMc.
  - apply loss_gradient_lipschitz; [exact HMc | exact l0 | exact row_constant_five_quarters | exact HK].
  - apply loss_extensional.
  - apply (Lip_nonneg 2 2 X2 Ws Mc lam0 l0 (5 / 4) (2 * s) row_constant_five_quarters HK).
  - lra.
  - exact Hstep.
Qed.

(* on the sublevel set: ||c|| <= c_0 and lam ||M|| <= (s/10) c_0 *)
Lemma c_le t : nF 2 2 (cc (M t)) <= c0.
Proof.
  destruct lam0_bounds as [[l0 _] _]. pose proof (loss_le t) as H. pose proof c0_pos.
  apply nF_le_of_nsq; [lra|]. unfold L, Lattn, Lreg in H. rewrite L0_c0 in H.
  pose proof (nsq_nonneg 2 2 (M t)). assert (0 <= lam0 * nsq 2 2 (M t)) by (apply Rmult_le_pos; lra). lra.
Qed.

Lemma lamM_le t : lam0 * nF 2 2 (M t) <= s / 10 * c0.
Proof.
  destruct lam0_bounds as [[l0 l1] _]. pose proof (loss_le t) as H. pose proof c0_pos as C.
  pose proof (nF_nonneg 2 2 (M t)).
  assert (B : lam0 * nsq 2 2 (M t) <= c0 * c0).
  { unfold L, Lattn, Lreg in H. rewrite L0_c0 in H. pose proof (nsq_nonneg 2 2 (cc (M t))). lra. }
  rewrite <- (Rabs_pos_eq (lam0 * nF 2 2 (M t))) by (apply Rmult_le_pos; lra).
  apply Rabs_le_of_sqr; [unfold s; lra|].
  replace (lam0 * nF 2 2 (M t) * (lam0 * nF 2 2 (M t))) with (lam0 * (lam0 * nsq 2 2 (M t)))
    by (rewrite <- nF_sq; ring).
  replace (s / 10 * c0 * (s / 10 * c0)) with (s * s / 100 * (c0 * c0)) by field.
  pose proof (nsq_nonneg 2 2 (M t)). apply Rmult_le_compat; try lra. apply Rmult_le_pos; lra.
Qed.

Lemma gradient_le t : nF 2 2 (grad 2 2 X2 Ws Mc lam0 (M t)) <= 11 / 10 * s * c0.
Proof.
  destruct lam0_bounds as [[l0 _] _].
  apply Rle_trans with (nF 2 2 (adjoint 2 X2 Ws (p 2 2 X2 Ws Mc (M t))) + nF 2 2 (fun a b => lam0 * M t a b)).
  { eapply Rle_trans; [|apply nF_triangle]. right. reflexivity. }
  rewrite nF_scal, Rabs_pos_eq by lra. pose proof (lamM_le t).
  assert (nF 2 2 (adjoint 2 X2 Ws (p 2 2 X2 Ws Mc (M t))) <= 2 * s * (/ 2 * c0)); [|lra].
  eapply Rle_trans; [apply (adjoint_bound 2 2 X2 Ws Mc (2 * s) (HMc) HK)|].
  - intros i j _ E. apply (p_masked 2 2 X2 Ws Mc), E.
  - intros i Hi. apply p_sum; [exact HMc | exact Hi].
  - apply Rmult_le_compat_l; [unfold s; lra|].
    eapply Rle_trans; [apply (p_norm_half_c 2 2 X2 Ws Mc (M t) (HMc))|].
    apply Rmult_le_compat_l; [lra | apply c_le].
Qed.

Lemma moved t : nF 2 2 (msub (M t) zeros) <= eta * INR t * (11 / 10 * s * c0).
Proof.
  induction t as [|t IH].
  - apply nF_le_of_nsq; simpl; [lra|].
    replace (nsq 2 2 (msub (M 0) zeros)) with 0 by (unfold nsq, msub, M, zeros; simpl; ring).
    rewrite Rmult_0_r, Rmult_0_l. lra.
  - rewrite S_INR.
    apply Rle_trans with (nF 2 2 (msub (M t) zeros)
      + nF 2 2 (fun a b => - eta * grad 2 2 X2 Ws Mc lam0 (M t) a b)).
    + eapply Rle_trans; [|apply nF_triangle]. right. unfold nF. f_equal. apply nsq_ext; intros.
      unfold msub, M; simpl. unfold gd_step. ring.
    + rewrite nF_scal, Rabs_Ropp, Rabs_pos_eq by lra.
      assert (eta * nF 2 2 (grad 2 2 X2 Ws Mc lam0 (M t)) <= eta * (11 / 10 * s * c0))
        by (apply Rmult_le_compat_l; [lra | apply gradient_le]). lra.
Qed.

(* up to 8/(eta s) + 1 iterations *)
Lemma moved_le t : INR t <= 8 / (eta * s) + 1 -> nF 2 2 (msub (M t) zeros) <= 9 * c0.
Proof.
  intro Ht. eapply Rle_trans; [apply moved|]. pose proof c0_pos.
  assert (B : eta * INR t <= 8 / s + 1).
  { apply Rle_trans with (eta * (8 / (eta * s) + 1)); [apply Rmult_le_compat_l; lra|].
    replace (eta * (8 / (eta * s) + 1)) with (8 / s + eta) by (unfold s; field; lra). lra. }
  apply Rle_trans with ((8 / s + 1) * (11 / 10 * s * c0)).
  - apply Rmult_le_compat_r; [unfold s; lra | exact B].
  - replace ((8 / s + 1) * (11 / 10 * s * c0)) with ((88 / 10 + 11 / 10 * s) * c0) by (unfold s; field).
    apply Rmult_le_compat_r; [lra | unfold s; lra].
Qed.

Lemma attention_loss_stays t : INR t <= 8 / (eta * s) + 1 -> 8 / 10 * L0 <= Lattn 2 2 X2 Ws Mc (M t).
Proof.
  intro Ht. pose proof (moved_le t Ht) as Mv. pose proof c0_pos as C.
  pose proof (lip_c_half_K 2 2 X2 Ws Mc (2 * s) (HMc) HK zeros (M t)) as Lc.
  assert (D : nF 2 2 (msub (cc (M t)) (cc zeros)) <= 9 / 100 * c0) by (unfold s in *; lra).
  assert (T : c0 <= nF 2 2 (cc (M t)) + 9 / 100 * c0).
  { apply Rle_trans with (nF 2 2 (cc (M t)) + nF 2 2 (fun i j => -1 * msub (cc (M t)) (cc zeros) i j)).
    - unfold c0. eapply Rle_trans; [|apply nF_triangle]. right. unfold nF. f_equal.
      apply nsq_ext; intros. unfold msub. ring.
    - rewrite nF_scal. replace (Rabs (-1)) with 1 by (rewrite Rabs_left; lra). lra. }
  unfold Lattn. rewrite L0_c0, <- nF_sq. set (q := nF 2 2 (cc (M t))) in *.
  assert (91 / 100 * c0 * (91 / 100 * c0) <= q * q) by (apply Rmult_le_compat; lra). nra.
Qed.

Lemma delta_stays t : INR t <= 8 / (eta * s) + 1 ->
  delta_allowed Mc 2 (f 2 2 X2 Mc (had (M t) Ws)) (/ 4).
Proof.
  intros Ht i j Hi Hj E. pose proof (moved_le t Ht) as Mv. pose proof c0_small as C.
  pose proof (lip_f_half_K 2 2 X2 Ws Mc (2 * s) HMc HK zeros (M t)) as Lf.
  set (D := msub (f 2 2 X2 Mc (had (M t) Ws)) (f 2 2 X2 Mc (had zeros Ws))) in *.
  assert (N : nF 2 2 D <= / 4) by (unfold s in *; lra).
  pose proof (nsq_entry 2 2 D i j Hi Hj) as En. apply nsq_le_of_nF in N.
  assert (Dij : - / 4 <= D i j) by nra.
  pose proof (Hf0 i j Hi Hj E) as Z. unfold D, msub in Dij. lra.
Qed.
End Instance.
