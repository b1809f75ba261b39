(* fix:our_convergence: the main theorem with the corrected mu, for gradient descent from
   M = 1 on the true loss, every valid mask, delta over the allowed positions.

   Differences from thm:our_convergence:
     mu = 2 (min|W| beta delta)^2 instead of 2 min|W| beta delta;
     delta bounds the allowed entries of f~(M_t), t < T, only;
     the step is eta <= 1/(lam + C K^2) for any row constant C (C_+ = 0.30811... of
     RowHessianSharp.v is one) and any K with logit_bound, K = max|W| ||X||_F^2 for example;
     M_t in the box is not assumed (it is false): ||M_t||_F <= d is proved.              *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model Gradient.
From AttnPrune.analysis Require Import LipschitzGradient Descent OnesWitness Confinement PLTrueGradient.
Open Scope R_scope.

Section Main.
Variables (n d : nat) (X W Mc : mat) (lam beta delta wmin wmax K C eta eps : R) (T : nat).
Hypothesis Hn : (0 < n)%nat.
Hypothesis HMc : valid_mask n Mc.
Hypothesis Hlam : 0 < lam.
Hypothesis Hbeta : 0 < beta.
Hypothesis HX : gram_ge n d X beta.
Hypothesis Hw0 : 0 < wmin.
Hypothesis Hwmin : forall a b, (a < d)%nat -> (b < d)%nat -> wmin <= Rabs (W a b).
Hypothesis Hwmax0 : 0 <= wmax.
Hypothesis Hwmax : forall a b, (a < d)%nat -> (b < d)%nat -> Rabs (W a b) <= wmax.
Hypothesis HC : row_constant C.
Hypothesis HK : logit_bound n d X W Mc K.
Hypothesis Heta : 0 < eta.
Hypothesis Hstep : eta * (lam + C * (K * K)) <= 1.
Hypothesis HT : (1 <= T)%nat.
Let M t := gd (grad n d X W Mc lam) eta ones t.
Hypothesis Hdelta : 0 < delta.
Hypothesis Hf : forall t, (t < T)%nat -> delta_allowed Mc n (f n d X Mc (had (M t) W)) delta.
Let mu := mu_corrected wmin beta delta.

Lemma some_small_gradient q : 0 < q -> lam * (INR d * INR d) / (eta * q) <= INR T ->
  exists t, (t < T)%nat /\ nsq d d (grad n d X W Mc lam (M t)) <= q.
Proof.
  intros Hq HN.
  apply (small_gradient_exists d d (L n d X W Mc lam) (grad n d X W Mc lam) (lam + C * (K * K)));
    try assumption.
  - apply loss_gradient; assumption.
  - apply (loss_gradient_lipschitz n d X W Mc lam HMc Hlam C K); assumption.
  - apply loss_extensional.
  - apply (Lip_nonneg n d X W Mc lam Hlam C K); assumption.
  - intro w. apply loss_nonneg, Hlam.
  - rewrite ones_loss. eapply Rle_trans; [|exact HN]. right. field. lra.
Qed.

Lemma iterate_ball t : nF d d (M t) <= INR d.
Proof.
  apply (confinement_ball n d X W Mc lam HMc Hlam C K eta HC HK Heta t). lra.
Qed.

(* T >= 4 L(M_0) / (eta mu eps n^2) = 2 lam d^2 / (eta mu eps n^2), as in the paper *)
Theorem our_convergence_corrected : 0 < eps ->
  2 * lam * (INR d * INR d) / (eta * mu * eps * (INR n * INR n)) <= INR T ->
  exists t, (t < T)%nat /\ guarantee n d X W Mc lam wmax mu eps (M t).
Proof.
  intros Heps HN.
  assert (N : 0 < INR n) by (apply lt_0_INR, Hn).
  assert (k0 : 0 < wmin * beta * delta) by (repeat apply Rmult_lt_0_compat; assumption).
  assert (mu0 : 0 < mu) by (unfold mu, mu_corrected; nra).
  assert (NN : 0 < INR n * INR n) by nra.
  set (q := mu * eps * (INR n * INR n) / 2).
  assert (q0 : 0 < q).
  { unfold q. apply Rmult_lt_0_compat; [|lra].
    apply Rmult_lt_0_compat; [apply Rmult_lt_0_compat; assumption | exact NN]. }
  destruct (some_small_gradient q q0) as [t [Ht Hg]].
  { eapply Rle_trans; [|exact HN]. right. unfold q. field. repeat split; lra. }
  exists t. split; [exact Ht|].
  assert (P := PL_closed_form n d X W Mc (M t) lam beta delta wmin wmax HMc (Rlt_le _ _ Hlam)
    (Rlt_le _ _ Hbeta) HX (Rlt_le _ _ Hdelta) (Hf t Ht) (Rlt_le _ _ Hw0) Hwmin Hwmax0 Hwmax (iterate_ball t)).
  replace (wmin * beta * delta * (wmin * beta * delta)) with (mu / 2) in P
    by (unfold mu, mu_corrected; field).
  unfold guarantee, xi_theorem, Lattn.
  set (cc := nsq n n (c n d X W Mc (M t))) in *. set (mm := nsq d d (M t)) in *.
  set (xx := nsq n d X) in *.
  set (r := sqrt (INR n)) in *. assert (r0 : 0 < r) by (apply sqrt_lt_R0, N).
  assert (rr : INR n = r * r) by (symmetry; apply sqrt_sqrt; lra).
  assert (B : mu / 2 * cc + lam * lam * mm - 6 * r * wmax * xx * lam * INR d
              <= mu * eps * (INR n * INR n) / 2) by (unfold q in Hg; lra).
  rewrite rr in *.
  apply Rmult_le_reg_l with (mu * (r * r * (r * r))).
  { apply Rmult_lt_0_compat; [exact mu0 | exact NN]. }
  replace (mu * (r * r * (r * r)) * (/ 2 * cc / (r * r * (r * r)) + lam * lam / (mu * (r * r * (r * r))) * mm))
    with (mu / 2 * cc + lam * lam * mm) by (field; lra).
  replace (mu * (r * r * (r * r)) * ((12 / (r * r * r) * wmax * xx * lam * INR d / mu + eps) / 2))
    with (6 * r * wmax * xx * lam * INR d + mu * eps * (r * r * (r * r)) / 2) by (field; lra).
  lra.
Qed.
End Main.

(* ---- as Trusted.v states them ---- *)
Definition checked_our_convergence_corrected : Statement.our_convergence_corrected.
Proof.
  intros n d X W Mc lam beta delta wmin wmax K C eta eps T
    [Hn [[HMc [Hl [HC [HK [He Hs]]]]] [Hb [HX [Hd [Hw [Hw1 [Hbw [HT [Hep [Hf HN]]]]]]]]]]].
  apply (our_convergence_corrected n d X W Mc lam beta delta wmin wmax K C eta eps T); try assumption;
    apply (between_sides wmin wmax), Hbw.
Qed.
