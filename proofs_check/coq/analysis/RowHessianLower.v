(* The polynomial inequalities behind the sharp constants of RowHessianSharp.v, second half: the
   constant C_- and the negative parts of the rows.
     C_- = (55 sqrt 33 - 39)/1152 = 0.24040880...,   kappa_minus = C_-/2.
   kappa_minus is the maximum of 2 p^2 (1 - p)(3p - 2) on [0,1], attained at
   p = (15 + sqrt 33)/24, the other root of 12 p^2 - 15 p + 4.  Two of the three kinds of rows
   reach it: lower_vertex and lower_other_on, with two tokens.  lower_other_off is at most half
   of it, so that crude estimates do.  rho is the mass of the positions that are not active. *)
Require Import Reals Lra Psatz.
From AttnPrune.analysis Require Import Sums RowHessianUpper.
Open Scope R_scope.

Definition kappa_minus := C_minus / 2.

Lemma kappa_minus_lower : 0.1202 < kappa_minus.
Proof. unfold kappa_minus, C_minus. destruct sqrt33. lra. Qed.

(* kappa_minus - 2 p^2 (1-p)(3p-2) = (p - P)^2 m(p), P = (15 + sqrt 33)/24, m >= 0 on [0,1] *)
Lemma univariate_minus p : 0 <= p -> 2 * (p * p) * (1 - p) * (3 * p - 2) <= kappa_minus.
Proof.
  intro Hp. set (P := (15 + sqrt 33) / 24).
  assert (R : 12 * (P * P) = 15 * P - 4) by (unfold P; destruct sqrt33 as [S _]; lra).
  assert (B : 0.8643 < P < 0.8644) by (unfold P; destruct sqrt33; lra).
  replace kappa_minus with (55 / 96 * P - 3 / 8) by (unfold kappa_minus, C_minus, P; field).
  set (m := 6 * (p * p) + (12 * P - 10) * p + P * (6 * P - 5)).
  assert (m0 : 0 <= m).
  { assert (0 <= p * p) by apply sq_nonneg. assert (0 <= (12 * P - 10) * p) by (apply Rmult_le_pos; lra).
    assert (0 <= P * (6 * P - 5)) by (apply Rmult_le_pos; lra). unfold m. lra. }
  assert (E : 55 / 96 * P - 3 / 8 - 2 * (p * p) * (1 - p) * (3 * p - 2) = (p - P) * (p - P) * m).
  { assert (P2 : P * P = (15 * P - 4) / 12) by lra.
    pose proof (f_equal (fun t => P * t) P2) as P3. pose proof (f_equal (fun t => P * P * t) P2) as P4.
    pose proof (f_equal (fun t => p * p * t) P2) as P5. cbv beta in *. unfold m. lra. }
  pose proof (Rmult_le_pos _ _ (sq_nonneg (p - P)) m0). lra.
Qed.

Lemma tail u : 2 / 3 <= u <= 1 -> 0 <= (1 - u) * (u * u) * (3 * u - 2) <= 0.07.
Proof.
  intro Hu. split.
  - apply Rmult_le_pos; [apply Rmult_le_pos; [lra | apply sq_nonneg] | lra].
  - assert (0 <= (u - 0.88) * (u - 0.88)) by apply sq_nonneg. nra.
Qed.

Lemma lower_vertex x y z rho : 0 <= x -> 0 <= y -> 0 <= rho -> x + y + rho = 1 -> 0 <= z <= y * y ->
  x * (y * (1 - 4 * x + 3 * (x * x) + 3 * (rho * rho)) + z * (3 * y - 2)) <= kappa_minus.
Proof.
  intros Hx Hy Hr H Hz. pose proof kappa_minus_lower as K.
  remember (1 - x) as v eqn:Ev. assert (x = 1 - v) by lra. assert (rho = v - y) by lra. subst x rho.
  assert (V : 0 <= v <= 1) by lra. assert (Y : 0 <= y <= v) by lra. clear Ev.
  destruct (Rle_lt_dec y (2 / 3)) as [L | L].
  - assert (Z : 0 <= z * (2 - 3 * y)) by (apply Rmult_le_pos; lra).
    assert (AG : 0 <= (v - 3 * y) * (v - 3 * y) * (4 * v - 3 * y)) by (apply Rmult_le_pos; [apply sq_nonneg | lra]).
    assert (B : y * (3 * ((v - y) * (v - y))) <= 4 / 9 * (v * (v * v))) by lra.
    destruct (Rle_lt_dec v (2 / 3)) as [Lv | Lv].
    + assert (0 <= y * (v * (2 - 3 * v))) by (apply Rmult_le_pos; [lra | apply Rmult_le_pos; lra]).
      apply Rle_trans with ((1 - v) * (4 / 9 * (v * (v * v)))); [apply Rmult_le_compat_l; lra|].
      assert (v * (v * v) <= 8 / 27) by nra. assert (0 <= v * (v * v)) by (apply Rmult_le_pos; [lra | apply sq_nonneg]). nra.
    + assert (B2 : y * (v * (3 * v - 2)) <= 2 / 3 * (v * (3 * v - 2)))
        by (apply Rmult_le_compat_r; [apply Rmult_le_pos; lra | lra]).
      apply Rle_trans with ((1 - v) * (4 / 9 * (v * (v * v)) + 2 / 3 * (v * (3 * v - 2))));
        [apply Rmult_le_compat_l; lra|].
      assert (0 <= (v - 0.82) * (v - 0.82)) by apply sq_nonneg. nra.
  - assert (Zy : z * (3 * y - 2) <= y * y * (3 * y - 2)) by (apply Rmult_le_compat_r; lra).
    (* increases in y, and y = v is the univariate case *)
    assert (D : 0 <= (v - y) * (2 * (v * (3 * v - 2)) + 2 * (y * (3 * y - 2)) + 2 * y)).
    { apply Rmult_le_pos; [lra|]. assert (0 <= v * (3 * v - 2)) by (apply Rmult_le_pos; lra).
      assert (0 <= y * (3 * y - 2)) by (apply Rmult_le_pos; lra). lra. }
    pose proof (univariate_minus v ltac:(lra)) as U.
    apply Rle_trans with ((1 - v) * (2 * (v * v) * (3 * v - 2))); [apply Rmult_le_compat_l; lra | lra].
Qed.

Lemma corner x rho : 0 <= x -> 0 <= rho -> x + rho <= 1 / 3 -> 3 * (x * (rho * rho)) <= 1 / 36.
Proof.
  intros Hx Hr H. assert (x * rho <= 1 / 36) by (pose proof (sq_nonneg (x - rho)); nra).
  assert (x * rho * rho <= 1 / 36 * (1 / 3)) by (apply Rmult_le_compat; try lra; apply Rmult_le_pos; assumption).
  lra.
Qed.

Lemma lower_other_off x w y z rho : 0 <= x -> 0 <= w -> 0 <= y -> 0 <= rho -> x + w + y + rho = 1 ->
  0 <= z <= y * y ->
  x * (y * (3 * (x * x) + 3 * (w * w) + 3 * (rho * rho) - 2 * x - 2 * w) + z * (3 * y - 2)) <= kappa_minus.
Proof.
  intros Hx Hw Hy Hr H Hz. pose proof kappa_minus_lower as K.
  destruct (Rle_lt_dec y (2 / 3)) as [L | L].
  - assert (Z : 0 <= z * (2 - 3 * y)) by (apply Rmult_le_pos; lra).
    remember (w + rho) as t eqn:Et. assert (Ht : 0 <= t) by lra.
    assert (W : 3 * (w * w) - 2 * w + 3 * (rho * rho) <= 3 * (t * t)).
    { assert (0 <= w * rho) by (apply Rmult_le_pos; assumption). subst t. lra. }
    assert (XY : 0 <= x * y) by (apply Rmult_le_pos; assumption).
    apply Rle_trans with (x * y * (3 * (x * x) - 2 * x + 3 * (t * t))).
    { apply Rle_trans with (x * (y * (3 * (x * x) - 2 * x + 3 * (t * t)))); [|right; ring].
      apply Rmult_le_compat_l; [exact Hx|].
      assert (y * (3 * (w * w) - 2 * w + 3 * (rho * rho)) <= y * (3 * (t * t))) by (apply Rmult_le_compat_l; lra).
      lra. }
    destruct (Rle_lt_dec x (2 / 3)) as [Lx | Lx].
    + assert (x * y <= (1 - t) * (1 - t) / 4) by (replace (1 - t) with (x + y) by lra; pose proof (sq_nonneg (x - y)); lra).
      apply Rle_trans with (x * y * (3 * (t * t))).
      { apply Rmult_le_compat_l; [exact XY|]. assert (0 <= x * (2 - 3 * x)) by (apply Rmult_le_pos; lra). lra. }
      apply Rle_trans with ((1 - t) * (1 - t) / 4 * (3 * (t * t))); [apply Rmult_le_compat_r; [nra | assumption]|].
      assert (T : 0 <= t * (1 - t) <= 1 / 4) by (split; [apply Rmult_le_pos; lra | pose proof (sq_nonneg (t - 1 / 2)); lra]).
      nra.
    + apply Rle_trans with (x * (1 - x) * (3 * (x * x) - 2 * x + 3 * ((1 - x) * (1 - x)))).
      * apply Rmult_le_compat; [exact XY | nra | apply Rmult_le_compat_l; lra | nra].
      * pose proof (sq_nonneg (x - 0.8)). nra.
  - pose proof (corner x rho Hx Hr ltac:(lra)) as Cr. pose proof (tail y ltac:(lra)) as Tl.
    assert (A : 0 <= x * (2 - 3 * x)) by (apply Rmult_le_pos; lra).
    assert (B : 0 <= w * (2 - 3 * w)) by (apply Rmult_le_pos; lra).
    assert (Zy : z * (3 * y - 2) <= y * y * (3 * y - 2)) by (apply Rmult_le_compat_r; lra).
    assert (P : 0 <= y * y * (3 * y - 2)) by (apply Rmult_le_pos; [apply sq_nonneg | lra]).
    assert (Q : y * (3 * (x * x) + 3 * (w * w) + 3 * (rho * rho) - 2 * x - 2 * w) <= 3 * (rho * rho)).
    { apply Rle_trans with (y * (3 * (rho * rho))); [apply Rmult_le_compat_l; lra|].
      pose proof (sq_nonneg rho). nra. }
    apply Rle_trans with (x * (3 * (rho * rho) + y * y * (3 * y - 2))).
    { apply Rmult_le_compat_l; lra. }
    assert (x * (y * y * (3 * y - 2)) <= (1 - y) * (y * y * (3 * y - 2))) by (apply Rmult_le_compat_r; lra).
    lra.
Qed.

Lemma lower_other_on x w y z rho : 0 <= x -> 0 <= w -> 0 <= y -> 0 <= rho -> x + w + y + rho = 1 ->
  0 <= z <= y * y ->
  x * (w * (1 - 2 * x - 4 * w + 3 * (x * x) + 3 * (w * w) + 3 * (rho * rho))
       + y * (3 * (x * x) + 3 * (w * w) + 3 * (rho * rho) - 2 * x - 2 * w) + z * (3 * w + 3 * y - 2)) <= kappa_minus.
Proof.
  intros Hx Hw Hy Hr H Hz. pose proof kappa_minus_lower as K.
  remember (w + y) as u eqn:Eu. assert (Hwu : 0 <= w <= u) by lra. assert (Hxu : x + u + rho = 1) by lra.
  replace y with (u - w) in * by lra.
  set (T := w * (1 - 2 * u) - w * w * (2 - 3 * u)).
  assert (E : w * (1 - 2 * x - 4 * w + 3 * (x * x) + 3 * (w * w) + 3 * (rho * rho))
      + (u - w) * (3 * (x * x) + 3 * (w * w) + 3 * (rho * rho) - 2 * x - 2 * w) + z * (3 * w + 3 * (u - w) - 2)
      = u * (3 * (x * x) - 2 * x + 3 * (rho * rho)) + T + z * (3 * u - 2)) by (unfold T; ring).
  rewrite E. clear E.
  destruct (Rle_lt_dec u (2 / 3)) as [L | L].
  - assert (Z : 0 <= z * (2 - 3 * u)) by (apply Rmult_le_pos; lra).
    assert (XU : 0 <= x * u) by (apply Rmult_le_pos; lra).
    assert (WW : 0 <= w * w * (2 - 3 * u)) by (apply Rmult_le_pos; [apply sq_nonneg | lra]).
    destruct (Rle_lt_dec (1 / 2) u) as [Lu | Lu].
    + assert (T0 : T <= 0) by (assert (0 <= w * (2 * u - 1)) by (apply Rmult_le_pos; lra); unfold T; lra).
      assert (A : 0 <= x * (2 - 3 * x)) by (apply Rmult_le_pos; lra).
      assert (XR : x * rho <= 1 / 16) by (pose proof (sq_nonneg (x - rho)); nra).
      apply Rle_trans with (x * (u * (3 * (rho * rho)))).
      { apply Rmult_le_compat_l; [exact Hx|].
        assert (0 <= u * (x * (2 - 3 * x))) by (apply Rmult_le_pos; lra). lra. }
      assert (x * rho * rho <= 1 / 16 * (1 / 2)) by (apply Rmult_le_compat; try lra; apply Rmult_le_pos; assumption).
      assert (0 <= x * rho * rho) by (repeat apply Rmult_le_pos; assumption). nra.
    + destruct (Rle_lt_dec 0 (1 - 6 * u + 6 * (u * u))) as [B | B].
      * assert (u2 : u <= 0.2114) by nra.
        assert (TU : T <= u * ((1 - u) * (1 - 3 * u))).
        { assert (0 <= (u - w) * (1 - 2 * u - (2 - 3 * u) * (u + w))).
          { apply Rmult_le_pos; [lra|]. assert ((2 - 3 * u) * (u + w) <= (2 - 3 * u) * (2 * u)) by (apply Rmult_le_compat_l; lra). lra. }
          unfold T. lra. }
        apply Rle_trans with (x * u * (3 * (x * x) - 2 * x + 3 * (rho * rho) + (1 - u) * (1 - 3 * u))).
        { apply Rle_trans with (x * (u * (3 * (x * x) - 2 * x + 3 * (rho * rho)) + u * ((1 - u) * (1 - 3 * u))));
            [apply Rmult_le_compat_l; lra | right; ring]. }
        destruct (Rle_lt_dec x (1 / 3)) as [Lx | Lx].
        -- assert (A : 0 <= x * (1 - 3 * x)) by (apply Rmult_le_pos; lra).
           assert (A2 : 0 <= u * (1 - 3 * u)) by (apply Rmult_le_pos; lra).
           set (s := x + u). assert (s1 : 0 <= s <= 0.545) by (unfold s; lra).
           assert (XS : x * u <= s * s / 4) by (unfold s; pose proof (sq_nonneg (x - u)); lra).
           assert (F : 0 <= (1 - s) * (4 - 3 * s)) by (apply Rmult_le_pos; lra).
           apply Rle_trans with (s * s / 4 * ((1 - s) * (4 - 3 * s))).
           { apply Rle_trans with (x * u * ((1 - s) * (4 - 3 * s))); [|apply Rmult_le_compat_r; assumption].
             apply Rmult_le_compat_l; [exact XU|]. replace (1 - s) with rho by (unfold s; lra).
             replace (4 - 3 * s) with (3 * rho + 1) by (unfold s; lra). nra. }
           assert (Q1 : 0 <= s * (1 - s) <= 1 / 4)
             by (split; [apply Rmult_le_pos; lra | pose proof (sq_nonneg (s - 1 / 2)); lra]).
           assert (Q2 : 0 <= s * (4 - 3 * s) <= 4 / 3)
             by (split; [apply Rmult_le_pos; lra | pose proof (sq_nonneg (s - 2 / 3)); lra]).
           assert (s * (1 - s) * (s * (4 - 3 * s)) <= 1 / 4 * (4 / 3)) by (apply Rmult_le_compat; lra). lra.
        -- remember (1 - u) as a eqn:Ea. replace x with (a - rho) in * by lra. replace u with (1 - a) in * by lra.
           assert (R0 : 0 <= rho * (6 * (a - rho) - 2)) by (apply Rmult_le_pos; lra).
           apply Rle_trans with ((a - rho) * (1 - a) * (6 * (a * a) - 4 * a)).
           { apply Rmult_le_compat_l; [exact XU|]. lra. }
           apply Rle_trans with (a * (1 - a) * (6 * (a * a) - 4 * a)).
           { apply Rmult_le_compat_r; [nra|]. apply Rmult_le_compat_r; lra. }
           pose proof (univariate_minus a ltac:(lra)). lra.
      * assert (u2 : 0.2113 <= u) by nra.
        (* 27 u rho^2 <= 4 (u + rho)^3 *)
        assert (UR : u * (3 * (rho * rho)) <= 4 / 9 * ((1 - x) * ((1 - x) * (1 - x)))).
        { assert (0 <= (rho - 2 * u) * (rho - 2 * u) * (4 * rho + u)) by (apply Rmult_le_pos; [apply sq_nonneg | lra]).
          replace (1 - x) with (u + rho) by lra. lra. }
        destruct (Rle_lt_dec x (2 / 3)) as [Lx | Lx].
        -- assert (A : 0 <= u * (x * (2 - 3 * x))) by (repeat apply Rmult_le_pos; lra).
           assert (TU : T <= 1 / 8).
           { assert (w * (1 - 2 * u) <= u * (1 - 2 * u)) by (apply Rmult_le_compat_r; lra).
             pose proof (sq_nonneg (u - 1 / 4)). unfold T. lra. }
           apply Rle_trans with (x * (4 / 9 * ((1 - x) * ((1 - x) * (1 - x))) + 1 / 8));
             [apply Rmult_le_compat_l; lra|].
           assert (0 <= x * x) by apply sq_nonneg. nra.
        -- assert (TU : T <= 0.0611).
           { assert (0 <= (u - 0.2113) * (w * (2 - 3 * w))) by (repeat apply Rmult_le_pos; lra).
             pose proof (sq_nonneg (w - 0.2113)). unfold T. nra. }
           assert (x3 : x <= 0.7887) by lra.
           assert (A : u * (x * (3 * x - 2)) <= (1 - x) * (x * (3 * x - 2)))
             by (apply Rmult_le_compat_r; [apply Rmult_le_pos; lra | lra]).
           assert (R : u * (3 * (rho * rho)) <= 1 / 3 * (3 * (0.1221 * 0.1221))).
           { apply Rmult_le_compat; [lra | pose proof (sq_nonneg rho); lra | lra |].
             assert (rho * rho <= 0.1221 * 0.1221) by (apply Rmult_le_compat; lra). lra. }
           pose proof (univariate_minus x ltac:(lra)) as V.
           apply Rle_trans with (x * ((1 - x) * (x * (3 * x - 2)) + 0.0761)); [apply Rmult_le_compat_l; lra|].
           assert (x * 0.0761 <= 0.7887 * 0.0761) by lra. lra.
  - assert (Zy : z * (3 * u - 2) <= (u - w) * (u - w) * (3 * u - 2)) by (apply Rmult_le_compat_r; lra).
    pose proof (corner x rho Hx Hr ltac:(lra)) as Cr. pose proof (tail u ltac:(lra)) as Tl.
    assert (A : 0 <= x * (2 - 3 * x)) by (apply Rmult_le_pos; lra).
    assert (W1 : 0 <= w * (2 * u - 1)) by (apply Rmult_le_pos; lra).
    assert (W2 : 0 <= w * (u - w) * (3 * u - 2)) by (repeat apply Rmult_le_pos; lra).
    assert (P : 0 <= u * u * (3 * u - 2)) by (apply Rmult_le_pos; [apply sq_nonneg | lra]).
    assert (Q : u * (3 * (x * x) - 2 * x + 3 * (rho * rho)) <= 3 * (rho * rho)).
    { apply Rle_trans with (u * (3 * (rho * rho))); [apply Rmult_le_compat_l; lra|].
      pose proof (sq_nonneg rho). nra. }
    apply Rle_trans with (x * (3 * (rho * rho) + u * u * (3 * u - 2))).
    { apply Rmult_le_compat_l; [exact Hx|]. unfold T. lra. }
    assert (x * (u * u * (3 * u - 2)) <= (1 - u) * (u * u * (3 * u - 2))) by (apply Rmult_le_compat_r; lra).
    lra.
Qed.
