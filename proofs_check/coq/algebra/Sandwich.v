(* fac:trace_BAB and lem:lower_bound_XBX, over an arbitrary real closed field.

   "A >= beta I" is the paper's own definition of the order: v (A - beta I) v^T >= 0
   for every v.  It is stated with row vectors; see psd_geP for column vectors.  *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix ring.
From AttnPrune Require Import Trusted.
From AttnPrune.algebra Require Import Frobenius.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory Algebra.
Local Open Scope ring_scope.

Section Sandwich.
Variable R : rcfType.

Lemma psd_geP n (A : 'M[R]_n) beta :
  psd_ge A beta <-> forall u : 'cV[R]_n, 0 <= (u^T *m (A - beta%:M) *m u) ord0 ord0.
Proof.
split=> P v; first by have := P v^T; rewrite trmxK.
by have := P v^T; rewrite trmxK.
Qed.

Lemma normF2_trace m n (B : 'M[R]_(m, n)) : normF2 B = \tr (B^T *m B).
Proof.
rewrite /normF2 /mxtrace exchange_big; apply: eq_bigr => j _; rewrite mxE.
by apply: eq_bigr => i _; rewrite mxE expr2.
Qed.

(* fac:trace_BAB:  A >= beta I  implies  tr(B^T A B) >= beta tr(B^T B).
   A need not be symmetric. *)
Theorem trace_BAB n m (A : 'M[R]_n) (beta : R) (B : 'M[R]_(n, m)) :
  psd_ge A beta -> beta * \tr (B^T *m B) <= \tr (B^T *m A *m B).
Proof.
move=> P; rewrite -subr_ge0 /mxtrace mulr_sumr -sumrB; apply: sumr_ge0 => j _.
have -> : (B^T *m A *m B) j j - beta * (B^T *m B) j j = (B^T *m (A - beta%:M) *m B) j j.
  by rewrite mulmxBr mulmxBl mul_mx_scalar -scalemxAl [RHS]mxE [X in _ = _ + X]mxE [X in _ = _ - X]mxE.
have := P (row j B^T); rewrite -row_mul.
suff -> : (row j (B^T *m (A - beta%:M)) *m (row j B^T)^T) ord0 ord0
          = (B^T *m (A - beta%:M) *m B) j j by [].
by rewrite !mxE; apply: eq_bigr => k _; rewrite !mxE.
Qed.

Lemma psd_mul n d m (X : 'M[R]_(n, d)) (beta : R) (B : 'M[R]_(m, n)) :
  psd_ge (X *m X^T) beta -> beta * normF2 B <= normF2 (B *m X).
Proof.
move=> P; rewrite -[normF2 B]normF2_tr -[normF2 (_ *m _)]normF2_tr !normF2_trace.
by rewrite !trmxK trmx_mul mulmxA -[X in _ <= \tr (X *m _)]mulmxA; have := trace_BAB B^T P; rewrite trmxK.
Qed.

(* lem:lower_bound_XBX:  X X^T >= beta I, beta >= 0  implies
   ||X^T B X||_F >= beta ||B||_F.   (For beta < 0 it is trivial; the paper's proof
   multiplies by beta and so needs beta >= 0, which it does not say.) *)
Lemma lower_bound_XBX_squared n d (X : 'M[R]_(n, d)) (beta : R) (B : 'M[R]_n) :
  0 <= beta -> psd_ge (X *m X^T) beta -> beta ^+ 2 * normF2 B <= normF2 (X^T *m B *m X).
Proof.
move=> b0 P; apply: le_trans (psd_mul _ P).
rewrite expr2 -mulrA; apply: ler_wpmul2l => //.
by rewrite -[normF2 B]normF2_tr -[normF2 (_ *m B)]normF2_tr trmx_mul trmxK; exact: psd_mul.
Qed.

Theorem lower_bound_XBX n d (X : 'M[R]_(n, d)) (beta : R) (B : 'M[R]_n) :
  psd_ge (X *m X^T) beta -> beta * normF B <= normF (X^T *m B *m X).
Proof.
move=> P; case: (lerP 0 beta) => b0; last first.
  by apply: le_trans (normF_ge0 _); rewrite nmulr_rle0 // normF_ge0.
by rewrite mul_normF //; apply: ler_wsqrtr; exact: lower_bound_XBX_squared.
Qed.

End Sandwich.

(* ---- as Trusted.v states them ---- *)
Definition checked_trace_BAB : forall R, Statement.trace_BAB R := @trace_BAB.
Definition checked_lower_bound_XBX : forall R, Statement.lower_bound_XBX R := @lower_bound_XBX.
