(* new:convex_near_dense: where ||c|| <= f_min/sqrt 5 the attention error is convex.

   Let q be where e = sigma - f is least.  Allowed entries of sigma are at least l = f_min + e_q >= 0, so J^2 >= l J, and
   <e, sigma> - e_q <= f_min + e_q because e_j - 2 e_q <= sqrt 5 ||e|| <= f_min for every j: as in new:curvature_domination,
   v^T H v >= (l - (<e, sigma> - e_q)) v^T J v >= 0.  Hess L is lam plus such forms of the rows (StrongConvexity.v).   *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model Gradient LipschitzGradient PLTrueGradient.
From AttnPrune.analysis Require Import StrongConvexity.
Open Scope R_scope.

Lemma least_allowed n (m e : vec) : (forall j, m j = 0 \/ m j = 1) -> (forall j, (j < n)%nat -> m j = 0) \/
  exists q, (q < n)%nat /\ m q = 1 /\ forall j, (j < n)%nat -> m j = 1 -> e q <= e j.
Proof.
  intro H01. induction n as [|n [IH | [q [Hq [Eq IH]]]]]; [left; intros; lia | |].
  - destruct (H01 n) as [Z | Z].
    + left. intros j Hj. destruct (Nat.eq_dec j n) as [-> |]; [exact Z | apply IH; lia].
    + right. exists n. split; [lia|]. split; [exact Z|]. intros j Hj E.
      destruct (Nat.eq_dec j n) as [-> |]; [lra|]. rewrite IH in E by lia. lra.
  - right. destruct (H01 n) as [Z | Z]; [|destruct (Rle_dec (e q) (e n)) as [C | C]].
    + exists q. split; [lia|]. split; [exact Eq|]. intros j Hj E.
      destruct (Nat.eq_dec j n) as [-> |]; [lra | apply IH; [lia | exact E]].
    + exists q. split; [lia|]. split; [exact Eq|]. intros j Hj E.
      destruct (Nat.eq_dec j n) as [-> |]; [exact C | apply IH; [lia | exact E]].
    + exists n. split; [lia|]. split; [exact Z|]. intros j Hj E.
      destruct (Nat.eq_dec j n) as [-> |]; [lra|]. specialize (IH j ltac:(lia) E). lra.
Qed.

Lemma rsum_ge_two k g i j : (forall l, 0 <= g l) -> (i < k)%nat -> (j < k)%nat -> i <> j -> g i + g j <= rsum k g.
Proof.
  intros H Hi Hj N. rewrite <- (rsum_delta k i g Hi), <- (rsum_delta k j g Hj), <- rsum_plus.
  apply rsum_le; intros l _. specialize (H l).
  destruct (Nat.eqb_spec l i); destruct (Nat.eqb_spec l j); try lra. congruence.
Qed.

Section Row.
Variables (n : nat) (m sigma f : vec).
Hypothesis Hm : valid_row n m.
Hypothesis Hs : probability n sigma.
Hypothesis Hsm : forall j, sigma j * m j = sigma j.

(* J^2 >= l J, l a lower bound of the allowed entries *)
Lemma jacobian_square_masked l v : 0 <= l -> (forall j, (j < n)%nat -> m j = 1 -> l <= sigma j) ->
  l * covariance n sigma v v <= sqnorm n (jacobian n sigma v).
Proof.
  intros l0 Hl. destruct Hm as [H01 [j0 [Hj0 E0]]].
  assert (S : 0 < rsum n m).
  { apply Rlt_le_trans with (m j0); [lra|]. apply rsum_ge_term; [|exact Hj0].
    intros j _. destruct (H01 j) as [-> | ->]; lra. }
  set (a := rsum n (fun j => m j * v j) / rsum n m). set (w := fun j => m j * (v j - a)).
  set (g := jacobian n sigma v).
  assert (W0 : rsum n w = 0).
  { unfold w. rewrite (rsum_ext n _ (fun j => m j * v j - a * m j)) by (intros; ring).
    rewrite rsum_minus, rsum_scal. unfold a. field. lra. }
  assert (G : forall j, m j * g j = g j).
  { intro j. unfold g, jacobian. rewrite <- Rmult_assoc, (Rmult_comm (m j)), Hsm. reflexivity. }
  assert (E : covariance n sigma v v = rsum n (fun j => w j * g j)).
  { rewrite <- (ip_jacobian n sigma Hs v v). fold g.
    assert (G0 : rsum n g = 0) by apply (centred_sum n sigma Hs v).
    transitivity (rsum n (fun j => v j * g j) - a * rsum n g); [rewrite G0; ring|].
    rewrite <- rsum_scal, <- rsum_minus. apply rsum_ext; intros j _.
    replace (w j * g j) with ((v j - a) * (m j * g j)) by (unfold w; ring). rewrite G. ring. }
  assert (B : l * l * sqnorm n w <= sqnorm n g).
  { eapply Rle_trans; [apply (row_lower n m sigma w l l0 H01 Hl); [|exact W0]|].
    - intros j _ Z. unfold w. rewrite Z. ring.
    - right. apply rsum_ext; intros j _. unfold g, w. rewrite (jacobian_shift n sigma Hs m v a j Hsm). reflexivity. }
  pose proof (rsum_cauchy_schwarz n w g) as CS. rewrite <- E in CS.
  change (rsum n (fun i => w i * w i)) with (sqnorm n w) in CS.
  change (rsum n (fun i => g i * g i)) with (sqnorm n g) in CS.
  pose proof (sqnorm_nonneg n g) as P. eapply Rle_trans; [apply Rle_abs|]. apply Rabs_le_of_sqr; [exact P|].
  replace (l * covariance n sigma v v * (l * covariance n sigma v v))
    with (l * l * (covariance n sigma v v * covariance n sigma v v)) by ring.
  apply Rle_trans with (l * l * (sqnorm n w * sqnorm n g)).
  - apply Rmult_le_compat_l; [apply sq_nonneg | exact CS].
  - rewrite <- Rmult_assoc. apply Rmult_le_compat_r; assumption.
Qed.

Variable fmin : R.
Hypothesis H0 : 0 <= fmin.
Hypothesis Hf : forall j, (j < n)%nat -> m j = 1 -> fmin <= f j.
Let e : vec := fun j => sigma j - f j.
Hypothesis He : 5 * sqnorm n e <= fmin * fmin.

Lemma row_convex v : 0 <= bil n sigma f v v.
Proof.
  destruct Hm as [H01 [j0 [Hj0 E0]]].
  destruct (least_allowed n m e H01) as [Z | [q [Hq [Eq Low]]]]; [rewrite Z in E0 by exact Hj0; lra|].
  assert (B : forall j, (j < n)%nat -> e j - 2 * e q <= fmin).
  { intros j Hj. eapply Rle_trans; [apply Rle_abs|]. apply Rabs_le_of_sqr; [exact H0|]. eapply Rle_trans; [|exact He].
    destruct (Nat.eq_dec j q) as [-> | Ne].
    - pose proof (rsum_ge_term n (fun j => e j * e j) q (fun j _ => sq_nonneg (e j)) Hq) as Q. cbv beta in Q.
      unfold sqnorm. pose proof (sq_nonneg (e q)). nra.
    - pose proof (rsum_ge_two n (fun j => e j * e j) j q (fun j => sq_nonneg (e j)) Hj Hq Ne) as Q. cbv beta in Q.
      unfold sqnorm. pose proof (sq_nonneg (2 * e j + e q)). nra. }
  set (l := fmin + e q). assert (l0 : 0 <= l) by (specialize (B q Hq); unfold l; lra).
  assert (Hl : forall j, (j < n)%nat -> m j = 1 -> l <= sigma j).
  { intros j Hj E. pose proof (Hf j Hj E). pose proof (Low j Hj E) as Q. unfold l, e in *. lra. }
  set (r := mean n sigma e - e q).
  assert (R : r <= l).
  { enough (mean n sigma e <= fmin + 2 * e q) by (unfold r, l; lra).
    apply Rle_trans with (rsum n (fun j => (fmin + 2 * e q) * sigma j)); [|rewrite rsum_scal, (proj2 Hs); lra].
    apply rsum_le; intros j Hj. rewrite (Rmult_comm (fmin + _)).
    apply Rmult_le_compat_l; [apply (proj1 Hs), Hj | specialize (B j Hj); lra]. }
  assert (T : - r * covariance n sigma v v <= third n sigma f v v).
  { unfold third, covariance. cbv zeta. fold e. rewrite <- rsum_scal. apply rsum_le; intros j Hj.
    pose proof (proj1 Hs j Hj) as P. set (y := v j - mean n sigma v). pose proof (sq_nonneg y).
    replace (- r * (sigma j * (y * y))) with (sigma j * (- r * (y * y))) by ring.
    destruct (H01 j) as [Z | Z]; [rewrite <- (Hsm j), Z; lra|].
    apply Rmult_le_compat_l; [exact P|]. rewrite Rmult_assoc. apply Rmult_le_compat_r; [assumption|].
    specialize (Low j Hj Z). change (sigma j - f j) with (e j). unfold r. lra. }
  pose proof (jacobian_square_masked l v l0 Hl) as J. pose proof (variance_nonneg n sigma Hs v) as V.
  pose proof (Rmult_le_compat_r _ _ _ V R). unfold bil. fold (sqnorm n (jacobian n sigma v)). lra.
Qed.
End Row.

Theorem convex_near_dense n d X W Mc lam M D fmin : valid_mask n Mc -> 0 <= fmin ->
  delta_allowed Mc n (f n d X Mc W) fmin -> nF n n (c n d X W Mc M) <= fmin / sqrt 5 ->
  exists h, is_derive (fun t => ip d d (grad n d X W Mc lam (mline M t D)) D) 0 h /\ lam * nsq d d D <= h.
Proof.
  intros HMc H0 Hf Hc. exists (curvature n d X W Mc lam (mline M 0 D) D).
  split; [apply second_derivative, HMc|]. unfold curvature.
  enough (0 <= rsum n (fun i => bil n (f n d X Mc (had (mline M 0 D) W) i) (f n d X Mc W i)
    (logit d X (had D W) i) (logit d X (had D W) i))) by lra.
  assert (B : 5 * nsq n n (c n d X W Mc (mline M 0 D)) <= fmin * fmin).
  { rewrite (nsq_ext n n _ (c n d X W Mc M)).
    2:{ intros i j _ _. apply c_ext. intros a b _ _. unfold mline. ring. }
    apply nsq_le_of_nF in Hc. pose proof (sqrt_sqrt 5 ltac:(lra)) as S. pose proof (sqrt_lt_R0 5 ltac:(lra)).
    replace (fmin / sqrt 5 * (fmin / sqrt 5)) with (fmin * fmin / (sqrt 5 * sqrt 5)) in Hc by (field; lra).
    rewrite S in Hc. lra. }
  apply rsum_nonneg; intros i Hi. apply (row_convex n (Mc i)) with fmin; try assumption.
  - apply HMc, Hi.
  - apply f_probability; assumption.
  - intro j. apply f_mask_idem; assumption.
  - intros j Hj E. apply Hf; assumption.
  - eapply Rle_trans; [|exact B]. apply Rmult_le_compat_l; [lra|].
    apply (rsum_ge_term n (fun i => rsum n (fun j => c n d X W Mc (mline M 0 D) i j * c n d X W Mc (mline M 0 D) i j)) i);
      [|exact Hi].
    intros; apply sqnorm_nonneg.
Qed.

(* ---- as Trusted.v states it ---- *)
Definition checked_convex_near_dense : Statement.convex_near_dense := convex_near_dense.
