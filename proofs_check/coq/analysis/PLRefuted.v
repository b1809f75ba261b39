(* lem:PL_ineq with the printed mu = 2 min|W| beta delta is FALSE
     - without a mask (reading "full"), for lam = 0 and for lam > 0;
     - with the causal mask when delta is taken over the allowed positions.
   With the causal mask and delta over all positions its hypotheses force n <= 1:
   causal_no_delta (MaskReadings.v).

   Instance: n = d = 2, X = I, W = [[1,-1],[-1,1]], M = 0.  Then f~ is uniform,
   min|W| = beta = 1, delta = 1/2, p = c/2, and every row of c that has two allowed
   positions is (a, -a) with a <> 0.  So  ||W o (X^T p X)||^2 = ||c||^2 / 4,  where the
   paper claims at least ||c||^2 / 2.  The only fact about exp used is exp 1 > 2.        *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model Gradient MaskReadings.
Open Scope R_scope.

Definition X2 : mat := fun i j => if Nat.eqb i j then 1 else 0.
Definition W2 : mat := fun i j => if Nat.eqb i j then 1 else -1.

Ltac two_cases i := destruct i as [|[|?]]; [| |lia].

Lemma W2_abs i j : Rabs (W2 i j) = 1.
Proof. unfold W2, Rabs. destruct (Nat.eqb i j); destruct (Rcase_abs _); lra. Qed.

Lemma W2_min : is_min 1 2 W2.
Proof.
  split; [intros; rewrite W2_abs; lra|]. exists 0%nat, 0%nat. repeat split; try lia. apply W2_abs.
Qed.

Lemma W2_max : is_max 1 2 W2.
Proof.
  split; [intros; rewrite W2_abs; lra|]. exists 0%nat, 0%nat. repeat split; try lia. apply W2_abs.
Qed.

Lemma X2_gram : gram_ge 2 2 X2 1.
Proof. intro v. unfold X2; simpl. lra. Qed.

(* ---- values of the attention matrix on the instance ---- *)
Lemma f_X2 Mc V i j : (i < 2)%nat -> (j < 2)%nat ->
  f 2 2 X2 Mc V i j = exp (V i j) * Mc i j / (exp (V i 0%nat) * Mc i 0%nat + exp (V i 1%nat) * Mc i 1%nat).
Proof.
  assert (Lg : forall i j, (i < 2)%nat -> (j < 2)%nat -> logit 2 X2 V i j = V i j).
  { intros k l Hk Hl. two_cases k; two_cases l; unfold logit, X2; simpl; ring. }
  intros Hi Hj. unfold f, alpha, u; simpl. rewrite !Lg by lia. rewrite Rplus_0_l. reflexivity.
Qed.

Lemma f_zero Mc i j : (i < 2)%nat -> (j < 2)%nat -> Mc i 0%nat + Mc i 1%nat <> 0 ->
  f 2 2 X2 Mc (had zeros W2) i j = Mc i j / (Mc i 0%nat + Mc i 1%nat).
Proof.
  intros Hi Hj H. rewrite f_X2 by assumption.
  assert (E : forall k l, exp (had zeros W2 k l) = 1).
  { intros k l. unfold had, zeros. rewrite Rmult_0_l. apply exp_0. }
  rewrite !E. rewrite !Rmult_1_l. reflexivity.
Qed.

(* a = 1/2 - e^2/(e^2 + 1), the entry of c *)
Definition a2 := / 2 - exp 1 / (exp 1 + exp (-1)).

Lemma a2_bound : 9 / 100 <= a2 * a2.
Proof.
  assert (E1 : 2 < exp 1) by (pose proof (exp_ineq1 1 ltac:(lra)); lra).
  assert (E2 : exp (-1) < / 2).
  { replace (-1) with (- (1)) by ring. rewrite exp_Ropp. apply Rinv_lt_contravar; lra. }
  pose proof (exp_pos (-1)) as E3. unfold a2. set (x := exp 1) in *. set (y := exp (-1)) in *.
  assert (H : 4 / 5 <= x / (x + y)).
  { apply Rmult_le_reg_r with (x + y); [lra|].
    replace (x / (x + y) * (x + y)) with x by (field; lra). lra. }
  nra.
Qed.

Lemma f_W2_diagonal i j : (i < 2)%nat -> (j < 2)%nat ->
  f 2 2 X2 full W2 i j = if Nat.eqb i j then / 2 - a2 else / 2 + a2.
Proof.
  intros Hi Hj. rewrite f_X2 by assumption. unfold a2, full.
  pose proof (exp_pos 1). pose proof (exp_pos (-1)).
  two_cases i; two_cases j; unfold W2; simpl; field; lra.
Qed.

(* ---- the reading "full" ---- *)
Lemma c_full i j : (i < 2)%nat -> (j < 2)%nat ->
  c 2 2 X2 W2 full zeros i j = if Nat.eqb i j then a2 else - a2.
Proof.
  intros Hi Hj. unfold c. rewrite f_zero, f_W2_diagonal by (unfold full; try assumption; lra).
  unfold full. destruct (Nat.eqb i j); field.
Qed.

Lemma p_full i j : (i < 2)%nat -> (j < 2)%nat ->
  p 2 2 X2 W2 full zeros i j = / 2 * (if Nat.eqb i j then a2 else - a2).
Proof.
  intros Hi Hj. unfold p; simpl. rewrite !c_full, !f_zero by (unfold full; try assumption; try lia; lra).
  two_cases i; two_cases j; unfold full; simpl; field.
Qed.

Lemma nsq_c_full : nsq 2 2 (c 2 2 X2 W2 full zeros) = 4 * (a2 * a2).
Proof. unfold nsq; simpl. rewrite !c_full by lia. simpl. ring. Qed.

Lemma nsq_grad_full lam : nsq 2 2 (grad 2 2 X2 W2 full lam zeros) = a2 * a2.
Proof.
  assert (G : forall a b, (a < 2)%nat -> (b < 2)%nat ->
    grad 2 2 X2 W2 full lam zeros a b = W2 a b * p 2 2 X2 W2 full zeros a b).
  { intros a b Ha Hb. unfold grad, adjoint, zeros. two_cases a; two_cases b; unfold X2; simpl; ring. }
  unfold nsq; simpl. rewrite !G, !p_full by lia. unfold W2; simpl. field.
Qed.

(* ---- the causal mask: row 0 has one allowed position, row 1 is as above ---- *)
Lemma c_causal i j : (i < 2)%nat -> (j < 2)%nat ->
  c 2 2 X2 W2 causal zeros i j = if Nat.eqb i 0 then 0 else if Nat.eqb j 1 then a2 else - a2.
Proof.
  intros Hi Hj. unfold c.
  assert (E : causal i 0%nat + causal i 1%nat <> 0) by (two_cases i; unfold causal; simpl; lra).
  rewrite f_zero, f_X2 by assumption. unfold a2.
  pose proof (exp_pos 1). pose proof (exp_pos (-1)).
  two_cases i; two_cases j; unfold W2, causal; simpl; field; lra.
Qed.

Lemma p_causal i j : (i < 2)%nat -> (j < 2)%nat ->
  p 2 2 X2 W2 causal zeros i j = / 2 * (if Nat.eqb i 0 then 0 else if Nat.eqb j 1 then a2 else - a2).
Proof.
  intros Hi Hj. unfold p; simpl.
  assert (E : causal i 0%nat + causal i 1%nat <> 0) by (two_cases i; unfold causal; simpl; lra).
  rewrite !c_causal, !f_zero by (try assumption; lia).
  two_cases i; two_cases j; unfold causal; simpl; field.
Qed.

Lemma nsq_c_causal : nsq 2 2 (c 2 2 X2 W2 causal zeros) = 2 * (a2 * a2).
Proof. unfold nsq; simpl. rewrite !c_causal by lia. simpl. ring. Qed.

Lemma nsq_grad_causal lam : nsq 2 2 (grad 2 2 X2 W2 causal lam zeros) = / 2 * (a2 * a2).
Proof.
  assert (G : forall a b, (a < 2)%nat -> (b < 2)%nat ->
    grad 2 2 X2 W2 causal lam zeros a b = W2 a b * p 2 2 X2 W2 causal zeros a b).
  { intros a b Ha Hb. unfold grad, adjoint, zeros. two_cases a; two_cases b; unfold X2; simpl; ring. }
  unfold nsq; simpl. rewrite !G, !p_causal by lia. unfold W2; simpl. field.
Qed.

(* ---- what the lemma would give on the instance ---- *)
Lemma PL_ineq_on_instance Mc (delta_ok : nat -> mat -> R -> Prop) (lam_ok : R -> Prop) lam :
  valid_mask 2 Mc -> 0 <= lam <= 1 -> lam_ok lam ->
  delta_ok 2%nat (f 2 2 X2 Mc (had zeros W2)) (/ 2) ->
  PL_ineq Mc delta_ok mu_paper lam_ok ->
  nsq 2 2 (grad 2 2 X2 W2 Mc lam zeros)
  >= / 2 * nsq 2 2 (c 2 2 X2 W2 Mc zeros) - 24 * sqrt 2 * lam.
Proof.
  intros HMc Hlam Hok Hdelta H.
  specialize (H 2%nat 2%nat X2 W2 zeros lam 1 (/ 2) 1 1 (grad 2 2 X2 W2 Mc lam zeros)).
  assert (P : PL_inequality 2 2 X2 W2 Mc zeros lam 1 (mu_paper 1 1 (/ 2)) (grad 2 2 X2 W2 Mc lam zeros)).
  { apply H; try lia; try lra; try assumption.
    - intros i j _ _; unfold zeros; lra.
    - apply X2_gram.
    - apply W2_min.
    - apply W2_max.
    - intros a0 b0 Ha Hb. apply mat_view_l; assumption. }
  unfold PL_inequality, xi_PL, mu_paper in P.
  assert (Z : nsq 2 2 zeros = 0) by (unfold nsq, zeros; simpl; ring).
  assert (XX : nsq 2 2 X2 = 2) by (unfold nsq, X2; simpl; ring).
  rewrite Z, XX in P. change (INR 2) with (1 + 1) in P.
  replace (1 + 1) with 2 in P by ring. lra.
Qed.

Lemma sqrt2_le : sqrt 2 <= 2.
Proof. rewrite <- (sqrt_square 2) at 2 by lra. apply sqrt_le_1_alt; lra. Qed.

Lemma delta_full : delta_all full 2 (f 2 2 X2 full (had zeros W2)) (/ 2).
Proof. intros i j Hi Hj. rewrite f_zero by (unfold full; try assumption; lra). unfold full. lra. Qed.

Lemma delta_causal : delta_allowed causal 2 (f 2 2 X2 causal (had zeros W2)) (/ 2).
Proof.
  intros i j Hi Hj E. rewrite f_zero, E by (try assumption; two_cases i; unfold causal; simpl; lra).
  two_cases i; unfold causal; simpl; lra.
Qed.

Theorem PL_ineq_full_refuted : ~ PL_ineq full (delta_all full) mu_paper (fun lam => 0 < lam).
Proof.
  intro H. apply (PL_ineq_on_instance full _ _ (/ 1000) (full_valid 2)) in H; try lra; [|exact delta_full].
  rewrite nsq_c_full, nsq_grad_full in H. pose proof a2_bound. pose proof sqrt2_le. lra.
Qed.

Theorem PL_ineq_full_refuted_lam0 : ~ PL_ineq full (delta_all full) mu_paper (fun lam => lam = 0).
Proof.
  intro H. apply (PL_ineq_on_instance full _ _ 0 (full_valid 2)) in H; try lra; [|exact delta_full].
  rewrite nsq_c_full, nsq_grad_full in H. pose proof a2_bound. lra.
Qed.

Theorem PL_ineq_causal_allowed_refuted :
  ~ PL_ineq causal (delta_allowed causal) mu_paper (fun lam => 0 < lam).
Proof.
  intro H. apply (PL_ineq_on_instance causal _ _ (/ 10000) (causal_valid 2)) in H; try lra; [|exact delta_causal].
  rewrite nsq_c_causal, nsq_grad_causal in H. pose proof a2_bound. pose proof sqrt2_le. lra.
Qed.

Theorem PL_ineq_causal_allowed_refuted_lam0 :
  ~ PL_ineq causal (delta_allowed causal) mu_paper (fun lam => lam = 0).
Proof.
  intro H. apply (PL_ineq_on_instance causal _ _ 0 (causal_valid 2)) in H; try lra; [|exact delta_causal].
  rewrite nsq_c_causal, nsq_grad_causal in H. pose proof a2_bound. lra.
Qed.

(* ---- as Trusted.v states them ---- *)
Definition checked_PL_ineq_full_refuted : Statement.PL_ineq_full_refuted := PL_ineq_full_refuted.
Definition checked_PL_ineq_full_refuted_lam0 : Statement.PL_ineq_full_refuted_lam0 := PL_ineq_full_refuted_lam0.
Definition checked_PL_ineq_causal_allowed_refuted : Statement.PL_ineq_causal_allowed_refuted := PL_ineq_causal_allowed_refuted.
Definition checked_PL_ineq_causal_allowed_refuted_lam0 : Statement.PL_ineq_causal_allowed_refuted_lam0 := PL_ineq_causal_allowed_refuted_lam0.
