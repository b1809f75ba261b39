(* lem:lower_bound_hadamard, over an arbitrary real closed field:
     min|W_ij| ||B||_F <= ||W o B||_F <= max|W_ij| ||B||_F.

   lo and hi are any lower and upper bound of the |W_ij|, so the minimum and the
   maximum in particular; the matrices need not be square.                      *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix.
From AttnPrune Require Import Trusted.
From AttnPrune.algebra Require Import Frobenius.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory Algebra.
Local Open Scope ring_scope.

Section HadamardBounds.
Variable R : rcfType.

Theorem lower_bound_hadamard m n (W B : 'M[R]_(m, n)) (lo : R) :
  0 <= lo -> (forall i j, lo <= `|W i j|) -> lo * normF B <= normF (hadamard W B).
Proof.
move=> l0 Wlo; rewrite mul_normF //; apply: ler_wsqrtr; rewrite /normF2 mulr_sumr.
apply: ler_sum => i _; rewrite mulr_sumr; apply: ler_sum => j _; rewrite mxE exprMn.
rewrite ler_wpmul2r ?sqr_ge0 // -[W i j ^+ 2]real_normK ?num_real //.
by rewrite ler_sqr ?nnegrE ?normr_ge0.
Qed.

Theorem upper_bound_hadamard m n (W B : 'M[R]_(m, n)) (hi : R) :
  0 <= hi -> (forall i j, `|W i j| <= hi) -> normF (hadamard W B) <= hi * normF B.
Proof.
move=> h0 Whi; rewrite mul_normF //; apply: ler_wsqrtr; rewrite /normF2 mulr_sumr.
apply: ler_sum => i _; rewrite mulr_sumr; apply: ler_sum => j _; rewrite mxE exprMn.
rewrite ler_wpmul2r ?sqr_ge0 // -[W i j ^+ 2]real_normK ?num_real //.
by rewrite ler_sqr ?nnegrE ?normr_ge0.
Qed.

End HadamardBounds.

(* ---- as Trusted.v states them ---- *)
Definition checked_lower_bound_hadamard : forall R, Statement.lower_bound_hadamard R := @lower_bound_hadamard.
Definition checked_upper_bound_hadamard : forall R, Statement.upper_bound_hadamard R := @upper_bound_hadamard.
