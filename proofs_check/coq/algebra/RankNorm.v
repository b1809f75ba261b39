(* The last part of fac:norm_bound:  ||X||_F <= sqrt(k) ||X||  with k the rank of X, over an
   arbitrary real closed field.  s stands for the spectral norm: any s >= 0 with
   ||X u|| <= s ||u|| for all u.

   Proof.  Let V be a basis of the row space of X and P = V^T (V V^T)^{-1} V, the orthogonal
   projector onto it.  Then X = X P, so ||X||_F^2 = sum_j ||X P e_j||^2 <= s^2 ||P||_F^2, and
   ||P||_F^2 = tr(P^T P) = tr P = k.                                                       *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix mxalgebra.
From AttnPrune Require Import Trusted.
From AttnPrune.algebra Require Import Frobenius Sandwich.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory Algebra.
Local Open Scope ring_scope.

Section RankNorm.
Variable R : rcfType.

Lemma normF2_eq0 m n (A : 'M[R]_(m, n)) : normF2 A = 0 -> A = 0.
Proof.
move=> A0; apply/matrixP => i j; rewrite mxE; have := norm_bound_entry A i j.
by rewrite /normF A0 sqrtr0 normr_le0 => /eqP.
Qed.

(* the Gram matrix of linearly independent rows is invertible *)
Lemma gram_unit k d (V : 'M[R]_(k, d)) : row_free V -> V *m V^T \in unitmx.
Proof.
move=> Vfree; rewrite -row_free_unit -kermx_eq0; apply/rowV0P => v /sub_kermxP vG.
suff vV : v *m V = 0.
  by apply/eqP; rewrite -submx0 -(eqP (_ : kermx V == 0)) ?kermx_eq0 //; apply/sub_kermxP.
apply: normF2_eq0; rewrite -normF2_tr normF2_trace trmxK trmx_mul !mulmxA.
by rewrite -[v *m V *m V^T]mulmxA vG mul0mx mxtrace0.
Qed.

Lemma normF2_cols m n (A : 'M[R]_(m, n)) : normF2 A = \sum_j normF2 (col j A).
Proof.
rewrite /normF2 exchange_big; apply: eq_bigr => j _; apply: eq_bigr => i _.
by rewrite sum_ord1 mxE.
Qed.

Theorem norm_bound_frobenius_le_rank m n (X : 'M[R]_(m, n)) (s : R) :
  0 <= s -> spectral_bound X s -> normF X <= Num.sqrt (\rank X)%:R * s.
Proof.
move=> s0 Xs; have := mulmx_base X; have := row_base_free X.
move: (row_base X) (col_base X) => V U Vfree UV; set G := V *m V^T.
have Gu : G \in unitmx by exact: gram_unit.
set P := V^T *m invmx G *m V.
have Gt : (invmx G)^T = invmx G by rewrite trmx_inv /G trmx_mul trmxK.
have Pt : P^T = P by rewrite /P !trmx_mul trmxK Gt mulmxA.
have PP : P *m P = P.
  by rewrite /P !mulmxA -[_ *m V *m V^T]mulmxA -/G -[_ *m invmx G *m G]mulmxA mulVmx // mulmx1.
have VP : V *m P = V by rewrite /P !mulmxA -/G mulmxV // mul1mx.
have XP : X *m P = X.
  by rewrite -UV -mulmxA VP.
have trP : normF2 P = (\rank X)%:R.
  rewrite normF2_trace Pt PP /P mxtrace_mulC mulmxA -/G.
  by rewrite mulmxV // mxtrace1.
clearbody P.
have -> : Num.sqrt (\rank X)%:R * s = Num.sqrt ((\rank X)%:R * s ^+ 2).
  by rewrite sqrtrM ?ler0n // sqrtr_sqr ger0_norm.
apply: ler_wsqrtr; rewrite -trP mulrC -{1}XP normF2_cols [normF2 P]normF2_cols mulr_sumr.
apply: ler_sum => j _.
have -> : col j (X *m P) = X *m col j P.
  by apply/matrixP => i l; rewrite !mxE; apply: eq_bigr => q _; rewrite mxE.
by rewrite -!normF_sq -exprMn ler_sqr ?nnegrE ?normF_ge0 ?mulr_ge0 ?normF_ge0.
Qed.

End RankNorm.

(* ---- as Trusted.v states them ---- *)
Definition checked_norm_bound_frobenius_le_rank : forall R, Statement.norm_bound_frobenius_le_rank R.
Proof. by move=> R m n X s [s0 sX _]; exact: norm_bound_frobenius_le_rank. Qed.
