(* Gradient descent from M = 1 stays in the ball ||M||_F <= d: the replacement for the
   paper's "M in [0,1]^{d x d}", which gradient descent leaves.

   For lam > 0, every valid mask, and steps 0 < eta <= 2/(lam + C K^2) with C any row
   constant (5/4 in RowHessian.v, C_+ = 0.30811... in RowHessianSharp.v), for all t
     ||M_t||_F^2 + (1/lam) ||c(M_t)||_F^2 <= d^2.                                        *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model Gradient.
From AttnPrune.analysis Require Import LipschitzGradient Descent OnesWitness.
Open Scope R_scope.

Section Confinement.
Variables (n d : nat) (X W Mc : mat) (lam : R).
Hypothesis HMc : valid_mask n Mc.
Hypothesis Hlam : 0 < lam.
Notation L := (L n d X W Mc lam).
Notation grad := (grad n d X W Mc lam).
Notation Lattn := (Lattn n d X W Mc).

Lemma loss_nonneg M : 0 <= L M.
Proof.
  unfold Analysis.L, Analysis.Lattn, Lreg. pose proof (nsq_nonneg n n (c n d X W Mc M)).
  pose proof (nsq_nonneg d d M). assert (0 <= lam * nsq d d M) by (apply Rmult_le_pos; lra). lra.
Qed.

Lemma loss_extensional : extensional d d L.
Proof.
  intros M M' H. unfold Analysis.L, Analysis.Lattn, Lreg. f_equal; f_equal.
  - apply nsq_ext; intros. apply c_ext, H.
  - apply nsq_ext, H.
Qed.

Lemma loss_gradient : is_gradient d d L grad.
Proof. intros M D t. apply mat_view_l_directional, HMc. Qed.

(* Any M whose loss is at most that of M = 1; no gradient is involved. *)
Theorem confinement_sublevel M : L M <= L ones ->
  nsq d d M + / lam * nsq n n (c n d X W Mc M) <= INR d * INR d.
Proof.
  rewrite ones_loss. unfold Analysis.L, Analysis.Lattn, Lreg. intro H.
  apply Rmult_le_reg_l with (/ 2 * lam); [lra|].
  replace (/ 2 * lam * (nsq d d M + / lam * nsq n n (c n d X W Mc M)))
    with (/ 2 * nsq n n (c n d X W Mc M) + / 2 * lam * nsq d d M) by (field; lra).
  lra.
Qed.

Lemma confinement_norm M : L M <= L ones -> nF d d M <= INR d.
Proof.
  intro H. apply nF_le_of_nsq; [apply pos_INR|].
  pose proof (confinement_sublevel M H). pose proof (nsq_nonneg n n (c n d X W Mc M)).
  assert (0 <= / lam * nsq n n (c n d X W Mc M))
    by (apply Rmult_le_pos; [left; apply Rinv_0_lt_compat|]; assumption). lra.
Qed.

Section GD.
Variables (C K eta : R).
Hypothesis HC : row_constant C.
Hypothesis HK : logit_bound n d X W Mc K.
Hypothesis He : 0 < eta.
Let Lip := lam + C * (K * K).

Lemma Lip_nonneg : 0 <= Lip.
Proof.
  unfold Lip. pose proof (proj1 HC). pose proof (proj1 HK).
  assert (0 <= C * (K * K)) by (apply Rmult_le_pos; [assumption | apply sq_nonneg]). lra.
Qed.

Lemma loss_gradient_lipschitz : gradient_lipschitz d d grad Lip.
Proof. intros M M'. apply lip_grad; try assumption. lra. Qed.

Lemma gd_descends t : eta * Lip <= 2 -> L (gd grad eta ones t) <= L ones.
Proof.
  intro H. apply (gd_monotone d d L grad Lip); try lra.
  - apply loss_gradient.
  - apply loss_gradient_lipschitz.
  - apply loss_extensional.
  - apply Lip_nonneg.
Qed.

Theorem gd_decreases M : eta * Lip <= 2 -> L (gd_step grad eta M) <= L M.
Proof.
  intro H. apply (gd_monotone d d L grad Lip loss_gradient loss_gradient_lipschitz loss_extensional Lip_nonneg
    eta M 1); lra.
Qed.

Theorem confinement t : eta * Lip <= 2 ->
  nsq d d (gd grad eta ones t) + / lam * nsq n n (c n d X W Mc (gd grad eta ones t)) <= INR d * INR d.
Proof. intro H. apply confinement_sublevel, gd_descends, H. Qed.

Lemma confinement_ball t : eta * Lip <= 2 -> nF d d (gd grad eta ones t) <= INR d.
Proof. intro H. apply confinement_norm, gd_descends, H. Qed.

(* L_attn(M_t) <= lam (d^2 - ||M_t||^2) / 2 <= lam d^2 / 2 *)
Lemma attention_loss_along_gd t : eta * Lip <= 2 ->
  Lattn (gd grad eta ones t) <= / 2 * lam * (INR d * INR d - nsq d d (gd grad eta ones t)).
Proof.
  intro H. pose proof (gd_descends t H) as D. rewrite ones_loss in D.
  unfold Analysis.L, Lreg in D. lra.
Qed.
End GD.
End Confinement.

(* what the theorems about smooth functions need *)
Theorem loss_smooth n d X W Mc lam C K : valid_mask n Mc -> 0 <= lam -> row_constant C -> logit_bound n d X W Mc K ->
  smooth d d (L n d X W Mc lam) (grad n d X W Mc lam) (lam + C * (K * K)).
Proof.
  intros HMc Hl HC HK. split; [apply loss_gradient, HMc|]. split; [intros M M'; apply lip_grad; assumption|].
  split; [apply loss_extensional|]. pose proof (proj1 HC).
  assert (0 <= C * (K * K)) by (apply Rmult_le_pos; [assumption | apply sq_nonneg]). lra.
Qed.

(* ---- as Trusted.v states them ---- *)
Definition checked_loss_smooth : Statement.loss_smooth := loss_smooth.
Definition checked_confinement_sublevel : Statement.confinement_sublevel := confinement_sublevel.
Definition checked_gd_decreases : Statement.gd_decreases.
Proof. intros n d X W Mc lam C K eta M [HMc [Hl [HC [HK [He Hs]]]]]. exact (gd_decreases n d X W Mc lam HMc Hl C K eta HC HK He M Hs). Qed.
Definition checked_confinement : Statement.confinement.
Proof. intros n d X W Mc lam C K eta t [HMc [Hl [HC [HK [He Hs]]]]]. exact (confinement n d X W Mc lam HMc Hl C K eta HC HK He t Hs). Qed.
