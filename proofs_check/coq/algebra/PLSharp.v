(* fix:PL_ineq is sharp: the constant (min|W| beta delta)^2 cannot be enlarged.

   X = I_n, W = all ones, f~ uniform: then min|W| = beta = 1, delta = 1/n and
     ||W o (X^T p X)||_F^2 = (1/n)^2 ||c||_F^2       for every row-stochastic f.       *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix ring.
From AttnPrune Require Import Trusted.
From AttnPrune.algebra Require Import Frobenius Sandwich RowBounds AttentionBounds PLCorrected.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory Algebra.
Local Open Scope ring_scope.

Section PLSharp.
Variable R : rcfType.

Theorem PL_corrected_attained n (F0 : 'M[R]_n) : (0 < n)%N -> row_stochastic F0 ->
  let F : 'M[R]_n := const_mx n%:R^-1 in
  [/\ row_stochastic F, psd_ge (1%:M *m 1%:M^T : 'M[R]_n) 1,
      (forall i j, `|ones R n n i j| = 1), (forall i j, F i j = n%:R^-1) &
      normF2 (attention_gradient 1%:M (ones R n n) F F0)
      = (1 * 1 * n%:R^-1) ^+ 2 * normF2 (F - F0)].
Proof.
move=> n0 s0 F; have n1 : (n%:R : R) != 0 by rewrite pnatr_eq0 -lt0n.
have sF : row_stochastic F.
  split=> [|i j]; last by rewrite mxE invr_ge0 ler0n.
  apply/matrixP => i k; rewrite (ord1 k) row_sums mxE.
  under eq_bigr do rewrite mxE; by rewrite sumr_const card_ord -[LHS]mulr_natr mulVf.
split=> //.
- by move=> v; rewrite trmx1 mulmx1 subrr mulmx0 mul0mx mxE.
- by move=> i j; rewrite mxE normr1.
- by move=> i j; rewrite mxE.
rewrite !mul1r -normF2Z; congr normF2; apply/matrixP => i j.
rewrite /attention_gradient trmx1 mul1mx mulmx1 mxE mxE mul1r p_mapE mulrC.
suff -> : \sum_k (F - F0) i k * F i k = 0 by rewrite subr0 !mxE.
rewrite (eq_bigr (fun k => (F - F0) i k * n%:R^-1)) => [|k _]; last by rewrite [F i k]mxE.
by rewrite -mulr_suml -row_sums mulmxBl (proj1 sF) (proj1 s0) subrr mxE mul0r.
Qed.

End PLSharp.

(* ---- as Trusted.v states them ---- *)
Definition checked_PL_corrected_attained : forall R, Statement.PL_corrected_attained R := @PL_corrected_attained.
