(* A batch of k samples is one sample: their tokens below each other, under a block-diagonal attention mask.

   The attention errors add up (batch_loss) and so do the gradients (batch_gradient), so that
     (1/k) sum_s L_attn,s + (lam/2) ||M||^2 = (1/k) (L_attn + (k lam/2) ||M||^2),
   and a step of eta on the batch is a step of eta/k on the stacked tokens with k lam (batch_descent).  What is proved for
   one sample and every mask therefore speaks of batches: two instances are written out.                                *)
Require Import Reals Lra Lia Arith FunctionalExtensionality.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model Gradient LipschitzGradient Descent.
From AttnPrune.analysis Require Import OnesWitness Confinement PLTrueGradient MainTheorem SharpTheorem HeavyBall.
Open Scope R_scope.

Lemma rsum_add (a b : nat) (g : nat -> R) : rsum (a + b) g = rsum a g + rsum b (fun i => g (a + i)%nat).
Proof. induction b as [|b IH]; [rewrite Nat.add_0_r; simpl; ring|]. rewrite Nat.add_succ_r. simpl. rewrite IH. ring. Qed.
Lemma rsum_blocks (k n : nat) (g : nat -> R) : rsum (k * n) g = rsum k (fun s => rsum n (fun i => g (s * n + i)%nat)).
Proof. induction k as [|k IH]; [reflexivity|]. replace (S k * n)%nat with (k * n + n)%nat by lia. rewrite rsum_add, IH. reflexivity. Qed.
Lemma div_block (n s i : nat) : (i < n)%nat -> ((s * n + i) / n = s)%nat.
Proof. intro H. rewrite Nat.div_add_l by lia. rewrite Nat.div_small by exact H. lia. Qed.
Lemma mod_block (n s i : nat) : (i < n)%nat -> ((s * n + i) mod n = i)%nat.
Proof. intro H. rewrite Nat.add_comm, Nat.mod_add by lia. apply Nat.mod_small, H. Qed.

Section Batch.
Variables (n d k : nat) (Xs : nat -> mat) (W mc : mat).
Notation X := (stack n Xs).
Notation Mc := (block n mc).

(* a sum over a block row has one block *)
Lemma rsum_block_row s (g : nat -> nat -> R) : (s < k)%nat ->
  (forall s' j, (j < n)%nat -> s' <> s -> g s' j = 0) ->
  rsum k (fun s' => rsum n (g s')) = rsum n (g s).
Proof.
  intros Hs Z. rewrite <- (rsum_delta k s (fun s' => rsum n (g s')) Hs). apply rsum_ext; intros s' _.
  destruct (Nat.eqb_spec s' s) as [-> | N]; [reflexivity|]. apply rsum_zero; intros j Hj. apply Z; assumption.
Qed.

Lemma logit_block V s i s' j : (i < n)%nat -> (j < n)%nat -> s = s' ->
  logit d X V (s * n + i)%nat (s' * n + j)%nat = logit d (Xs s) V i j.
Proof. intros Hi Hj <-. unfold logit, stack. rewrite !div_block, !mod_block by assumption. reflexivity. Qed.

Lemma alpha_block V s i : (s < k)%nat -> (i < n)%nat ->
  alpha (k * n) d X Mc V (s * n + i)%nat = alpha n d (Xs s) mc V i.
Proof.
  intros Hs Hi. unfold alpha. rewrite rsum_blocks.
  rewrite (rsum_block_row s (fun s' j => u d X V (s * n + i)%nat (s' * n + j)%nat * Mc (s * n + i)%nat (s' * n + j)%nat) Hs).
  - apply rsum_ext; intros j Hj. unfold u, block. rewrite logit_block by (assumption || reflexivity).
    rewrite !div_block, !mod_block, Nat.eqb_refl by assumption. reflexivity.
  - intros s' j Hj N. unfold block. rewrite !div_block by assumption. destruct (Nat.eqb_spec s s'); [congruence | ring].
Qed.

Lemma f_block V s i s' j : (s < k)%nat -> (i < n)%nat -> (j < n)%nat ->
  f (k * n) d X Mc V (s * n + i)%nat (s' * n + j)%nat = if Nat.eqb s' s then f n d (Xs s) mc V i j else 0.
Proof.
  intros Hs Hi Hj. unfold f. rewrite alpha_block by assumption. unfold block at 1. rewrite !div_block, !mod_block by assumption.
  destruct (Nat.eqb_spec s' s) as [-> | N].
  - rewrite Nat.eqb_refl. unfold u. rewrite logit_block by (assumption || reflexivity). reflexivity.
  - destruct (Nat.eqb_spec s s'); [congruence|]. unfold Rdiv. ring.
Qed.

Lemma c_block M s i s' j : (s < k)%nat -> (i < n)%nat -> (j < n)%nat ->
  c (k * n) d X W Mc M (s * n + i)%nat (s' * n + j)%nat = if Nat.eqb s' s then c n d (Xs s) W mc M i j else 0.
Proof. intros Hs Hi Hj. unfold c. rewrite !f_block by assumption. destruct (Nat.eqb s' s); ring. Qed.

Lemma nsq_blocks M : nsq (k * n) (k * n) (c (k * n) d X W Mc M) = rsum k (fun s => nsq n n (c n d (Xs s) W mc M)).
Proof.
  unfold nsq. rewrite rsum_blocks. apply rsum_ext; intros s Hs. apply rsum_ext; intros i Hi. rewrite rsum_blocks.
  rewrite (rsum_block_row s (fun s' j => c (k * n) d X W Mc M (s * n + i)%nat (s' * n + j)%nat
    * c (k * n) d X W Mc M (s * n + i)%nat (s' * n + j)%nat) Hs).
  - apply rsum_ext; intros j Hj. rewrite c_block, Nat.eqb_refl by assumption. reflexivity.
  - intros s' j Hj N. rewrite c_block by assumption. destruct (Nat.eqb_spec s' s); [congruence | ring].
Qed.

Theorem batch_loss M : Lattn (k * n) d X W Mc M = rsum k (fun s => Lattn n d (Xs s) W mc M).
Proof. unfold Lattn. rewrite rsum_scal, nsq_blocks. reflexivity. Qed.

Lemma p_block M s i s' j : (s < k)%nat -> (i < n)%nat -> (j < n)%nat ->
  p (k * n) d X W Mc M (s * n + i)%nat (s' * n + j)%nat = if Nat.eqb s' s then p n d (Xs s) W mc M i j else 0.
Proof.
  intros Hs Hi Hj. unfold p. rewrite rsum_blocks.
  rewrite (rsum_block_row s (fun s' j => c (k * n) d X W Mc M (s * n + i)%nat (s' * n + j)%nat
    * f (k * n) d X Mc (had M W) (s * n + i)%nat (s' * n + j)%nat) Hs).
  - rewrite (rsum_ext n _ (fun l => c n d (Xs s) W mc M i l * f n d (Xs s) mc (had M W) i l))
      by (intros; rewrite c_block, f_block, Nat.eqb_refl by assumption; reflexivity).
    rewrite c_block, f_block by assumption. destruct (Nat.eqb s' s); ring.
  - intros s1 l Hl N. rewrite c_block by assumption. destruct (Nat.eqb_spec s1 s); [congruence | ring].
Qed.

Lemma batch_gradient M a b : adjoint (k * n) X W (p (k * n) d X W Mc M) a b
  = rsum k (fun s => adjoint n (Xs s) W (p n d (Xs s) W mc M) a b).
Proof.
  unfold adjoint. rewrite rsum_scal. f_equal. rewrite rsum_blocks. apply rsum_ext; intros s Hs. apply rsum_ext; intros i Hi.
  rewrite rsum_blocks.
  rewrite (rsum_block_row s (fun s' j => X (s * n + i)%nat a * p (k * n) d X W Mc M (s * n + i)%nat (s' * n + j)%nat
    * X (s' * n + j)%nat b) Hs).
  - apply rsum_ext; intros j Hj. rewrite p_block, Nat.eqb_refl by assumption. unfold stack.
    rewrite !div_block, !mod_block by assumption. reflexivity.
  - intros s' j Hj N. rewrite p_block by assumption. destruct (Nat.eqb_spec s' s); [congruence | ring].
Qed.

Variables (lam eta : R).
Hypothesis Hk : (0 < k)%nat.

Lemma k_pos : 0 < INR k.
Proof. apply lt_0_INR, Hk. Qed.

Lemma batch_loss_scaled M : L_batch n d k Xs W mc lam M = / INR k * L (k * n) d X W Mc (INR k * lam) M.
Proof. pose proof k_pos. unfold L_batch, L, Lreg. rewrite batch_loss. field. lra. Qed.

Lemma batch_gradient_scaled M :
  grad_batch n d k Xs W mc lam M = fun a b => / INR k * grad (k * n) d X W Mc (INR k * lam) M a b.
Proof.
  pose proof k_pos. extensionality a. extensionality b. unfold grad_batch, grad. rewrite batch_gradient. field. lra.
Qed.

Lemma batch_descent M0 t : gd (grad_batch n d k Xs W mc lam) eta M0 t
  = gd (grad (k * n) d X W Mc (INR k * lam)) (eta / INR k) M0 t.
Proof.
  pose proof k_pos. induction t as [|t IH]; [reflexivity|]. simpl. rewrite IH. unfold gd_step.
  rewrite batch_gradient_scaled. extensionality a. extensionality b. field. lra.
Qed.
End Batch.

Lemma block_valid n k mc : (0 < n)%nat -> valid_mask n mc -> valid_mask (k * n) (block n mc).
Proof.
  intros Hn H q Hq. assert (Hm : (q mod n < n)%nat) by (apply Nat.mod_upper_bound; lia).
  destruct (H (q mod n)%nat Hm) as [H01 [j [Hj Ej]]]. split.
  - intro l. unfold block. destruct (Nat.eqb (q / n) (l / n)); [apply H01 | left; reflexivity].
  - assert (Hd : (q / n < k)%nat) by (apply Nat.div_lt_upper_bound; lia).
    exists (q / n * n + j)%nat. split; [nia|].
    unfold block. rewrite div_block, mod_block, Nat.eqb_refl by exact Hj. exact Ej.
Qed.

Theorem batch_stacked n d k Xs W mc lam eta : (0 < n)%nat -> (0 < k)%nat -> valid_mask n mc ->
  let X := stack n Xs in let Mc := block n mc in let lam' := INR k * lam in valid_mask (k * n) Mc /\
  (forall M, L_batch n d k Xs W mc lam M = / INR k * L (k * n) d X W Mc lam' M) /\
  (forall M a b, grad_batch n d k Xs W mc lam M a b = / INR k * grad (k * n) d X W Mc lam' M a b) /\
  forall M0 t, gd (grad_batch n d k Xs W mc lam) eta M0 t = gd (grad (k * n) d X W Mc lam') (eta / INR k) M0 t.
Proof.
  intros Hn Hk Hv X Mc lam'. split; [apply block_valid; assumption|].
  split; [intro M; apply batch_loss_scaled, Hk|].
  split; [intros M a b; rewrite batch_gradient_scaled by exact Hk; reflexivity|].
  intros M0 t. apply batch_descent, Hk.
Qed.

(* the gradient is the gradient *)
Theorem batch_partials n d k Xs W mc lam M a b : (0 < n)%nat -> (0 < k)%nat -> valid_mask n mc ->
  (a < d)%nat -> (b < d)%nat ->
  is_derive (fun t => L_batch n d k Xs W mc lam (upd M a b t)) (M a b) (grad_batch n d k Xs W mc lam M a b).
Proof.
  intros Hn Hk Hv Ha Hb. destruct (batch_stacked n d k Xs W mc lam 0 Hn Hk Hv) as [HMc [HL [HG _]]].
  apply (is_derive_ext (fun t => / INR k * L (k * n) d (stack n Xs) W (block n mc) (INR k * lam) (upd M a b t)));
    [intro t; symmetry; apply HL|]. rewrite HG.
  apply (is_derive_scal (fun t => L (k * n) d (stack n Xs) W (block n mc) (INR k * lam) (upd M a b t))).
  apply mat_view_l; assumption.
Qed.

Theorem batch_confinement n d k Xs W mc lam C K eta t : (0 < k)%nat ->
  step_ok (k * n) d (stack n Xs) W (block n mc) (INR k * lam) C K (eta / INR k) 2 ->
  let M := gd (grad_batch n d k Xs W mc lam) eta ones t in
  nsq d d M + / (INR k * lam) * rsum k (fun s => nsq n n (c n d (Xs s) W mc M)) <= INR d * INR d.
Proof.
  intros Hk S M. unfold M. rewrite batch_descent by exact Hk. rewrite <- nsq_blocks.
  apply (checked_confinement (k * n)%nat d (stack n Xs) W (block n mc) (INR k * lam) C K (eta / INR k) t S).
Qed.

Theorem batch_gradient_norm n d k Xs W mc lam C K eta r T : (0 < d)%nat -> (0 < k)%nat -> 0 < r -> (1 <= T)%nat ->
  step_ok (k * n) d (stack n Xs) W (block n mc) (INR k * lam) C K (eta / INR k) 1 -> / (eta * lam * r ^ 2) <= INR T ->
  let G := grad_batch n d k Xs W mc lam in exists t, (t < T)%nat /\ nF d d (G (gd G eta ones t)) <= r * lam * INR d.
Proof.
  intros Hd Hk Hr HT S HN G. assert (K0 : 0 < INR k) by (apply lt_0_INR, Hk).
  assert (E : eta / INR k * (INR k * lam) * r ^ 2 = eta * lam * r ^ 2) by (field; lra).
  destruct (checked_gradient_norm (k * n)%nat d (stack n Xs) W (block n mc) (INR k * lam) C K (eta / INR k) r T Hd Hr HT S)
    as [t [Ht B]]; [rewrite E; exact HN|].
  exists t. split; [exact Ht|]. unfold G at 2. rewrite batch_descent by exact Hk. unfold G.
  rewrite batch_gradient_scaled by exact Hk. rewrite nF_scal, Rabs_pos_eq by (left; apply Rinv_0_lt_compat, K0).
  apply Rmult_le_reg_l with (INR k); [exact K0|]. rewrite <- Rmult_assoc, Rinv_r, Rmult_1_l by lra.
  eapply Rle_trans; [exact B|]. right. ring.
Qed.

(* ---- as Trusted.v states them ---- *)
Definition checked_batch_loss : Statement.batch_loss := batch_loss.
Definition checked_batch_stacked : Statement.batch_stacked := batch_stacked.
Definition checked_batch_partials : Statement.batch_partials := batch_partials.
Definition checked_batch_confinement : Statement.batch_confinement := batch_confinement.
Definition checked_batch_gradient_norm : Statement.batch_gradient_norm := batch_gradient_norm.
