(* The rows of the Hessian of RowHessianSharp.v at a vertex f = e_k:
     b^k_ij = 2 (sigma_i + sigma_j) - [i = k] - [j = k] - 3 ||sigma||^2 + 2 sigma_k,
     sigma_i sum_{j<>i} sigma_j max(0,  b^k_ij) <= kappa = C_+/2,
     sigma_i sum_{j<>i} sigma_j max(0, -b^k_ij) <= kappa_minus = C_-/2     for all i and k.
   Splitting sigma into x = sigma_i, w = sigma_k, the positions where b^k_ij has the sign in
   question (mass y, sum of squares z) and the others (mass rho) leaves polynomial
   inequalities: RowHessianUpper.v, RowHessianLower.v.                                     *)
Require Import Reals Lra Lia Bool.
From AttnPrune.analysis Require Import Sums SoftmaxRow RowHessianUpper RowHessianLower.
Open Scope R_scope.

Lemma rsum_squares_le n (r : vec) : (forall j, (j < n)%nat -> 0 <= r j) -> sqnorm n r <= rsum n r * rsum n r.
Proof.
  unfold sqnorm. induction n as [|n IH]; intro H; simpl; [lra|].
  assert (0 <= rsum n r) by (apply rsum_nonneg; auto). assert (0 <= r n) by (apply H; lia).
  specialize (IH (fun j Hj => H j (Nat.lt_lt_succ_r _ _ Hj))).
  assert (0 <= rsum n r * r n) by (apply Rmult_le_pos; assumption). nra.
Qed.

Definition pos t := Rmax 0 t.
Lemma pos_nonneg t : 0 <= pos t.
Proof. apply Rmax_l. Qed.
Lemma pos_ge t : t <= pos t.
Proof. apply Rmax_r. Qed.

Section Row.
Variables (n : nat) (sigma : vec).
Hypothesis Hs : probability n sigma.
Let S := sqnorm n sigma.

Definition kron (i k : nat) := if Nat.eqb i k then 1 else 0.
Definition b_vertex k i j := 2 * (sigma i + sigma j) - kron i k - kron j k - 3 * S + 2 * sigma k.

Lemma sigma_nonneg j : (j < n)%nat -> 0 <= sigma j.
Proof. apply (proj1 Hs). Qed.

(* ---- sigma = e + r + q with disjoint supports ---- *)
Lemma split_masses (e r q : vec) :
  (forall j, (j < n)%nat -> 0 <= r j /\ 0 <= q j /\ sigma j = e j + r j + q j
     /\ sigma j * sigma j = e j * e j + r j * r j + q j * q j) ->
  0 <= rsum n r /\ 0 <= rsum n q /\ rsum n e + rsum n r + rsum n q = 1 /\
  0 <= sqnorm n r <= rsum n r * rsum n r /\
  sqnorm n e + sqnorm n r <= S <= sqnorm n e + sqnorm n r + rsum n q * rsum n q.
Proof.
  intro H.
  assert (R0 : 0 <= rsum n r) by (apply rsum_nonneg; intros j Hj; apply H, Hj).
  assert (Q0 : 0 <= rsum n q) by (apply rsum_nonneg; intros j Hj; apply H, Hj).
  assert (E : rsum n e + rsum n r + rsum n q = 1).
  { rewrite <- (proj2 Hs), <- !rsum_plus. apply rsum_ext; intros j Hj. symmetry; apply (H j Hj). }
  assert (E2 : S = sqnorm n e + sqnorm n r + sqnorm n q).
  { unfold S, sqnorm. rewrite <- !rsum_plus. apply rsum_ext; intros j Hj. apply (H j Hj). }
  pose proof (sqnorm_nonneg n r). pose proof (sqnorm_nonneg n q).
  pose proof (rsum_squares_le n r (fun j Hj => proj1 (H j Hj))).
  pose proof (rsum_squares_le n q (fun j Hj => proj1 (proj2 (H j Hj)))).
  repeat split; lra.
Qed.

Definition at_index i : vec := fun j => if Nat.eqb j i then sigma j else 0.

Lemma sum_at_index i : (i < n)%nat -> rsum n (at_index i) = sigma i.
Proof. intro Hi. apply (rsum_delta n i sigma Hi). Qed.

Lemma sq_at_index i : (i < n)%nat -> sqnorm n (at_index i) = sigma i * sigma i.
Proof.
  intro Hi. rewrite <- (rsum_delta n i (fun j => sigma j * sigma j) Hi). apply rsum_ext; intros j _.
  unfold at_index. destruct (Nat.eqb j i); ring.
Qed.

(* one row of the positive part (sgn = 1) or of the negative part (sgn = -1) *)
Definition row_sum sgn k i :=
  rsum n (fun j => if Nat.eqb j i then 0 else sigma j * pos (sgn * b_vertex k i j)).

(* active positions, apart from i and k *)
Definition active sgn k i j := if Rlt_dec 0 (sgn * b_vertex k i j) then true else false.
Definition r_part sgn k i : vec := fun j =>
  if Nat.eqb j i || Nat.eqb j k then 0 else if active sgn k i j then sigma j else 0.
Definition q_part sgn k i : vec := fun j =>
  if Nat.eqb j i || Nat.eqb j k then 0 else if active sgn k i j then 0 else sigma j.

Lemma pos_active sgn k i j :
  pos (sgn * b_vertex k i j) = if active sgn k i j then sgn * b_vertex k i j else 0.
Proof.
  unfold pos, active. destruct (Rlt_dec 0 (sgn * b_vertex k i j)) as [H | H].
  - apply Rmax_right; lra.
  - apply Rmax_left; lra.
Qed.

Lemma eqb_false a b : a <> b -> Nat.eqb a b = false.
Proof. intro H. apply Nat.eqb_neq, H. Qed.

(* ---- the row of the vertex itself: i = k ---- *)
Lemma row_vertex sgn k : (k < n)%nat ->
  let x := sigma k in let y := rsum n (r_part sgn k k) in let z := sqnorm n (r_part sgn k k) in
  let rho := rsum n (q_part sgn k k) in
  row_sum sgn k k = sgn * (y * (4 * x - 1 - 3 * S) + 2 * z) /\
  0 <= x /\ 0 <= y /\ 0 <= rho /\ x + y + rho = 1 /\ 0 <= z <= y * y /\
  x * x + z <= S <= x * x + z + rho * rho.
Proof.
  intros Hk x y z rho.
  destruct (split_masses (at_index k) (r_part sgn k k) (q_part sgn k k)) as [Y [Q [E [Z SS]]]].
  { intros j Hj. pose proof (sigma_nonneg j Hj). unfold at_index, r_part, q_part.
    destruct (Nat.eqb j k); simpl; [|destruct (active sgn k k j)]; repeat split; try lra; ring. }
  rewrite sum_at_index in E by exact Hk. rewrite sq_at_index in SS by exact Hk.
  pose proof (sigma_nonneg k Hk). split; [|unfold x, y, z, rho; repeat split; lra].
  unfold row_sum, y, z, sqnorm.
  replace (sgn * (rsum n (r_part sgn k k) * (4 * x - 1 - 3 * S)
            + 2 * rsum n (fun j => r_part sgn k k j * r_part sgn k k j)))
    with (rsum n (fun j => sgn * (4 * x - 1 - 3 * S) * r_part sgn k k j
                           + 2 * sgn * (r_part sgn k k j * r_part sgn k k j)))
    by (rewrite rsum_plus, !rsum_scal; ring).
  apply rsum_ext; intros j _. rewrite pos_active. unfold r_part.
  destruct (Nat.eqb j k) eqn:Ejk; simpl; [ring|].
  destruct (active sgn k k j); [|ring].
  unfold b_vertex, kron. rewrite Ejk, Nat.eqb_refl. unfold x. ring.
Qed.

(* ---- another row: i <> k ---- *)
Lemma row_other sgn k i : (k < n)%nat -> (i < n)%nat -> i <> k ->
  let x := sigma i in let w := sigma k in
  let y := rsum n (r_part sgn k i) in let z := sqnorm n (r_part sgn k i) in
  let rho := rsum n (q_part sgn k i) in
  row_sum sgn k i = w * pos (sgn * (2 * x + 4 * w - 1 - 3 * S)) + sgn * (y * (2 * x + 2 * w - 3 * S) + 2 * z) /\
  0 <= x /\ 0 <= w /\ 0 <= y /\ 0 <= rho /\ x + w + y + rho = 1 /\ 0 <= z <= y * y /\
  x * x + w * w + z <= S <= x * x + w * w + z + rho * rho.
Proof.
  intros Hk Hi Hik x w y z rho.
  destruct (split_masses (fun j => at_index i j + at_index k j) (r_part sgn k i) (q_part sgn k i))
    as [Y [Q [E [Z SS]]]].
  { intros j Hj. pose proof (sigma_nonneg j Hj). unfold at_index, r_part, q_part.
    destruct (Nat.eqb j i) eqn:Eji; destruct (Nat.eqb j k) eqn:Ejk; simpl;
      [exfalso; apply Nat.eqb_eq in Eji; apply Nat.eqb_eq in Ejk; lia | | |];
      try destruct (active sgn k i j); repeat split; try lra; ring. }
  rewrite rsum_plus, !sum_at_index in E by assumption.
  assert (EE : sqnorm n (fun j => at_index i j + at_index k j) = x * x + w * w).
  { unfold x, w. rewrite <- (sq_at_index i Hi), <- (sq_at_index k Hk). unfold sqnorm.
    rewrite <- rsum_plus. apply rsum_ext; intros j _. unfold at_index.
    destruct (Nat.eqb j i) eqn:Eji; destruct (Nat.eqb j k) eqn:Ejk; try ring.
    exfalso; apply Nat.eqb_eq in Eji; apply Nat.eqb_eq in Ejk; lia. }
  rewrite EE in SS.
  pose proof (sigma_nonneg k Hk). pose proof (sigma_nonneg i Hi).
  split; [|unfold x, w, y, z, rho in *; repeat split; lra].
  unfold row_sum, y, z, sqnorm.
  replace (w * pos (sgn * (2 * x + 4 * w - 1 - 3 * S)) + sgn * (rsum n (r_part sgn k i) * (2 * x + 2 * w - 3 * S)
            + 2 * rsum n (fun j => r_part sgn k i j * r_part sgn k i j)))
    with (rsum n (fun j => (if Nat.eqb j k then sigma j * pos (sgn * (2 * x + 4 * sigma j - 1 - 3 * S)) else 0)
            + (sgn * (2 * x + 2 * w - 3 * S) * r_part sgn k i j
               + 2 * sgn * (r_part sgn k i j * r_part sgn k i j)))).
  2:{ rewrite !rsum_plus, !rsum_scal.
      rewrite (rsum_delta n k (fun j => sigma j * pos (sgn * (2 * x + 4 * sigma j - 1 - 3 * S))) Hk).
      unfold w. ring. }
  apply rsum_ext; intros j _. unfold r_part.
  destruct (Nat.eqb j i) eqn:Eji; simpl.
  - apply Nat.eqb_eq in Eji. subst j. rewrite (eqb_false i k Hik). ring.
  - destruct (Nat.eqb j k) eqn:Ejk; simpl.
    + apply Nat.eqb_eq in Ejk. subst j.
      assert (B : b_vertex k i k = 2 * x + 4 * sigma k - 1 - 3 * S).
      { unfold b_vertex, kron. rewrite Nat.eqb_refl, (eqb_false i k Hik). unfold x. ring. }
      rewrite B. ring.
    + rewrite pos_active. destruct (active sgn k i j); [|ring].
      unfold b_vertex, kron. rewrite Ejk, (eqb_false i k Hik). unfold x, w. ring.
Qed.

(* ---- every row of the positive part is at most kappa, of the negative part kappa_minus ---- *)
Lemma row_upper k i : (k < n)%nat -> (i < n)%nat -> sigma i * row_sum 1 k i <= kappa.
Proof.
  intros Hk Hi. destruct (Nat.eq_dec i k) as [-> | Hik].
  - destruct (row_vertex 1 k Hk) as [E [X [Y [Q [T [Z SS]]]]]]. rewrite E.
    set (x := sigma k) in *. set (y := rsum n (r_part 1 k k)) in *. set (z := sqnorm n (r_part 1 k k)) in *.
    eapply Rle_trans; [|apply (upper_vertex x y z); lra].
    apply Rmult_le_compat_l; [exact X|].
    assert (0 <= y * (S - (x * x + z))) by (apply Rmult_le_pos; lra). lra.
  - destruct (row_other 1 k i Hk Hi Hik) as [E [X [Wp [Y [Q [T [Z SS]]]]]]]. rewrite E.
    set (x := sigma i) in *. set (w := sigma k) in *.
    set (y := rsum n (r_part 1 k i)) in *. set (z := sqnorm n (r_part 1 k i)) in *.
    assert (Ay : 0 <= y * (S - (x * x + w * w + z))) by (apply Rmult_le_pos; lra).
    assert (Aw : 0 <= w * (S - (x * x + w * w + z))) by (apply Rmult_le_pos; lra).
    unfold pos. destruct (Rle_lt_dec (1 * (2 * x + 4 * w - 1 - 3 * S)) 0) as [B | B].
    + rewrite Rmax_left by exact B.
      eapply Rle_trans; [|apply (upper_other_off x w y z); lra].
      apply Rmult_le_compat_l; [exact X|]. lra.
    + rewrite Rmax_right by lra.
      eapply Rle_trans; [|apply (upper_other_on x w y z); lra].
      apply Rmult_le_compat_l; [exact X|]. lra.
Qed.

Lemma row_lower_bound k i : (k < n)%nat -> (i < n)%nat -> sigma i * row_sum (-1) k i <= kappa_minus.
Proof.
  intros Hk Hi. destruct (Nat.eq_dec i k) as [-> | Hik].
  - destruct (row_vertex (-1) k Hk) as [E [X [Y [Q [T [Z SS]]]]]]. rewrite E.
    set (x := sigma k) in *. set (y := rsum n (r_part (-1) k k)) in *.
    set (z := sqnorm n (r_part (-1) k k)) in *. set (rho := rsum n (q_part (-1) k k)) in *.
    eapply Rle_trans; [|apply (lower_vertex x y z rho); lra].
    apply Rmult_le_compat_l; [exact X|].
    assert (0 <= y * (x * x + z + rho * rho - S)) by (apply Rmult_le_pos; lra). lra.
  - destruct (row_other (-1) k i Hk Hi Hik) as [E [X [Wp [Y [Q [T [Z SS]]]]]]]. rewrite E.
    set (x := sigma i) in *. set (w := sigma k) in *. set (y := rsum n (r_part (-1) k i)) in *.
    set (z := sqnorm n (r_part (-1) k i)) in *. set (rho := rsum n (q_part (-1) k i)) in *.
    assert (Ay : 0 <= y * (x * x + w * w + z + rho * rho - S)) by (apply Rmult_le_pos; lra).
    assert (Aw : 0 <= w * (x * x + w * w + z + rho * rho - S)) by (apply Rmult_le_pos; lra).
    unfold pos. destruct (Rle_lt_dec (-1 * (2 * x + 4 * w - 1 - 3 * S)) 0) as [B | B].
    + rewrite Rmax_left by exact B.
      eapply Rle_trans; [|apply (lower_other_off x w y z rho); lra].
      apply Rmult_le_compat_l; [exact X|]. lra.
    + rewrite Rmax_right by lra.
      eapply Rle_trans; [|apply (lower_other_on x w y z rho); lra].
      apply Rmult_le_compat_l; [exact X|]. lra.
Qed.
End Row.
