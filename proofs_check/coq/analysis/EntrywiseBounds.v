(* Entrywise bounds under asp:bound_parameters: lem:bound_basic_func Parts 5, 6, 8, 9 and
   lem:bound_grad_f, with the paper's constants.                                          *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model LipschitzGradient.
Open Scope R_scope.

Section Entries.
Variables (n d : nat) (X W Mc : mat) (R0 : R).
Hypothesis HMc : valid_mask n Mc.
Hypothesis Hn : (0 < n)%nat.
Hypothesis Hd : (0 < d)%nat.
Hypothesis HR : 1 < R0.
Hypothesis HX : nF n d X <= R0.
Hypothesis HW : nF d d W <= R0.
Notation f := (f n d X Mc).
Notation c := (c n d X W Mc).

(* ---- lem:bound_basic_func Parts 5, 6, 8, 9 ---- *)
Theorem bound_basic_func_part5 a b : (a < d)%nat -> (b < d)%nat -> Rabs (W a b) <= R0.
Proof. apply (entry_W d W R0 HR HW). Qed.

Theorem bound_basic_func_part6 i a : (i < n)%nat -> (a < d)%nat -> Rabs (X i a) <= R0.
Proof.
  intros Hi Ha. apply Rabs_le_of_sqr; [lra|].
  eapply Rle_trans; [apply (nsq_entry n d X i a Hi Ha)|]. apply nsq_le_of_nF, HX.
Qed.

Lemma velocity_bound i j a b : (i < n)%nat -> (j < n)%nat -> (a < d)%nat -> (b < d)%nat ->
  Rabs (W a b * X i a * X j b) <= R0 ^ 3.
Proof.
  intros Hi Hj Ha Hb. rewrite !Rabs_mult. replace (R0 ^ 3) with (R0 * R0 * R0) by ring.
  pose proof (Rabs_pos (W a b)). pose proof (Rabs_pos (X i a)). pose proof (Rabs_pos (X j b)).
  apply Rmult_le_compat; [apply Rmult_le_pos; assumption | assumption | |].
  - apply Rmult_le_compat; [assumption | assumption | |].
    + apply bound_basic_func_part5; assumption.
    + apply bound_basic_func_part6; assumption.
  - apply bound_basic_func_part6; assumption.
Qed.

Theorem bound_basic_func_part8 M i j a b : (i < n)%nat -> (j < n)%nat -> (a < d)%nat -> (b < d)%nat ->
  Rabs (f (had M W) i j * (W a b * X i a * X j b)) <= R0 ^ 3.
Proof.
  intros Hi Hj Ha Hb. rewrite Rabs_mult.
  rewrite (Rabs_pos_eq (f (had M W) i j)) by (apply f_nonneg; assumption).
  pose proof (f_le1 n d X Mc HMc (had M W) i j Hi Hj). pose proof (f_nonneg n d X Mc HMc (had M W) i j Hi).
  pose proof (velocity_bound i j a b Hi Hj Ha Hb). pose proof (Rabs_pos (W a b * X i a * X j b)). nra.
Qed.

Theorem bound_basic_func_part9 M i j a b : (i < n)%nat -> (j < n)%nat -> (a < d)%nat -> (b < d)%nat ->
  Rabs (f (had M W) i j * rsum n (fun l => f (had M W) i l * (W a b * X i a * X l b))) <= R0 ^ 3.
Proof.
  intros Hi Hj Ha Hb.
  assert (B : Rabs (rsum n (fun l => f (had M W) i l * (W a b * X i a * X l b))) <= R0 ^ 3).
  { eapply Rle_trans; [apply rsum_abs_le|].
    apply Rle_trans with (rsum n (fun l => f (had M W) i l * R0 ^ 3)).
    - apply rsum_le; intros l Hl. rewrite Rabs_mult.
      rewrite (Rabs_pos_eq (f (had M W) i l)) by (apply f_nonneg; assumption).
      apply Rmult_le_compat_l; [apply f_nonneg; assumption | apply velocity_bound; assumption].
    - rewrite rsum_scal_r. change (fun i0 => f (had M W) i i0) with (f (had M W) i).
      rewrite f_sum by assumption. lra. }
  rewrite Rabs_mult, (Rabs_pos_eq (f (had M W) i j)) by (apply f_nonneg; assumption).
  pose proof (f_le1 n d X Mc HMc (had M W) i j Hi Hj). pose proof (f_nonneg n d X Mc HMc (had M W) i j Hi).
  match goal with |- _ * ?y <= _ => pose proof (Rabs_pos (rsum n (fun l => f (had M W) i l * (W a b * X i a * X l b)))) end.
  nra.
Qed.

(* lem:bound_grad_f:  || d vec f~ / d vec M ||_F <= 2 d n R^3.  The derivative is that of
   lem:grad_soft_prob; the printed proof forgets a square under the root. *)
Notation df := (Analysis.df n d X W Mc).

Theorem bound_grad_f M :
  sqrt (rsum n (fun i => rsum n (fun j => rsum d (fun a => rsum d (fun b =>
    df M i j a b * df M i j a b))))) <= 2 * INR d * INR n * R0 ^ 3.
Proof.
  assert (P : 0 <= R0 ^ 3) by (apply pow_le; lra).
  pose proof (pos_INR n). pose proof (pos_INR d).
  assert (Q : 0 <= 2 * INR d * INR n * R0 ^ 3) by (repeat apply Rmult_le_pos; try assumption; lra).
  rewrite <- (sqrt_square (2 * INR d * INR n * R0 ^ 3)) by exact Q.
  apply sqrt_le_1_alt.
  apply Rle_trans with (rsum n (fun _ => rsum n (fun _ => rsum d (fun _ => rsum d (fun _ =>
    (2 * R0 ^ 3) * (2 * R0 ^ 3)))))); [|rewrite !rsum_const; right; ring].
  apply rsum_le; intros i Hi. apply rsum_le; intros j Hj. apply rsum_le; intros a Ha.
  apply rsum_le; intros b Hb.
  pose proof (bound_basic_func_part8 M i j a b Hi Hj Ha Hb) as B8.
  pose proof (bound_basic_func_part9 M i j a b Hi Hj Ha Hb) as B9.
  unfold Analysis.df. apply Rabs_le_between in B8. apply Rabs_le_between in B9. nra.
Qed.

End Entries.

(* ---- as Trusted.v states them ---- *)
Definition checked_bound_basic_func_part5 : Statement.bound_basic_func_part5.
Proof. intros n d X W R0 [Hn [Hd [HR [HX HW]]]]. exact (bound_basic_func_part5 d W R0 HR HW). Qed.
Definition checked_bound_basic_func_part6 : Statement.bound_basic_func_part6.
Proof. intros n d X W R0 [Hn [Hd [HR [HX HW]]]]. exact (bound_basic_func_part6 n d X R0 HR HX). Qed.
Definition checked_bound_basic_func_part8 : Statement.bound_basic_func_part8.
Proof. intros n d X W Mc R0 HMc [Hn [Hd [HR [HX HW]]]]. exact (bound_basic_func_part8 n d X W Mc R0 HMc HR HX HW). Qed.
Definition checked_bound_basic_func_part9 : Statement.bound_basic_func_part9.
Proof. intros n d X W Mc R0 HMc [Hn [Hd [HR [HX HW]]]]. exact (bound_basic_func_part9 n d X W Mc R0 HMc HR HX HW). Qed.
Definition checked_bound_grad_f : Statement.bound_grad_f.
Proof. intros n d X W Mc R0 HMc [Hn [Hd [HR [HX HW]]]]. exact (bound_grad_f n d X W Mc R0 HMc HR HX HW). Qed.
