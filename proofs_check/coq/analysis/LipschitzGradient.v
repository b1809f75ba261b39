(* Lipschitz constants of the attention matrix and of the gradient, for every valid mask
   and on all of R^{d x d}.

   logit_bound K says that K bounds the operator norm of  N -> X (N o W) X^T  seen through
   the softmax: over the allowed positions, and up to a constant per row.  Two instances:
   the norm ||Pi A|| with the row mean as the constant, and max|W| ||X||_F^2
   (logit_bound_frobenius), which is at most R^3 under asp:bound_parameters.

     ||f~(M') - f~(M)||_F       <= (K/2) ||M' - M||_F
     ||grad L(M') - grad L(M)|| <= (lam + C K^2) ||M' - M||_F,   C = 5/4 here, and
                                        C = C_+ = 0.30811... in LipschitzSharp.v

   From these follow lem:lip_f, lem:lip_c and thm:lip_grad_l with the paper's constants.  *)
Require Import Reals Lra Lia.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model RowHessian.
Open Scope R_scope.

Theorem row_constant_five_quarters : row_constant (5 / 4).
Proof. split; [lra|]. intros. apply p_row_lipschitz; assumption. Qed.

Section Bounds.
Variables (n d : nat) (X W Mc : mat) (K : R).
Hypothesis HMc : valid_mask n Mc.
Hypothesis HK : logit_bound n d X W Mc K.

Notation logit := (logit d X).
Notation f := (f n d X Mc).
Notation p := (p n d X W Mc).
Notation c := (c n d X W Mc).
Notation adjoint := (adjoint n X W).

Lemma masked_sqnorm_ext m v v' a : (forall j, v j = v' j) -> masked_sqnorm n m v a = masked_sqnorm n m v' a.
Proof. intro E. apply rsum_ext; intros j _. rewrite E. reflexivity. Qed.

Lemma logit_difference M M' i a :
  masked_sqnorm n (Mc i) (fun j => logit (had M' W) i j - logit (had M W) i j) a
  = masked_sqnorm n (Mc i) (logit (had (msub M' M) W) i) a.
Proof. apply masked_sqnorm_ext. intro j. apply logit_sub. Qed.

(* rows that are C-Lipschitz in the logits make a matrix that is (C K)-Lipschitz in M *)
Lemma rows_to_matrix C (g : mat -> mat) M M' : 0 <= C ->
  (forall i a, (i < n)%nat -> sqnorm n (fun j => g M' i j - g M i j)
     <= C * C * masked_sqnorm n (Mc i) (fun j => logit (had M' W) i j - logit (had M W) i j) a) ->
  nF n n (msub (g M') (g M)) <= C * K * nF d d (msub M' M).
Proof.
  intros HC H. destruct HK as [K0 HKN]. destruct (HKN (msub M' M)) as [a Ha].
  apply nF_le_of_nsq; [repeat apply Rmult_le_pos; try assumption; apply nF_nonneg|].
  apply Rle_trans with (rsum n (fun i => C * C * masked_sqnorm n (Mc i) (logit (had (msub M' M) W) i) (a i))).
  - apply rsum_le; intros i Hi. rewrite <- logit_difference. apply H, Hi.
  - rewrite rsum_scal.
    replace (C * K * nF d d (msub M' M) * (C * K * nF d d (msub M' M)))
      with (C * C * (K * K * nsq d d (msub M' M))) by (rewrite <- nF_sq; ring).
    apply Rmult_le_compat_l; [nra | exact Ha].
Qed.

(* Lip(f~) = K/2 *)
Theorem lip_f_half_K M M' :
  nF n n (msub (f (had M' W)) (f (had M W))) <= / 2 * K * nF d d (msub M' M).
Proof.
  apply (rows_to_matrix (/ 2) (fun M => f (had M W))); [lra|]. intros i a Hi.
  replace (/ 2 * / 2) with (/ 4) by field. apply softmax_lipschitz, HMc, Hi.
Qed.

(* c = f~ - f has the same constant *)
Theorem lip_c_half_K M M' : nF n n (msub (c M') (c M)) <= / 2 * K * nF d d (msub M' M).
Proof.
  eapply Rle_trans; [|apply lip_f_half_K]. right. unfold nF. f_equal.
  apply nsq_ext; intros. unfold msub, Analysis.c. ring.
Qed.

(* p as a row function of the softmax *)
Lemma p_is_p_row M i j : p M i j = p_row n (f (had M W) i) (f W i) j.
Proof. rewrite p_jacobian. reflexivity. Qed.

Theorem lip_p C M M' : row_constant C ->
  nF n n (msub (p M') (p M)) <= C * K * nF d d (msub M' M).
Proof.
  intros [C0 HC]. apply (rows_to_matrix C p); [exact C0|]. intros i a Hi.
  eapply Rle_trans; [|apply (HC n (Mc i) (f W i)); [apply HMc, Hi | apply f_probability; assumption]].
  right. apply rsum_ext; intros j _. rewrite !p_is_p_row. reflexivity.
Qed.

(* ||W o (X^T q X)|| <= K ||q|| for q supported on the mask with zero row sums *)
Lemma adjoint_bound q :
  (forall i j, (i < n)%nat -> Mc i j = 0 -> q i j = 0) ->
  (forall i, (i < n)%nat -> rsum n (q i) = 0) ->
  nF d d (adjoint q) <= K * nF n n q.
Proof.
  intros Hq0 Hqs. destruct HK as [K0 HKN].
  set (N := adjoint q). destruct (HKN N) as [a Ha].
  apply nF_le_of_nsq; [apply Rmult_le_pos; [exact K0 | apply nF_nonneg]|].
  set (S := nsq d d N). set (v := logit (had N W)).
  set (y := fun i j => Mc i j * (v i j - a i)).
  assert (E : S = ip n n q y).
  { unfold S. rewrite <- ip_self. unfold N at 1. rewrite adjoint_ip. fold v.
    apply rsum_ext; intros i Hi. unfold y.
    rewrite (rsum_ext n (fun j => q i j * (Mc i j * (v i j - a i)))
              (fun j => q i j * v i j - a i * q i j)).
    - rewrite rsum_minus, rsum_scal, Hqs by exact Hi. ring.
    - intros j _. destruct (proj1 (HMc i Hi) j) as [E | E]; rewrite E.
      + rewrite (Hq0 i j Hi E). ring.
      + ring. }
  assert (Ny : nsq n n y <= K * K * S).
  { eapply Rle_trans; [|exact Ha]. right. apply rsum_ext; intros i Hi.
    rewrite masked_sqnormE by apply (proj1 (HMc i Hi)). reflexivity. }
  pose proof (ip_cauchy_schwarz_sq n n q y) as CS. rewrite <- E in CS.
  pose proof (nsq_nonneg d d N) as S0. fold S in S0. pose proof (nsq_nonneg n n q) as Q0.
  replace (K * nF n n q * (K * nF n n q)) with (K * K * nsq n n q) by (rewrite <- nF_sq; ring).
  destruct (Req_dec S 0) as [Z | Z].
  - rewrite Z. apply Rmult_le_pos; [nra | exact Q0].
  - apply Rmult_le_reg_l with S; [lra|]. eapply Rle_trans; [exact CS|].
    replace (S * (K * K * nsq n n q)) with (nsq n n q * (K * K * S)) by ring.
    apply Rmult_le_compat_l; assumption.
Qed.

Lemma adjoint_sub q q' a b : adjoint (msub q q') a b = adjoint q a b - adjoint q' a b.
Proof.
  unfold Analysis.adjoint. rewrite <- Rmult_minus_distr_l. f_equal. rewrite <- rsum_minus.
  apply rsum_ext; intros i _. rewrite <- rsum_minus. apply rsum_ext; intros j _. unfold msub. ring.
Qed.

Lemma p_sum M i : (i < n)%nat -> rsum n (p M i) = 0.
Proof.
  intro Hi. rewrite (rsum_ext n _ (jacobian n (f (had M W) i) (c M i))) by (intros; apply p_jacobian).
  apply centred_sum, f_probability; assumption.
Qed.

Lemma p_masked M i j : Mc i j = 0 -> p M i j = 0.
Proof. intro E. unfold Analysis.p. rewrite f_masked by exact E. ring. Qed.

(* grad L is (lam + C K^2)-Lipschitz on R^{d x d} *)
Theorem lip_grad C lam M M' : row_constant C -> 0 <= lam ->
  nF d d (msub (grad n d X W Mc lam M') (grad n d X W Mc lam M)) <= (lam + C * (K * K)) * nF d d (msub M' M).
Proof.
  intros HC Hlam. pose proof (proj1 HK) as K0.
  set (q := msub (p M') (p M)).
  apply Rle_trans with (nF d d (adjoint q) + nF d d (fun a b => lam * msub M' M a b)).
  - eapply Rle_trans; [|apply nF_triangle]. right. unfold nF. f_equal. apply nsq_ext; intros a b _ _.
    unfold q. rewrite adjoint_sub. unfold msub, grad. ring.
  - rewrite nF_scal, (Rabs_pos_eq lam Hlam).
    assert (nF d d (adjoint q) <= K * (C * K * nF d d (msub M' M))); [|lra].
    eapply Rle_trans; [apply adjoint_bound|].
    + intros i j _ E. unfold q, msub. rewrite !p_masked by exact E. ring.
    + intros i Hi. unfold q, msub. rewrite rsum_minus, !p_sum by exact Hi. ring.
    + apply Rmult_le_compat_l; [exact K0|]. apply lip_p, HC.
Qed.
End Bounds.

(* ---- K = max|W| ||X||_F^2 ---- *)

Lemma nsq_outer d (x y : vec) : nsq d d (fun a b => x a * y b) = sqnorm d x * sqnorm d y.
Proof.
  unfold nsq, sqnorm. rewrite rsum_mult_rsum. apply rsum_ext; intros a _. apply rsum_ext; intros b _. ring.
Qed.

Lemma nsq_had_max d N W wmax : 0 <= wmax ->
  (forall a b, (a < d)%nat -> (b < d)%nat -> Rabs (W a b) <= wmax) ->
  nsq d d (had N W) <= wmax * wmax * nsq d d N.
Proof.
  intros H0 H. unfold nsq. rewrite <- rsum_scal. apply rsum_le; intros a Ha.
  rewrite <- rsum_scal. apply rsum_le; intros b Hb. unfold had.
  assert (W a b * W a b <= wmax * wmax).
  { rewrite <- (Rabs_pos_eq (W a b * W a b)) by apply sq_nonneg. rewrite Rabs_mult.
    apply Rmult_le_compat; try apply Rabs_pos; apply H; assumption. }
  replace (N a b * W a b * (N a b * W a b)) with (W a b * W a b * (N a b * N a b)) by ring.
  apply Rmult_le_compat_r; [apply sq_nonneg | assumption].
Qed.

Lemma logit_frobenius n d X V : nsq n n (logit d X V) <= nsq n d X * nsq n d X * nsq d d V.
Proof.
  apply Rle_trans with (rsum n (fun i => rsum n (fun j =>
    sqnorm d (X i) * sqnorm d (X j) * nsq d d V))).
  - apply rsum_le; intros i _. apply rsum_le; intros j _. rewrite <- nsq_outer.
    replace (logit d X V i j) with (ip d d (fun a b => X i a * X j b) V); [apply ip_cauchy_schwarz_sq|].
    unfold ip, logit. apply rsum_ext; intros a _. apply rsum_ext; intros b _. ring.
  - right. change (nsq n d X) with (rsum n (fun i => sqnorm d (X i))).
    rewrite rsum_mult_rsum, <- rsum_scal_r. apply rsum_ext; intros i _.
    rewrite <- rsum_scal_r. reflexivity.
Qed.

Theorem logit_bound_frobenius n d X W Mc wmax : valid_mask n Mc -> 0 <= wmax ->
  (forall a b, (a < d)%nat -> (b < d)%nat -> Rabs (W a b) <= wmax) ->
  logit_bound n d X W Mc (wmax * nsq n d X).
Proof.
  intros HMc H0 H. split; [apply Rmult_le_pos; [exact H0 | apply nsq_nonneg]|].
  intro N. exists (fun _ => 0).
  apply Rle_trans with (nsq n n (logit d X (had N W))).
  - apply rsum_le; intros i Hi. apply rsum_le; intros j _.
    destruct (proj1 (HMc i Hi) j) as [E | E]; rewrite E; [|lra].
    rewrite Rmult_0_l. apply sq_nonneg.
  - eapply Rle_trans; [apply logit_frobenius|].
    replace (wmax * nsq n d X * (wmax * nsq n d X) * nsq d d N)
      with (nsq n d X * nsq n d X * (wmax * wmax * nsq d d N)) by ring.
    apply Rmult_le_compat_l; [apply sq_nonneg|]. apply nsq_had_max; assumption.
Qed.

(* ---- the paper's constants, under asp:bound_parameters ---- *)
Section Paper.
Variables (n d : nat) (X W Mc : mat) (R0 : R).
Hypothesis HMc : valid_mask n Mc.
Hypothesis Hn : (0 < n)%nat.
Hypothesis Hd : (0 < d)%nat.
Hypothesis HR : 1 < R0.
Hypothesis HX : nF n d X <= R0.
Hypothesis HW : nF d d W <= R0.

Lemma entry_W a b : (a < d)%nat -> (b < d)%nat -> Rabs (W a b) <= R0.
Proof.
  intros Ha Hb. apply Rabs_le_of_sqr; [lra|].
  eapply Rle_trans; [apply (nsq_entry d d W a b Ha Hb)|]. apply nsq_le_of_nF, HW.
Qed.

Lemma logit_bound_R3 : logit_bound n d X W Mc (R0 * R0 * R0).
Proof.
  split; [repeat apply Rmult_le_pos; lra|].
  destruct (logit_bound_frobenius n d X W Mc R0 HMc ltac:(lra) entry_W) as [_ H].
  intro N. destruct (H N) as [a Ha]. exists a. eapply Rle_trans; [exact Ha|].
  apply Rmult_le_compat_r; [apply nsq_nonneg|].
  pose proof (nsq_le_of_nF n d X R0 HX). pose proof (nsq_nonneg n d X).
  assert (0 <= R0 * nsq n d X <= R0 * R0 * R0) by nra. apply Rmult_le_compat; lra.
Qed.

Lemma INR_ge1 k : (0 < k)%nat -> 1 <= INR k.
Proof. intro H. apply (le_INR 1), H. Qed.

(* lem:lip_f:  ||f~(M) - f~(M')|| <= 2 d n R^3 ||M - M'|| *)
Theorem lip_f M M' :
  nF n n (msub (f n d X Mc (had M' W)) (f n d X Mc (had M W)))
  <= 2 * INR d * INR n * R0 ^ 3 * nF d d (msub M' M).
Proof.
  eapply Rle_trans; [apply (lip_f_half_K n d X W Mc _ HMc logit_bound_R3)|].
  apply Rmult_le_compat_r; [apply nF_nonneg|].
  pose proof (INR_ge1 n Hn). pose proof (INR_ge1 d Hd).
  assert (0 <= R0 * R0 * R0) by (repeat apply Rmult_le_pos; lra).
  assert (1 <= INR d * INR n) by nra.
  replace (2 * INR d * INR n * R0 ^ 3) with (2 * (INR d * INR n) * (R0 * R0 * R0)) by ring.
  apply Rmult_le_compat_r; lra.
Qed.

(* lem:lip_c *)
Theorem lip_c M M' :
  nF n n (msub (c n d X W Mc M') (c n d X W Mc M))
  <= 2 * INR d * INR n * R0 ^ 3 * nF d d (msub M' M).
Proof.
  eapply Rle_trans; [|apply lip_f]. right. unfold nF. f_equal.
  apply nsq_ext; intros. unfold msub, c. ring.
Qed.

(* thm:lip_grad_l:  ||grad L(M) - grad L(M')|| <= (lam + 30 d n^{7/2} R^6) ||M - M'|| *)
Theorem lip_grad_l lam M M' : 0 <= lam ->
  nF d d (msub (grad n d X W Mc lam M') (grad n d X W Mc lam M))
  <= (lam + 30 * INR d * (INR n ^ 3 * sqrt (INR n)) * R0 ^ 6) * nF d d (msub M' M).
Proof.
  intro Hlam.
  eapply Rle_trans; [apply (lip_grad n d X W Mc _ HMc logit_bound_R3 (5 / 4));
                     [exact row_constant_five_quarters | exact Hlam]|].
  apply Rmult_le_compat_r; [apply nF_nonneg|]. apply Rplus_le_compat_l.
  pose proof (INR_ge1 n Hn) as N1. pose proof (INR_ge1 d Hd) as D1.
  assert (S1 : 1 <= sqrt (INR n)) by (rewrite <- sqrt_1; apply sqrt_le_1_alt; exact N1).
  set (r := R0 * R0 * R0). assert (r0 : 0 <= r) by (unfold r; repeat apply Rmult_le_pos; lra).
  replace (R0 ^ 6) with (r * r) by (unfold r; ring).
  apply Rmult_le_compat_r; [apply sq_nonneg|].
  assert (P1 : 1 <= INR n ^ 3 * sqrt (INR n)).
  { assert (1 <= INR n ^ 3) by (apply pow_R1_Rle; exact N1). nra. }
  assert (1 <= INR d * (INR n ^ 3 * sqrt (INR n))) by nra. lra.
Qed.
End Paper.

(* ---- as Trusted.v states them ---- *)
Definition checked_row_constant_five_quarters : Statement.row_constant_five_quarters := row_constant_five_quarters.
Definition checked_lip_f_half_K : Statement.lip_f_half_K := lip_f_half_K.
Definition checked_lip_c_half_K : Statement.lip_c_half_K := lip_c_half_K.
Definition checked_lip_p : Statement.lip_p.
Proof. intros n d X W Mc K C HMc HK HC M M'. apply lip_p; assumption. Qed.
Definition checked_lip_grad : Statement.lip_grad.
Proof. intros n d X W Mc K C lam HMc HK HC Hl M M'. apply lip_grad; assumption. Qed.
Definition checked_logit_bound_frobenius : Statement.logit_bound_frobenius := logit_bound_frobenius.
Definition checked_lip_f : Statement.lip_f.
Proof. intros n d X W Mc R0 HMc [Hn [Hd [HR [HX HW]]]] M M'. apply lip_f; assumption. Qed.
Definition checked_lip_c : Statement.lip_c.
Proof. intros n d X W Mc R0 HMc [Hn [Hd [HR [HX HW]]]] M M'. apply lip_c; assumption. Qed.
Definition checked_lip_grad_l : Statement.lip_grad_l.
Proof. intros n d X W Mc R0 lam HMc [Hn [Hd [HR [HX HW]]]] Hl M M'. apply lip_grad_l; assumption. Qed.
