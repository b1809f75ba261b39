(* M = 1 (prune nothing) has attention loss 0, and below a threshold on lambda it already
   satisfies the guarantee of thm:our_convergence at t = 0, with the paper's own mu or any
   other mu > 0: the theorem then asserts nothing about gradient descent.              *)
Require Import Reals Lra Lia.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model.
Open Scope R_scope.

Lemma c_ones n d X W Mc i j : c n d X W Mc ones i j = 0.
Proof.
  unfold c. rewrite (f_ext n d X Mc (had ones W) W); [ring|].
  intros a b _ _. unfold had, ones. ring.
Qed.

(* any n, d, X, W, every mask *)
Theorem ones_attention_loss_zero n d X W Mc : Lattn n d X W Mc ones = 0.
Proof.
  unfold Lattn, nsq. rewrite rsum_zero; [ring|]. intros i _. apply rsum_zero; intros j _.
  rewrite c_ones. ring.
Qed.

Lemma nsq_ones d : nsq d d ones = INR d * INR d.
Proof.
  unfold nsq, ones. rewrite (rsum_ext d _ (fun _ => INR d)); [apply rsum_const|].
  intros i _. rewrite rsum_const. ring.
Qed.

(* L(1) = lam d^2 / 2 *)
Lemma ones_loss n d X W Mc lam : L n d X W Mc lam ones = / 2 * lam * (INR d * INR d).
Proof. unfold L, Lreg. rewrite ones_attention_loss_zero, nsq_ones. ring. Qed.

(* the gradient of the attention loss vanishes at M = 1: grad L(1) = lam 1 *)
Lemma ones_gradient n d X W Mc lam a b : grad n d X W Mc lam ones a b = lam.
Proof.
  unfold grad, adjoint.
  rewrite (rsum_zero n); [unfold ones; ring|]. intros i _. apply rsum_zero; intros j _.
  unfold p. rewrite c_ones, (rsum_zero n); [ring|]. intros k _. rewrite c_ones. ring.
Qed.

(* lam d <= 6 sqrt(n) max|W| ||X||_F^2 suffices, for every mu > 0 and eps >= 0 *)
Theorem ones_satisfies_guarantee n d X W Mc lam wmax mu eps :
  (0 < n)%nat -> 0 < mu -> 0 <= lam -> 0 <= eps ->
  lam * INR d <= 6 * sqrt (INR n) * wmax * nsq n d X ->
  guarantee n d X W Mc lam wmax mu eps ones.
Proof.
  intros Hn Hmu Hlam Heps H. unfold guarantee, xi_theorem.
  rewrite ones_attention_loss_zero, nsq_ones.
  assert (N : 0 < INR n) by (apply lt_0_INR, Hn).
  set (r := sqrt (INR n)) in *. assert (r0 : 0 < r) by (apply sqrt_lt_R0, N).
  assert (rr : r * r = INR n) by (apply sqrt_sqrt; lra). rewrite <- rr.
  set (q := wmax * nsq n d X) in *. pose proof (pos_INR d).
  assert (H' : lam * INR d <= 6 * r * q) by (unfold q; lra).
  apply Rmult_le_reg_l with (2 * (mu * (r * r * (r * r)))).
  { assert (0 < r * r * (r * r)) by (repeat apply Rmult_lt_0_compat; exact r0).
    apply Rmult_lt_0_compat; [lra|]. apply Rmult_lt_0_compat; assumption. }
  replace (2 * (mu * (r * r * (r * r))) *
    (0 / (r * r * (r * r)) + lam * lam / (mu * (r * r * (r * r))) * (INR d * INR d)))
    with (2 * (lam * INR d * (lam * INR d))) by (field; lra).
  replace (2 * (mu * (r * r * (r * r))) *
    ((12 / (r * r * r) * wmax * nsq n d X * lam * INR d / mu + eps) / 2))
    with (2 * (lam * INR d * (6 * r * q)) + mu * (r * r * (r * r)) * eps) by (unfold q; field; lra).
  assert (0 <= mu * (r * r * (r * r)) * eps) by (repeat apply Rmult_le_pos; lra).
  assert (lam * INR d * (lam * INR d) <= lam * INR d * (6 * r * q)).
  { apply Rmult_le_compat_l; [apply Rmult_le_pos; assumption | exact H']. }
  lra.
Qed.

(* ---- as Trusted.v states them ---- *)
Definition checked_ones_attention_loss_zero : Statement.ones_attention_loss_zero := ones_attention_loss_zero.
Definition checked_ones_satisfies_guarantee : Statement.ones_satisfies_guarantee := ones_satisfies_guarantee.
