(* fac:indexing, fac:combine and fac:algebra, over an arbitrary real closed field.
   Vectors are columns; the i-th row of a matrix read as a column vector is (row i X)^T,
   as in the paper.  Two printing slips are repaired on the way: fac:combine Part 2 runs
   over j, and the A of fac:algebra's eleventh line is any n x m matrix.               *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix ring.
From AttnPrune Require Import Trusted.
From AttnPrune.algebra Require Import Frobenius.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory Algebra.
Local Open Scope ring_scope.

Section BasicAlgebra.
Variable R : rcfType.
Notation diag u := (diag_mx u^T).

(* ---- fac:indexing ---- *)
Theorem indexing_row n m d (U : 'M[R]_(n, m)) (V : 'M[R]_(m, d)) i :
  (row i (U *m V))^T = V^T *m (row i U)^T /\ row i (U *m V) = row i U *m V.
Proof. by rewrite row_mul trmx_mul. Qed.

Theorem indexing_column n m d (U : 'M[R]_(n, m)) (V : 'M[R]_(m, d)) j :
  col j (U *m V) = U *m col j V.
Proof.
by apply/matrixP => i k; rewrite !mxE; apply: eq_bigr => l _; rewrite mxE.
Qed.

(* ---- fac:combine ---- *)
Lemma diag_mulE n m (u : 'cV[R]_n) (A : 'M[R]_(n, m)) i j : (diag u *m A) i j = u i ord0 * A i j.
Proof. by rewrite mul_diag_mx !mxE. Qed.

Lemma mul_diagE n m (A : 'M[R]_(n, m)) (u : 'cV[R]_m) i j : (A *m diag u) i j = A i j * u j ord0.
Proof. by rewrite mul_mx_diag !mxE. Qed.

Theorem combine_part1 n (u v x : 'cV[R]_n) : (forall i, x i ord0 = u i ord0 * v i ord0) ->
  [/\ x = hadamard u v, x = diag u *m v & x = diag v *m u].
Proof.
move=> E; split; apply/matrixP => i j; rewrite (ord1 j) E ?diag_mulE ?mxE //.
by rewrite mulrC.
Qed.

Theorem combine_part2 n (W X : 'M[R]_n) (u : 'cV[R]_n) :
  (forall i j, X i j = W i j * u j ord0) -> X = W *m diag u.
Proof. by move=> E; apply/matrixP => i j; rewrite E mul_diagE. Qed.

(* ---- fac:algebra, line by line ---- *)
Theorem algebra_inner_symmetric n (u v : 'cV[R]_n) :
  [/\ inner u v = inner v u, inner u v = (u^T *m v) ord0 ord0 & inner u v = (v^T *m u) ord0 ord0].
Proof.
split; rewrite /inner ?mxE; apply: eq_bigr => i _; rewrite ?sum_ord1 ?mxE //; exact: mulrC.
Qed.

Theorem algebra_hadamard_diag n (u v : 'cV[R]_n) :
  [/\ hadamard u v = hadamard v u, hadamard u v = diag u *m v & hadamard u v = diag v *m u].
Proof.
split; apply/matrixP => i j; rewrite (ord1 j) ?diag_mulE !mxE //; exact: mulrC.
Qed.

Theorem algebra_inner_ones n (u v : 'cV[R]_n) : inner u v = inner (hadamard u v) (ones R n 1).
Proof. by apply: eq_bigr => i _; apply: eq_bigr => j _; rewrite !mxE mulr1. Qed.

Theorem algebra_inner_hadamard n (u v w : 'cV[R]_n) :
  inner (hadamard u v) w = inner (hadamard u w) v /\
  inner (hadamard u v) w = inner (hadamard w v) u.
Proof.
by split; apply: eq_bigr => i _; apply: eq_bigr => j _; rewrite !mxE; ring.
Qed.

Theorem algebra_row_hadamard n (u v w : 'cV[R]_n) : u^T *m hadamard v w = u^T *m diag v *m w.
Proof. by rewrite -mulmxA; congr (_ *m _); case: (algebra_hadamard_diag v w). Qed.

Theorem algebra_hadamard_transpose n d (X Y : 'M[R]_(n, d)) :
  (hadamard X Y)^T = hadamard X^T Y^T.
Proof. by apply/matrixP => i j; rewrite !mxE. Qed.

Theorem algebra_hadamard_unit n d (X : 'M[R]_(n, d)) i j :
  hadamard X (delta_mx i j) = X i j *: delta_mx i j.
Proof.
apply/matrixP => k l; rewrite !mxE.
by case: (k =P i) => [->|_]; case: (l =P j) => [->|_]; rewrite /= ?mulr0.
Qed.

Theorem algebra_diag_sandwich n (u v : 'cV[R]_n) (Z : 'M[R]_n) :
  diag u *m Z *m diag v = hadamard (u *m v^T) Z.
Proof.
by apply/matrixP => i j; rewrite mul_diagE diag_mulE mxE mxE sum_ord1 mxE mulrAC.
Qed.

Theorem algebra_outer_products n d (X Y : 'M[R]_(n, d)) :
  X *m Y^T = \sum_i col i X *m (col i Y)^T.
Proof.
apply/matrixP => k l; rewrite summxE !mxE; apply: eq_bigr => i _.
by rewrite !mxE sum_ord1 !mxE.
Qed.

Theorem algebra_hadamard_entry n d (X Y : 'M[R]_(n, d)) i j : X i j * Y i j = hadamard X Y i j.
Proof. by rewrite mxE. Qed.

Theorem algebra_hadamard_sum n m (u : 'cV[R]_n) (A : 'M[R]_(n, m)) :
  \sum_j hadamard u (col j A) = hadamard u (\sum_j col j A).
Proof.
apply/matrixP => i k; rewrite summxE mxE summxE mulr_sumr.
by apply: eq_bigr => j _; rewrite mxE.
Qed.

Theorem algebra_norm_trace n d (X : 'M[R]_(n, d)) : normF2 X = \tr (X *m X^T).
Proof. by apply: eq_bigr => i _; rewrite mxE; apply: eq_bigr => j _; rewrite mxE expr2. Qed.

Theorem algebra_trace_commutes n d (X Y : 'M[R]_(n, d)) : \tr (X *m Y^T) = \tr (Y^T *m X).
Proof. exact: mxtrace_mulC. Qed.

Theorem algebra_norm_diag n (u : 'cV[R]_n) : normF (diag u) = normF u.
Proof.
congr Num.sqrt; apply: eq_bigr => i _; rewrite sum_ord1 (bigD1 i) //= big1 ?addr0.
  by rewrite !mxE eqxx mulr1n.
by move=> j ji; rewrite !mxE eq_sym (negbTE ji) mulr0n expr0n.
Qed.

End BasicAlgebra.

(* ---- as Trusted.v states them ---- *)
Definition checked_indexing_row : forall R, Statement.indexing_row R := @indexing_row.
Definition checked_indexing_column : forall R, Statement.indexing_column R := @indexing_column.
Definition checked_combine_part1 : forall R, Statement.combine_part1 R := @combine_part1.
Definition checked_combine_part2 : forall R, Statement.combine_part2 R := @combine_part2.
Definition checked_algebra_inner_symmetric : forall R, Statement.algebra_inner_symmetric R := @algebra_inner_symmetric.
Definition checked_algebra_hadamard_diag : forall R, Statement.algebra_hadamard_diag R := @algebra_hadamard_diag.
Definition checked_algebra_inner_ones : forall R, Statement.algebra_inner_ones R := @algebra_inner_ones.
Definition checked_algebra_inner_hadamard : forall R, Statement.algebra_inner_hadamard R := @algebra_inner_hadamard.
Definition checked_algebra_row_hadamard : forall R, Statement.algebra_row_hadamard R := @algebra_row_hadamard.
Definition checked_algebra_hadamard_transpose : forall R, Statement.algebra_hadamard_transpose R := @algebra_hadamard_transpose.
Definition checked_algebra_hadamard_unit : forall R, Statement.algebra_hadamard_unit R := @algebra_hadamard_unit.
Definition checked_algebra_diag_sandwich : forall R, Statement.algebra_diag_sandwich R := @algebra_diag_sandwich.
Definition checked_algebra_outer_products : forall R, Statement.algebra_outer_products R := @algebra_outer_products.
Definition checked_algebra_hadamard_entry : forall R, Statement.algebra_hadamard_entry R := @algebra_hadamard_entry.
Definition checked_algebra_hadamard_sum : forall R, Statement.algebra_hadamard_sum R := @algebra_hadamard_sum.
Definition checked_algebra_norm_trace : forall R, Statement.algebra_norm_trace R := @algebra_norm_trace.
Definition checked_algebra_trace_commutes : forall R, Statement.algebra_trace_commutes R := @algebra_trace_commutes.
Definition checked_algebra_norm_diag : forall R, Statement.algebra_norm_diag R := @algebra_norm_diag.
