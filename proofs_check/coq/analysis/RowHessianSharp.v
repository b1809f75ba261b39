(* The row Hessian of (1/2)||softmax(s) - f||^2 is bounded by
     C_+ = (39 + 55 sqrt 33)/1152 = 0.30811714...     for every n, every mask and every f,
   so that grad L is (lam + C_+ K^2)-Lipschitz.

   With sigma the softmax and S = ||sigma||^2 the Hessian is a signed graph Laplacian,
     v^T H v = (1/2) sum_ij sigma_i sigma_j b_ij (v_i - v_j)^2,
     b_ij = 2 (sigma_i + sigma_j) - f_i - f_j - 3 S + 2 <f, sigma>,
   affine in f, so b = sum_k f_k b^k with b^k that of the vertex f = e_k.  By
   (v_i - v_j)^2 <= 2 v_i^2 + 2 v_j^2 it is enough that for all i and k
     sigma_i sum_{j<>i} sigma_j max(0, +-b^k_ij) <= C_+/2,
   which RowHessianPolynomials.v shows after splitting sigma into x = sigma_i, w = sigma_k,
   the positions where b^k_ij has the sign in question (mass y, sum of squares z) and the
   others (mass rho).                                                                   *)
Require Import Reals Lra Lia Bool.
From AttnPrune.analysis Require Import Sums SoftmaxRow RowHessian RowHessianPolynomials LipschitzGradient.
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

(* ---- every row of either part is at most kappa ---- *)
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

Lemma row_lower_bound k i : (k < n)%nat -> (i < n)%nat -> sigma i * row_sum (-1) k i <= kappa.
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

(* ---- from the rows to the quadratic form ---- *)
Section Form.
Variable f : vec.
Hypothesis Hf : probability n f.
Let fs := rsum n (fun k => f k * sigma k).

Definition bil v w := rsum n (fun j => jacobian n sigma w j * jacobian n sigma v j) + third n sigma f v w.
Definition b_pair i j := 2 * (sigma i + sigma j) - f i - f j - 3 * S + 2 * fs.

Lemma b_pair_vertices i j : (i < n)%nat -> (j < n)%nat ->
  b_pair i j = rsum n (fun k => f k * b_vertex k i j).
Proof.
  intros Hi Hj. unfold b_pair, b_vertex.
  rewrite (rsum_ext n _ (fun k => (2 * (sigma i + sigma j) - 3 * S) * f k
     + 2 * (f k * sigma k) - ((if Nat.eqb k i then f k else 0) + (if Nat.eqb k j then f k else 0)))).
  - rewrite rsum_minus, !rsum_plus, !rsum_scal, (proj2 Hf).
    rewrite (rsum_delta n i f Hi), (rsum_delta n j f Hj). fold fs. ring.
  - intros k _. unfold kron. rewrite (Nat.eqb_sym i k), (Nat.eqb_sym j k).
    destruct (Nat.eqb k i); destruct (Nat.eqb k j); ring.
Qed.

Section Vector.
Variable v : vec.
Let D i j := (v i - v j) * (v i - v j).
Let mv := mean n sigma v.
Let T i := (v i - mv) * (v i - mv).
Let Vr := rsum n (fun j => sigma j * T j).

Lemma sum_D i : rsum n (fun j => sigma j * D i j) = T i + Vr.
Proof.
  rewrite (rsum_ext n _ (fun j => T i * sigma j - 2 * (v i - mv) * (sigma j * (v j - mv)) + sigma j * T j))
    by (intros; unfold D, T; ring).
  assert (Z : rsum n (fun j => sigma j * (v j - mv)) = 0) by (apply centred_sum, Hs).
  rewrite rsum_plus, rsum_minus, !rsum_scal, (proj2 Hs), Z. fold Vr. ring.
Qed.

Lemma pair_sum h :
  rsum n (fun i => rsum n (fun j => sigma i * sigma j * (h i * D i j)))
  = rsum n (fun i => sigma i * h i * (T i + Vr)).
Proof.
  apply rsum_ext; intros i _. rewrite <- sum_D, <- rsum_scal. apply rsum_ext; intros; ring.
Qed.

(* v^T H v = (1/2) sum_ij sigma_i sigma_j b_ij (v_i - v_j)^2 *)
Lemma pairwise_form :
  bil v v = / 2 * rsum n (fun i => rsum n (fun j => sigma i * sigma j * (b_pair i j * D i j))).
Proof.
  set (h := fun i => 2 * sigma i - f i).
  assert (A : rsum n (fun i => rsum n (fun j => sigma i * sigma j * (b_pair i j * D i j)))
    = 2 * rsum n (fun i => sigma i * h i * (T i + Vr)) + (2 * fs - 3 * S) * (2 * Vr)).
  { rewrite (rsum_ext n _ (fun i => rsum n (fun j => sigma i * sigma j * (h i * D i j))
      + rsum n (fun j => sigma i * sigma j * (h j * D i j))
      + (2 * fs - 3 * S) * rsum n (fun j => sigma i * sigma j * (1 * D i j)))).
    2:{ intros i _. rewrite <- rsum_scal, <- !rsum_plus. apply rsum_ext; intros j _.
        unfold b_pair, h. ring. }
    rewrite !rsum_plus, rsum_scal, (pair_sum h), (pair_sum (fun _ => 1)).
    rewrite (rsum_exchange n n (fun i j => sigma i * sigma j * (h j * D i j))).
    rewrite (rsum_ext n (fun j => rsum n (fun i => sigma i * sigma j * (h j * D i j)))
      (fun i => rsum n (fun j => sigma i * sigma j * (h i * D i j))))
      by (intros i _; apply rsum_ext; intros j _; unfold D; ring).
    rewrite (pair_sum h).
    assert (O : rsum n (fun i => sigma i * 1 * (T i + Vr)) = 2 * Vr).
    { rewrite (rsum_ext n _ (fun i => sigma i * T i + Vr * sigma i)) by (intros; ring).
      rewrite rsum_plus, rsum_scal, (proj2 Hs). fold Vr. ring. }
    rewrite O. ring. }
  rewrite A.
  assert (H1 : rsum n (fun i => sigma i * h i * (T i + Vr))
    = rsum n (fun i => sigma i * h i * T i) + (2 * S - fs) * Vr).
  { rewrite (rsum_ext n _ (fun i => sigma i * h i * T i + Vr * (2 * (sigma i * sigma i) - f i * sigma i)))
      by (intros; unfold h; ring).
    rewrite rsum_plus, rsum_scal, rsum_minus, rsum_scal. fold fs. fold (sqnorm n sigma). fold S. ring. }
  rewrite H1. unfold bil, third.
  set (e := fun j => sigma j - f j).
  assert (Em : mean n sigma e = S - fs).
  { unfold mean, e, S, fs, sqnorm. rewrite <- rsum_minus. apply rsum_ext; intros; ring. }
  rewrite Em, <- rsum_plus.
  rewrite (rsum_ext n _ (fun j => sigma j * h j * T j + (fs - S) * (sigma j * T j))).
  - rewrite rsum_plus, rsum_scal. fold Vr. field.
  - intros j _. unfold jacobian, h, T. fold mv. change (sigma j - f j) with (e j). unfold e. ring.
Qed.

(* a symmetric form with off-diagonal weights at most P and row sums at most kappa *)
Lemma gershgorin (B P : nat -> nat -> R) :
  (forall i j, (i < n)%nat -> (j < n)%nat -> B i j <= P i j) ->
  (forall i j, (i < n)%nat -> (j < n)%nat -> 0 <= P i j) ->
  (forall i j, P i j = P j i) ->
  (forall i, (i < n)%nat -> sigma i * rsum n (fun j => if Nat.eqb j i then 0 else sigma j * P i j) <= kappa) ->
  / 2 * rsum n (fun i => rsum n (fun j => sigma i * sigma j * (B i j * D i j))) <= C_plus * sqnorm n v.
Proof.
  intros HB HP Hsym Hrow.
  set (o := fun i j => if Nat.eqb j i then 0 else sigma i * sigma j * P i j).
  assert (S1 : rsum n (fun i => rsum n (fun j => sigma i * sigma j * (B i j * D i j)))
    <= rsum n (fun i => rsum n (fun j => o i j * (2 * (v i * v i)) + o i j * (2 * (v j * v j))))).
  { apply rsum_le; intros i Hi. apply rsum_le; intros j Hj. unfold o.
    pose proof (sigma_nonneg i Hi). pose proof (sigma_nonneg j Hj).
    assert (SS : 0 <= sigma i * sigma j) by (apply Rmult_le_pos; assumption).
    destruct (Nat.eqb j i) eqn:E.
    - apply Nat.eqb_eq in E. subst j. unfold D. right. ring.
    - pose proof (sq_nonneg (v i - v j)) as D0. fold (D i j) in D0.
      assert (DD : D i j <= 2 * (v i * v i) + 2 * (v j * v j))
        by (unfold D; pose proof (sq_nonneg (v i + v j)); lra).
      specialize (HB i j Hi Hj). specialize (HP i j Hi Hj).
      apply Rle_trans with (sigma i * sigma j * (P i j * (2 * (v i * v i) + 2 * (v j * v j)))); [|right; ring].
      apply Rmult_le_compat_l; [exact SS|].
      apply Rle_trans with (P i j * D i j); [apply Rmult_le_compat_r; assumption|].
      apply Rmult_le_compat_l; assumption. }
  assert (S2 : rsum n (fun i => rsum n (fun j => o i j * (2 * (v i * v i)) + o i j * (2 * (v j * v j))))
    = 4 * rsum n (fun i => v i * v i * rsum n (o i))).
  { rewrite (rsum_ext n _ (fun i => rsum n (fun j => o i j * (2 * (v i * v i)))
      + rsum n (fun j => o i j * (2 * (v j * v j))))) by (intros; apply rsum_plus).
    rewrite rsum_plus, (rsum_exchange n n (fun i j => o i j * (2 * (v j * v j)))).
    rewrite (rsum_ext n (fun j => rsum n (fun i => o i j * (2 * (v j * v j))))
      (fun i => rsum n (fun j => o i j * (2 * (v i * v i))))).
    2:{ intros i _. apply rsum_ext; intros j _. unfold o. rewrite (Nat.eqb_sym i j), (Hsym j i).
        destruct (Nat.eqb j i); ring. }
    rewrite (rsum_ext n (fun i => rsum n (fun j => o i j * (2 * (v i * v i))))
      (fun i => 2 * (v i * v i * rsum n (o i)))) by (intros; rewrite rsum_scal_r; ring).
    rewrite rsum_scal. ring. }
  assert (S3 : rsum n (fun i => v i * v i * rsum n (o i)) <= kappa * sqnorm n v).
  { unfold sqnorm. rewrite <- rsum_scal. apply rsum_le; intros i Hi.
    rewrite (Rmult_comm kappa). apply Rmult_le_compat_l; [apply sq_nonneg|].
    eapply Rle_trans; [|apply (Hrow i Hi)]. rewrite <- rsum_scal. right. apply rsum_ext; intros j _.
    unfold o. destruct (Nat.eqb j i); ring. }
  unfold kappa in S3. lra.
Qed.

Definition weights sgn i j := rsum n (fun k => f k * pos (sgn * b_vertex k i j)).

Lemma b_vertex_sym k i j : b_vertex k i j = b_vertex k j i.
Proof. unfold b_vertex. ring. Qed.

Lemma weights_rows sgn i : (forall k, (k < n)%nat -> sigma i * row_sum sgn k i <= kappa) ->
  sigma i * rsum n (fun j => if Nat.eqb j i then 0 else sigma j * weights sgn i j) <= kappa.
Proof.
  intro H.
  assert (E : sigma i * rsum n (fun j => if Nat.eqb j i then 0 else sigma j * weights sgn i j)
    = rsum n (fun k => f k * (sigma i * row_sum sgn k i))).
  { transitivity (sigma i * rsum n (fun j => rsum n (fun k =>
      f k * (if Nat.eqb j i then 0 else sigma j * pos (sgn * b_vertex k i j))))).
    - f_equal. apply rsum_ext; intros j _. unfold weights. destruct (Nat.eqb j i).
      + symmetry; apply rsum_zero; intros; ring.
      + rewrite <- rsum_scal. apply rsum_ext; intros; ring.
    - rewrite rsum_exchange, <- rsum_scal. apply rsum_ext; intros k _. unfold row_sum.
      rewrite rsum_scal. ring. }
  rewrite E. apply Rle_trans with (rsum n (fun k => f k * kappa)).
  - apply rsum_le; intros k Hk. apply Rmult_le_compat_l; [apply (proj1 Hf), Hk | apply H, Hk].
  - rewrite rsum_scal_r, (proj2 Hf). lra.
Qed.

Lemma weights_ge sgn i j : (i < n)%nat -> (j < n)%nat -> sgn * b_pair i j <= weights sgn i j.
Proof.
  intros Hi Hj. rewrite b_pair_vertices, <- rsum_scal by assumption. apply rsum_le; intros k Hk.
  replace (sgn * (f k * b_vertex k i j)) with (f k * (sgn * b_vertex k i j)) by ring.
  apply Rmult_le_compat_l; [apply (proj1 Hf), Hk | apply pos_ge].
Qed.

Lemma form_bound sgn : (forall i k, (i < n)%nat -> (k < n)%nat -> sigma i * row_sum sgn k i <= kappa) ->
  sgn * bil v v <= C_plus * sqnorm n v.
Proof.
  intro H. rewrite pairwise_form.
  eapply Rle_trans; [|apply (gershgorin (fun i j => sgn * b_pair i j) (weights sgn))].
  - right. rewrite <- Rmult_assoc, (Rmult_comm sgn), Rmult_assoc. f_equal. rewrite <- rsum_scal.
    apply rsum_ext; intros i _. rewrite <- rsum_scal. apply rsum_ext; intros; ring.
  - intros; apply weights_ge; assumption.
  - intros i j _ _. apply rsum_nonneg; intros k Hk.
    apply Rmult_le_pos; [apply (proj1 Hf), Hk | apply pos_nonneg].
  - intros i j. apply rsum_ext; intros k _. rewrite b_vertex_sym. reflexivity.
  - intros i Hi. apply weights_rows. intros k Hk. apply H; assumption.
Qed.

(* |v^T H v| <= C_+ ||v||^2 *)
Theorem row_hessian_bound : - (C_plus * sqnorm n v) <= bil v v <= C_plus * sqnorm n v.
Proof.
  pose proof (form_bound 1 (fun i k Hi Hk => row_upper k i Hk Hi)).
  pose proof (form_bound (-1) (fun i k Hi Hk => row_lower_bound k i Hk Hi)). lra.
Qed.
End Vector.

(* ---- from the quadratic form to the operator norm ---- *)
Lemma bil_combination v w s t :
  bil (fun j => s * v j + t * w j) (fun j => s * v j + t * w j)
  = s * s * bil v v + 2 * s * t * bil v w + t * t * bil w w.
Proof.
  assert (M : mean n sigma (fun j => s * v j + t * w j) = s * mean n sigma v + t * mean n sigma w).
  { unfold mean. rewrite <- !rsum_scal, <- rsum_plus. apply rsum_ext; intros; ring. }
  unfold bil, third, jacobian. rewrite M.
  rewrite !Rmult_plus_distr_l, <- !rsum_scal, <- !rsum_plus. apply rsum_ext; intros; ring.
Qed.

Lemma C_plus_pos : 0 < C_plus.
Proof. pose proof kappa_lower. unfold kappa in *. lra. Qed.

Theorem p_row_velocity_norm_sharp m v a :
  (forall j, m j = 0 \/ m j = 1) -> (forall l, sigma l * m l = sigma l) ->
  sqnorm n (p_row_velocity n sigma f (jacobian n sigma v)) <= C_plus * C_plus * masked_sqnorm n m v a.
Proof.
  intros H01 Hm. rewrite masked_sqnormE by exact H01. set (v' := fun l => m l * (v l - a)).
  assert (J : forall j, jacobian n sigma v j = jacobian n sigma v' j)
    by (intro j; apply (jacobian_shift n sigma Hs m v a j Hm)).
  set (w := p_row_velocity n sigma f (jacobian n sigma v)).
  assert (Ew : forall j, w j = p_row_velocity n sigma f (jacobian n sigma v') j).
  { intro j. unfold w, p_row_velocity. rewrite J. do 3 f_equal. apply rsum_ext; intros l _. rewrite J. ring. }
  assert (E : sqnorm n w = bil v' w).
  { unfold bil. rewrite <- (ip_velocity n sigma f Hs v' w). apply rsum_ext; intros j _. rewrite <- Ew. ring. }
  set (C := C_plus) in *. pose proof C_plus_pos as C0. fold C in C0.
  pose proof (row_hessian_bound (fun j => C * v' j + 1 * w j)) as [_ U].
  pose proof (row_hessian_bound (fun j => C * v' j + (-1) * w j)) as [Lo _].
  rewrite bil_combination in U, Lo. fold C in U, Lo.
  assert (N : sqnorm n (fun j => C * v' j + 1 * w j) + sqnorm n (fun j => C * v' j + (-1) * w j)
    = 2 * (C * C * sqnorm n v' + sqnorm n w)).
  { unfold sqnorm. rewrite <- !rsum_scal, <- !rsum_plus, <- !rsum_scal. apply rsum_ext; intros; ring. }
  assert (B : 4 * (C * sqnorm n w) <= C * (2 * (C * C * sqnorm n v' + sqnorm n w))) by (rewrite <- N, E; lra).
  assert (B' : 4 * sqnorm n w <= 2 * (C * C * sqnorm n v' + sqnorm n w)).
  { apply Rmult_le_reg_l with C; [exact C0 | lra]. }
  lra.
Qed.
End Form.
End Row.

(* A row of p is C_+-Lipschitz in its logits. *)
Theorem row_constant_C_plus : row_constant C_plus.
Proof.
  split; [left; exact C_plus_pos|]. intros n m f s s' a Hm Hf.
  apply (p_row_lipschitz_from_velocity n m f s s' a (C_plus * C_plus) Hm).
  intros sigma Hs Hmask v. apply p_row_velocity_norm_sharp; try assumption. apply (proj1 Hm).
Qed.
