(* fac:abs_inequality, over an arbitrary real closed field. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum ring.
From AttnPrune Require Import Trusted.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory Algebra.
Local Open Scope ring_scope.

Section AbsInequality.
Variable R : rcfType.

(* Part 1:  sqrt(a^2 + b^2) >= (|a| + |b|) / sqrt 2 *)
Theorem abs_inequality_part1 (a b : R) :
  (`|a| + `|b|) / Num.sqrt 2%:R <= Num.sqrt (a ^+ 2 + b ^+ 2).
Proof.
have s2 : 0 < Num.sqrt (2%:R : R) by rewrite sqrtr_gt0 ltr0n.
rewrite ler_pdivr_mulr // -sqrtrM ?addr_ge0 ?sqr_ge0 //.
have -> : `|a| + `|b| = Num.sqrt ((`|a| + `|b|) ^+ 2).
  by rewrite sqrtr_sqr [RHS]ger0_norm // addr_ge0 ?normr_ge0.
apply: ler_wsqrtr; rewrite -[a ^+ 2]real_normK ?num_real // -[b ^+ 2]real_normK ?num_real //.
set x := `|a|; set y := `|b|; rewrite -subr_ge0.
have -> : (x ^+ 2 + y ^+ 2) * 2%:R - (x + y) ^+ 2 = (x - y) ^+ 2 by ring.
exact: sqr_ge0.
Qed.

(* Part 2:  |a| > |b| implies sqrt(|a| - |b|) >= sqrt|a| - sqrt|b|.
   The paper asks for |a| > |b|; equality is harmless. *)
Theorem abs_inequality_part2 (a b : R) :
  `|b| <= `|a| -> Num.sqrt `|a| - Num.sqrt `|b| <= Num.sqrt (`|a| - `|b|).
Proof.
move=> ba; rewrite ler_subl_addr.
set x := Num.sqrt `|a|; set y := Num.sqrt `|b|; set z := Num.sqrt _.
have x0 : 0 <= x by exact: sqrtr_ge0. have y0 : 0 <= y by exact: sqrtr_ge0.
have z0 : 0 <= z by exact: sqrtr_ge0.
rewrite -ler_sqr ?nnegrE ?addr_ge0 //.
have zz : z ^+ 2 = `|a| - `|b| by rewrite sqr_sqrtr // subr_ge0.
have xx : x ^+ 2 = `|a| by rewrite sqr_sqrtr.
have yy : y ^+ 2 = `|b| by rewrite sqr_sqrtr.
have -> : (z + y) ^+ 2 = x ^+ 2 + 2%:R * (z * y) by rewrite sqrrD zz xx -yy; ring.
by rewrite ler_addl mulr_ge0 ?ler0n // mulr_ge0.
Qed.

End AbsInequality.

(* ---- as Trusted.v states them ---- *)
Definition checked_abs_inequality_part1 : forall R, Statement.abs_inequality_part1 R := @abs_inequality_part1.
Definition checked_abs_inequality_part2 : forall R, Statement.abs_inequality_part2 R := @abs_inequality_part2.
