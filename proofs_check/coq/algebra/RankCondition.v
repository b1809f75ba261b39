(* X X^T >= beta I with beta > 0 needs n <= d: with more tokens than features X X^T is
   singular, and beta > 0 cannot hold (the paper's synthetic experiment has n = 128, d = 64). *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix mxalgebra.
From AttnPrune Require Import Trusted.
From AttnPrune.algebra Require Import Frobenius Sandwich.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory Algebra.
Local Open Scope ring_scope.

Section RankCondition.
Variable R : rcfType.

Theorem beta_needs_n_le_d n d (X : 'M[R]_(n, d)) (beta : R) :
  0 < beta -> psd_ge (X *m X^T) beta -> (n <= d)%N.
Proof.
move=> b0 P; rewrite leqNgt; apply/negP => dn.
have K0 : kermx X != 0.
  by rewrite kermx_eq0 /row_free neq_ltn (leq_ltn_trans (rank_leq_col X) dn).
case/rowV0Pn: K0 => v /sub_kermxP vX v0.
have := psd_mul v P; rewrite vX.
have -> : normF2 (0 : 'M[R]_(1, d)) = 0.
  by apply: big1 => k _; apply: big1 => l _; rewrite mxE expr0n.
rewrite pmulr_rle0 // => V; case/negP: v0; apply/eqP/matrixP => k l; rewrite (ord1 k) [RHS]mxE.
have := norm_bound_entry v ord0 l; have -> : normF v = 0 by apply/eqP; rewrite sqrtr_eq0.
by rewrite normr_le0 => /eqP.
Qed.

End RankCondition.

(* ---- as Trusted.v states them ---- *)
Definition checked_beta_needs_n_le_d : forall R, Statement.beta_needs_n_le_d R := @beta_needs_n_le_d.
