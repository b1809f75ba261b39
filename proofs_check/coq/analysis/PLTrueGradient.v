(* fix:PL_ineq joined to the derivative: the corrected PL lemma for ANY matrix G of partial
   derivatives of the loss, over the standard reals, for every valid mask.

   Nothing is imported from algebra/PLCorrected.v: this is a second, independent proof of
   the corrected lemma, on sums of reals.                                               *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model Gradient.
From AttnPrune.analysis Require Import LipschitzGradient.
Open Scope R_scope.

(* ---- lem:lower_bound_XBX, squared:  ||X^T q X||^2 >= beta^2 ||q||^2 ---- *)
Definition sandwich n (X q : mat) : mat := fun a b =>
  rsum n (fun i => rsum n (fun j => X i a * q i j * X j b)).

Lemma sandwich_lower n d X beta q : 0 <= beta -> gram_ge n d X beta ->
  beta * beta * nsq n n q <= nsq d d (sandwich n X q).
Proof.
  intros Hb H. set (Y := fun i b => rsum n (fun j => q i j * X j b)).
  assert (S1 : beta * nsq n n q <= nsq n d Y).
  { unfold nsq. rewrite <- rsum_scal. apply rsum_le; intros i _. apply (H (q i)). }
  assert (S2 : beta * nsq n d Y <= nsq d d (sandwich n X q)).
  { rewrite (nsq_transpose n d Y), (nsq_transpose d d). unfold nsq. rewrite <- rsum_scal.
    apply rsum_le; intros b _. eapply Rle_trans; [apply (H (fun i => Y i b))|].
    right. apply rsum_ext; intros a _.
    assert (E : rsum n (fun i => Y i b * X i a) = sandwich n X q a b); [|rewrite E; reflexivity].
    apply rsum_ext; intros i _. unfold Y. rewrite <- rsum_scal_r. apply rsum_ext; intros j _. ring. }
  rewrite Rmult_assoc. eapply Rle_trans; [|exact S2]. apply Rmult_le_compat_l; assumption.
Qed.

(* ---- lem:lower_bound_p_row, masked, squared ---- *)
Lemma row_lower n (m sigma v : vec) delta :
  0 <= delta -> (forall j, m j = 0 \/ m j = 1) ->
  (forall j, (j < n)%nat -> m j = 1 -> delta <= sigma j) ->
  (forall j, (j < n)%nat -> m j = 0 -> v j = 0) -> rsum n v = 0 ->
  delta * delta * sqnorm n v <= sqnorm n (jacobian n sigma v).
Proof.
  intros Hd H01 Hs Hv Sv. set (a := mean n sigma v).
  apply Rle_trans with (delta * delta * rsum n (fun j => m j * ((v j - a) * (v j - a)))).
  - apply Rmult_le_compat_l; [nra|].
    rewrite (rsum_ext n _ (fun j => v j * v j - 2 * a * v j + a * a * m j)).
    + rewrite rsum_plus, rsum_minus, !rsum_scal, Sv.
      assert (0 <= a * a * rsum n m).
      { apply Rmult_le_pos; [apply sq_nonneg|]. apply rsum_nonneg; intros j _.
        destruct (H01 j) as [-> | ->]; lra. }
      unfold sqnorm. lra.
    + intros j Hj. destruct (H01 j) as [E | E]; rewrite E; [rewrite (Hv j Hj E)|]; ring.
  - rewrite <- rsum_scal. apply rsum_le; intros j Hj. unfold jacobian. fold a.
    set (z := v j - a). pose proof (sq_nonneg z) as Z.
    replace (sigma j * z * (sigma j * z)) with (sigma j * sigma j * (z * z)) by ring.
    destruct (H01 j) as [E | E]; rewrite E.
    + replace (delta * delta * (0 * (z * z))) with 0 by ring.
      apply Rmult_le_pos; [apply sq_nonneg | exact Z].
    + replace (delta * delta * (1 * (z * z))) with (delta * delta * (z * z)) by ring.
      specialize (Hs j Hj E). apply Rmult_le_compat_r; [exact Z | nra].
Qed.

Section PL.
Variables (n d : nat) (X W Mc M : mat) (lam beta delta wmin wmax : R).
Hypothesis HMc : valid_mask n Mc.
Hypothesis Hlam : 0 <= lam.
Hypothesis Hbeta : 0 <= beta.
Hypothesis HX : gram_ge n d X beta.
Hypothesis Hdelta : 0 <= delta.
Hypothesis Hf : delta_allowed Mc n (f n d X Mc (had M W)) delta.
Hypothesis Hw0 : 0 <= wmin.
Hypothesis Hwmin : forall a b, (a < d)%nat -> (b < d)%nat -> wmin <= Rabs (W a b).
Hypothesis Hwmax0 : 0 <= wmax.
Hypothesis Hwmax : forall a b, (a < d)%nat -> (b < d)%nat -> Rabs (W a b) <= wmax.
Notation p := (p n d X W Mc M).
Notation c := (c n d X W Mc M).
Notation A := (adjoint n X W p).
Notation kappa := (wmin * beta * delta).

Lemma p_lower : delta * delta * nsq n n c <= nsq n n p.
Proof.
  unfold nsq. rewrite <- rsum_scal. apply rsum_le; intros i Hi.
  eapply Rle_trans; [apply (row_lower n (Mc i) (f n d X Mc (had M W) i) (c i) delta Hdelta)|].
  - apply (proj1 (HMc i Hi)).
  - intros j Hj E. apply Hf; assumption.
  - intros j Hj E. apply c_masked, E.
  - apply c_sum; assumption.
  - right. apply rsum_ext; intros j _. rewrite p_jacobian. reflexivity.
Qed.

(* ||W o (X^T p X)||^2 >= (min|W| beta delta)^2 ||c||^2: the chain of the paper's proof
   with its three squares; no lambda and no bound on M *)
Lemma attention_gradient_lower : kappa * kappa * nsq n n c <= nsq d d A.
Proof.
  apply Rle_trans with (wmin * wmin * nsq d d (sandwich n X p)).
  - replace (kappa * kappa * nsq n n c) with (wmin * wmin * (beta * beta * (delta * delta * nsq n n c))) by ring.
    apply Rmult_le_compat_l; [apply sq_nonneg|].
    eapply Rle_trans; [|apply (sandwich_lower n d X beta); assumption].
    apply Rmult_le_compat_l; [apply sq_nonneg | apply p_lower].
  - unfold nsq. rewrite <- rsum_scal. apply rsum_le; intros a Ha.
    rewrite <- rsum_scal. apply rsum_le; intros b Hb.
    change (adjoint n X W p a b) with (W a b * sandwich n X p a b). set (s := sandwich n X p a b).
    replace (W a b * s * (W a b * s)) with (W a b * W a b * (s * s)) by ring.
    apply Rmult_le_compat_r; [apply sq_nonneg|].
    rewrite <- (Rabs_pos_eq (W a b * W a b)) by apply sq_nonneg. rewrite Rabs_mult.
    specialize (Hwmin a b Ha Hb). apply Rmult_le_compat; assumption.
Qed.

Lemma c_norm : nF n n c <= 2 * sqrt (INR n).
Proof.
  pose proof (pos_INR n). pose proof (sqrt_pos (INR n)).
  apply nF_le_of_nsq; [lra|].
  replace (2 * sqrt (INR n) * (2 * sqrt (INR n))) with (INR n * 4)
    by (replace (INR n) with (sqrt (INR n) * sqrt (INR n)) at 1 by (apply sqrt_sqrt; assumption); ring).
  rewrite <- rsum_const. apply rsum_le; intros i Hi.
  apply Rle_trans with (rsum n (fun j => 2 * f n d X Mc (had M W) i j + 2 * f n d X Mc W i j)).
  - apply rsum_le; intros j Hj. unfold Analysis.c.
    pose proof (f_nonneg n d X Mc HMc (had M W) i j Hi). pose proof (f_nonneg n d X Mc HMc W i j Hi).
    pose proof (f_le1 n d X Mc HMc (had M W) i j Hi Hj). pose proof (f_le1 n d X Mc HMc W i j Hi Hj). nra.
  - rewrite rsum_plus, !rsum_scal.
    change (rsum n (fun i0 => f n d X Mc (had M W) i i0)) with (rsum n (f n d X Mc (had M W) i)).
    change (rsum n (fun i0 => f n d X Mc W i i0)) with (rsum n (f n d X Mc W i)).
    rewrite !f_sum by assumption. lra.
Qed.

(* ||p|| <= ||c||/2, by the norm of the softmax Jacobian *)
Lemma p_norm_half_c : nF n n p <= / 2 * nF n n c.
Proof.
  apply nF_le_of_nsq; [apply Rmult_le_pos; [lra | apply nF_nonneg]|].
  replace (/ 2 * nF n n c * (/ 2 * nF n n c)) with (/ 4 * nsq n n c) by (rewrite <- nF_sq; field).
  unfold nsq. rewrite <- rsum_scal. apply rsum_le; intros i Hi.
  eapply Rle_trans; [|apply (softmax_jacobian_norm n (f n d X Mc (had M W) i)), f_probability; assumption].
  right. apply rsum_ext; intros j _. rewrite p_jacobian. reflexivity.
Qed.

(* ||W o (X^T p X)|| <= 3 sqrt(n) max|W| ||X||^2; in truth sqrt(n) in place of 3 sqrt(n) *)
Theorem attention_gradient_upper_true : nF d d A <= 3 * sqrt (INR n) * wmax * nsq n d X.
Proof.
  pose proof (logit_bound_frobenius n d X W Mc wmax HMc Hwmax0 Hwmax) as HK.
  eapply Rle_trans; [apply (adjoint_bound n d X W Mc (wmax * nsq n d X) HMc HK)|].
  - intros i j _ E. apply (p_masked n d X W Mc), E.
  - intros i Hi. apply p_sum; assumption.
  - pose proof p_norm_half_c. pose proof c_norm. pose proof (sqrt_pos (INR n)).
    replace (3 * sqrt (INR n) * wmax * nsq n d X) with (wmax * nsq n d X * (3 * sqrt (INR n))) by ring.
    apply Rmult_le_compat_l; [apply (proj1 HK) | lra].
Qed.

(* the undivided corrected lemma, for the closed form of the gradient *)
Lemma PL_closed_form : nF d d M <= INR d ->
  kappa * kappa * nsq n n c + lam * lam * nsq d d M
    - 6 * sqrt (INR n) * wmax * nsq n d X * lam * INR d
  <= nsq d d (grad n d X W Mc lam M).
Proof.
  intro HM. unfold grad. rewrite nsq_plus, nsq_scal, ip_scal_r.
  pose proof attention_gradient_lower as Lo. pose proof attention_gradient_upper_true as Up.
  pose proof (ip_cauchy_schwarz d d A M) as CS. pose proof (Rabs_le_between (ip d d A M) (nF d d A * nF d d M)) as [B _].
  specialize (B CS). pose proof (nF_nonneg d d A). pose proof (nF_nonneg d d M). pose proof (pos_INR d).
  assert (nF d d A * nF d d M <= 3 * sqrt (INR n) * wmax * nsq n d X * INR d)
    by (apply Rmult_le_compat; assumption).
  assert (lam * - (3 * sqrt (INR n) * wmax * nsq n d X * INR d) <= lam * ip d d A M)
    by (apply Rmult_le_compat_l; [exact Hlam | lra]).
  lra.
Qed.

(* A matrix of partial derivatives of the loss is the closed form. *)
Lemma partials_are_grad G :
  (forall a b, (a < d)%nat -> (b < d)%nat ->
     is_derive (fun t => L n d X W Mc lam (upd M a b t)) (M a b) (G a b)) ->
  nsq d d G = nsq d d (grad n d X W Mc lam M).
Proof.
  intro H. apply nsq_ext; intros a b Ha Hb.
  rewrite <- (is_derive_unique _ _ _ (H a b Ha Hb)). apply is_derive_unique.
  apply mat_view_l; assumption.
Qed.

(* ---- the corrected PL lemma for the true gradient; ||M||_F <= d instead of the box ---- *)
Theorem PL_corrected_true_gradient G : nF d d M <= INR d ->
  (forall a b, (a < d)%nat -> (b < d)%nat ->
     is_derive (fun t => L n d X W Mc lam (upd M a b t)) (M a b) (G a b)) ->
  nsq d d G >= kappa * kappa * nsq n n c + lam * lam * nsq d d M
               - 6 * sqrt (INR n) * wmax * nsq n d X * lam * INR d.
Proof. intros HM HG. rewrite (partials_are_grad G HG). apply Rle_ge, PL_closed_form, HM. Qed.

(* no additive term:  kappa ||c|| <= ||grad L|| + lam ||M||, for every M *)
Theorem PL_additive_free : kappa * nF n n c <= nF d d (grad n d X W Mc lam M) + lam * nF d d M.
Proof.
  apply Rle_trans with (nF d d A).
  - pose proof attention_gradient_lower as Lo. pose proof (nF_nonneg d d A). pose proof (nF_nonneg n n c).
    assert (0 <= kappa * nF n n c) by (repeat apply Rmult_le_pos; assumption).
    rewrite <- (Rabs_pos_eq (kappa * nF n n c)) by assumption. apply Rabs_le_of_sqr; [assumption|].
    rewrite nF_sq. eapply Rle_trans; [|exact Lo]. rewrite <- nF_sq. right; ring.
  - replace (lam * nF d d M) with (nF d d (fun a b => (- lam) * M a b))
      by (rewrite nF_scal, Rabs_Ropp, Rabs_pos_eq by exact Hlam; reflexivity).
    eapply Rle_trans; [|apply nF_triangle]. right. unfold nF. f_equal.
    apply nsq_ext; intros. unfold grad. ring.
Qed.
End PL.

Lemma box_norm d M : box d M -> nF d d M <= INR d.
Proof.
  intro H. apply nF_le_of_nsq; [apply pos_INR|]. rewrite <- rsum_const. apply rsum_le; intros i Hi.
  replace (INR d) with (INR d * 1) by ring. rewrite <- rsum_const. apply rsum_le; intros j Hj.
  specialize (H i j Hi Hj). nra.
Qed.

Lemma PL_shape n d X W Mc M lam wmax mu G : 0 < mu ->
  / 2 * mu * nsq n n (c n d X W Mc M) + lam * lam * nsq d d M
    - 6 * sqrt (INR n) * wmax * nsq n d X * lam * INR d <= nsq d d G ->
  PL_inequality n d X W Mc M lam wmax mu G.
Proof.
  intros Hmu H. unfold PL_inequality, xi_PL. apply Rle_ge. eapply Rle_trans; [|exact H].
  right. field. lra.
Qed.

(* lem:PL_ineq, word for word as in PLRefuted.v, but with mu = 2 (min|W| beta delta)^2 *)
Theorem PL_ineq_corrected_masked Mc : (forall n, valid_mask n Mc) ->
  PL_ineq Mc (delta_allowed Mc) mu_corrected (fun _ => True).
Proof.
  intros HMc n d X W M lam beta delta wmin wmax G Hn Hd HM Hlam _ Hb Hdl HX Hf Hw Hmin Hmax HG.
  assert (Wx : 0 <= wmax).
  { destruct (proj2 Hmax) as [i [j [_ [_ <-]]]]. apply Rabs_pos. }
  assert (k0 : 0 < wmin * beta * delta) by (repeat apply Rmult_lt_0_compat; assumption).
  unfold mu_corrected. apply PL_shape; [nra|].
  replace (/ 2 * (2 * (wmin * beta * delta * (wmin * beta * delta))))
    with (wmin * beta * delta * (wmin * beta * delta)) by field.
  apply Rge_le. apply PL_corrected_true_gradient; try assumption; try lra.
  - apply HMc.
  - apply (proj1 Hmin).
  - apply (proj1 Hmax).
  - apply box_norm, HM.
Qed.

Lemma PL_ineq_corrected_full : PL_ineq full (delta_all full) mu_corrected (fun _ => True).
Proof.
  intros n d X W M lam beta delta wmin wmax G Hn Hd HM Hlam T Hb Hdl HX Hf.
  apply (PL_ineq_corrected_masked full full_valid); try assumption.
  intros i j Hi Hj _. apply Hf; assumption.
Qed.

Lemma PL_ineq_corrected_causal :
  PL_ineq causal (delta_allowed causal) mu_corrected (fun _ => True).
Proof. apply PL_ineq_corrected_masked. apply causal_valid. Qed.

Lemma between_sides wmin wmax d W : between wmin wmax d W ->
  (forall a b, (a < d)%nat -> (b < d)%nat -> wmin <= Rabs (W a b)) /\
  (forall a b, (a < d)%nat -> (b < d)%nat -> Rabs (W a b) <= wmax).
Proof. intro H. split; intros a b Ha Hb; apply (H a b Ha Hb). Qed.

(* ---- as Trusted.v states them ---- *)
Definition checked_attention_gradient_upper_true : Statement.attention_gradient_upper_true.
Proof. intros n d X W Mc M wmax; intros. apply attention_gradient_upper_true; try assumption; apply (between_sides 0 wmax), H1. Qed.
Definition checked_PL_corrected_true_gradient : Statement.PL_corrected_true_gradient.
Proof. intros n d X W Mc M lam beta delta wmin wmax; intros.
  apply PL_corrected_true_gradient; try assumption; apply (between_sides wmin wmax), H7. Qed.
Definition checked_PL_additive_free : Statement.PL_additive_free.
Proof. intros n d X W Mc M lam beta delta wmin wmax; intros.
  apply PL_additive_free; try assumption; apply (between_sides wmin wmax), H6. Qed.
Definition checked_PL_ineq_corrected_masked : Statement.PL_ineq_corrected_masked := PL_ineq_corrected_masked.
