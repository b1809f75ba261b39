(* One row of the attention matrix: the softmax of a logit vector s over the positions
   allowed by a 0/1 vector m,
     softmax n m s j = exp(s_j) m_j / sum_l exp(s_l) m_l,
   its Jacobian J = diag(sigma) - sigma sigma^T, and the two facts the sharper
   Lipschitz constants rest on:
     ||J v|| <= (1/2) ||v||         (softmax_jacobian_norm)
     ||softmax s' - softmax s|| <= (1/2) ||s' - s||     (softmax_lipschitz).
   The right sides may be taken over the allowed positions only and after
   subtracting any constant from the logits.                                        *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums.
Open Scope R_scope.

Lemma sqnorm_nonneg n v : 0 <= sqnorm n v.
Proof. apply rsum_nonneg; intros; nra. Qed.

Lemma softmax_ext n m s s' j : (forall l, s l = s' l) -> softmax n m s j = softmax n m s' j.
Proof.
  intro E. unfold softmax, partition. rewrite E. f_equal.
  apply rsum_ext; intros l _. rewrite E. reflexivity.
Qed.

(* ---- softmax is a probability vector supported on the allowed positions ---- *)
Section Values.
Variables (n : nat) (m : vec).
Hypothesis Hm : valid_row n m.

Lemma partition_pos s : 0 < partition n m s.
Proof.
  destruct Hm as [H01 [j [Hj Ej]]].
  apply Rlt_le_trans with (exp (s j) * m j); [rewrite Ej, Rmult_1_r; apply exp_pos|].
  apply (rsum_ge_term n (fun l => exp (s l) * m l)); [|exact Hj].
  intros l _. pose proof (exp_pos (s l)). destruct (H01 l) as [-> | ->]; lra.
Qed.

Lemma softmax_nonneg s j : 0 <= softmax n m s j.
Proof.
  unfold softmax. apply Rmult_le_pos.
  - pose proof (exp_pos (s j)). destruct (proj1 Hm j) as [-> | ->]; lra.
  - left; apply Rinv_0_lt_compat, partition_pos.
Qed.

Lemma softmax_sum s : rsum n (softmax n m s) = 1.
Proof.
  unfold softmax, Rdiv. rewrite rsum_scal_r. apply Rinv_r.
  pose proof (partition_pos s). unfold partition in *. lra.
Qed.

Lemma softmax_probability s : probability n (softmax n m s).
Proof. split; [intros; apply softmax_nonneg | apply softmax_sum]. Qed.

Lemma softmax_masked s j : m j = 0 -> softmax n m s j = 0.
Proof. intro E. unfold softmax. rewrite E. unfold Rdiv. ring. Qed.

Lemma softmax_mask_idem s j : softmax n m s j * m j = softmax n m s j.
Proof.
  destruct (proj1 Hm j) as [E | E]; [rewrite (softmax_masked s j E) | rewrite E]; ring.
Qed.

Lemma softmax_derive s v t j :
  is_derive (fun t => softmax n m (fun l => s l + t * v l) j) t
            (jacobian n (softmax n m (fun l => s l + t * v l)) v j).
Proof.
  set (st := fun l => s l + t * v l).
  assert (De : forall l, is_derive (fun t => exp (s l + t * v l) * m l) t (exp (st l) * m l * v l)).
  { intro l. auto_derive; [trivial|]. unfold st. ring. }
  assert (Z : partition n m st <> 0) by (pose proof (partition_pos st); lra).
  unfold softmax at 1. evar_last.
  - apply is_derive_div; [apply De | | exact Z].
    unfold partition. apply (is_derive_rsum n (fun l t => exp (s l + t * v l) * m l)
      (fun l => exp (st l) * m l * v l)). intros l _. apply De.
  - cbv beta. change (partition n m (fun l => s l + t * v l)) with (partition n m st).
    unfold jacobian, mean.
    assert (E : rsum n (fun l => softmax n m st l * v l)
                = / partition n m st * rsum n (fun l => exp (st l) * m l * v l)).
    { rewrite <- rsum_scal. apply rsum_ext; intros l _. unfold softmax. field. exact Z. }
    rewrite E. unfold softmax. fold (st j).
    change (exp (s j + t * v j)) with (exp (st j)).
    unfold minus, plus, opp, mult, scal; simpl. field. exact Z.
Qed.
End Values.

(* ---- the Jacobian as a covariance ---- *)
Section Jacobian.
Variables (n : nat) (sigma : vec).
Hypothesis Hs : probability n sigma.

Lemma probability_le1 j : (j < n)%nat -> sigma j <= 1.
Proof. intro Hj. rewrite <- (proj2 Hs). apply rsum_ge_term; [apply (proj1 Hs) | exact Hj]. Qed.

Lemma sqnorm_probability_le1 : sqnorm n sigma <= 1.
Proof.
  rewrite <- (proj2 Hs). apply rsum_le; intros j Hj.
  pose proof (proj1 Hs j Hj). pose proof (probability_le1 j Hj). nra.
Qed.

Lemma centred_sum v : rsum n (fun j => sigma j * (v j - mean n sigma v)) = 0.
Proof.
  rewrite (rsum_ext n _ (fun j => sigma j * v j - mean n sigma v * sigma j)) by (intros; ring).
  rewrite rsum_minus, rsum_scal, (proj2 Hs). fold (mean n sigma v). ring.
Qed.

(* <w, J v> = Cov_sigma(w, v) *)
Lemma ip_jacobian w v : rsum n (fun j => w j * jacobian n sigma v j) = covariance n sigma w v.
Proof.
  unfold covariance, jacobian.
  rewrite (rsum_ext n (fun j => sigma j * ((w j - mean n sigma w) * (v j - mean n sigma v)))
    (fun j => w j * (sigma j * (v j - mean n sigma v))
              - mean n sigma w * (sigma j * (v j - mean n sigma v)))) by (intros; ring).
  rewrite rsum_minus, rsum_scal, centred_sum. ring.
Qed.

Lemma variance_nonneg v : 0 <= covariance n sigma v v.
Proof.
  apply rsum_nonneg; intros j Hj. apply Rmult_le_pos; [apply (proj1 Hs), Hj | apply sq_nonneg].
Qed.

Lemma covariance_cauchy_schwarz v w :
  covariance n sigma v w * covariance n sigma v w
  <= covariance n sigma v v * covariance n sigma w w.
Proof. apply (rsum_cauchy_schwarz_weighted n sigma). exact (proj1 Hs). Qed.

(* Var v = sum sigma v^2 - (mean v)^2 *)
Lemma variance_moment v :
  covariance n sigma v v
  = rsum n (fun j => sigma j * (v j * v j)) - mean n sigma v * mean n sigma v.
Proof.
  unfold covariance. set (a := mean n sigma v).
  rewrite (rsum_ext n _ (fun j => sigma j * (v j * v j) - a * (sigma j * v j)
                                  - a * (sigma j * (v j - a)))) by (intros; ring).
  rewrite !rsum_minus, !rsum_scal. unfold a at 3. rewrite centred_sum.
  fold (mean n sigma v). fold a. ring.
Qed.

(* Var_sigma(v) <= (1/2) ||v||^2.  From 0 <= sum_{i<>j} sigma_i sigma_j (v_i + v_j)^2 one
   gets Var v <= 2 sum_j sigma_j (1 - sigma_j) v_j^2, and s (1 - s) <= 1/4. *)
Lemma variance_le_half v : covariance n sigma v v <= / 2 * sqnorm n v.
Proof.
  rewrite variance_moment. set (a := mean n sigma v).
  set (q := rsum n (fun j => sigma j * (v j * v j))).
  assert (E : rsum n (fun i => rsum n (fun j => sigma i * sigma j * ((v i + v j) * (v i + v j))))
              = 2 * q + 2 * (a * a)).
  { rewrite (rsum_ext n _ (fun i => sigma i * (v i * v i) + (2 * a * (sigma i * v i) + q * sigma i))).
    - rewrite !rsum_plus, !rsum_scal, (proj2 Hs). fold (mean n sigma v). fold a. fold q. ring.
    - intros i _.
      rewrite (rsum_ext n _ (fun j => sigma i * (v i * v i) * sigma j
        + (2 * (sigma i * v i) * (sigma j * v j) + sigma i * (sigma j * (v j * v j))))) by (intros; ring).
      rewrite !rsum_plus, !rsum_scal, (proj2 Hs). fold (mean n sigma v). fold a. fold q. ring. }
  assert (G : rsum n (fun i => 4 * (sigma i * sigma i * (v i * v i))) <= 2 * q + 2 * (a * a)).
  { rewrite <- E. apply rsum_le; intros i Hi.
    apply Rle_trans with (sigma i * sigma i * ((v i + v i) * (v i + v i))); [right; ring|].
    apply (rsum_ge_term n (fun j => sigma i * sigma j * ((v i + v j) * (v i + v j)))); [|exact Hi].
    intros j Hj. apply Rmult_le_pos; [|apply sq_nonneg].
    apply Rmult_le_pos; apply (proj1 Hs); assumption. }
  rewrite rsum_scal in G.
  assert (B : 2 * q - 2 * rsum n (fun i => sigma i * sigma i * (v i * v i)) <= / 2 * sqnorm n v).
  { unfold q, sqnorm. rewrite <- !rsum_scal, <- rsum_minus. apply rsum_le; intros i Hi.
    pose proof (sq_nonneg (sigma i - / 2)). pose proof (sq_nonneg (v i)).
    nra. }
  lra.
Qed.

(* The softmax Jacobian has operator norm at most 1/2: for the positive semidefinite
   form <v, J w>, ||J v||^4 = <J v, J v>^2 <= <v, J v> <J v, J J v>. *)
Theorem softmax_jacobian_norm v : sqnorm n (jacobian n sigma v) <= / 4 * sqnorm n v.
Proof.
  set (g := jacobian n sigma v). set (S := sqnorm n g).
  assert (E : S = covariance n sigma g v) by (rewrite <- ip_jacobian; reflexivity).
  pose proof (covariance_cauchy_schwarz g v) as C. rewrite <- E in C.
  pose proof (variance_le_half g) as Vg. fold S in Vg.
  pose proof (variance_le_half v) as Vv.
  pose proof (variance_nonneg g). pose proof (variance_nonneg v).
  pose proof (sqnorm_nonneg n g) as HS. fold S in HS.
  assert (S * S <= (/ 2 * S) * (/ 2 * sqnorm n v)).
  { eapply Rle_trans; [exact C|]. apply Rmult_le_compat; assumption. }
  destruct (Req_dec S 0) as [Z | Z]; [rewrite Z; pose proof (sqnorm_nonneg n v); lra|].
  apply Rmult_le_reg_l with S; lra.
Qed.

(* J sees only the allowed positions, and J 1 = 0 *)
Lemma jacobian_shift m v a j : (forall l, sigma l * m l = sigma l) ->
  jacobian n sigma v j = jacobian n sigma (fun l => m l * (v l - a)) j.
Proof.
  intro Hm. unfold jacobian.
  assert (E : mean n sigma (fun l => m l * (v l - a)) = mean n sigma v - a).
  { unfold mean. rewrite (rsum_ext n _ (fun l => sigma l * v l - a * sigma l)).
    - rewrite rsum_minus, rsum_scal, (proj2 Hs). ring.
    - intros l _. replace (sigma l * (m l * (v l - a))) with (sigma l * m l * (v l - a)) by ring.
      rewrite Hm. ring. }
  rewrite E. rewrite <- (Hm j) at 1. rewrite <- (Hm j) at 2. 
  replace (sigma j * m j * (m j * (v j - a) - (mean n sigma v - a)))
    with (sigma j * m j * m j * (v j - a) - sigma j * m j * (mean n sigma v - a)) by ring.
  rewrite !Hm. ring.
Qed.
End Jacobian.

Lemma masked_sqnormE n m v a : (forall j, m j = 0 \/ m j = 1) ->
  masked_sqnorm n m v a = sqnorm n (fun l => m l * (v l - a)).
Proof.
  intro H. apply rsum_ext; intros j _. destruct (H j) as [-> | ->]; ring.
Qed.

Lemma jacobian_norm_masked n m sigma v a : probability n sigma ->
  (forall j, m j = 0 \/ m j = 1) -> (forall l, sigma l * m l = sigma l) ->
  sqnorm n (jacobian n sigma v) <= / 4 * masked_sqnorm n m v a.
Proof.
  intros Hs H01 Hm. rewrite masked_sqnormE by exact H01.
  eapply Rle_trans; [|apply softmax_jacobian_norm, Hs].
  right. apply rsum_ext; intros j _. rewrite (jacobian_shift n sigma Hs m v a j Hm). reflexivity.
Qed.

(* From the derivative along a segment to the difference of its end points: if
   <w, d/dt y(t)> is bounded by sqrt(k) |w| sqrt(V) all along, then |y(1) - y(0)|^2 <= k V. *)
Lemma lipschitz_from_derivative n (y dy : R -> vec) (kV : R) :
  (forall t j, (j < n)%nat -> is_derive (fun t => y t j) t (dy t j)) ->
  (forall t, sqnorm n (dy t) <= kV) ->
  sqnorm n (fun j => y 1 j - y 0 j) <= kV.
Proof.
  intros Hd Hb. set (w := fun j => y 1 j - y 0 j). set (S := sqnorm n w).
  destruct (mean_value (fun t => rsum n (fun j => w j * y t j))
              (fun t => rsum n (fun j => w j * dy t j)) 0 1) as [t [_ E]]; [lra| |].
  - intro t. apply (is_derive_rsum n (fun j t => w j * y t j)). intros j Hj.
    apply (is_derive_scal (fun t => y t j)), Hd, Hj.
  - rewrite <- rsum_minus in E.
    assert (ES : S = rsum n (fun j => w j * dy t j)).
    { rewrite Rminus_0_r, Rmult_1_r in E. rewrite <- E. apply rsum_ext; intros j _.
      unfold w. ring. }
    pose proof (rsum_cauchy_schwarz n w (dy t)) as C. rewrite <- ES in C.
    change (rsum n (fun i => w i * w i)) with S in C.
    change (rsum n (fun i => dy t i * dy t i)) with (sqnorm n (dy t)) in C.
    specialize (Hb t). pose proof (sqnorm_nonneg n w) as HS. fold S in HS.
    pose proof (sqnorm_nonneg n (dy t)).
    destruct (Req_dec S 0) as [Z | Z]; [lra|].
    apply Rmult_le_reg_l with S; [lra|]. eapply Rle_trans; [exact C|].
    apply Rmult_le_compat_l; lra.
Qed.

Theorem softmax_lipschitz n m s s' a : valid_row n m ->
  sqnorm n (fun j => softmax n m s' j - softmax n m s j)
  <= / 4 * masked_sqnorm n m (fun j => s' j - s j) a.
Proof.
  intro Hm. set (v := fun j => s' j - s j).
  pose proof (lipschitz_from_derivative n (fun t => softmax n m (fun l => s l + t * v l))
    (fun t => jacobian n (softmax n m (fun l => s l + t * v l)) v)
    (/ 4 * masked_sqnorm n m v a)) as H.
  cbv beta in H.
  eapply Rle_trans; [|apply H].
  - right. apply rsum_ext; intros j _.
    rewrite (softmax_ext n m s' (fun l => s l + 1 * v l)) by (intro; unfold v; ring).
    rewrite (softmax_ext n m s (fun l => s l + 0 * v l)) by (intro; unfold v; ring).
    reflexivity.
  - intros t j _. apply softmax_derive, Hm.
  - intro t. apply jacobian_norm_masked.
    + apply softmax_probability, Hm.
    + apply (proj1 Hm).
    + intro l. apply softmax_mask_idem, Hm.
Qed.

(* ---- as Trusted.v states them ---- *)
Definition checked_softmax_jacobian_norm : Statement.softmax_jacobian_norm := softmax_jacobian_norm.
Definition checked_softmax_lipschitz : Statement.softmax_lipschitz := softmax_lipschitz.
