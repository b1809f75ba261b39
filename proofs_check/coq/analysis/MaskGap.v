(* new:certified_mask_gap: the divergence KL(f_i || softmax(z_i)) is convex in the logits z_i, and these are linear in
   the mask on the weights. So the tangent at any real matrix Y is below the divergence of every mask B,
     KL(B) >= KL(Y) + <G, B - Y>,   G = W o (X^T (F(Y) - f) X),
   and over the masks whose k ones may stand anywhere <G, B> is at least tau k + sum_ab min(G_ab - tau, 0), for
   every tau. The tangent of a row: log sum exp is convex, by exp x >= 1 + x at the mean.                          *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model.
Open Scope R_scope.

(* ---- one row ---- *)
Lemma log_partition n m s s' : valid_row n m ->
  mean n (softmax n m s) (fun j => s' j - s j) <= ln (partition n m s') - ln (partition n m s).
Proof.
  intro Hm. set (a := mean _ _ _).
  pose proof (partition_pos n m Hm s) as P. pose proof (partition_pos n m Hm s') as P'.
  assert (E : exp a * partition n m s <= partition n m s').
  { assert (Z : partition n m s * a = rsum n (fun j => exp (s j) * m j * (s' j - s j))).
    { unfold a, mean, softmax. rewrite <- rsum_scal. apply rsum_ext; intros. field. lra. }
    assert (B : rsum n (fun j => exp a * (exp (s j) * m j * (1 + (s' j - s j) - a))) <= partition n m s').
    { unfold partition. apply rsum_le. intros j Hj.
      assert (0 <= m j) by (destruct (proj1 Hm j) as [->| ->]; lra).
      replace (exp (s' j)) with (exp a * exp (s j) * exp (s' j - s j - a)) by (rewrite <- !exp_plus; f_equal; ring).
      pose proof (exp_pos a). pose proof (exp_pos (s j)). pose proof (exp_ineq1_le (s' j - s j - a)).
      assert (0 <= exp a * exp (s j) * m j) by (repeat apply Rmult_le_pos; lra). nra. }
    rewrite rsum_scal in B.
    replace (rsum n (fun j => exp (s j) * m j * (1 + (s' j - s j) - a))) with (partition n m s) in B; [exact B|].
    transitivity ((1 - a) * partition n m s + partition n m s * a); [ring|].
    rewrite Z. unfold partition. rewrite <- rsum_scal, <- rsum_plus. apply rsum_ext; intros. ring. }
  assert (0 < exp a * partition n m s) by (apply Rmult_lt_0_compat; [apply exp_pos | exact P]).
  assert (ln (exp a * partition n m s) <= ln (partition n m s')) by (apply ln_le; assumption).
  rewrite ln_mult, ln_exp in H0 by (try apply exp_pos; assumption). lra.
Qed.

(* the divergence, with the logarithm of the softmax written out *)
Lemma kl_row_logits n m f s : valid_row n m -> probability n f -> (forall j, m j = 0 -> f j = 0) ->
  kl_row n m f s = rsum n (fun j => f j * ln (f j)) - mean n f s + ln (partition n m s).
Proof.
  intros Hm [_ Hf] H0. pose proof (partition_pos n m Hm s) as P.
  transitivity (rsum n (fun j => (f j * ln (f j) - f j * s j) + f j * ln (partition n m s))).
  - apply rsum_ext; intros j _. destruct (proj1 Hm j) as [E|E].
    + rewrite (H0 j E). ring.
    + unfold softmax. rewrite E, Rmult_1_r. unfold Rdiv.
      rewrite ln_mult, ln_exp, ln_Rinv by (try apply exp_pos; try apply Rinv_0_lt_compat; exact P). ring.
  - rewrite rsum_plus, rsum_minus, rsum_scal_r, Hf. unfold mean. ring.
Qed.

Theorem kl_tangent n m f s s' : valid_row n m -> probability n f -> (forall j, m j = 0 -> f j = 0) ->
  kl_row n m f s + rsum n (fun j => (softmax n m s j - f j) * (s' j - s j)) <= kl_row n m f s'.
Proof.
  intros Hm Hf H0. rewrite !kl_row_logits by assumption.
  pose proof (log_partition n m s s' Hm) as H. unfold mean in *.
  replace (rsum n (fun j => (softmax n m s j - f j) * (s' j - s j)))
    with (rsum n (fun j => softmax n m s j * (s' j - s j)) - (rsum n (fun j => f j * s' j) - rsum n (fun j => f j * s j)))
    by (rewrite <- !rsum_minus; apply rsum_ext; intros; ring). lra.
Qed.

(* ---- all rows, and all masks ---- *)
Section Floor.
Variables (n d : nat) (X W Mc Y B : mat).

(* <c, z(B) - z(Y)> = <W o (X^T c X), B - Y> *)
Lemma logits_adjoint (q : mat) :
  rsum n (fun i => rsum n (fun j => q i j * (logit d X (had B W) i j - logit d X (had Y W) i j)))
  = ip d d (adjoint n X W q) B - ip d d (adjoint n X W q) Y.
Proof.
  assert (E : forall V, rsum n (fun i => rsum n (fun j => q i j * logit d X (had V W) i j)) = ip d d (adjoint n X W q) V).
  { intro V. unfold ip, Analysis.logit, Analysis.adjoint, had.
    transitivity (rsum n (fun i => rsum d (fun a => rsum d (fun b =>
      rsum n (fun j => W a b * (X i a * q i j * X j b) * V a b))))).
    - apply rsum_ext; intros i _.
      transitivity (rsum n (fun j => rsum d (fun a => rsum d (fun b => W a b * (X i a * q i j * X j b) * V a b)))).
      + apply rsum_ext; intros j _. rewrite <- rsum_scal. apply rsum_ext; intros a _. rewrite <- rsum_scal.
        apply rsum_ext; intros b _. ring.
      + rewrite rsum_exchange. apply rsum_ext; intros a _. apply rsum_exchange.
    - rewrite rsum_exchange. apply rsum_ext; intros a _. rewrite rsum_exchange. apply rsum_ext; intros b _.
      rewrite <- rsum_scal, <- rsum_scal_r. apply rsum_ext; intros i _. rewrite <- rsum_scal, <- rsum_scal_r. reflexivity. }
  rewrite <- !E, <- rsum_minus. apply rsum_ext; intros i _. rewrite <- rsum_minus. apply rsum_ext; intros. ring.
Qed.

Lemma entry_floor g b tau : 0 <= b <= 1 -> tau * b + Rmin (g - tau) 0 <= g * b.
Proof. intros [H0 H1]. unfold Rmin. destruct (Rle_dec (g - tau) 0); nra. Qed.

Theorem divergence_floor k tau : valid_mask n Mc -> box d B -> rsum d (fun a => rsum d (fun b => B a b)) = k ->
  let G := adjoint n X W (c n d X W Mc Y) in
  KL n d X W Mc Y - ip d d G Y + (tau * k + rsum d (fun a => rsum d (fun b => Rmin (G a b - tau) 0)))
  <= KL n d X W Mc B.
Proof.
  intros Hm HB <- G.
  assert (T : KL n d X W Mc Y + (ip d d G B - ip d d G Y) <= KL n d X W Mc B).
  { unfold G. rewrite <- logits_adjoint. unfold KL. rewrite <- rsum_plus. apply rsum_le; intros i Hi.
    apply (kl_tangent n (Mc i) (f n d X Mc W i)); [apply Hm, Hi | | ].
    - split; [intros; apply (softmax_nonneg n (Mc i) (Hm i Hi)) | apply (softmax_sum n (Mc i) (Hm i Hi))].
    - intros j E. apply (softmax_masked n (Mc i)). exact E. }
  assert (S : tau * rsum d (fun a => rsum d (fun b => B a b)) + rsum d (fun a => rsum d (fun b => Rmin (G a b - tau) 0))
              <= ip d d G B).
  { unfold ip. rewrite <- rsum_scal, <- rsum_plus. apply rsum_le; intros a Ha.
    rewrite <- rsum_scal, <- rsum_plus. apply rsum_le; intros b Hb. apply entry_floor, HB; assumption. }
  lra.
Qed.
End Floor.

(* ---- as Trusted.v states them ---- *)
Definition checked_kl_tangent : Statement.kl_tangent := kl_tangent.
Definition checked_divergence_floor : Statement.divergence_floor := divergence_floor.
