(* One row: the derivatives of 1/2 ||softmax(s) - f||^2, and the norm of the softmax's Jacobian by its two largest weights.

   row_loss_hessian: along s + t v the first derivative is <p_row, v>, the second bil(v, v).
   jacobian_two_largest: with s1 = sigma_i the largest weight and s2 a bound of the others, q = 1 - s1 and D = s1 - s2, the
   bound B = s1 (q + s2) has B - s1 = - s1 D and B - s2 = q D; so with x = v_i and m the sum of the other sigma_j v_j
     B ||v||^2 - Var v = s1 s2 x^2 + 2 s1 x m + m^2 + sum_{j <> i} (B - sigma_j) v_j^2,
   and s2 sum_{j <> i} (B - sigma_j) v_j^2 >= D q sum_{j <> i} sigma_j v_j^2 >= D m^2: s2 times it is at least
   s1 (s2 x + m)^2.                                                                                                   *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums SoftmaxRow RowHessian.
Open Scope R_scope.

Theorem row_loss_hessian n m f s v : valid_row n m -> probability n f ->
  let sigma t := softmax n m (fun j => s j + t * v j) in
  (forall t, is_derive (fun t => / 2 * sqnorm n (fun j => sigma t j - f j)) t (rsum n (fun j => v j * p_row n (sigma t) f j))) /\
  forall t, is_derive (fun t => rsum n (fun j => v j * p_row n (sigma t) f j)) t (bil n (sigma t) f v v).
Proof.
  intros Hm Hf sigma.
  assert (D : forall t j, is_derive (fun t => sigma t j) t (jacobian n (sigma t) v j)) by (intros; apply softmax_derive, Hm).
  split; intro t.
  - evar_last.
    + apply (is_derive_scal (fun t => sqnorm n (fun j => sigma t j - f j))).
      apply (is_derive_rsum n (fun j t => (sigma t j - f j) * (sigma t j - f j))
        (fun j => 2 * (sigma t j - f j) * jacobian n (sigma t) v j)).
      intros j _. assert (E : is_derive (fun t => sigma t j - f j) t (jacobian n (sigma t) v j)).
      { evar_last; [apply (is_derive_minus (fun t => sigma t j) (fun _ => f j)); [apply D | apply is_derive_const]|].
        unfold minus, plus, opp, zero; simpl. ring. }
      evar_last; [apply (is_derive_mult _ _ _ _ _ E E); intros; apply Rmult_comm|].
      unfold plus, mult; simpl. ring.
    + unfold scal, mult; simpl. unfold mult; simpl.
      rewrite (rsum_ext n _ (fun j => 2 * ((sigma t j - f j) * jacobian n (sigma t) v j))) by (intros; ring).
      rewrite rsum_scal, ip_jacobian by (apply softmax_probability, Hm).
      rewrite (rsum_ext n (fun j => v j * p_row n (sigma t) f j) (fun j => v j * jacobian n (sigma t) (fun j => sigma t j - f j) j))
        by reflexivity.
      rewrite ip_jacobian by (apply softmax_probability, Hm).
      assert (S : covariance n (sigma t) (fun j => sigma t j - f j) v = covariance n (sigma t) v (fun j => sigma t j - f j))
        by (apply rsum_ext; intros; ring).
      rewrite S. field.
  - evar_last.
    + apply (is_derive_rsum n (fun j t => v j * p_row n (sigma t) f j)
        (fun j => v j * p_row_velocity n (sigma t) f (jacobian n (sigma t) v) j)).
      intros j _. apply is_derive_scal. apply (p_row_derive n sigma (fun t => jacobian n (sigma t) v)). intro l. apply D.
    + rewrite ip_velocity by (try apply softmax_probability; assumption). reflexivity.
Qed.

Section TwoLargest.
Variables (n i : nat) (sigma : vec) (s2 : R).
Hypothesis Hs : probability n sigma.
Hypothesis Hi : (i < n)%nat.
Hypothesis H2 : 0 <= s2 <= sigma i.
Hypothesis Ho : forall j, (j < n)%nat -> j <> i -> sigma j <= s2.
Let off (g : vec) : vec := fun j => if Nat.eqb j i then 0 else g j.

Lemma rsum_off g : rsum n g = g i + rsum n (off g).
Proof.
  rewrite <- (rsum_delta n i g Hi), <- rsum_plus. apply rsum_ext; intros j _. unfold off. destruct (Nat.eqb j i); ring.
Qed.

Theorem jacobian_two_largest v : covariance n sigma v v <= sigma i * (1 - sigma i + s2) * sqnorm n v.
Proof.
  rewrite variance_moment by exact Hs. unfold mean, sqnorm.
  rewrite (rsum_off (fun j => sigma j * (v j * v j))), (rsum_off (fun j => sigma j * v j)), (rsum_off (fun j => v j * v j)).
  pose proof (proj2 Hs) as One. rewrite (rsum_off sigma) in One.
  set (s1 := sigma i) in *. set (x := v i). set (m := rsum n (off (fun j => sigma j * v j))).
  set (A := rsum n (off (fun j => sigma j * (v j * v j)))). set (V := rsum n (off (fun j => v j * v j))).
  assert (q0 : 0 <= rsum n (off sigma)).
  { apply rsum_nonneg; intros j Hj. unfold off. destruct (Nat.eqb j i); [lra | apply (proj1 Hs), Hj]. }
  assert (A0 : 0 <= A).
  { apply rsum_nonneg; intros j Hj. unfold off. destruct (Nat.eqb j i); [lra|].
    apply Rmult_le_pos; [apply (proj1 Hs), Hj | apply sq_nonneg]. }
  assert (AV : A <= s2 * V).
  { unfold A, V. rewrite <- rsum_scal. apply rsum_le; intros j Hj. unfold off. destruct (Nat.eqb_spec j i); [lra|].
    apply Rmult_le_compat_r; [apply sq_nonneg | apply Ho; assumption]. }
  assert (CS : m * m <= rsum n (off sigma) * A).
  { pose proof (rsum_cauchy_schwarz_weighted n (off sigma) (fun _ => 1) v) as Q.
    assert (N : forall j, (j < n)%nat -> 0 <= off sigma j).
    { intros j Hj. unfold off. destruct (Nat.eqb j i); [lra | apply (proj1 Hs), Hj]. }
    specialize (Q N). cbv beta in Q.
    replace (rsum n (fun j => off sigma j * (1 * v j))) with m in Q
      by (apply rsum_ext; intros; unfold off; destruct (Nat.eqb _ _); ring).
    replace (rsum n (fun j => off sigma j * (1 * 1))) with (rsum n (off sigma)) in Q by (apply rsum_ext; intros; ring).
    replace (rsum n (fun j => off sigma j * (v j * v j))) with A in Q
      by (apply rsum_ext; intros; unfold off; destruct (Nat.eqb _ _); ring).
    exact Q. }
  replace (rsum n (off sigma)) with (1 - s1) in * by lra. set (q := 1 - s1) in *.
  assert (V0 : 0 <= V).
  { apply rsum_nonneg; intros j Hj. unfold off. destruct (Nat.eqb j i); [lra | apply sq_nonneg]. }
  assert (E : s1 * (q + s2) = q * (s1 - s2) + s2) by (unfold q; ring).
  destruct (Req_dec s2 0) as [Z | Z].
  - assert (A = 0) by (rewrite Z in AV; lra). assert (m = 0) by nra.
    rewrite H, H0, Z. assert (0 <= s1 * q * V) by (repeat apply Rmult_le_pos; lra).
    replace (s1 * (x * x) + 0 - (s1 * x + 0) * (s1 * x + 0)) with (s1 * q * (x * x)) by (unfold q; ring). lra.
  - assert (P : 0 < s2) by lra. apply Rmult_le_reg_l with s2; [exact P|].
    assert (0 <= (s1 - s2) * (q * A - m * m)) by (apply Rmult_le_pos; lra).
    assert (0 <= (q * (s1 - s2) + s2) * (s2 * V - A)).
    { apply Rmult_le_pos; [|lra]. assert (0 <= q * (s1 - s2)) by (apply Rmult_le_pos; lra). lra. }
    assert (0 <= s1 * ((s2 * x + m) * (s2 * x + m))) by (apply Rmult_le_pos; [lra | apply sq_nonneg]).
    rewrite E. unfold q in *. nra.
Qed.
End TwoLargest.

(* ---- as Trusted.v states them ---- *)
Definition checked_row_loss_hessian : Statement.row_loss_hessian := row_loss_hessian.
Definition checked_jacobian_two_largest : Statement.jacobian_two_largest := jacobian_two_largest.
