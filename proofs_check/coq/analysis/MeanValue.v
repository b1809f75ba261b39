(* fac:mean_value: if the derivative of a matrix function g along the segment from X to Y is
   given by an array J of partial derivatives whose Frobenius norm there is at most R0, then
   ||g(Y) - g(X)||_F <= R0 ||Y - X||_F.  Nothing is asked of g off the segment, which lies in
   the paper's convex domain C.                                                            *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums MatrixNorm.
Open Scope R_scope.

Section MeanValue.
Variables (p q r s : nat) (g : mat -> mat) (J : mat -> nat -> nat -> mat) (A B : mat) (R0 : R).
(* J Z i j is the p x q matrix of partial derivatives of the entry (i, j) of g at Z *)
Let V := msub B A.
Hypothesis HJ : forall t i j, 0 <= t <= 1 -> (i < r)%nat -> (j < s)%nat ->
  is_derive (fun t => g (mline A t V) i j) t (ip p q (J (mline A t V) i j) V).
Hypothesis HR0 : 0 <= R0.
Hypothesis HR : forall t, 0 <= t <= 1 ->
  sqrt (rsum r (fun i => rsum s (fun j => nsq p q (J (mline A t V) i j)))) <= R0.

Theorem mean_value_matrix :
  nF r s (msub (g (mline A 1 V)) (g (mline A 0 V))) <= R0 * nF p q V.
Proof.
  set (w := msub (g (mline A 1 V)) (g (mline A 0 V))). set (S := nsq r s w).
  set (dg := fun t i j => ip p q (J (mline A t V) i j) V).
  set (phi := fun t => rsum r (fun i => rsum s (fun j => w i j * g (mline A t V) i j))).
  set (dphi := fun t => rsum r (fun i => rsum s (fun j => w i j * dg t i j))).
  assert (D1 : forall t, 0 <= t <= 1 -> is_derive phi t (dphi t)).
  { intros t Ht. apply (is_derive_rsum r (fun i t => rsum s (fun j => w i j * g (mline A t V) i j))).
    intros i Hi. apply (is_derive_rsum s (fun j t => w i j * g (mline A t V) i j)).
    intros j Hj. apply (is_derive_scal (fun t => g (mline A t V) i j)), HJ; assumption. }
  destruct (MVT_gen phi 0 1 dphi) as [t [Ht E]]; rewrite ?Rmin_left, ?Rmax_right in * by lra.
  { intros x Hx. apply D1; lra. }
  { intros x Hx. apply derivable_continuous_pt. exists (dphi x). apply is_derive_Reals, D1, Hx. }
  unfold phi, dphi in E.
  assert (ES : S = ip r s w (dg t)).
  { rewrite Rminus_0_r, Rmult_1_r in E. unfold ip. rewrite <- E. unfold S, nsq. rewrite <- rsum_minus.
    apply rsum_ext; intros i _. rewrite <- rsum_minus. apply rsum_ext; intros j _. unfold w at 1 2, msub.
    unfold w, msub. ring. }
  set (JJ := rsum r (fun i => rsum s (fun j => nsq p q (J (mline A t V) i j)))).
  assert (J0 : 0 <= JJ) by (apply rsum_nonneg; intros; apply rsum_nonneg; intros; apply nsq_nonneg).
  assert (J1 : JJ <= R0 * R0).
  { specialize (HR t Ht). fold JJ in HR. rewrite <- (sqrt_sqrt JJ J0).
    apply Rmult_le_compat; try apply sqrt_pos; exact HR. }
  assert (D : nsq r s (dg t) <= JJ * nsq p q V).
  { unfold JJ. rewrite <- rsum_scal_r. apply rsum_le; intros i _. rewrite <- rsum_scal_r.
    apply rsum_le; intros j _. apply ip_cauchy_schwarz_sq. }
  pose proof (ip_cauchy_schwarz_sq r s w (dg t)) as CS. rewrite <- ES in CS. fold S in CS.
  pose proof (nsq_nonneg r s w) as S0. fold S in S0. pose proof (nsq_nonneg p q V) as V0.
  apply nF_le_of_nsq; [apply Rmult_le_pos; [exact HR0 | apply nF_nonneg]|]. fold S.
  replace (R0 * nF p q V * (R0 * nF p q V)) with (R0 * R0 * nsq p q V) by (rewrite <- nF_sq; ring).
  destruct (Req_dec S 0) as [Z | Z].
  - rewrite Z. apply Rmult_le_pos; [apply sq_nonneg | exact V0].
  - apply Rmult_le_reg_l with S; [lra|]. eapply Rle_trans; [exact CS|].
    apply Rmult_le_compat_l; [exact S0|]. eapply Rle_trans; [exact D|].
    apply Rmult_le_compat_r; assumption.
Qed.
End MeanValue.

(* ---- as Trusted.v states them ---- *)
Definition checked_mean_value_matrix : Statement.mean_value_matrix := mean_value_matrix.
