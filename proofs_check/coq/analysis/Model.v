(* The paper's objects over the standard reals, for all n and d (k = 1 sample).

     X : n x d, W : d x d, M : d x d mask on the weights, Mc : n x n attention mask
     logit V     = X V X^T                            V = W, or V = M o W
     u V         = exp(X V X^T)                       def:exp_func
     alpha V     = (u V o Mc) 1                       def:sum_func
     f V         = diag(alpha)^{-1} (u V o Mc)        def:soft_prob_func
     c M         = f (M o W) - f W                    def:one_unit_loss
     Lattn M     = 1/2 ||c M||_F^2                    def:rec_err
     Lreg lam M  = 1/2 lam ||M||_F^2                  def:reg_term
     L lam M     = Lattn M + Lreg lam M               def:loss_func
     p M         = c o f~ - diag((c o f~) 1) f~       def:p
     grad lam M  = W o (X^T p X) + lam M              thm:mat_view_l's closed form

   The attention mask is an argument, so that every theorem says which reading it is
   about: `full` (every position allowed), `causal` (def:mask), or any 0/1 matrix with
   at least one allowed position per row (valid_mask).                              *)
Require Import Reals Lra Lia.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow.
Open Scope R_scope.

Section Model.
Variables (n d : nat) (X W Mc : mat).

Notation logit := (Analysis.logit d X).
Notation u := (Analysis.u d X).
Notation alpha := (Analysis.alpha n d X Mc).
Notation f := (Analysis.f n d X Mc).
Notation c := (Analysis.c n d X W Mc).
Notation p := (Analysis.p n d X W Mc).
Notation adjoint := (Analysis.adjoint n X W).

(* f V, row by row, is the masked softmax of SoftmaxRow.v *)
Lemma f_softmax V i j : f V i j = softmax n (Mc i) (logit V i) j.
Proof. reflexivity. Qed.

Lemma p_jacobian M i j : p M i j = jacobian n (f (had M W) i) (c M i) j.
Proof.
  unfold Analysis.p, jacobian, mean.
  rewrite (rsum_ext n (fun j => f (had M W) i j * c M i j) (fun k => c M i k * f (had M W) i k))
    by (intros; ring). ring.
Qed.

(* ---- the logits are linear in the mask ---- *)
Lemma logit_linear V D t i j :
  logit (fun a b => V a b + t * D a b) i j = logit V i j + t * logit D i j.
Proof.
  unfold Analysis.logit. rewrite <- rsum_scal, <- rsum_plus. apply rsum_ext; intros a _.
  rewrite <- rsum_scal, <- rsum_plus. apply rsum_ext; intros b _. ring.
Qed.

Lemma logit_ext V V' i j : (forall a b, (a < d)%nat -> (b < d)%nat -> V a b = V' a b) ->
  logit V i j = logit V' i j.
Proof.
  intro H. apply rsum_ext; intros a Ha. apply rsum_ext; intros b Hb. rewrite H; auto.
Qed.

Lemma logit_line M t D i j :
  logit (had (mline M t D) W) i j = logit (had M W) i j + t * logit (had D W) i j.
Proof.
  rewrite <- logit_linear. apply logit_ext; intros a b _ _. unfold had, mline. ring.
Qed.

Lemma logit_sub M M' i j :
  logit (had M' W) i j - logit (had M W) i j = logit (had (msub M' M) W) i j.
Proof.
  rewrite (logit_ext (had M' W) (fun a b => had M W a b + 1 * had (msub M' M) W a b)).
  - rewrite logit_linear. ring.
  - intros a b _ _. unfold had, msub. ring.
Qed.

Lemma f_ext V V' i j : (forall a b, (a < d)%nat -> (b < d)%nat -> V a b = V' a b) ->
  f V i j = f V' i j.
Proof. intro H. rewrite !f_softmax. apply softmax_ext. intro l. apply logit_ext, H. Qed.

Lemma c_ext M M' i j : (forall a b, (a < d)%nat -> (b < d)%nat -> M a b = M' a b) ->
  c M i j = c M' i j.
Proof. intro H. unfold Analysis.c. f_equal. apply f_ext. intros a b Ha Hb. unfold had. rewrite H; auto. Qed.

(* <W o (X^T q X), D> = <q, X (D o W) X^T> *)
Lemma adjoint_ip q D : ip d d (adjoint q) D = ip n n q (logit (had D W)).
Proof.
  unfold ip, Analysis.adjoint, Analysis.logit, had.
  transitivity (rsum d (fun a => rsum d (fun b => rsum n (fun i => rsum n (fun j =>
    q i j * (X i a * (D a b * W a b) * X j b)))))).
  { apply rsum_ext; intros a _. apply rsum_ext; intros b _.
    rewrite (Rmult_comm (W a b)), Rmult_assoc, <- rsum_scal_r.
    apply rsum_ext; intros i _. rewrite <- rsum_scal_r. apply rsum_ext; intros j _. ring. }
  rewrite (rsum_ext d _ (fun a => rsum n (fun i => rsum n (fun j => rsum d (fun b =>
    q i j * (X i a * (D a b * W a b) * X j b)))))).
  2:{ intros a _. rewrite rsum_exchange. apply rsum_ext; intros i _. apply rsum_exchange. }
  rewrite rsum_exchange. apply rsum_ext; intros i _.
  rewrite rsum_exchange. apply rsum_ext; intros j _.
  rewrite <- rsum_scal. apply rsum_ext; intros a _. rewrite <- rsum_scal. reflexivity.
Qed.

(* ---- f is row-stochastic and vanishes at masked positions ---- *)
Section Valid.
Hypothesis HMc : valid_mask n Mc.

Lemma alpha_pos V i : (i < n)%nat -> 0 < alpha V i.
Proof. intro Hi. exact (partition_pos n (Mc i) (HMc i Hi) (logit V i)). Qed.

Lemma f_probability V i : (i < n)%nat -> probability n (f V i).
Proof. intro Hi. exact (softmax_probability n (Mc i) (HMc i Hi) (logit V i)). Qed.

Lemma f_nonneg V i j : (i < n)%nat -> 0 <= f V i j.
Proof. intro Hi. exact (softmax_nonneg n (Mc i) (HMc i Hi) (logit V i) j). Qed.

Lemma f_sum V i : (i < n)%nat -> rsum n (f V i) = 1.
Proof. intro Hi. apply (f_probability V i Hi). Qed.

Lemma f_le1 V i j : (i < n)%nat -> (j < n)%nat -> f V i j <= 1.
Proof. intros Hi Hj. apply (probability_le1 n); [apply f_probability, Hi | exact Hj]. Qed.

Lemma f_mask_idem V i j : (i < n)%nat -> f V i j * Mc i j = f V i j.
Proof. intro Hi. exact (softmax_mask_idem n (Mc i) (HMc i Hi) (logit V i) j). Qed.

Lemma c_sum M i : (i < n)%nat -> rsum n (c M i) = 0.
Proof. intro Hi. unfold Analysis.c. rewrite rsum_minus, !f_sum by exact Hi. ring. Qed.

Lemma c_abs_le1 M i j : (i < n)%nat -> (j < n)%nat -> -1 <= c M i j <= 1.
Proof.
  intros Hi Hj. unfold Analysis.c.
  pose proof (f_nonneg (had M W) i j Hi). pose proof (f_nonneg W i j Hi).
  pose proof (f_le1 (had M W) i j Hi Hj). pose proof (f_le1 W i j Hi Hj). lra.
Qed.
End Valid.

Lemma f_masked V i j : Mc i j = 0 -> f V i j = 0.
Proof. intro E. unfold Analysis.f. rewrite E. unfold Rdiv. ring. Qed.

Lemma c_masked M i j : Mc i j = 0 -> c M i j = 0.
Proof. intro E. unfold Analysis.c. rewrite !f_masked by exact E. ring. Qed.
End Model.

(* ---- the two masks of the paper are valid for every n ---- *)
Lemma full_valid n : valid_mask n full.
Proof.
  intros i Hi. split; [right; reflexivity|]. exists i. split; [exact Hi | reflexivity].
Qed.

Lemma causal_valid n : valid_mask n causal.
Proof.
  intros i Hi. split.
  - intro j. unfold causal. destruct (Nat.leb j i); auto.
  - exists i. split; [exact Hi|]. unfold causal. rewrite Nat.leb_refl. reflexivity.
Qed.
