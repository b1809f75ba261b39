(* The row Hessian of (1/2)||softmax(s) - f||^2 lies between -C_- I and C_+ I,
     C_+ = (39 + 55 sqrt 33)/1152 = 0.30811714...,   C_- = (55 sqrt 33 - 39)/1152 = 0.24040880...,
   for every n, every mask and every f, so that grad L is (lam + C_+ K^2)-Lipschitz.

   With sigma the softmax and S = ||sigma||^2 the Hessian is a signed graph Laplacian,
     v^T H v = (1/2) sum_ij sigma_i sigma_j b_ij (v_i - v_j)^2,
     b_ij = 2 (sigma_i + sigma_j) - f_i - f_j - 3 S + 2 <f, sigma>,
   affine in f, so b = sum_k f_k b^k with b^k that of the vertex f = e_k.  By
   (v_i - v_j)^2 <= 2 v_i^2 + 2 v_j^2 it is enough that for all i and k
     sigma_i sum_{j<>i} sigma_j max(0, b^k_ij) <= C_+/2,   the same with -b^k_ij <= C_-/2,
   which is RowHessianRows.v.                                                            *)
Require Import Reals Lra Lia Bool.
From AttnPrune.analysis Require Import Sums SoftmaxRow RowHessian LipschitzGradient.
From AttnPrune.analysis Require Import RowHessianUpper RowHessianLower RowHessianRows.
Open Scope R_scope.

Section Row.
Variables (n : nat) (sigma : vec).
Hypothesis Hs : probability n sigma.
Notation S := (sqnorm n sigma).
Notation b_vertex := (b_vertex n sigma).
Notation row_sum := (row_sum n sigma).
Notation row_upper := (row_upper n sigma Hs).
Notation row_lower_bound := (row_lower_bound n sigma Hs).
Notation sigma_nonneg := (sigma_nonneg n sigma Hs).

(* ---- from the rows to the quadratic form ---- *)
Section Form.
Variable f : vec.
Hypothesis Hf : probability n f.
Let fs := rsum n (fun k => f k * sigma k).

Notation bil := (Analysis.bil n sigma f).
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
    rewrite rsum_plus, rsum_scal, rsum_minus, rsum_scal. fold fs. fold (sqnorm n sigma). ring. }
  rewrite H1. unfold Analysis.bil, third.
  set (e := fun j => sigma j - f j).
  assert (Em : mean n sigma e = S - fs).
  { unfold mean, e, fs, sqnorm. rewrite <- rsum_minus. apply rsum_ext; intros; ring. }
  rewrite Em, <- rsum_plus.
  rewrite (rsum_ext n _ (fun j => sigma j * h j * T j + (fs - S) * (sigma j * T j))).
  - rewrite rsum_plus, rsum_scal. fold Vr. field.
  - intros j _. unfold jacobian, h, T. fold mv. change (sigma j - f j) with (e j). unfold e. ring.
Qed.

(* a symmetric form with off-diagonal weights at most P and row sums at most C/2 *)
Lemma gershgorin (B P : nat -> nat -> R) C :
  (forall i j, (i < n)%nat -> (j < n)%nat -> B i j <= P i j) ->
  (forall i j, (i < n)%nat -> (j < n)%nat -> 0 <= P i j) ->
  (forall i j, P i j = P j i) ->
  (forall i, (i < n)%nat -> sigma i * rsum n (fun j => if Nat.eqb j i then 0 else sigma j * P i j) <= C / 2) ->
  / 2 * rsum n (fun i => rsum n (fun j => sigma i * sigma j * (B i j * D i j))) <= C * sqnorm n v.
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
  assert (S3 : rsum n (fun i => v i * v i * rsum n (o i)) <= C / 2 * sqnorm n v).
  { unfold sqnorm. rewrite <- rsum_scal. apply rsum_le; intros i Hi.
    rewrite (Rmult_comm (C / 2)). apply Rmult_le_compat_l; [apply sq_nonneg|].
    eapply Rle_trans; [|apply (Hrow i Hi)]. rewrite <- rsum_scal. right. apply rsum_ext; intros j _.
    unfold o. destruct (Nat.eqb j i); ring. }
  lra.
Qed.

Definition weights sgn i j := rsum n (fun k => f k * pos (sgn * b_vertex k i j)).

Lemma b_vertex_sym k i j : b_vertex k i j = b_vertex k j i.
Proof. unfold b_vertex. ring. Qed.

Lemma weights_rows sgn i kappa : (forall k, (k < n)%nat -> sigma i * row_sum sgn k i <= kappa) ->
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

Lemma form_bound sgn C : (forall i k, (i < n)%nat -> (k < n)%nat -> sigma i * row_sum sgn k i <= C / 2) ->
  sgn * bil v v <= C * sqnorm n v.
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

(* -C_- ||v||^2 <= v^T H v *)
Theorem row_hessian_lower : - (C_minus * sqnorm n v) <= bil v v.
Proof. pose proof (form_bound (-1) C_minus (fun i k Hi Hk => row_lower_bound k i Hk Hi)). lra. Qed.

(* |v^T H v| <= C_+ ||v||^2 *)
Theorem row_hessian_bound : - (C_plus * sqnorm n v) <= bil v v <= C_plus * sqnorm n v.
Proof.
  pose proof (form_bound 1 C_plus (fun i k Hi Hk => row_upper k i Hk Hi)). pose proof row_hessian_lower.
  assert (0 <= (C_plus - C_minus) * sqnorm n v) by (apply Rmult_le_pos; [unfold C_plus, C_minus; lra | apply sqnorm_nonneg]).
  lra.
Qed.
End Vector.

(* ---- from the quadratic form to the operator norm ---- *)
Lemma bil_combination v w s t :
  bil (fun j => s * v j + t * w j) (fun j => s * v j + t * w j)
  = s * s * bil v v + 2 * s * t * bil v w + t * t * bil w w.
Proof.
  assert (M : mean n sigma (fun j => s * v j + t * w j) = s * mean n sigma v + t * mean n sigma w).
  { unfold mean. rewrite <- !rsum_scal, <- rsum_plus. apply rsum_ext; intros; ring. }
  unfold Analysis.bil, third, jacobian. rewrite M.
  rewrite !Rmult_plus_distr_l, <- !rsum_scal, <- !rsum_plus. apply rsum_ext; intros; ring.
Qed.

Lemma C_plus_pos : 0 < C_plus.
Proof. pose proof kappa_lower. unfold kappa in *. lra. Qed.

Lemma p_row_velocity_norm_sharp m v a :
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
  { unfold Analysis.bil. rewrite <- (ip_velocity n sigma f Hs v' w). apply rsum_ext; intros j _. rewrite <- Ew. ring. }
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

(* ---- as Trusted.v states them ---- *)
Definition checked_row_hessian_lower : Statement.row_hessian_lower := row_hessian_lower.
Definition checked_row_hessian_bound : Statement.row_hessian_bound := row_hessian_bound.
Definition checked_row_constant_C_plus : Statement.row_constant_C_plus := row_constant_C_plus.
