(* new:logit_bound: K = max|W| ||X||^2 with the spectral norm of X, every valid mask. *)
Require Import Reals Lra Lia.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model LipschitzGradient.
Open Scope R_scope.

(* ||X V||^2 <= s^2 ||V||^2, column by column *)
Lemma spectral_mul n d k X s V : spectral n d X s ->
  nsq n k (fun i b => rsum d (fun a => X i a * V a b)) <= s * s * nsq d k V.
Proof.
  intros [_ H]. rewrite (nsq_transpose n k), (nsq_transpose d k). unfold nsq. rewrite <- rsum_scal.
  apply rsum_le; intros b _. exact (H (fun a => V a b)).
Qed.

Lemma logit_spectral n d X s V : spectral n d X s -> nsq n n (logit d X V) <= s * s * (s * s) * nsq d d V.
Proof.
  intro H. set (Y := fun i b => rsum d (fun a => X i a * V a b)).
  apply Rle_trans with (s * s * nsq n d Y).
  - rewrite (nsq_transpose n n), (nsq_transpose n d).
    eapply Rle_trans; [|apply (spectral_mul n d n X s (fun b i => Y i b) H)]. right.
    apply rsum_ext; intros j _. apply rsum_ext; intros i _.
    assert (E : logit d X V i j = rsum d (fun b => X j b * Y i b)); [|rewrite E; reflexivity].
    unfold logit, Y. rewrite rsum_exchange. apply rsum_ext; intros b _. rewrite <- rsum_scal.
    apply rsum_ext; intros a _. ring.
  - rewrite !Rmult_assoc. do 2 (apply Rmult_le_compat_l; [exact (proj1 H)|]).
    rewrite <- Rmult_assoc. apply spectral_mul, H.
Qed.

Theorem logit_bound_spectral n d X W Mc s wmax : valid_mask n Mc -> spectral n d X s -> 0 <= wmax ->
  (forall a b, (a < d)%nat -> (b < d)%nat -> Rabs (W a b) <= wmax) -> logit_bound n d X W Mc (wmax * (s * s)).
Proof.
  intros HMc Hs H0 H. pose proof (proj1 Hs). split; [repeat apply Rmult_le_pos; assumption|].
  intro N. exists (fun _ => 0). apply Rle_trans with (nsq n n (logit d X (had N W))).
  - apply rsum_le; intros i Hi. apply rsum_le; intros j _.
    destruct (proj1 (HMc i Hi) j) as [E | E]; rewrite E; [rewrite Rmult_0_l; apply sq_nonneg | lra].
  - eapply Rle_trans; [apply logit_spectral, Hs|].
    replace (wmax * (s * s) * (wmax * (s * s)) * nsq d d N) with (s * s * (s * s) * (wmax * wmax * nsq d d N)) by ring.
    apply Rmult_le_compat_l; [apply Rmult_le_pos; apply sq_nonneg|]. apply nsq_had_max; assumption.
Qed.

(* ---- as Trusted.v states them ---- *)
Definition checked_logit_bound_spectral : Statement.logit_bound_spectral := logit_bound_spectral.
