(* The PL inequality with the operator's own constants.

   kappa bounds q -> W o (X^T q X) from below on matrices q whose rows live on the allowed positions and sum to 0; l bounds
   the Jacobian of every row of f~ from below there.  p is such a q, and p_i = J_i c_i, so ||W o (X^T p X)|| >= kappa ||p||
   >= kappa l ||c||.  No eigenvalue of X X^T, no least weight and no least entry of f~ enters; min|W| beta is one
   kappa and delta one l.                                                                                              *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model Gradient LipschitzGradient Descent.
From AttnPrune.analysis Require Import OnesWitness Confinement PLTrueGradient MainTheorem.
Open Scope R_scope.

Lemma p_zero_sum n d X W Mc M i : valid_mask n Mc -> (i < n)%nat -> zero_sum n (Mc i) (p n d X W Mc M i).
Proof.
  intros HMc Hi. split; [intros j _ E; apply p_masked, E | apply p_sum; assumption].
Qed.

Lemma c_zero_sum n d X W Mc M i : valid_mask n Mc -> (i < n)%nat -> zero_sum n (Mc i) (c n d X W Mc M i).
Proof.
  intros HMc Hi. split; [intros j _ E; apply c_masked, E | apply c_sum; assumption].
Qed.

Theorem PL_sharp n d X W Mc M kappa l : valid_mask n Mc -> pull_bound n d X W Mc kappa ->
  gap_bound n Mc (f n d X Mc (had M W)) l ->
  kappa * l * nF n n (c n d X W Mc M) <= nF d d (adjoint n X W (p n d X W Mc M)).
Proof.
  intros HMc [k0 Hk] [l0 Hl].
  eapply Rle_trans; [|apply Hk; intros i Hi; apply p_zero_sum; assumption].
  rewrite Rmult_assoc. apply Rmult_le_compat_l; [exact k0|].
  pose proof (nF_nonneg n n (c n d X W Mc M)). pose proof (nF_nonneg n n (p n d X W Mc M)).
  rewrite <- (Rabs_pos_eq (l * nF n n (c n d X W Mc M))) by (apply Rmult_le_pos; assumption).
  apply Rabs_le_of_sqr; [assumption|]. rewrite nF_sq.
  replace (l * nF n n (c n d X W Mc M) * (l * nF n n (c n d X W Mc M))) with (l * l * nsq n n (c n d X W Mc M))
    by (rewrite <- nF_sq; ring).
  unfold nsq. rewrite <- rsum_scal. apply rsum_le; intros i Hi.
  eapply Rle_trans; [apply (Hl i (c n d X W Mc M i) Hi), c_zero_sum; assumption|].
  right. apply rsum_ext; intros j _. rewrite p_jacobian. reflexivity.
Qed.

Theorem kappa_at_least n d X W Mc beta wmin wmax : 0 <= beta -> gram_ge n d X beta -> 0 <= wmin ->
  between wmin wmax d W -> pull_bound n d X W Mc (wmin * beta).
Proof.
  intros Hb HX Hw HW. assert (k0 : 0 <= wmin * beta) by (apply Rmult_le_pos; assumption).
  split; [exact k0|]. intros q _.
  pose proof (nF_nonneg n n q). pose proof (nF_nonneg d d (adjoint n X W q)).
  rewrite <- (Rabs_pos_eq (wmin * beta * nF n n q)) by (apply Rmult_le_pos; assumption).
  apply Rabs_le_of_sqr; [assumption|]. rewrite nF_sq.
  replace (wmin * beta * nF n n q * (wmin * beta * nF n n q)) with (wmin * wmin * (beta * beta * nsq n n q))
    by (rewrite <- nF_sq; ring).
  apply Rle_trans with (wmin * wmin * nsq d d (sandwich n X q)).
  - apply Rmult_le_compat_l; [apply sq_nonneg | apply (sandwich_lower n d X beta); assumption].
  - unfold nsq. rewrite <- rsum_scal. apply rsum_le; intros a Ha. rewrite <- rsum_scal. apply rsum_le; intros b Hb'.
    change (adjoint n X W q a b) with (W a b * sandwich n X q a b). set (s := sandwich n X q a b).
    replace (W a b * s * (W a b * s)) with (W a b * W a b * (s * s)) by ring.
    apply Rmult_le_compat_r; [apply sq_nonneg|].
    rewrite <- (Rabs_pos_eq (W a b * W a b)) by apply sq_nonneg. rewrite Rabs_mult.
    destruct (HW a b Ha Hb') as [lo _]. apply Rmult_le_compat; assumption.
Qed.

Theorem gap_at_least n d X V Mc delta : valid_mask n Mc -> 0 <= delta -> delta_allowed Mc n (f n d X Mc V) delta ->
  gap_bound n Mc (f n d X Mc V) delta.
Proof.
  intros HMc Hd Hf. split; [exact Hd|]. intros i v Hi [Hv Sv].
  apply (row_lower n (Mc i)); try assumption; [apply (proj1 (HMc i Hi)) | intros j Hj E; apply Hf; assumption].
Qed.

(* ---- as Trusted.v states them ---- *)
Definition checked_PL_sharp : Statement.PL_sharp := PL_sharp.
Definition checked_kappa_at_least : Statement.kappa_at_least := kappa_at_least.
Definition checked_gap_at_least : Statement.gap_at_least := gap_at_least.
