(* fix:lip_grad_l: grad L is (lam + C_+ K^2)-Lipschitz on all of R^{d x d}, for every n, d, W,
   every valid mask and every K that bounds N -> X (N o W) X^T over the allowed positions up
   to a constant per row; C_+ = (39 + 55 sqrt 33)/1152 = 0.30811714...                     *)
Require Import Reals Lra.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model LipschitzGradient.
From AttnPrune.analysis Require Import RowHessianUpper RowHessianSharp.
Open Scope R_scope.

Theorem C_plus_value : 0.30811 < C_plus < 0.30812.
Proof. unfold C_plus. destruct sqrt33 as [S B]. split; nra. Qed.

Theorem lip_grad_sharp n d X W Mc K lam M M' :
  valid_mask n Mc -> logit_bound n d X W Mc K -> 0 <= lam ->
  nF d d (msub (grad n d X W Mc lam M') (grad n d X W Mc lam M))
  <= (lam + C_plus * (K * K)) * nF d d (msub M' M).
Proof. intros HMc HK Hlam. apply lip_grad; try assumption. exact row_constant_C_plus. Qed.

(* K = ||Pi A||: Pi keeps the allowed positions of a row and subtracts their mean *)
Definition allowed_mean n (m v : vec) := rsum n (fun j => m j * v j) / rsum n m.
Definition centred (n : nat) (Mc A : mat) : mat := fun i j =>
  Mc i j * (A i j - allowed_mean n (Mc i) (A i)).

Theorem logit_bound_centred n d X W Mc K : valid_mask n Mc -> 0 <= K ->
  (forall N, nF n n (centred n Mc (logit d X (had N W))) <= K * nF d d N) ->
  logit_bound n d X W Mc K.
Proof.
  intros HMc HK H. split; [exact HK|]. intro N.
  exists (fun i => allowed_mean n (Mc i) (logit d X (had N W) i)).
  apply Rle_trans with (nsq n n (centred n Mc (logit d X (had N W)))).
  - right. apply rsum_ext; intros i Hi. rewrite masked_sqnormE by apply (proj1 (HMc i Hi)). reflexivity.
  - specialize (H N). apply nsq_le_of_nF in H. eapply Rle_trans; [exact H|].
    rewrite <- (nF_sq d d N). right; ring.
Qed.
