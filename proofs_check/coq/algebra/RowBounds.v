(* lem:lower_bound_p_row and lem:lower_bound_p, over an arbitrary real closed field.

   Reading of the mask.  The paper asks f_ij >= delta > 0 for ALL positions, which a
   causal mask contradicts as soon as n >= 2 (its masked entries are 0).  Each lemma
   is therefore proved twice:
     *            as printed, delta a lower bound of every entry;
     *_masked     S is the set of allowed positions, delta a lower bound of f on S,
                  and b (resp. B) vanishes off S, as c = f~ - f does.
   The masked form holds for every mask; the printed one is its case S = everything. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix ring.
From AttnPrune Require Import Trusted.
From AttnPrune.algebra Require Import Frobenius.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory Algebra.
Local Open Scope ring_scope.

Section RowBounds.
Variable R : rcfType.

(* The core: if sum_j b_j = 0, b = 0 off S and f >= delta >= 0 on S then
   delta^2 sum_j b_j^2 <= sum_j ((b_j - <b,f>) f_j)^2.
   Proof: drop the terms off S, pull delta^2 out, and use that b is orthogonal to the
   indicator of S (Pythagoras), so that subtracting a constant on S only adds. *)
Lemma row_bound n (S : pred 'I_n) (b f : 'I_n -> R) (delta : R) :
  0 <= delta -> \sum_j b j = 0 -> (forall j, S j -> delta <= f j) ->
  (forall j, ~~ S j -> b j = 0) ->
  delta ^+ 2 * (\sum_j b j ^+ 2) <= \sum_j ((b j - \sum_k b k * f k) * f j) ^+ 2.
Proof.
move=> d0 sb fd bS; set s := \sum_k b k * f k.
have on_S (g : R -> R) : g 0 = 0 -> \sum_j g (b j) = \sum_(j | S j) g (b j).
  move=> g0; rewrite [RHS]big_mkcond; apply: eq_bigr => j _.
  by case: ifPn => // /bS ->.
rewrite (on_S (fun x => x ^+ 2)) ?expr0n //.
have sbS : \sum_(j | S j) b j = 0 by rewrite -(on_S id).
apply: (@le_trans _ _ (\sum_(j | S j) ((b j - s) * f j) ^+ 2)); last first.
  by rewrite [X in _ <= X](bigID S) /= ler_addl; apply: sumr_ge0 => j _; exact: sqr_ge0.
apply: (@le_trans _ _ (delta ^+ 2 * (\sum_(j | S j) (b j - s) ^+ 2))); last first.
  rewrite mulr_sumr; apply: ler_sum => j Sj; rewrite exprMn [X in _ <= X]mulrC.
  apply: (ler_wpmul2r (sqr_ge0 _)).
  by rewrite ler_sqr ?nnegrE //; [exact: fd | exact: le_trans (fd j Sj)].
rewrite ler_wpmul2l ?sqr_ge0 //.
have -> : \sum_(j | S j) (b j - s) ^+ 2 = \sum_(j | S j) b j ^+ 2 + \sum_(j | S j) s ^+ 2.
  have -> : \sum_(j | S j) (b j - s) ^+ 2
            = \sum_(j | S j) (b j ^+ 2 - (s *+ 2) * b j + s ^+ 2).
    by apply: eq_bigr => j _; rewrite sqrrB mulrnAl mulrC.
  by rewrite !big_split /= sumrN -mulr_sumr sbS mulr0 subr0.
by rewrite ler_addl; apply: sumr_ge0 => j _; exact: sqr_ge0.
Qed.

(* ---- lem:lower_bound_p_row ----
   <b, 1> = 0, f in [delta,1]^n, <f, 1> = 1  imply
   ||(b - <b,f> 1) o f||_2 >= delta ||b||_2. *)
Theorem lower_bound_p_row_masked n (S : pred 'I_n) (b f : 'rV[R]_n) (delta : R) :
  0 <= delta -> inner b (ones R 1 n) = 0 ->
  (forall j, S j -> delta <= f ord0 j) -> (forall j, ~~ S j -> b ord0 j = 0) ->
  delta * normF b <= normF (hadamard (b - inner b f *: ones R 1 n) f).
Proof.
move=> d0; rewrite /inner sum_ord1 => sb fd bS.
rewrite mul_normF //; apply: ler_wsqrtr; rewrite /normF2 !sum_ord1.
have sb' : \sum_j b ord0 j = 0 by rewrite -[RHS]sb; apply: eq_bigr => j _; rewrite mxE mulr1.
have := row_bound d0 sb' fd bS.
move/le_trans; apply; rewrite le_eqVlt; apply/orP; left; apply/eqP.
by apply: eq_bigr => j _; rewrite !mxE mulr1.
Qed.

Theorem lower_bound_p_row n (b f : 'rV[R]_n) (delta : R) :
  0 <= delta -> inner b (ones R 1 n) = 0 ->
  (forall j, delta <= f ord0 j <= 1) -> inner f (ones R 1 n) = 1 ->
  delta * normF b <= normF (hadamard (b - inner b f *: ones R 1 n) f).
Proof.
move=> d0 sb fd _; apply: (@lower_bound_p_row_masked _ predT) => // j _.
by case/andP: (fd j).
Qed.

(* ---- lem:lower_bound_p ----
   p = B o F - diag((B o F) 1) F. *)
Lemma row_sums n (B : 'M[R]_n) i : (B *m ones R n 1) i ord0 = \sum_j B i j.
Proof. by rewrite mxE; apply: eq_bigr => j _; rewrite mxE mulr1. Qed.

Lemma p_mapE n (B F : 'M[R]_n) i j : p_map B F i j = (B i j - \sum_k B i k * F i k) * F i j.
Proof.
rewrite /p_map /rowdiag mul_diag_mx [LHS]mxE [X in _ + X]mxE [X in - X]mxE [X in _ - X * _]mxE.
rewrite row_sums [X in X - _]mxE mulrBl; congr (_ - _ * _).
by apply: eq_bigr => k _; rewrite mxE.
Qed.

Theorem lower_bound_p_masked n (S : 'I_n -> pred 'I_n) (B F : 'M[R]_n) (delta : R) :
  0 <= delta -> B *m ones R n 1 = 0 ->
  (forall i j, S i j -> delta <= F i j) -> (forall i j, ~~ S i j -> B i j = 0) ->
  delta * normF B <= normF (p_map B F).
Proof.
move=> d0 sB Fd BS; rewrite mul_normF //; apply: ler_wsqrtr.
rewrite /normF2 mulr_sumr; apply: ler_sum => i _.
have sB' : \sum_j B i j = 0 by rewrite -row_sums sB mxE.
have := row_bound d0 sB' (Fd i) (BS i).
move/le_trans; apply; rewrite le_eqVlt; apply/orP; left; apply/eqP.
by apply: eq_bigr => j _; rewrite p_mapE.
Qed.

Theorem lower_bound_p n (B F : 'M[R]_n) (delta : R) :
  0 <= delta -> B *m ones R n 1 = 0 -> F *m ones R n 1 = ones R n 1 ->
  (forall i j, delta <= F i j <= 1) ->
  delta * normF B <= normF (p_map B F).
Proof.
move=> d0 sB _ Fd; apply: (@lower_bound_p_masked _ (fun=> predT)) => // i j _.
by case/andP: (Fd i j).
Qed.

End RowBounds.

(* ---- as Trusted.v states them ---- *)
Definition checked_lower_bound_p_row_masked : forall R, Statement.lower_bound_p_row_masked R := @lower_bound_p_row_masked.
Definition checked_lower_bound_p_row : forall R, Statement.lower_bound_p_row R := @lower_bound_p_row.
Definition checked_lower_bound_p_masked : forall R, Statement.lower_bound_p_masked R := @lower_bound_p_masked.
Definition checked_lower_bound_p : forall R, Statement.lower_bound_p R := @lower_bound_p.
