(* lem:lower_bound_B_plus_M, over an arbitrary real closed field: for M in
   [0,1]^{d x d}, lambda >= 0 and ||B||_F <= r,

     Part 1   ||B + lambda M||_F^2 >= ||B||_F^2 + lambda^2 ||M||_F^2 - 2 r lambda d
     Part 2   ||B + lambda M||_F   >= (||B||_F + lambda ||M||_F) / sqrt 2 - sqrt(2 r lambda d)

   Both hold; of M only ||M||_F <= d is used, which gradient descent from M = 1
   keeps although it leaves the box.  The paper proves Part 2 by taking the square
   root of the right side of Part 1, which may be negative (B = 0, M = 0); the proof
   below treats that case apart.                                                   *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix ring.
From AttnPrune Require Import Trusted.
From AttnPrune.algebra Require Import Frobenius AbsInequality.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory Algebra.
Local Open Scope ring_scope.

Section BPlusM.
Variable R : rcfType.

(* The unlabelled lemma of the paper, "Bounds for M and M_c": a k x k matrix with
   entries in [0,1] has Frobenius norm at most k. *)
Theorem M_bounds d (M : 'M[R]_d) : (forall i j, 0 <= M i j <= 1) -> normF M <= d%:R.
Proof.
move=> M01; rewrite -[d%:R]ger0_norm ?ler0n // -sqrtr_sqr; apply: ler_wsqrtr.
have -> : (d%:R : R) ^+ 2 = \sum_(i < d) \sum_(j < d) 1.
  by rewrite !sumr_const card_ord -[RHS]mulr_natr expr2.
apply: ler_sum => i _; apply: ler_sum => j _.
by have /andP[a b] := M01 i j; rewrite expr_le1.
Qed.

Theorem lower_bound_B_plus_M_ball d (B M : 'M[R]_d) (lam r : R) :
  0 <= lam -> normF M <= d%:R -> normF B <= r ->
  normF2 B + lam ^+ 2 * normF2 M - 2%:R * r * lam * d%:R <= normF2 (B + lam *: M).
Proof.
move=> l0 Md Br; rewrite F_norm_A_plus_B normF2Z ler_add2l.
rewrite inner_scale ler_oppl -mulNrn -mulrN mulr2n -mulrDr.
have H : - inner B M <= r * d%:R.
  apply: le_trans (ler_norm _) _; rewrite normrN.
  apply: le_trans (norm_bound_cauchy_schwarz _ _) _.
  by apply: ler_pmul; rewrite ?normF_ge0.
have -> : 2%:R * r * lam * d%:R = lam * (r * d%:R + r * d%:R) by ring.
by apply: ler_wpmul2l => //; apply: ler_add.
Qed.

Theorem lower_bound_B_plus_M_part1 d (B M : 'M[R]_d) (lam r : R) :
  0 <= lam -> (forall i j, 0 <= M i j <= 1) -> normF B <= r ->
  normF2 B + lam ^+ 2 * normF2 M - 2%:R * r * lam * d%:R <= normF2 (B + lam *: M).
Proof. by move=> l0 M01; apply: lower_bound_B_plus_M_ball => //; exact: M_bounds. Qed.

Theorem lower_bound_B_plus_M_part2 d (B M : 'M[R]_d) (lam r : R) :
  0 <= lam -> (forall i j, 0 <= M i j <= 1) -> normF B <= r ->
  (normF B + lam * normF M) / Num.sqrt 2%:R - Num.sqrt (2%:R * r * lam * d%:R)
  <= normF (B + lam *: M).
Proof.
move=> l0 M01 Br; rewrite ler_subl_addr.
set s := normF2 B + lam ^+ 2 * normF2 M; set q := 2%:R * r * lam * d%:R.
have s0 : 0 <= s by rewrite addr_ge0 ?mulr_ge0 ?sqr_ge0 ?normF2_ge0.
have r0 : 0 <= r by apply: le_trans Br; exact: normF_ge0.
have q0 : 0 <= q by rewrite !mulr_ge0 ?ler0n.
have step1 : (normF B + lam * normF M) / Num.sqrt 2%:R <= Num.sqrt s.
  have := abs_inequality_part1 (normF B) (lam * normF M).
  by rewrite !ger0_norm ?mulr_ge0 ?normF_ge0 // exprMn !normF_sq.
apply: le_trans step1 _.
case: (lerP s q) => sq.
  by apply: le_trans (ler_wsqrtr sq) _; rewrite ler_addr normF_ge0.
have := abs_inequality_part2 (a := s) (b := q).
rewrite !ger0_norm // => /(_ (ltW sq)); rewrite ler_subl_addr => /le_trans; apply.
by rewrite ler_add2r; apply: ler_wsqrtr; exact: lower_bound_B_plus_M_part1.
Qed.

End BPlusM.

(* ---- as Trusted.v states them ---- *)
Definition checked_M_bounds : forall R, Statement.M_bounds R := @M_bounds.
Definition checked_lower_bound_B_plus_M_ball : forall R, Statement.lower_bound_B_plus_M_ball R := @lower_bound_B_plus_M_ball.
Definition checked_lower_bound_B_plus_M_part1 : forall R, Statement.lower_bound_B_plus_M_part1 R := @lower_bound_B_plus_M_part1.
Definition checked_lower_bound_B_plus_M_part2 : forall R, Statement.lower_bound_B_plus_M_part2 R := @lower_bound_B_plus_M_part2.
