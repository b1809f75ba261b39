(* One row of p = J(sigma) (sigma - f) is (5/4)-Lipschitz in the logits.

   Along s + t v, with sigma the softmax, c = sigma - f, g = J v and bars for means:
     <w, dp/dt> = <J w, J v> + sum_j sigma_j (c_j - cbar)(v_j - vbar)(w_j - wbar).
   The first term is at most (1/4)|w||v| by ||J|| <= 1/2, the second at most |w||v| because
   |c_j - cbar| <= 2 and Var <= (1/2)|.|^2.                                            *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums SoftmaxRow.
Open Scope R_scope.

(* the derivative of a row of p when sigma moves with velocity g *)
Definition p_row_velocity n (sigma f g : vec) : vec := fun j => let e := fun j => sigma j - f j in
  g j * (e j - mean n sigma e) + sigma j * (g j - rsum n (fun l => g l * e l + sigma l * g l)).

Lemma p_row_derive n (y dy : R -> vec) f t j :
  (forall l, is_derive (fun t => y t l) t (dy t l)) ->
  is_derive (fun t => p_row n (y t) f j) t (p_row_velocity n (y t) f (dy t) j).
Proof.
  intro H. unfold p_row, jacobian, mean, p_row_velocity. evar_last.
  - apply (is_derive_mult (fun t => y t j)
      (fun t => y t j - f j - rsum n (fun l => y t l * (y t l - f l)))).
    + apply H.
    + apply (is_derive_minus (fun t => y t j - f j) (fun t => rsum n (fun l => y t l * (y t l - f l)))).
      * apply (is_derive_minus (fun t => y t j) (fun _ => f j)); [apply H | apply is_derive_const].
      * apply (is_derive_rsum n (fun l t => y t l * (y t l - f l))
          (fun l => dy t l * (y t l - f l) + y t l * dy t l)).
        intros l _. evar_last.
        -- apply (is_derive_mult (fun t => y t l) (fun t => y t l - f l));
             [apply H | | intros; apply Rmult_comm].
           apply (is_derive_minus (fun t => y t l) (fun _ => f l)); [apply H | apply is_derive_const].
        -- unfold plus, minus, opp, mult, zero, plus; simpl. unfold plus, opp; simpl. ring.
    + intros; apply Rmult_comm.
  - unfold plus, minus, opp, mult, zero; simpl. unfold plus, opp; simpl. unfold mean. ring.
Qed.

Section Row.
Variables (n : nat) (sigma f : vec).
Hypothesis Hs : probability n sigma.
Hypothesis Hf : probability n f.
Let e := fun j => sigma j - f j.

Lemma mean_bound v b : (forall j, (j < n)%nat -> -b <= v j <= b) -> -b <= mean n sigma v <= b.
Proof.
  intro H. unfold mean. split.
  - replace (- b) with (rsum n (fun j => sigma j * - b)) by (rewrite rsum_scal_r, (proj2 Hs); ring).
    apply rsum_le; intros j Hj. apply Rmult_le_compat_l; [apply (proj1 Hs), Hj | apply H, Hj].
  - apply Rle_trans with (rsum n (fun j => sigma j * b)); [|right; rewrite rsum_scal_r, (proj2 Hs); ring].
    apply rsum_le; intros j Hj. apply Rmult_le_compat_l; [apply (proj1 Hs), Hj | apply H, Hj].
Qed.

Lemma deviation_bound j : (j < n)%nat -> -2 <= e j - mean n sigma e <= 2.
Proof.
  intro Hj.
  assert (B : forall j, (j < n)%nat -> -1 <= e j <= 1).
  { intros l Hl. unfold e. pose proof (proj1 Hs l Hl). pose proof (proj1 Hf l Hl).
    pose proof (probability_le1 n sigma Hs l Hl). pose proof (probability_le1 n f Hf l Hl). lra. }
  pose proof (B j Hj). pose proof (mean_bound e 1 B). lra.
Qed.

Notation third := (Analysis.third n sigma f).

Lemma ip_velocity v w :
  rsum n (fun j => w j * p_row_velocity n sigma f (jacobian n sigma v) j)
  = rsum n (fun j => jacobian n sigma w j * jacobian n sigma v j) + third v w.
Proof.
  set (g := jacobian n sigma v). set (vb := mean n sigma v). set (eb := mean n sigma e).
  set (wb := mean n sigma w).
  assert (Eg : rsum n (fun l => g l * e l + sigma l * g l)
    = rsum n (fun j => g j * (e j - eb)) + mean n sigma g).
  { rewrite rsum_plus. unfold mean. f_equal.
    rewrite (rsum_ext n (fun j => g j * (e j - eb)) (fun j => g j * e j - eb * g j)) by (intros; ring).
    rewrite rsum_minus, rsum_scal.
    assert (rsum n g = 0) by (unfold g, jacobian; apply centred_sum, Hs). rewrite H. ring. }
  set (q := rsum n (fun j => g j * (e j - eb))) in Eg.
  rewrite (rsum_ext n _ (fun j => g j * (e j - eb) * w j + (sigma j * (g j - mean n sigma g)) * w j
                                  + (- q) * (sigma j * w j))).
  2:{ intros j _. unfold p_row_velocity. change (fun j0 => sigma j0 - f j0) with e. fold eb.
      change (fun l => g l * (sigma l - f l) + sigma l * g l)
        with (fun l => g l * e l + sigma l * g l). rewrite Eg.
      change (sigma j - f j) with (e j). ring. }
  rewrite !rsum_plus, rsum_scal. fold (mean n sigma w). fold wb.
  assert (E2 : rsum n (fun j => sigma j * (g j - mean n sigma g) * w j)
               = rsum n (fun j => jacobian n sigma w j * g j)).
  { rewrite (rsum_ext n _ (fun j => w j * jacobian n sigma g j)) by (intros; unfold jacobian; ring).
    rewrite ip_jacobian by exact Hs.
    rewrite (rsum_ext n (fun j => jacobian n sigma w j * g j) (fun j => g j * jacobian n sigma w j))
      by (intros; ring).
    rewrite ip_jacobian by exact Hs. unfold covariance. apply rsum_ext; intros; ring. }
  rewrite E2.
  assert (E3 : third v w = rsum n (fun j => g j * (e j - eb) * w j) - wb * q).
  { change (third v w) with (rsum n (fun j =>
      sigma j * ((e j - mean n sigma e) * (v j - mean n sigma v) * (w j - mean n sigma w)))).
    unfold q. rewrite <- rsum_scal, <- rsum_minus. apply rsum_ext; intros j _.
    unfold g, jacobian. fold vb. fold eb. fold wb. ring. }
  rewrite E3. ring.
Qed.

Lemma third_sq v w :
  third v w * third v w <= 4 * (covariance n sigma v v * covariance n sigma w w).
Proof.
  set (a := fun j => (e j - mean n sigma e) * (v j - mean n sigma v)).
  set (b := fun j => w j - mean n sigma w).
  pose proof (rsum_cauchy_schwarz_weighted n sigma a b (proj1 Hs)) as C.
  assert (T : rsum n (fun i => sigma i * (a i * b i)) = third v w) by reflexivity.
  rewrite T in C. eapply Rle_trans; [exact C|].
  replace (4 * (covariance n sigma v v * covariance n sigma w w))
    with (4 * covariance n sigma v v * covariance n sigma w w) by ring.
  apply Rmult_le_compat_r; [apply variance_nonneg, Hs|].
  unfold covariance. rewrite <- rsum_scal. apply rsum_le; intros j Hj.
  unfold a. pose proof (deviation_bound j Hj) as D. pose proof (proj1 Hs j Hj).
  set (x := e j - mean n sigma e) in *. set (z := v j - mean n sigma v).
  replace (4 * (sigma j * (z * z))) with (sigma j * (4 * (z * z))) by ring.
  apply Rmult_le_compat_l; [assumption|].
  replace (x * z * (x * z)) with (x * x * (z * z)) by ring.
  apply Rmult_le_compat_r; [apply sq_nonneg | nra].
Qed.

Lemma variance_masked m v a : (forall j, m j = 0 \/ m j = 1) -> (forall l, sigma l * m l = sigma l) ->
  covariance n sigma v v <= / 2 * masked_sqnorm n m v a.
Proof.
  intros H01 Hm. rewrite masked_sqnormE by exact H01.
  set (v' := fun l => m l * (v l - a)).
  assert (E : covariance n sigma v v = covariance n sigma v' v').
  { assert (S : forall x y, covariance n sigma x y = covariance n sigma y x)
      by (intros; unfold covariance; apply rsum_ext; intros; ring).
    assert (J : forall x, covariance n sigma x v = covariance n sigma x v').
    { intro x. rewrite <- !(ip_jacobian n sigma Hs). apply rsum_ext; intros j _.
      rewrite (jacobian_shift n sigma Hs m v a j Hm). reflexivity. }
    rewrite J, S, J. reflexivity. }
  rewrite E. apply variance_le_half, Hs.
Qed.

(* || dp || <= (5/4) || v ||, over the allowed positions and up to a constant *)
Lemma p_row_velocity_norm m v a : (forall j, m j = 0 \/ m j = 1) -> (forall l, sigma l * m l = sigma l) ->
  sqnorm n (p_row_velocity n sigma f (jacobian n sigma v)) <= (5 / 4) * (5 / 4) * masked_sqnorm n m v a.
Proof.
  intros H01 Hm. set (w := p_row_velocity n sigma f (jacobian n sigma v)).
  set (V := masked_sqnorm n m v a). set (S := sqnorm n w).
  pose proof (ip_velocity v w) as E. fold w in E.
  change (rsum n (fun j => w j * w j)) with S in E.
  set (Q := rsum n (fun j => jacobian n sigma w j * jacobian n sigma v j)) in E.
  set (T := third v w) in E.
  pose proof (sqnorm_nonneg n w) as S0. fold S in S0.
  assert (V0 : 0 <= V) by (unfold V; rewrite masked_sqnormE by exact H01; apply sqnorm_nonneg).
  assert (HQ : Q * Q <= / 16 * (S * V)).
  { eapply Rle_trans; [apply rsum_cauchy_schwarz|].
    change (sqnorm n (jacobian n sigma w) * sqnorm n (jacobian n sigma v) <= / 16 * (S * V)).
    replace (/ 16 * (S * V)) with ((/ 4 * S) * (/ 4 * V)) by field.
    apply Rmult_le_compat; try apply sqnorm_nonneg.
    - apply softmax_jacobian_norm, Hs.
    - apply (jacobian_norm_masked n m sigma v a Hs H01 Hm). }
  assert (HT : T * T <= S * V).
  { eapply Rle_trans; [apply third_sq|].
    replace (S * V) with (4 * ((/ 2 * V) * (/ 2 * S))) by field.
    apply Rmult_le_compat_l; [lra|].
    apply Rmult_le_compat; try (apply variance_nonneg, Hs).
    - apply (variance_masked m v a H01 Hm).
    - apply variance_le_half, Hs. }
  assert (HS : S * S <= 25 / 16 * (S * V)).
  { assert (SS : S * S = (Q + T) * (Q + T)) by (rewrite <- E; reflexivity).
    pose proof (sq_nonneg (4 * Q - T)). nra. }
  destruct (Req_dec S 0) as [Z | Z]; [lra|].
  apply Rmult_le_reg_l with S; lra.
Qed.
End Row.

(* from a bound of the velocity to a Lipschitz constant of the row *)
Lemma p_row_lipschitz_from_velocity n m f s s' a k : valid_row n m ->
  (forall sigma, probability n sigma -> (forall l, sigma l * m l = sigma l) -> forall v,
     sqnorm n (p_row_velocity n sigma f (jacobian n sigma v)) <= k * masked_sqnorm n m v a) ->
  sqnorm n (fun j => p_row n (softmax n m s') f j - p_row n (softmax n m s) f j)
  <= k * masked_sqnorm n m (fun j => s' j - s j) a.
Proof.
  intros Hm Hk. set (v := fun j => s' j - s j).
  pose proof (lipschitz_from_derivative n
    (fun t => p_row n (softmax n m (fun l => s l + t * v l)) f)
    (fun t => p_row_velocity n (softmax n m (fun l => s l + t * v l)) f
                (jacobian n (softmax n m (fun l => s l + t * v l)) v))
    (k * masked_sqnorm n m v a)) as H.
  cbv beta in H.
  assert (Ext : forall q q' j, (forall l, q l = q' l) ->
    p_row n (softmax n m q) f j = p_row n (softmax n m q') f j).
  { intros q q' j E. unfold p_row, jacobian, mean.
    rewrite (softmax_ext n m q q' j E). do 2 f_equal. apply rsum_ext; intros l _.
    rewrite (softmax_ext n m q q' l E). reflexivity. }
  eapply Rle_trans; [|apply H].
  - right. apply rsum_ext; intros j _.
    rewrite (Ext s' (fun l => s l + 1 * v l)) by (intro; unfold v; ring).
    rewrite (Ext s (fun l => s l + 0 * v l)) by (intro; unfold v; ring).
    reflexivity.
  - intros t j _.
    apply (p_row_derive n (fun t => softmax n m (fun l => s l + t * v l))
             (fun t => jacobian n (softmax n m (fun l => s l + t * v l)) v)).
    intro l. apply softmax_derive, Hm.
  - intro t. apply Hk.
    + apply softmax_probability, Hm.
    + intro l. apply softmax_mask_idem, Hm.
Qed.

Lemma p_row_lipschitz n m f s s' a : valid_row n m -> probability n f ->
  sqnorm n (fun j => p_row n (softmax n m s') f j - p_row n (softmax n m s) f j)
  <= (5 / 4) * (5 / 4) * masked_sqnorm n m (fun j => s' j - s j) a.
Proof.
  intros Hm Hf. apply p_row_lipschitz_from_velocity; [exact Hm|].
  intros sigma Hs Hmask v. apply p_row_velocity_norm; try assumption. apply (proj1 Hm).
Qed.
