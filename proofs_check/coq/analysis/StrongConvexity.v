(* The curvature of L for every valid mask and on all of R^{d x d}; m = lam - C_- K^2.

   new:curvature_range: along M + t D, with Delta = X (D o W) X^T and sigma_i = f~_i there,
     d/dt <grad L(M + t D), D> = lam ||D||^2 + sum_i bil(sigma_i, f_i)(Delta_i, Delta_i),
   and bil sees of Delta_i only the allowed positions, up to a constant: the row constants and K bound the sum.
   new:strong_convexity: the mean value theorem, once for the gradient and once more for L.
   For m > 0 the least value over D of <grad L(M), D> + m/2 ||D||^2 bounds the gap to any M' by ||grad L(M)||^2/(2m), and a
   step of eta <= 1/L gains eta/2 ||grad L(M)||^2: Minimum.v, where there is a minimum, has new:strongly_convex_descent. *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model Gradient RowHessian LipschitzGradient.
From AttnPrune.analysis Require Import RowHessianSharp LipschitzSharp Descent Confinement.
Open Scope R_scope.

(* H_i as a bilinear form does not see what the Jacobian does not see *)
Lemma bil_masked n sigma f m v a : probability n sigma -> (forall j, m j = 0 \/ m j = 1) ->
  (forall l, sigma l * m l = sigma l) ->
  bil n sigma f v v = bil n sigma f (fun l => m l * (v l - a)) (fun l => m l * (v l - a)).
Proof.
  intros Hs H01 Hm. unfold bil, third.
  assert (M : mean n sigma (fun l => m l * (v l - a)) = mean n sigma v - a).
  { unfold mean. rewrite (rsum_ext n _ (fun j => sigma j * v j - a * sigma j)).
    - rewrite rsum_minus, rsum_scal, (proj2 Hs). ring.
    - intros j _. rewrite <- (Hm j) at 2 3. ring. }
  f_equal; apply rsum_ext; intros j _.
  - rewrite (jacobian_shift n sigma Hs m v a j Hm). reflexivity.
  - rewrite M. rewrite <- (Hm j). destruct (H01 j) as [-> | ->]; ring.
Qed.

Lemma C_minus_pos : 0 < C_minus.
Proof. pose proof C_minus_value. lra. Qed.

Section Range.
Variables (n d : nat) (X W Mc : mat) (lam : R).
Hypothesis HMc : valid_mask n Mc.
Notation logit := (logit d X).
Notation f := (f n d X Mc).
Notation p := (p n d X W Mc).
Notation grad := (grad n d X W Mc lam).
Notation L := (L n d X W Mc lam).

(* the second derivative of L at M along D *)
Definition curvature M D := lam * nsq d d D +
  rsum n (fun i => bil n (f (had M W) i) (f W i) (logit (had D W) i) (logit (had D W) i)).

Section Line.
Variables (M D : mat).
Let v := logit (had D W).

Lemma p_line i j t : (i < n)%nat -> is_derive (fun t => p (mline M t D) i j) t
  (p_row_velocity n (f (had (mline M t D) W) i) (f W i) (jacobian n (f (had (mline M t D) W) i) (v i)) j).
Proof.
  intro Hi.
  apply (is_derive_ext (fun t => p_row n (f (had (mline M t D) W) i) (f W i) j)).
  { intro s. symmetry. apply p_is_p_row. }
  apply (p_row_derive n (fun t => f (had (mline M t D) W) i)
    (fun t => jacobian n (f (had (mline M t D) W) i) (v i))).
  intro l. apply f_line; assumption.
Qed.

Lemma inner_grad t : ip d d (grad (mline M t D)) D
  = rsum n (fun i => rsum n (fun j => v i j * p (mline M t D) i j)) + lam * (ip d d M D + t * nsq d d D).
Proof.
  unfold Analysis.grad. rewrite (ip_plus_l d d (adjoint n X W (p (mline M t D)))
    (fun a b => lam * mline M t D a b) D), adjoint_ip. f_equal.
  - apply rsum_ext; intros i _. apply rsum_ext; intros j _. unfold v. ring.
  - unfold ip, nsq. rewrite <- rsum_scal, <- rsum_plus, <- rsum_scal. apply rsum_ext; intros i _.
    rewrite <- rsum_scal, <- rsum_plus, <- rsum_scal. apply rsum_ext; intros j _. unfold mline. ring.
Qed.

Lemma second_derivative t : is_derive (fun t => ip d d (grad (mline M t D)) D) t (curvature (mline M t D) D).
Proof.
  apply (is_derive_ext (fun t => rsum n (fun i => rsum n (fun j => v i j * p (mline M t D) i j))
    + lam * (ip d d M D + t * nsq d d D))).
  { intro s. symmetry. apply inner_grad. }
  unfold curvature. fold v. evar_last.
  - apply (is_derive_plus (fun t => rsum n (fun i => rsum n (fun j => v i j * p (mline M t D) i j)))
      (fun t => lam * (ip d d M D + t * nsq d d D))).
    + apply (is_derive_rsum n (fun i t => rsum n (fun j => v i j * p (mline M t D) i j))
        (fun i => bil n (f (had (mline M t D) W) i) (f W i) (v i) (v i))).
      intros i Hi. evar_last.
      * apply (is_derive_rsum n (fun j t => v i j * p (mline M t D) i j)). intros j _.
        apply (is_derive_scal (fun t => p (mline M t D) i j)). apply p_line, Hi.
      * unfold bil. symmetry. erewrite <- (ip_velocity n _ _ (f_probability n d X Mc HMc _ i Hi)). reflexivity.
    + instantiate (1 := lam * nsq d d D). auto_derive; [trivial | ring].
  - unfold plus; simpl. ring.
Qed.
End Line.

Section Floor.
Variables (K : R).
Hypothesis HK : logit_bound n d X W Mc K.

(* a bound of every row's form, in one direction, is one of the sum of the rows *)
Lemma rows_bound k sgn M D : 0 <= k -> (forall n sigma f v, probability n sigma -> probability n f ->
  sgn * bil n sigma f v v <= k * sqnorm n v) ->
  sgn * rsum n (fun i => bil n (f (had M W) i) (f W i) (logit (had D W) i) (logit (had D W) i))
  <= k * (K * K) * nsq d d D.
Proof.
  intros k0 H. destruct HK as [K0 HKN]. destruct (HKN D) as [a Ha].
  rewrite <- rsum_scal. eapply Rle_trans.
  2:{ rewrite Rmult_assoc. apply Rmult_le_compat_l; [exact k0 | exact Ha]. }
  rewrite <- rsum_scal. apply rsum_le; intros i Hi.
  rewrite (bil_masked n _ _ (Mc i) _ (a i) (f_probability n d X Mc HMc _ i Hi) (proj1 (HMc i Hi)))
    by (intro l; apply f_mask_idem; assumption).
  rewrite masked_sqnormE by apply (proj1 (HMc i Hi)).
  apply H; apply f_probability; assumption.
Qed.

Let m := lam - C_minus * (K * K).

Lemma curvature_bounds M D : m * nsq d d D <= curvature M D <= (lam + C_plus * (K * K)) * nsq d d D.
Proof.
  unfold curvature, m. split.
  - enough (-1 * rsum n (fun i => bil n (f (had M W) i) (f W i) (logit (had D W) i) (logit (had D W) i))
      <= C_minus * (K * K) * nsq d d D) by lra.
    apply rows_bound; [left; exact C_minus_pos|]. intros k s q v Hs Hq.
    pose proof (row_hessian_lower k s Hs q Hq v). lra.
  - enough (1 * rsum n (fun i => bil n (f (had M W) i) (f W i) (logit (had D W) i) (logit (had D W) i))
      <= C_plus * (K * K) * nsq d d D) by lra.
    apply rows_bound; [left; exact C_plus_pos|]. intros k s q v Hs Hq.
    pose proof (row_hessian_bound k s Hs q Hq v). lra.
Qed.

Theorem curvature_range M D : exists h, is_derive (fun t => ip d d (grad (mline M t D)) D) 0 h /\
  m * nsq d d D <= h <= (lam + C_plus * (K * K)) * nsq d d D.
Proof. exists (curvature (mline M 0 D) D). split; [apply second_derivative | apply curvature_bounds]. Qed.

(* what the gradient gains along D in the time t *)
Lemma inner_change M D t : 0 <= t ->
  m * nsq d d D * t <= ip d d (grad (mline M t D)) D - ip d d (grad (mline M 0 D)) D
  <= (lam + C_plus * (K * K)) * nsq d d D * t.
Proof.
  intro Ht. destruct (mean_value (fun t => ip d d (grad (mline M t D)) D) (fun t => curvature (mline M t D) D) 0 t Ht)
    as [s [_ E]]; [intro s; apply second_derivative|].
  rewrite E, Rminus_0_r. destruct (curvature_bounds (mline M s D) D). split; apply Rmult_le_compat_r; assumption.
Qed.

Lemma grad_ext M M' : (forall i j, M i j = M' i j) -> forall a b, grad M a b = grad M' a b.
Proof.
  intros H a b. unfold Analysis.grad, adjoint. rewrite H. do 2 f_equal.
  apply rsum_ext; intros i _. apply rsum_ext; intros j _. do 2 f_equal. rewrite !p_is_p_row. unfold p_row, jacobian, mean.
  assert (F : forall l, f (had M W) i l = f (had M' W) i l)
    by (intro l; apply f_ext; intros; unfold had; rewrite H; reflexivity).
  rewrite F. do 2 f_equal. apply rsum_ext; intros l _. rewrite F. reflexivity.
Qed.

Lemma inner_ends M M' D : (forall i j, M i j = M' i j) -> ip d d (grad M) D = ip d d (grad M') D.
Proof. intro H. apply ip_ext; intros; [apply grad_ext, H | reflexivity]. Qed.

Theorem strong_convexity M M' : let D := msub M' M in
  m * nsq d d D <= ip d d (msub (grad M') (grad M)) D <= (lam + C_plus * (K * K)) * nsq d d D /\
  L M + ip d d (grad M) D + m / 2 * nsq d d D <= L M'.
Proof.
  intro D. assert (E1 : forall i j, mline M 1 D i j = M' i j) by (intros; unfold mline, D, msub; ring).
  assert (E0 : forall i j, mline M 0 D i j = M i j) by (intros; unfold mline; ring).
  split.
  - pose proof (inner_change M D 1 Rle_0_1) as H. rewrite !Rmult_1_r in H.
    rewrite (inner_ends _ _ D E1), (inner_ends _ _ D E0) in H. rewrite ip_sub_l. exact H.
  - set (g := ip d d (grad M) D). set (q := nsq d d D).
    destruct (mean_value (fun t => L (mline M t D) - t * g - m / 2 * t * t * q)
      (fun t => ip d d (grad (mline M t D)) D - g - m * t * q) 0 1 Rle_0_1) as [t [Ht E]].
    { intro t. evar_last.
      - apply (is_derive_minus (fun t => L (mline M t D) - t * g) (fun t => m / 2 * t * t * q)).
        + apply (is_derive_minus (fun t => L (mline M t D)) (fun t => t * g)).
          * apply mat_view_l_directional, HMc.
          * instantiate (1 := g). auto_derive; [trivial | ring].
        + instantiate (1 := m * t * q). auto_derive; [trivial | field].
      - unfold minus, plus, opp; simpl. ring. }
    pose proof (inner_change M D t (proj1 Ht)) as [H _]. rewrite (inner_ends (mline M 0 D) M D E0) in H. fold g q in H.
    rewrite (loss_extensional n d X W Mc lam (mline M 1 D) M') in E by (intros; apply E1).
    rewrite (loss_extensional n d X W Mc lam (mline M 0 D) M) in E by (intros; apply E0). lra.
Qed.

(* ---- where m > 0 ---- *)
Hypothesis Hm : 0 < m.

(* the PL inequality, against any M' *)
Lemma gap_below_gradient M M' : 2 * m * (L M - L M') <= nsq d d (grad M).
Proof.
  destruct (strong_convexity M M') as [_ H]. set (D := msub M' M) in *.
  pose proof (nsq_nonneg d d (fun i j => grad M i j + m * D i j)) as N.
  rewrite nsq_plus, nsq_scal, ip_scal_r in N. nra.
Qed.

Lemma stationary_point_near M M' : nsq d d (grad M') = 0 -> m * nF d d (msub M M') <= nF d d (grad M) /\
  0 <= L M - L M' <= nsq d d (grad M) / (2 * m).
Proof.
  intro Z. assert (I : forall D, ip d d (grad M') D = 0).
  { intro D. pose proof (ip_cauchy_schwarz_sq d d (grad M') D). rewrite Z in H. nra. }
  destruct (strong_convexity M' M) as [[B _] F]. rewrite ip_sub_l in B. rewrite I in B, F. set (D := msub M M') in *.
  pose proof (nsq_nonneg d d D) as N. split; [|split].
  - pose proof (nF_nonneg d d D) as P. pose proof (nF_nonneg d d (grad M)).
    pose proof (Rle_trans _ _ _ (Rle_abs _) (ip_cauchy_schwarz d d (grad M) D)) as S.
    rewrite <- nF_sq in B. destruct (Req_dec (nF d d D) 0) as [E | E]; [rewrite E; lra|].
    apply Rmult_le_reg_r with (nF d d D); lra.
  - nra.
  - apply Rmult_le_reg_l with (2 * m); [lra|]. pose proof (gap_below_gradient M M').
    replace (2 * m * (nsq d d (grad M) / (2 * m))) with (nsq d d (grad M)) by (field; lra). assumption.
Qed.

Lemma gap_closes C eta M0 M' T : 0 < lam -> row_constant C -> 0 < eta ->
  eta * (lam + C * (K * K)) <= 1 -> L (gd grad eta M0 T) - L M' <= (1 - eta * m) ^ T * (L M0 - L M').
Proof.
  intros Hl HC He Hs. assert (K2 : 0 <= K * K) by apply sq_nonneg.
  assert (F : 0 <= 1 - eta * m).
  { assert (0 <= C * (K * K)) by (apply Rmult_le_pos; [apply (proj1 HC) | exact K2]).
    assert (0 <= C_minus * (K * K)) by (apply Rmult_le_pos; [left; exact C_minus_pos | exact K2]). unfold m. nra. }
  induction T as [|T IH]; simpl; [lra|]. set (M := gd grad eta M0 T) in *.
  destruct (loss_smooth n d X W Mc lam C K HMc (Rlt_le _ _ Hl) HC HK) as [HG [HL [HE H0]]].
  pose proof (sufficient_decrease d d L grad _ HG HL HE H0 eta M (Rlt_le _ _ He) Hs) as S.
  pose proof (gap_below_gradient M M') as P.
  assert (eta / 2 * (2 * m * (L M - L M')) <= eta / 2 * nsq d d (grad M)) by (apply Rmult_le_compat_l; lra).
  assert ((1 - eta * m) * (L M - L M') <= (1 - eta * m) * ((1 - eta * m) ^ T * (L M0 - L M')))
    by (apply Rmult_le_compat_l; assumption). lra.
Qed.
End Floor.
End Range.

(* ---- as Trusted.v states them ---- *)
Definition checked_curvature_range : Statement.curvature_range.
Proof. intros n d X W Mc K lam M D HMc HK. apply curvature_range; assumption. Qed.
Definition checked_strong_convexity : Statement.strong_convexity.
Proof. intros n d X W Mc K lam M M' HMc HK. apply strong_convexity; assumption. Qed.
