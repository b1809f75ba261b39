(* fix:lip_grad_l: grad L is (lam + C_+ K^2)-Lipschitz on all of R^{d x d}, for every n, d, W,
   every valid mask and every K that bounds N -> X (N o W) X^T over the allowed positions up
   to a constant per row; C_+ = (39 + 55 sqrt 33)/1152 = 0.30811714...                     *)
Require Import Reals Lra.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model LipschitzGradient.
From AttnPrune.analysis Require Import EntrywiseBounds RowHessianUpper RowHessianSharp.
Open Scope R_scope.

Theorem C_plus_value : 0.30811 < C_plus < 0.30812.
Proof. unfold C_plus. destruct sqrt33 as [_ B]. lra. Qed.

Theorem C_minus_value : 0.24040 < C_minus < 0.24041.
Proof. unfold C_minus. destruct sqrt33 as [_ B]. lra. Qed.

Theorem lip_grad_sharp n d X W Mc K lam M M' :
  valid_mask n Mc -> logit_bound n d X W Mc K -> 0 <= lam ->
  nF d d (msub (grad n d X W Mc lam M') (grad n d X W Mc lam M))
  <= (lam + C_plus * (K * K)) * nF d d (msub M' M).
Proof. intros HMc HK Hlam. apply lip_grad; try assumption. exact row_constant_C_plus. Qed.

(* new:lip_p_sharp: p is C_+ K-Lipschitz *)
Theorem lip_p_sharp n d X W Mc K M M' : valid_mask n Mc -> logit_bound n d X W Mc K ->
  nF n n (msub (p n d X W Mc M') (p n d X W Mc M)) <= C_plus * K * nF d d (msub M' M).
Proof. intros HMc HK. apply lip_p; try assumption. exact row_constant_C_plus. Qed.

(* K = ||Pi A||: Pi keeps the allowed positions of a row and subtracts their mean *)
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

(* fix:bound_grad_f, with any constant subtracted from each row of logits *)
Lemma derivative_norm n d X W Mc M (u : nat -> nat -> nat -> R) : valid_mask n Mc ->
  rsum n (fun i => rsum n (fun j => rsum d (fun a => rsum d (fun b =>
    df n d X W Mc M i j a b * df n d X W Mc M i j a b))))
  <= / 4 * rsum d (fun a => rsum d (fun b => rsum n (fun i =>
       masked_sqnorm n (Mc i) (fun l => W a b * X i a * X l b) (u i a b)))).
Proof.
  intro HMc.
  apply Rle_trans with (rsum d (fun a => rsum d (fun b => rsum n (fun i => rsum n (fun j =>
    df n d X W Mc M i j a b * df n d X W Mc M i j a b))))).
  { right.
    transitivity (rsum n (fun i => rsum d (fun a => rsum d (fun b => rsum n (fun j =>
      df n d X W Mc M i j a b * df n d X W Mc M i j a b))))).
    { apply rsum_ext; intros i _. rewrite rsum_exchange. apply rsum_ext; intros a _. apply rsum_exchange. }
    rewrite rsum_exchange. apply rsum_ext; intros a _. apply rsum_exchange. }
  rewrite <- rsum_scal. apply rsum_le; intros a _. rewrite <- rsum_scal. apply rsum_le; intros b _.
  rewrite <- rsum_scal. apply rsum_le; intros i Hi.
  eapply Rle_trans; [|apply (jacobian_norm_masked n (Mc i) (f n d X Mc (had M W) i))].
  - right. apply rsum_ext; intros j _. unfold df, jacobian, mean. ring.
  - apply f_probability; assumption.
  - apply (proj1 (HMc i Hi)).
  - intro l. destruct (proj1 (HMc i Hi) l) as [E | E]; rewrite E; [rewrite f_masked by exact E|]; ring.
Qed.

(* || d vec f~ / d vec M ||_F^2 <= 1/4 ||Pi A||_F^2, summed over the images of the unit masks *)
Theorem bound_grad_f_centred n d X W Mc M : valid_mask n Mc ->
  rsum n (fun i => rsum n (fun j => rsum d (fun a => rsum d (fun b =>
    df n d X W Mc M i j a b * df n d X W Mc M i j a b))))
  <= / 4 * rsum d (fun a => rsum d (fun b => nsq n n (centred n Mc (fun i j => W a b * X i a * X j b)))).
Proof.
  intro HMc.
  eapply Rle_trans;
    [apply (derivative_norm n d X W Mc M (fun i a b => allowed_mean n (Mc i) (fun l => W a b * X i a * X l b))), HMc|].
  right. f_equal. apply rsum_ext; intros a _. apply rsum_ext; intros b _. apply rsum_ext; intros i Hi.
  rewrite masked_sqnormE by apply (proj1 (HMc i Hi)). reflexivity.
Qed.

(* ... <= 1/4 sum_ab W_ab^2 ||X_{*,a}||^2 ||X_{*,b}||^2 *)
Theorem bound_grad_f_columns n d X W Mc M : valid_mask n Mc ->
  rsum n (fun i => rsum n (fun j => rsum d (fun a => rsum d (fun b =>
    df n d X W Mc M i j a b * df n d X W Mc M i j a b))))
  <= / 4 * rsum d (fun a => rsum d (fun b =>
       W a b * W a b * (rsum n (fun i => X i a * X i a) * rsum n (fun j => X j b * X j b)))).
Proof.
  intro HMc. eapply Rle_trans; [apply (derivative_norm n d X W Mc M (fun _ _ _ => 0)), HMc|].
  apply Rmult_le_compat_l; [lra|]. apply rsum_le; intros a _. apply rsum_le; intros b _.
  rewrite <- rsum_scal_r, <- rsum_scal. apply rsum_le; intros i Hi.
  rewrite <- !rsum_scal. apply rsum_le; intros j _.
  destruct (proj1 (HMc i Hi) j) as [E | E]; rewrite E.
  - assert (0 <= (W a b * X i a * X j b) * (W a b * X i a * X j b)) by apply sq_nonneg. lra.
  - right. ring.
Qed.

(* ---- as Trusted.v states them ---- *)
Definition checked_C_plus_value : Statement.C_plus_value := C_plus_value.
Definition checked_C_minus_value : Statement.C_minus_value := C_minus_value.
Definition checked_lip_grad_sharp : Statement.lip_grad_sharp.
Proof. intros n d X W Mc K lam HMc HK Hl M M'. apply lip_grad_sharp; assumption. Qed.
Definition checked_lip_p_sharp : Statement.lip_p_sharp.
Proof. intros n d X W Mc K HMc HK M M'. apply lip_p_sharp; assumption. Qed.
Definition checked_logit_bound_centred : Statement.logit_bound_centred := logit_bound_centred.
Definition checked_bound_grad_f_centred : Statement.bound_grad_f_centred := bound_grad_f_centred.
Definition checked_bound_grad_f_columns : Statement.bound_grad_f_columns := bound_grad_f_columns.
