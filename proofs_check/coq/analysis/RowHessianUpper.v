(* The polynomial inequalities behind the sharp constants of RowHessianSharp.v, first half: the
   upper constant and the positive parts of the rows.
     C_+ = (39 + 55 sqrt 33)/1152 = 0.30811714...,   kappa = C_+/2.
   kappa is the maximum of 2 p^2 (1 - p)(2 - 3p) on [0,1], attained at
   p* = (15 - sqrt 33)/24, a root of 12 p^2 - 15 p + 4.                                 *)
Require Import Reals Lra Psatz.
From AttnPrune.analysis Require Import Sums.
Open Scope R_scope.

Definition kappa := C_plus / 2.
Definition p_star := (15 - sqrt 33) / 24.

Lemma sqrt33 : sqrt 33 * sqrt 33 = 33 /\ 5.74456 < sqrt 33 < 5.74457.
Proof.
  assert (S : sqrt 33 * sqrt 33 = 33) by (apply sqrt_sqrt; lra).
  pose proof (sqrt_pos 33). split; [exact S|]. split; nra.
Qed.

Lemma kappa_lower : 0.15405 < kappa.
Proof. unfold kappa, C_plus. destruct sqrt33. lra. Qed.

Lemma p_star_root : 12 * (p_star * p_star) = 15 * p_star - 4.
Proof. unfold p_star. destruct sqrt33 as [S _]. nra. Qed.

Lemma p_star_bounds : 0.385 < p_star < 0.386.
Proof. unfold p_star. destruct sqrt33. lra. Qed.

Lemma kappa_p_star : kappa = 3 / 8 - 55 / 96 * p_star.
Proof. unfold kappa, C_plus, p_star. field. Qed.

(* kappa - 2 p^2 (1-p)(2-3p) = (p - p* )^2 m(p), m >= 0 on [0,1] *)
Lemma univariate p : 0 <= p <= 1 -> 2 * (p * p) * (1 - p) * (2 - 3 * p) <= kappa.
Proof.
  intro Hp. rewrite kappa_p_star. pose proof p_star_root as R. pose proof p_star_bounds as B.
  set (P := p_star) in *.
  set (m := - 6 * (p * p) + (10 - 12 * P) * p + P * (5 - 6 * P)).
  assert (m0 : 0 <= m).
  { assert (M : m = (1 - p) * (P * (5 - 6 * P)) + p * (4 - 7 * P - 6 * (P * P)) + 6 * (p * (1 - p)))
      by (unfold m; ring).
    assert (0 <= P * (5 - 6 * P)) by nra. assert (0 <= 4 - 7 * P - 6 * (P * P)) by nra.
    rewrite M. assert (0 <= p * (1 - p)) by nra.
    assert (0 <= (1 - p) * (P * (5 - 6 * P))) by (apply Rmult_le_pos; lra).
    assert (0 <= p * (4 - 7 * P - 6 * (P * P))) by (apply Rmult_le_pos; lra). lra. }
  assert (E : 3 / 8 - 55 / 96 * P - 2 * (p * p) * (1 - p) * (2 - 3 * p) = (p - P) * (p - P) * m).
  { assert (P2 : P * P = (15 * P - 4) / 12) by lra.
    pose proof (f_equal (fun t => P * t) P2) as P3. pose proof (f_equal (fun t => P * P * t) P2) as P4.
    pose proof (f_equal (fun t => p * p * t) P2) as P5. cbv beta in *. unfold m. lra. }
  pose proof (Rmult_le_pos _ _ (sq_nonneg (p - P)) m0). lra.
Qed.

(* G(x, y) = x (y (3x-1)(1-x) + 2 y^2 - 3 y^3) <= kappa for x, y >= 0, x + y <= 1 *)
Lemma G_bound x y : 0 <= x -> 0 <= y -> x + y <= 1 ->
  x * (y * ((3 * x - 1) * (1 - x)) + 2 * (y * y) - 3 * (y * y * y)) <= kappa.
Proof.
  intros Hx Hy Hxy. pose proof kappa_lower as K.
  destruct (Rle_lt_dec x (1 / 2)) as [L | L].
  - assert (Q : (3 * x - 1) * (1 - x) <= 1 / 4) by nra.
    assert (H : y * ((3 * x - 1) * (1 - x)) + 2 * (y * y) - 3 * (y * y * y) <= 1 / 4).
    { assert (y * ((3 * x - 1) * (1 - x)) <= y * (1 / 4)) by (apply Rmult_le_compat_l; assumption).
      assert (0 <= (y - 1 / 2) * (y - 1 / 2) * (3 * y + 1))
        by (apply Rmult_le_pos; [apply sq_nonneg | lra]). nra. }
    nra.
  - set (u := 1 - x). assert (Hu : 0 <= u < 1 / 2) by (unfold u; lra).
    assert (Hyu : y <= u) by (unfold u; lra). replace x with (1 - u) by (unfold u; ring).
    assert (D : 0 <= (u - y) * (4 * u + 2 * y - 6 * (u * u) - 3 * (u * y) - 3 * (y * y))).
    { apply Rmult_le_pos; [lra|]. nra. }
    pose proof (univariate u ltac:(lra)) as V.
    assert (M : y * ((3 * (1 - u) - 1) * (1 - (1 - u))) + 2 * (y * y) - 3 * (y * y * y)
                <= 2 * (u * u) * (2 - 3 * u)) by nra.
    apply Rle_trans with ((1 - u) * (2 * (u * u) * (2 - 3 * u))); [apply Rmult_le_compat_l; lra|].
    lra.
Qed.

(* ---- upper bounds: the positive parts of one row of the Hessian ---- *)

(* the row of the vertex f = e_k itself *)
Lemma upper_vertex x y z : 0 <= x -> 0 <= y -> x + y <= 1 -> 0 <= z <= y * y ->
  x * (y * ((3 * x - 1) * (1 - x)) + z * (2 - 3 * y)) <= kappa.
Proof.
  intros Hx Hy Hxy Hz. pose proof kappa_lower as K.
  destruct (Rle_lt_dec y (2 / 3)) as [L | L].
  - eapply Rle_trans; [|apply (G_bound x y Hx Hy Hxy)]. apply Rmult_le_compat_l; [exact Hx|]. nra.
  - assert (A : 0 <= (1 - 3 * x) * (1 - x)) by (apply Rmult_le_pos; lra).
    assert (B : 0 <= y * ((1 - 3 * x) * (1 - x))) by (apply Rmult_le_pos; assumption).
    assert (D : 0 <= z * (3 * y - 2)) by (apply Rmult_le_pos; lra).
    assert (0 <= x * (y * ((1 - 3 * x) * (1 - x)) + z * (3 * y - 2))) by (apply Rmult_le_pos; lra).
    lra.
Qed.

Lemma quartic r : 2 / 3 <= r <= 1 -> r * r / 4 * (6 * r - 9 / 2 * (r * r) - 1) <= 0.15404.
Proof.
  intro Hr. pose proof (sq_nonneg (r - 0.8727)) as S. 
  assert (0 <= (r - 0.8727) * (r - 0.8727) * (1.125 * (r * r) + 0.463575 * r + 0.2022)) by (apply Rmult_le_pos; nra).
  nra.
Qed.

(* another row, without the vertex *)
Lemma upper_other_off x w y z : 0 <= x -> 0 <= w -> 0 <= y -> x + w + y <= 1 -> 0 <= z <= y * y ->
  x * (y * (2 * x + 2 * w - 3 * (x * x) - 3 * (w * w)) + z * (2 - 3 * y)) <= kappa.
Proof.
  intros Hx Hw Hy H Hz. pose proof kappa_lower as K.
  destruct (Rle_lt_dec y (2 / 3)) as [L | L].
  - set (r := x + y).
    assert (B : y * (2 * x + 2 * w - 3 * (x * x) - 3 * (w * w)) + z * (2 - 3 * y)
      <= y * (2 * x - 3 * (x * x) + (2 * w - 3 * (w * w)) + 2 * y - 3 * (y * y))).
    { assert (z * (2 - 3 * y) <= y * y * (2 - 3 * y)) by (apply Rmult_le_compat_r; lra). lra. }
    pose proof (sq_nonneg (x - y)) as Dxy.
    assert (Sxy : 2 * x - 3 * (x * x) + (2 * y - 3 * (y * y)) <= 2 * r - 3 / 2 * (r * r))
      by (unfold r; lra).
    assert (XY : 0 <= x * y <= r * r / 4) by (unfold r; split; [apply Rmult_le_pos; assumption | lra]).
    apply Rle_trans with (x * y * (2 * r - 3 / 2 * (r * r) + (2 * w - 3 * (w * w)))).
    { apply Rle_trans with (x * (y * (2 * x - 3 * (x * x) + (2 * w - 3 * (w * w)) + 2 * y - 3 * (y * y))));
        [apply Rmult_le_compat_l; assumption|].
      rewrite <- Rmult_assoc. apply Rmult_le_compat_l; lra. }
    assert (r1 : 0 <= r <= 1) by (unfold r; lra).
    destruct (Rle_lt_dec r (2 / 3)) as [Lr | Lr].
    + assert (2 * w - 3 * (w * w) <= 1 / 3) by (pose proof (sq_nonneg (w - 1 / 3)); nra).
      assert (2 * r - 3 / 2 * (r * r) + (2 * w - 3 * (w * w)) <= 1) by nra.
      assert (r * r / 4 <= 1 / 9) by nra. nra.
    + assert (Hw1 : 0 <= w <= 1 - r) by (unfold r; lra).
      assert (2 * w - 3 * (w * w) <= 4 * r - 3 * (r * r) - 1) by nra.
      pose proof (quartic r ltac:(lra)) as Q.
      assert (N : 0 <= 6 * r - 9 / 2 * (r * r) - 1) by nra.
      apply Rle_trans with (x * y * (6 * r - 9 / 2 * (r * r) - 1)); [apply Rmult_le_compat_l; lra|].
      apply Rle_trans with (r * r / 4 * (6 * r - 9 / 2 * (r * r) - 1)); [apply Rmult_le_compat_r; lra|]. lra.
  - set (t := x + w). assert (Ht : 0 <= t <= 1 / 3) by (unfold t; lra).
    assert (Q : 2 * x + 2 * w - 3 * (x * x) - 3 * (w * w) <= 2 * t - 3 / 2 * (t * t))
      by (unfold t; pose proof (sq_nonneg (x - w)); nra).
    assert (N : 2 * t - 3 / 2 * (t * t) <= 1 / 2) by nra.
    assert (N0 : 0 <= 2 * t - 3 / 2 * (t * t)) by nra.
    assert (Z : z * (2 - 3 * y) <= 0) by nra.
    assert (XY : x * y <= 2 / 9) by (assert (x <= t) by (unfold t; lra); assert (y <= 1 - t) by (unfold t; lra); nra).
    assert (x * (z * (2 - 3 * y)) <= 0) by nra.
    assert (x * y * (2 * x + 2 * w - 3 * (x * x) - 3 * (w * w)) <= x * y * (1 / 2))
      by (apply Rmult_le_compat_l; [apply Rmult_le_pos; assumption | lra]).
    nra.
Qed.

(* a convex quadratic on [0, u] is at most the larger end value *)
Lemma convex_ends A B C u w M : 0 <= A -> 0 <= w <= u -> C <= M -> A * (u * u) + B * u + C <= M ->
  A * (w * w) + B * w + C <= M.
Proof.
  intros HA Hw H0 Hu. destruct (Req_dec u 0) as [Z | Z]; [replace w with 0 by lra; lra|].
  apply Rmult_le_reg_l with u; [lra|].
  assert (0 <= A * (w * (u - w))) by (apply Rmult_le_pos; [exact HA | nra]).
  assert (u * (A * (w * w) + B * w + C)
    = (u - w) * C + w * (A * (u * u) + B * u + C) - u * (A * (w * (u - w)))) by ring.
  assert ((u - w) * C <= (u - w) * M) by (apply Rmult_le_compat_l; lra).
  assert (w * (A * (u * u) + B * u + C) <= w * M) by (apply Rmult_le_compat_l; lra).
  assert (0 <= u * (A * (w * (u - w)))) by (apply Rmult_le_pos; lra). lra.
Qed.

(* another row, with the vertex *)
Lemma upper_other_on x w y z : 0 <= x -> 0 <= w -> 0 <= y -> x + w + y <= 1 -> 0 <= z <= y * y ->
  x * (w * (4 * w + 2 * x - 1 - 3 * (x * x) - 3 * (w * w))
       + y * (2 * x + 2 * w - 3 * (x * x) - 3 * (w * w)) + z * (2 - 3 * w - 3 * y)) <= kappa.
Proof.
  intros Hx Hw Hy H Hz. pose proof kappa_lower as K. remember (w + y) as u eqn:Eu.
  assert (Hu : 0 <= u) by (lra). assert (Hwu : 0 <= w <= u) by (lra).
  assert (Hux : u + x <= 1) by (lra).
  pose proof (G_bound u x Hu Hx Hux) as G.
  destruct (Rle_lt_dec u (2 / 3)) as [L | L].
  - apply Rle_trans with ((x * (4 - 6 * u)) * (w * w) + (x * (6 * (u * u) - 2 * u - 1)) * w
        + x * (u * (2 * x - 3 * (x * x)) + 2 * (u * u) - 3 * (u * u * u))).
    + replace y with (u - w) in * by lra.
      assert (z * (2 - 3 * u) <= (u - w) * (u - w) * (2 - 3 * u)) by (apply Rmult_le_compat_r; lra).
      eapply Rle_trans; [apply Rmult_le_compat_l with (r2 := w * (4 * w + 2 * x - 1 - 3 * (x * x) - 3 * (w * w))
        + (u - w) * (2 * x + 2 * w - 3 * (x * x) - 3 * (w * w)) + (u - w) * (u - w) * (2 - 3 * u));
        [exact Hx | lra]|]. right; ring.
    + apply convex_ends with u; [nra | exact Hwu | |].
      * set (r := x + u). assert (r1 : 0 <= r <= 1) by (unfold r; lra).
        pose proof (sq_nonneg (x - u)) as D.
        assert (Sxu : 2 * x - 3 * (x * x) + (2 * u - 3 * (u * u)) <= 2 * r - 3 / 2 * (r * r)) by (unfold r; lra).
        assert (XU : 0 <= x * u <= r * r / 4) by (unfold r; split; [apply Rmult_le_pos; assumption | lra]).
        assert (N : 0 <= 2 * r - 3 / 2 * (r * r)) by nra.
        assert (Q : 0 <= (r - 1) * (r - 1) * (3 * (r * r) + 2 * r + 1))
          by (apply Rmult_le_pos; [apply sq_nonneg | nra]).
        apply Rle_trans with (x * u * (2 * r - 3 / 2 * (r * r))).
        { apply Rle_trans with (x * u * (2 * x - 3 * (x * x) + (2 * u - 3 * (u * u)))); [right; ring|].
          apply Rmult_le_compat_l; lra. }
        apply Rle_trans with (r * r / 4 * (2 * r - 3 / 2 * (r * r))); [apply Rmult_le_compat_r; lra|]. lra.
      * eapply Rle_trans; [|exact G]. right. ring.
  - assert (Z : z * (2 - 3 * u) <= 0).
    { assert (0 <= z * (3 * u - 2)) by (apply Rmult_le_pos; lra). lra. }
    replace y with (u - w) in * by lra.
    apply Rle_trans with (x * (u * (2 * x - 3 * (x * x)) + w * w * (2 - 3 * u) + w * (2 * u - 1))).
    { apply Rmult_le_compat_l; [exact Hx|]. lra. }
    destruct (Rle_lt_dec 1 (6 * u - 6 * (u * u))) as [B | B].
    + eapply Rle_trans; [|exact G].
      assert (E : 0 <= (u - w) * ((2 - 3 * u) * (u + w) + (2 * u - 1))).
      { apply Rmult_le_pos; [lra|].
        assert (0 <= (3 * u - 2) * (u - w)) by (apply Rmult_le_pos; lra). lra. }
      apply Rle_trans with (x * (u * (2 * x - 3 * (x * x)) + u * u * (2 - 3 * u) + u * (2 * u - 1)));
        [apply Rmult_le_compat_l; lra | right; ring].
    + assert (U : 0.788 < u) by nra. assert (X : x <= 0.212) by lra.
      assert (T : w * w * (2 - 3 * u) + w * (2 * u - 1) <= 1 / 4).
      { assert (Q : 0 <= (w - 1 / 2) * (w - 1 / 2) * (3 * u - 2)) by (apply Rmult_le_pos; [apply sq_nonneg | lra]).
        assert (0 <= (1 - u) * (1 - w)) by (apply Rmult_le_pos; lra).
        assert (0 <= (1 - u) * w) by (apply Rmult_le_pos; lra). nra. }
      assert (V : u * (2 * x - 3 * (x * x)) <= 2 * x - 3 * (x * x)) by nra.
      assert (N : 2 * x - 3 * (x * x) <= 0.3) by nra.
      apply Rle_trans with (x * 0.55); [apply Rmult_le_compat_l; lra | lra].
Qed.
