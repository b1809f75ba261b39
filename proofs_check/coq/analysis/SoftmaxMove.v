(* new:softmax_move: softmax and its Jacobian as a quadratic form, under a move u of the logits with lo <= u_j <= hi at
   the allowed positions, change at most by the factor e^(hi - lo), either way; two tokens with almost all weight where
   u = lo come as close to it as one likes.

   The partition function changes by a factor between e^lo and e^hi, and v^T J v is the least sum_j sigma_j (v_j - b)^2. *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums SoftmaxRow.
Open Scope R_scope.

Section Move.
Variables (n : nat) (m : vec).
Hypothesis Hm : valid_row n m.

Lemma weight_move s u lo hi j : (forall j, (j < n)%nat -> m j = 1 -> lo <= u j <= hi) -> (j < n)%nat ->
  softmax n m (fun j => s j + u j) j <= exp (hi - lo) * softmax n m s j.
Proof.
  intros Hu Hj. destruct (proj1 Hm j) as [E | E]; [rewrite !softmax_masked by exact E; lra|].
  unfold softmax. pose proof (partition_pos n m Hm s) as P. pose proof (partition_pos n m Hm (fun j => s j + u j)) as P'.
  set (A := exp (s j) * m j). assert (A0 : 0 < A) by (unfold A; rewrite E, Rmult_1_r; apply exp_pos).
  pose proof (exp_pos (hi - lo)) as e0.
  assert (U : exp (s j + u j) * m j <= exp hi * A).
  { unfold A. rewrite exp_plus, E. pose proof (exp_pos (s j)).
    assert (exp (u j) <= exp hi) by (destruct (Hu j Hj E) as [_ [Hl | ->]]; [left; apply exp_increasing, Hl | lra]). nra. }
  assert (D : exp lo * partition n m s <= partition n m (fun j => s j + u j)).
  { unfold partition. rewrite <- rsum_scal. apply rsum_le; intros l Hl.
    destruct (proj1 Hm l) as [El | El]; rewrite El; [lra|]. rewrite exp_plus. pose proof (exp_pos (s l)).
    assert (exp lo <= exp (u l)) by (destruct (Hu l Hl El) as [[Hlo | ->] _]; [left; apply exp_increasing, Hlo | lra]). nra. }
  apply Rmult_le_reg_r with (partition n m (fun j => s j + u j)); [exact P'|].
  unfold Rdiv at 1. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra.
  apply Rle_trans with (exp (hi - lo) * (A / partition n m s) * (exp lo * partition n m s)).
  - replace (exp (hi - lo) * (A / partition n m s) * (exp lo * partition n m s))
      with (exp (hi - lo) * exp lo * A) by (field; lra).
    rewrite <- exp_plus. replace (hi - lo + lo) with hi by ring. exact U.
  - apply Rmult_le_compat_l; [|exact D]. apply Rmult_le_pos; [lra|].
    apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat, P].
Qed.

Lemma weight_move_back s u lo hi j : (forall j, (j < n)%nat -> m j = 1 -> lo <= u j <= hi) -> (j < n)%nat ->
  softmax n m s j <= exp (hi - lo) * softmax n m (fun j => s j + u j) j.
Proof.
  intros Hu Hj. rewrite (softmax_ext n m s (fun j => s j + u j + - u j) j) by (intro; ring).
  replace (hi - lo) with (- lo - - hi) by ring.
  apply (weight_move (fun j => s j + u j) (fun j => - u j)); [|exact Hj].
  intros l Hl El. pose proof (Hu l Hl El). lra.
Qed.
End Move.

Section Variance.
Variables (n : nat) (sigma sigma' v : vec) (e : R).
Hypothesis Hs' : probability n sigma'.
Hypothesis H : forall j, (j < n)%nat -> sigma' j <= e * sigma j.

Lemma variance_least b : covariance n sigma' v v <= rsum n (fun j => sigma' j * ((v j - b) * (v j - b))).
Proof.
  rewrite (variance_moment n sigma' Hs'). set (a := mean n sigma' v).
  rewrite (rsum_ext n (fun j => sigma' j * ((v j - b) * (v j - b)))
    (fun j => sigma' j * (v j * v j) - (2 * b * (sigma' j * v j) - b * b * sigma' j))) by (intros; ring).
  rewrite !rsum_minus, !rsum_scal, (proj2 Hs'). fold (mean n sigma' v). fold a. pose proof (sq_nonneg (a - b)). lra.
Qed.

Lemma variance_move : covariance n sigma' v v <= e * covariance n sigma v v.
Proof.
  eapply Rle_trans; [apply (variance_least (mean n sigma v))|]. unfold covariance. rewrite <- rsum_scal.
  apply rsum_le; intros j Hj. set (x := (v j - mean n sigma v) * (v j - mean n sigma v)).
  rewrite <- (Rmult_assoc e). apply Rmult_le_compat_r; [apply sq_nonneg | apply H, Hj].
Qed.
End Variance.

Theorem softmax_move n m s u lo hi : valid_row n m -> (forall j, (j < n)%nat -> m j = 1 -> lo <= u j <= hi) ->
  let e := exp (hi - lo) in let sigma := softmax n m s in let sigma' := softmax n m (fun j => s j + u j) in
  (forall j, (j < n)%nat -> sigma j <= e * sigma' j /\ sigma' j <= e * sigma j) /\
  forall v, covariance n sigma v v <= e * covariance n sigma' v v /\ covariance n sigma' v v <= e * covariance n sigma v v.
Proof.
  intros Hm Hu e sigma sigma'.
  assert (A : forall j, (j < n)%nat -> sigma j <= e * sigma' j) by (intros; apply weight_move_back; assumption).
  assert (B : forall j, (j < n)%nat -> sigma' j <= e * sigma j) by (intros; apply weight_move; assumption).
  split; [intros; split; auto|]. intro v.
  assert (P : probability n sigma) by apply softmax_probability, Hm.
  assert (P' : probability n sigma') by apply softmax_probability, Hm.
  split; apply variance_move; assumption.
Qed.

(* ---- no smaller exponent: s = (-log x, 0), u = (1, 0), v = (1, 0), where sigma_1 = 1/(1 + x) ---- *)
Definition first : vec := fun j => match j with O => 1 | _ => 0 end.
Definition every : vec := fun _ => 1.

Lemma two_weight (s : vec) x : 0 < x -> exp (s 0%nat) = / x -> s 1%nat = 0 -> softmax 2 every s 0%nat = / (1 + x) /\
  softmax 2 every s 1%nat = x / (1 + x).
Proof.
  intros Hx E0 E1. unfold softmax, partition, rsum, every. rewrite E0, E1, exp_0. split; field; lra.
Qed.

Lemma two_variance (s : vec) x : 0 < x -> exp (s 0%nat) = / x -> s 1%nat = 0 ->
  covariance 2 (softmax 2 every s) first first = x / ((1 + x) * (1 + x)).
Proof.
  intros Hx E0 E1. destruct (two_weight s x Hx E0 E1) as [A B].
  unfold covariance, mean, rsum. rewrite A, B. unfold first. field. lra.
Qed.

Theorem softmax_move_least k : (forall n m s u lo hi, valid_row n m ->
  (forall j, (j < n)%nat -> m j = 1 -> lo <= u j <= hi) ->
  let e := exp (k * (hi - lo)) in let sigma := softmax n m s in let sigma' := softmax n m (fun j => s j + u j) in
  (forall j, (j < n)%nat -> sigma' j <= e * sigma j) \/ forall v, covariance n sigma' v v <= e * covariance n sigma v v) ->
  1 <= k.
Proof.
  intro H. set (g := exp 1). pose proof (exp_increasing 0 1 Rlt_0_1) as g1. rewrite exp_0 in g1. fold g in g1.
  (* r = (1 + x)/(1 + x/e) is the change of the first weight, and r^2/e that of the variance *)
  assert (R : forall x, 0 < x -> (1 + x) * (1 + x) <= g * exp k * ((1 + x / g) * (1 + x / g))).
  { intros x Hx. assert (gx : 0 < x / g) by (apply Rdiv_lt_0_compat; lra).
    set (s := fun j : nat => match j with O => - ln x | _ => 0 end).
    assert (Hv : valid_row 2 every) by (split; [right; reflexivity | exists 0%nat; split; [lia | reflexivity]]).
    assert (Es : exp (s 0%nat) = / x) by (unfold s; rewrite exp_Ropp, exp_ln by exact Hx; reflexivity).
    assert (Es' : exp (s 0%nat + first 0%nat) = / (x / g)).
    { rewrite exp_plus, Es. unfold first. fold g. field. lra. }
    assert (Z' : s 1%nat + first 1%nat = 0) by (unfold s, first; ring).
    assert (k0 : 0 < exp k) by apply exp_pos.
    assert (Hr : forall j, (j < 2)%nat -> every j = 1 -> 0 <= first j <= 1) by (intros [|j] _ _; unfold first; lra).
    specialize (H 2%nat every s first 0 1 Hv Hr). cbv zeta in H. replace (k * (1 - 0)) with k in H by ring.
    destruct (two_weight s x Hx Es eq_refl) as [A _].
    destruct (two_weight (fun j => s j + first j) (x / g) gx Es' Z') as [A' _].
    destruct H as [H | H].
    - specialize (H 0%nat ltac:(lia)). rewrite A, A' in H.
      assert (Q : 1 + x <= exp k * (1 + x / g)).
      { apply Rmult_le_reg_r with (/ (1 + x / g) * / (1 + x)).
        - apply Rmult_lt_0_compat; apply Rinv_0_lt_compat; lra.
        - replace ((1 + x) * (/ (1 + x / g) * / (1 + x))) with (/ (1 + x / g)) by (field; lra).
          replace (exp k * (1 + x / g) * (/ (1 + x / g) * / (1 + x))) with (exp k * / (1 + x)) by (field; lra). exact H. }
      assert (Q' : 1 + x <= g * (1 + x / g)) by (replace (g * (1 + x / g)) with (g + x) by (field; lra); lra).
      apply Rle_trans with (exp k * (1 + x / g) * (g * (1 + x / g))); [apply Rmult_le_compat; lra | right; ring].
    - specialize (H first). rewrite (two_variance s x Hx Es eq_refl) in H.
      rewrite (two_variance (fun j => s j + first j) (x / g) gx Es' Z') in H.
      set (y := x / g) in *. assert (Ey : x = y * g) by (unfold y; field; lra).
      apply Rmult_le_reg_r with (y / ((1 + y) * (1 + y) * ((1 + x) * (1 + x)))).
      + apply Rdiv_lt_0_compat; [exact gx|]. repeat apply Rmult_lt_0_compat; lra.
      + replace ((1 + x) * (1 + x) * (y / ((1 + y) * (1 + y) * ((1 + x) * (1 + x))))) with (y / ((1 + y) * (1 + y)))
          by (field; lra).
        eapply Rle_trans; [exact H|]. right. rewrite Ey at 1. field. lra. }
  (* as x grows *)
  assert (G : g <= exp k).
  { apply Rnot_lt_le. intro N. set (q := g * (g - exp k)). assert (q0 : 0 < q) by (unfold q; nra).
    (* (1 + y g)^2 <= (g^2 - q) (1 + y)^2 fails for large y *)
    set (y := 1 + 4 * (g * g) / q).
    assert (y1 : 0 < y) by (unfold y; assert (0 < 4 * (g * g) / q) by (apply Rdiv_lt_0_compat; nra); lra).
    specialize (R (y * g) ltac:(nra)). replace (y * g / g) with y in R by (field; lra).
    assert (Y : q * y = q + 4 * (g * g)) by (unfold y; field; lra).
    assert (C : g * exp k = g * g - q) by (unfold q; ring). rewrite C in R.
    assert (q * y * y >= 4 * (g * g) * y) by nra. nra. }
  apply Rnot_lt_le. intro N. apply exp_increasing in N. fold g in N. lra.
Qed.

(* ---- as Trusted.v states them ---- *)
Definition checked_softmax_move : Statement.softmax_move := softmax_move.
Definition checked_softmax_move_least : Statement.softmax_move_least := softmax_move_least.
