(* new:segment_step: a step whose length is bounded by the curvature on the segment itself.

   On M - t G, 0 <= t <= eta, G = grad L(M), row i's logits have moved by -t Delta_i; with E = e^(eta (hi_i - lo_i)) every
   weight sigma'_j there is within the factor E of sigma_j, and so is V' = Delta_i^T J' Delta_i of V (new:softmax_move):
     Delta_i^T H' Delta_i = ||J' Delta_i||^2 + sum_j sigma'_j (c'_j - <c', sigma'>) (Delta_ij - mean)^2
                         <= V' [min(1/2, E t_i) + min(1/2, pull_i + 4 (E - 1) t_i)].
   new:row_hessian is the other bound of the same; the second derivative of L bounds what the step can lose.          *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model Gradient RowHessian RowHessianSharp.
From AttnPrune.analysis Require Import Confinement StrongConvexity SoftmaxMove.
Open Scope R_scope.

(* ---- one row: sigma at the start, sigma' on the segment ---- *)

(* two different terms of a sum of nonnegative ones *)
Lemma rsum_ge_two k g i j : (forall l, (l < k)%nat -> 0 <= g l) -> (i < k)%nat -> (j < k)%nat -> i <> j ->
  g i + g j <= rsum k g.
Proof.
  intros H Hi Hj N. rewrite <- (rsum_delta k i g Hi), <- (rsum_delta k j g Hj), <- rsum_plus.
  apply rsum_le; intros l Hl. specialize (H l Hl).
  destruct (Nat.eqb l i) eqn:Ei; destruct (Nat.eqb l j) eqn:Ej; try lra.
  apply Nat.eqb_eq in Ei. apply Nat.eqb_eq in Ej. lia.
Qed.

Section Row.
Variables (n : nat) (f : vec).
Hypothesis Hf : probability n f.
(* c_j - <c, sigma> *)
Notation pull sigma j := (sigma%R j - f j - mean n sigma%R (fun l => sigma%R l - f l)).

Lemma mean_residual sigma : mean n sigma (fun l => sigma l - f l) = sqnorm n sigma - rsum n (fun k => f k * sigma k).
Proof. unfold mean, sqnorm. rewrite <- rsum_minus. apply rsum_ext; intros; ring. Qed.

Lemma pull_le_half sigma j : probability n sigma -> (j < n)%nat -> pull sigma j <= / 2.
Proof.
  intros Hs Hj. rewrite mean_residual. set (S := sqnorm n sigma).
  assert (T : rsum n (fun k => f k * (sigma j + sigma k - S - if Nat.eqb k j then 1 else 0)) <= / 2).
  { apply Rle_trans with (rsum n (fun k => f k * / 2)); [|rewrite rsum_scal_r, (proj2 Hf); lra].
    apply rsum_le; intros k Hk. apply Rmult_le_compat_l; [apply (proj1 Hf), Hk|].
    assert (Q : forall l, (l < n)%nat -> 0 <= sigma l * sigma l) by (intros; apply sq_nonneg).
    destruct (Nat.eqb k j) eqn:E.
    - apply Nat.eqb_eq in E. subst k. pose proof (rsum_ge_term n (fun l => sigma l * sigma l) j Q Hj) as G.
      change (rsum n (fun l => sigma l * sigma l)) with S in G. cbv beta in G. pose proof (sq_nonneg (sigma j - 1)). lra.
    - apply Nat.eqb_neq in E. pose proof (rsum_ge_two n (fun l => sigma l * sigma l) k j Q Hk Hj E) as G.
      change (rsum n (fun l => sigma l * sigma l)) with S in G. cbv beta in G.
      pose proof (sq_nonneg (sigma j - 1 / 2)). pose proof (sq_nonneg (sigma k - 1 / 2)). lra. }
  rewrite (rsum_ext n _ (fun k => (sigma j - S) * f k + f k * sigma k - (if Nat.eqb k j then f k else 0))) in T.
  - rewrite rsum_minus, rsum_plus, rsum_scal, (proj2 Hf), (rsum_delta n j f Hj) in T. lra.
  - intros k _. destruct (Nat.eqb k j); ring.
Qed.

Section Moved.
Variables (sigma sigma' : vec) (E t : R).
Hypothesis Hs : probability n sigma.
Hypothesis Hs' : probability n sigma'.
Hypothesis HE : 1 <= E.
Hypothesis Up : forall j, (j < n)%nat -> sigma' j <= E * sigma j.
Hypothesis Down : forall j, (j < n)%nat -> sigma j <= E * sigma' j.
Hypothesis Ht : forall j, (j < n)%nat -> sigma j <= t.

Lemma top_nonneg j : (j < n)%nat -> 0 <= t.
Proof. intro Hj. pose proof (Ht j Hj). pose proof (proj1 Hs j Hj). lra. Qed.

Lemma squares_move : sqnorm n sigma - sqnorm n sigma' <= 2 * ((E - 1) * t).
Proof.
  unfold sqnorm. rewrite <- rsum_minus.
  apply Rle_trans with (rsum n (fun l => 2 * ((E - 1) * t) * sigma l)); [|rewrite rsum_scal, (proj2 Hs); lra].
  apply rsum_le; intros l Hl. pose proof (proj1 Hs l Hl) as a. pose proof (proj1 Hs' l Hl) as b.
  pose proof (Down l Hl) as D. pose proof (Ht l Hl) as T.
  destruct (Rle_lt_dec (sigma l) (sigma' l)) as [C | C].
  - assert (0 <= (E - 1) * (t * sigma l)) by (apply Rmult_le_pos; [lra | apply Rmult_le_pos; lra]). nra.
  - assert (A : sigma l - sigma' l <= (E - 1) * sigma l) by nra.
    apply Rle_trans with ((E - 1) * sigma l * (2 * t)); [|right; ring].
    replace (sigma l * sigma l - sigma' l * sigma' l) with ((sigma l - sigma' l) * (sigma l + sigma' l)) by ring.
    apply Rmult_le_compat; lra.
Qed.

Lemma pull_move j : (j < n)%nat -> pull sigma' j <= pull sigma j + 4 * (E - 1) * t.
Proof.
  intro Hj. rewrite !mean_residual. pose proof squares_move as S. pose proof (top_nonneg j Hj) as t0.
  assert (A : sigma' j - sigma j <= (E - 1) * t).
  { pose proof (Up j Hj). pose proof (Ht j Hj). pose proof (proj1 Hs j Hj).
    assert ((E - 1) * sigma j <= (E - 1) * t) by (apply Rmult_le_compat_l; lra). lra. }
  assert (B : rsum n (fun k => f k * sigma' k) - rsum n (fun k => f k * sigma k) <= (E - 1) * t).
  { rewrite <- rsum_minus. apply Rle_trans with (rsum n (fun k => f k * ((E - 1) * t)));
      [|rewrite rsum_scal_r, (proj2 Hf); lra].
    apply rsum_le; intros k Hk. rewrite <- Rmult_minus_distr_l.
    apply Rmult_le_compat_l; [apply (proj1 Hf), Hk|]. pose proof (Up k Hk). pose proof (Ht k Hk).
    assert ((E - 1) * sigma k <= (E - 1) * t) by (apply Rmult_le_compat_l; lra). lra. }
  lra.
Qed.
End Moved.

(* ||J v||^2 <= min(1/2, max sigma) v^T J v *)
Lemma jacobian_sq_half sigma v : probability n sigma -> sqnorm n (jacobian n sigma v) <= / 2 * covariance n sigma v v.
Proof.
  intro Hs. set (g := jacobian n sigma v). set (S := sqnorm n g).
  assert (I : S = covariance n sigma g v) by (rewrite <- (ip_jacobian n sigma Hs); reflexivity).
  pose proof (covariance_cauchy_schwarz n sigma Hs g v) as C. rewrite <- I in C.
  pose proof (variance_le_half n sigma Hs g) as V. fold S in V. pose proof (variance_nonneg n sigma Hs v) as P.
  assert (S0 : 0 <= S) by apply sqnorm_nonneg. destruct (Req_dec S 0) as [Z | Z]; [rewrite Z; lra|].
  apply Rmult_le_reg_l with S; [lra|]. eapply Rle_trans; [exact C|].
  apply Rle_trans with (/ 2 * S * covariance n sigma v v); [apply Rmult_le_compat_r; assumption | right; ring].
Qed.

Lemma jacobian_sq_top sigma v t : probability n sigma -> (forall j, (j < n)%nat -> sigma j <= t) ->
  sqnorm n (jacobian n sigma v) <= t * covariance n sigma v v.
Proof.
  intros Hs Ht. unfold sqnorm, covariance, jacobian. rewrite <- rsum_scal. apply rsum_le; intros j Hj.
  set (x := v j - mean n sigma v). replace (sigma j * x * (sigma j * x)) with (sigma j * (sigma j * (x * x))) by ring.
  apply Rmult_le_compat_r; [|apply Ht, Hj]. apply Rmult_le_pos; [apply (proj1 Hs), Hj | apply sq_nonneg].
Qed.

Lemma third_pull sigma v q : probability n sigma ->
  (forall j, (j < n)%nat -> 0 < sigma j -> pull sigma j <= q) -> third n sigma f v v <= q * covariance n sigma v v.
Proof.
  intros Hs Hq. unfold third, covariance. rewrite <- rsum_scal. apply rsum_le; intros j Hj.
  set (x := v j - mean n sigma v). destruct (proj1 Hs j Hj) as [P | <-]; [|lra].
  replace (q * (sigma j * (x * x))) with (sigma j * (x * x) * q) by ring.
  replace (sigma j * ((sigma j - f j - mean n sigma (fun l => sigma l - f l)) * x * x))
    with (sigma j * (x * x) * pull sigma j) by ring.
  apply Rmult_le_compat_l; [apply Rmult_le_pos; [lra | apply sq_nonneg] | apply Hq; assumption].
Qed.

Lemma bil_opp sigma v : bil n sigma f (fun j => - v j) (fun j => - v j) = bil n sigma f v v.
Proof.
  assert (M : mean n sigma (fun j => - v j) = - mean n sigma v).
  { unfold mean. rewrite (rsum_ext n _ (fun j => -1 * (sigma j * v j))) by (intros; ring). rewrite rsum_scal. ring. }
  unfold bil, third, jacobian. rewrite M. f_equal; apply rsum_ext; intros; ring.
Qed.

(* the form of a row after a move by u, hi - lo at most r *)
Lemma bil_after_move m s u lo hi v t q : valid_row n m -> (forall j, (j < n)%nat -> m j = 1 -> lo <= u j <= hi) ->
  let sigma := softmax n m s in let sigma' := softmax n m (fun j => s j + u j) in
  (forall j, (j < n)%nat -> m j = 1 -> sigma j <= t /\ pull sigma j <= q) -> forall E, exp (hi - lo) <= E ->
  bil n sigma' f v v <= E * covariance n sigma v v * (Rmin (/ 2) (E * t) + Rmin (/ 2) (q + 4 * (E - 1) * t)).
Proof.
  intros Hm Hu sigma sigma' Ht E HE. destruct (softmax_move n m s u lo hi Hm Hu) as [W V]. fold sigma sigma' in W, V.
  assert (P : probability n sigma) by apply softmax_probability, Hm.
  assert (P' : probability n sigma') by apply softmax_probability, Hm.
  assert (On : forall j, 0 < sigma j -> m j = 1).
  { intros j Hj. destruct (proj1 Hm j) as [Z | Z]; [|exact Z].
    unfold sigma in Hj. rewrite softmax_masked in Hj by exact Z. lra. }
  destruct (proj2 Hm) as [i [Hi Ei]].
  assert (t0 : 0 <= t) by (destruct (Ht i Hi Ei) as [A _]; pose proof (proj1 P i Hi); lra).
  assert (E1 : 1 <= E).
  { eapply Rle_trans; [|exact HE]. rewrite <- exp_0. destruct (Hu i Hi Ei) as [A B].
    assert (C : 0 <= hi - lo) by lra. destruct C as [C | <-]; [left; apply exp_increasing, C | lra]. }
  assert (Top : forall j, (j < n)%nat -> sigma j <= t).
  { intros j Hj. destruct (proj1 P j Hj) as [A | <-]; [apply Ht; [exact Hj | apply On, A] | exact t0]. }
  assert (Up : forall j, (j < n)%nat -> sigma' j <= E * sigma j).
  { intros j Hj. pose proof (proj1 P j Hj). eapply Rle_trans; [apply (W j Hj)|]. apply Rmult_le_compat_r; assumption. }
  assert (Down : forall j, (j < n)%nat -> sigma j <= E * sigma' j).
  { intros j Hj. pose proof (proj1 P' j Hj). eapply Rle_trans; [apply (W j Hj)|]. apply Rmult_le_compat_r; assumption. }
  (* pulls at the allowed positions average to zero *)
  assert (q0 : 0 <= q).
  { rewrite <- (centred_sum n sigma P (fun l => sigma l - f l)).
    replace q with (rsum n (fun j => sigma j * q)) by (rewrite rsum_scal_r, (proj2 P); ring).
    apply rsum_le; intros j Hj. destruct (proj1 P j Hj) as [A | <-]; [|lra].
    apply Rmult_le_compat_l; [lra|]. apply Ht; [exact Hj | apply On, A]. }
  set (N := Rmin (/ 2) (E * t)). set (Q := Rmin (/ 2) (q + 4 * (E - 1) * t)).
  assert (N0 : 0 <= N) by (apply Rmin_glb; [lra | apply Rmult_le_pos; lra]).
  assert (G : 0 <= 4 * (E - 1) * t) by (apply Rmult_le_pos; lra).
  assert (Q0 : 0 <= Q) by (apply Rmin_glb; lra).
  set (V1 := covariance n sigma' v v) in *. assert (V0 : 0 <= V1) by apply variance_nonneg, P'.
  assert (A : bil n sigma' f v v <= (N + Q) * V1).
  { unfold bil. rewrite Rmult_plus_distr_r. apply Rplus_le_compat.
    - unfold N. destruct (Rle_dec (/ 2) (E * t)) as [C | C]; [rewrite Rmin_left by exact C | rewrite Rmin_right by lra].
      + apply jacobian_sq_half, P'.
      + apply jacobian_sq_top; [exact P'|]. intros j Hj. eapply Rle_trans; [apply Up, Hj|].
        apply Rmult_le_compat_l; [lra | apply Top, Hj].
    - apply third_pull; [exact P'|]. intros j Hj Pj. apply Rmin_glb; [apply pull_le_half; assumption|].
      eapply Rle_trans; [apply (pull_move sigma sigma' E t); assumption|].
      assert (Mj : m j = 1).
      { apply On. assert (0 < E * sigma j) by (eapply Rlt_le_trans; [exact Pj | apply Up, Hj]).
        apply Rmult_lt_reg_l with E; lra. }
      pose proof (Ht j Hj Mj) as [_ B]. lra. }
  eapply Rle_trans; [exact A|]. rewrite (Rmult_comm (N + Q)). apply Rmult_le_compat_r; [lra|].
  destruct (V v) as [_ B]. eapply Rle_trans; [exact B|].
  apply Rmult_le_compat_r; [apply variance_nonneg, P | exact HE].
Qed.
End Row.

Section Segment.
Variables (n d : nat) (X W Mc : mat) (lam : R) (M : mat) (a lo hi t pull : vec) (eta : R).
Hypothesis HMc : valid_mask n Mc.
Notation f := (f n d X Mc).
Notation c := (c n d X W Mc).
Notation grad := (grad n d X W Mc lam).
Notation L := (L n d X W Mc lam).
Let G := grad M.
Let F := f (had M W).
Let v := logit d X (had G W).
Let e i := exp (eta * (hi i - lo i)).
Hypothesis Hrow : forall i j, (i < n)%nat -> (j < n)%nat -> Mc i j = 1 ->
  lo i <= v i j <= hi i /\ F i j <= t i /\ c M i j - mean n (F i) (c M i) <= pull i.
Let bend i := Rmin (C_plus * masked_sqnorm n (Mc i) (v i) (a i))
  (e i * covariance n (F i) (v i) (v i) * (Rmin (/ 2) (e i * t i) + Rmin (/ 2) (pull i + 4 * (e i - 1) * t i))).
Let B := lam * nsq d d G + rsum n bend.
Let V : mat := fun i j => - G i j.

Lemma logit_back i j : logit d X (had V W) i j = - v i j.
Proof.
  transitivity (-1 * v i j); [|ring]. unfold v, logit. rewrite <- rsum_scal. apply rsum_ext; intros k _.
  rewrite <- rsum_scal. apply rsum_ext; intros l _. unfold had, V. ring.
Qed.

Lemma bil_logit_back sigma g i :
  bil n sigma g (logit d X (had V W) i) (logit d X (had V W) i) = bil n sigma g (v i) (v i).
Proof.
  rewrite <- (bil_opp n g sigma (v i)). unfold bil, third, jacobian, mean. f_equal.
  - apply rsum_ext; intros j _. rewrite !logit_back.
    rewrite (rsum_ext n (fun j => sigma j * logit d X (had V W) i j) (fun j => sigma j * - v i j))
      by (intros; rewrite logit_back; reflexivity). reflexivity.
  - apply rsum_ext; intros j _. rewrite !logit_back.
    rewrite (rsum_ext n (fun j => sigma j * logit d X (had V W) i j) (fun j => sigma j * - v i j))
      by (intros; rewrite logit_back; reflexivity). reflexivity.
Qed.

Lemma row_on_segment i s : (i < n)%nat -> 0 <= s <= eta ->
  bil n (f (had (mline M s V) W) i) (f W i) (v i) (v i) <= bend i.
Proof.
  intros Hi Hs. set (sigma' := f (had (mline M s V) W) i).
  assert (P' : probability n sigma') by (apply f_probability; assumption).
  assert (Pf : probability n (f W i)) by (apply f_probability; assumption).
  apply Rmin_glb.
  - rewrite (bil_masked n _ _ (Mc i) _ (a i) P' (proj1 (HMc i Hi))) by (intro l; apply f_mask_idem; assumption).
    rewrite masked_sqnormE by apply (proj1 (HMc i Hi)). apply row_hessian_bound; assumption.
  - assert (Eq : forall j, sigma' j = softmax n (Mc i) (fun j => logit d X (had M W) i j + - s * v i j) j).
    { intro j. unfold sigma'. rewrite f_softmax. apply softmax_ext. intro l. rewrite logit_line, logit_back. ring. }
    assert (Same : bil n sigma' (f W i) (v i) (v i)
      = bil n (softmax n (Mc i) (fun j => logit d X (had M W) i j + - s * v i j)) (f W i) (v i) (v i)).
    { unfold bil, third, jacobian, mean. f_equal; apply rsum_ext; intros j _; rewrite !Eq;
        rewrite !(rsum_ext n (fun j => sigma' j * _) (fun j => softmax n (Mc i) (fun j => logit d X (had M W) i j + - s * v i j) j * _))
          by (intros; rewrite Eq; reflexivity); reflexivity. }
    rewrite Same.
    apply (bil_after_move n (f W i) Pf (Mc i) (logit d X (had M W) i) (fun j => - s * v i j) (- s * hi i) (- s * lo i)).
    + apply HMc, Hi.
    + intros j Hj Ej. destruct (Hrow i j Hi Hj Ej) as [[A1 A2] _]. split; apply Ropp_le_cancel; nra.
    + intros j Hj Ej. apply (Hrow i j Hi Hj Ej).
    + destruct (proj2 (HMc i Hi)) as [j [Hj Ej]]. destruct (Hrow i j Hi Hj Ej) as [[A1 A2] _].
      assert (A : - s * lo i - - s * hi i <= eta * (hi i - lo i)) by nra.
      unfold e. destruct A as [A | ->]; [left; apply exp_increasing, A | lra].
Qed.

Lemma curvature_on_segment s : 0 <= s <= eta -> curvature n d X W Mc lam (mline M s V) V <= B.
Proof.
  intro Hs. unfold curvature, B. apply Rplus_le_compat.
  - right. f_equal. apply rsum_ext; intros i _. apply rsum_ext; intros j _. unfold V. ring.
  - apply rsum_le; intros i Hi. rewrite bil_logit_back. apply row_on_segment; assumption.
Qed.

Theorem segment_step : 0 <= eta -> (forall s, 0 <= s <= eta ->
    exists h, is_derive (fun t => ip d d (grad (mline M t V)) V) s h /\ h <= B) /\
  (eta * B <= nsq d d G -> L (gd_step grad eta M) <= L M - eta / 2 * nsq d d G).
Proof.
  intro He. split.
  { intros s Hs. exists (curvature n d X W Mc lam (mline M s V) V).
    split; [apply second_derivative, HMc | apply curvature_on_segment, Hs]. }
  intro H. set (S := nsq d d G) in *. assert (S0 : ip d d G V = - S).
  { unfold S, nsq, ip. rewrite <- (Rmult_1_l (rsum d (fun i => rsum d (fun j => G i j * G i j)))).
    rewrite Ropp_mult_distr_l, <- rsum_scal. apply rsum_ext; intros i _. rewrite <- rsum_scal.
    apply rsum_ext; intros j _. unfold V. ring. }
  assert (E0 : forall i j, mline M 0 V i j = M i j) by (intros; unfold mline; ring).
  (* the derivative of L on the segment is at most -S + B s *)
  assert (D : forall s, 0 <= s <= eta -> ip d d (grad (mline M s V)) V <= - S + B * s).
  { intros s Hs. set (phi := fun t => ip d d (grad (mline M t V)) V).
    destruct (mean_value phi (fun t => curvature n d X W Mc lam (mline M t V) V) 0 s (proj1 Hs)) as [r [Hr E]];
      [intro; apply second_derivative, HMc|].
    unfold phi in E. rewrite (inner_ends n d X W Mc lam (mline M 0 V) M V E0) in E. fold G in E. rewrite S0 in E.
    assert (curvature n d X W Mc lam (mline M r V) V * (s - 0) <= B * (s - 0))
      by (apply Rmult_le_compat_r; [lra | apply curvature_on_segment; lra]). lra. }
  destruct (mean_value (fun t => L (mline M t V) + t * S - B * t * t / 2)
    (fun t => ip d d (grad (mline M t V)) V + S - B * t) 0 eta He) as [s [Hs E]].
  { intro s. evar_last.
    - apply (is_derive_plus (fun t => L (mline M t V) + t * S) (fun t => - (B * t * t / 2))).
      + apply (is_derive_plus (fun t => L (mline M t V)) (fun t => t * S)).
        * apply mat_view_l_directional, HMc.
        * instantiate (1 := S). auto_derive; [trivial | ring].
      + instantiate (1 := - (B * s)). auto_derive; [trivial | field].
    - unfold plus; simpl. ring. }
  specialize (D s Hs). rewrite (loss_extensional n d X W Mc lam (mline M 0 V) M) in E by (intros; apply E0).
  rewrite (loss_extensional n d X W Mc lam (mline M eta V) (gd_step grad eta M)) in E
    by (intros; unfold mline, gd_step, V, G; ring).
  assert ((ip d d (grad (mline M s V)) V + S - B * s) * (eta - 0) <= 0) by nra.
  assert (eta * (eta * B) <= eta * S) by (apply Rmult_le_compat_l; assumption). lra.
Qed.
End Segment.

(* ---- as Trusted.v states them ---- *)
Definition checked_segment_step : Statement.segment_step.
Proof.
  intros n d X W Mc lam M a lo hi t pull eta HMc G F r v e Hrow bend B V He.
  exact (segment_step n d X W Mc lam M a lo hi t pull eta HMc Hrow He).
Qed.
