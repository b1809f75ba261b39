(* What the hypothesis min_ij f~_ij >= delta > 0 means under each reading of the mask. *)
Require Import Reals Lra Lia.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model.
Open Scope R_scope.

(* Causal mask, n >= 2: f~_{0,1} = 0, so that no delta > 0 exists.  lem:lower_bound_p,
   lem:PL_ineq and thm:our_convergence as printed are then statements about nothing. *)
Theorem causal_no_delta n d X V delta : (2 <= n)%nat -> 0 < delta ->
  ~ delta_all causal n (f n d X causal V) delta.
Proof.
  intros Hn Hd H. specialize (H 0%nat 1%nat ltac:(lia) ltac:(lia)).
  rewrite f_masked in H; [lra | reflexivity].
Qed.

(* The smallest entry is exactly 0. *)
Theorem causal_floor n d X V : (2 <= n)%nat ->
  f n d X causal V 0%nat 1%nat = 0 /\ forall i j, (i < n)%nat -> 0 <= f n d X causal V i j.
Proof.
  intro Hn. split; [apply f_masked; reflexivity|].
  intros i j Hi. apply f_nonneg; [apply causal_valid | exact Hi].
Qed.

(* More generally one masked position suffices. *)
Theorem masked_no_delta n d X Mc V delta i j :
  (i < n)%nat -> (j < n)%nat -> Mc i j = 0 -> 0 < delta -> ~ delta_all Mc n (f n d X Mc V) delta.
Proof. intros Hi Hj E Hd H. specialize (H i j Hi Hj). rewrite f_masked in H; [lra | exact E]. Qed.

(* delta <= 1/n *)
Theorem delta_le_inverse_n_softmax n d X Mc V delta : (0 < n)%nat -> valid_mask n Mc ->
  delta_all Mc n (f n d X Mc V) delta -> delta <= / INR n.
Proof.
  intros Hn Hv H. assert (0 < INR n) by (apply lt_0_INR, Hn).
  apply Rmult_le_reg_l with (INR n); [assumption|]. rewrite Rinv_r by lra.
  rewrite <- (f_sum n d X Mc Hv V 0 Hn), <- rsum_const. apply rsum_le; intros j Hj. apply H; assumption.
Qed.

(* delta over the allowed positions is at most one over their number, in every row *)
Lemma delta_allowed_le_inverse n d X Mc V delta i : (i < n)%nat -> valid_mask n Mc ->
  delta_allowed Mc n (f n d X Mc V) delta -> delta * rsum n (Mc i) <= 1.
Proof.
  intros Hi Hv H. rewrite <- (f_sum n d X Mc Hv V i Hi), <- rsum_scal.
  apply rsum_le; intros j Hj. destruct (proj1 (Hv i Hi) j) as [E | E]; rewrite E.
  - rewrite f_masked by exact E. lra.
  - specialize (H i j Hi Hj E). lra.
Qed.

(* ---- as Trusted.v states them ---- *)
Definition checked_causal_no_delta : Statement.causal_no_delta := causal_no_delta.
Definition checked_causal_floor : Statement.causal_floor := causal_floor.
Definition checked_masked_no_delta : Statement.masked_no_delta := masked_no_delta.
Definition checked_delta_le_inverse_n_softmax : Statement.delta_le_inverse_n_softmax := delta_le_inverse_n_softmax.
