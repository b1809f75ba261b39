(* Bounds for row-stochastic matrices, over an arbitrary real closed field.  Every
   softmax matrix, with or without a mask, is row-stochastic, so these cover
   lem:bound_c, lem:bound_diag_f, the parts of lem:bound_basic_func that speak of
   f~ and c, and delta <= 1/n.

     F  stands for f~(M), F0 for f, c = F - F0.                                    *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix ring.
From AttnPrune Require Import Trusted.
From AttnPrune.algebra Require Import Frobenius RowBounds.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory Algebra.
Local Open Scope ring_scope.

Section AttentionBounds.
Variable R : rcfType.

Lemma stochastic_row n (F : 'M[R]_n) i : row_stochastic F -> \sum_j F i j = 1.
Proof. by case=> H _; rewrite -row_sums H mxE. Qed.

(* lem:bound_basic_func, Part 4:  |f~_ij| <= 1 *)
Theorem bound_basic_func_part4 n (F : 'M[R]_n) i j : row_stochastic F -> 0 <= F i j <= 1.
Proof.
move=> sF; rewrite (proj2 sF) /= -(stochastic_row i sF) (bigD1 j) //= ler_addl.
by apply: sumr_ge0 => k _; exact: (proj2 sF).
Qed.

Lemma stochastic_row_sq n (F : 'M[R]_n) i : row_stochastic F -> \sum_j F i j ^+ 2 <= 1.
Proof.
move=> sF; rewrite -(stochastic_row i sF); apply: ler_sum => j _.
by have /andP[a b] := bound_basic_func_part4 i j sF; rewrite expr2 ler_pimull.
Qed.

(* Part 7:  ||f~_i||_2 <= 1 *)
Theorem bound_basic_func_part7 n (F : 'M[R]_n) i : row_stochastic F -> normF (row i F) <= 1.
Proof.
move=> sF; rewrite -[1]sqrtr1; apply: ler_wsqrtr; rewrite /normF2 sum_ord1.
by under eq_bigr do rewrite mxE; exact: stochastic_row_sq.
Qed.

(* Part 1:  ||f~||_F <= sqrt n *)
Theorem bound_basic_func_part1 n (F : 'M[R]_n) : row_stochastic F -> normF F <= Num.sqrt n%:R.
Proof.
move=> sF; apply: ler_wsqrtr.
have -> : n%:R = \sum_(i < n) (1 : R) by rewrite sumr_const card_ord.
by apply: ler_sum => i _; exact: stochastic_row_sq.
Qed.

(* lem:bound_c (= Part 2):  ||c||_F <= 2 sqrt n *)
Theorem bound_c n (F F0 : 'M[R]_n) :
  row_stochastic F -> row_stochastic F0 -> normF (F - F0) <= 2%:R * Num.sqrt n%:R.
Proof.
move=> a b; apply: le_trans (norm_bound_triangle _ _) _; rewrite normFN mulr_natl mulr2n.
by apply: ler_add; exact: bound_basic_func_part1.
Qed.

(* The sharp constant:  ||c||_F <= sqrt(2 n), because <f~_i, f_i> >= 0. *)
Theorem bound_c_sharp n (F F0 : 'M[R]_n) :
  row_stochastic F -> row_stochastic F0 -> normF (F - F0) <= Num.sqrt (2%:R * n%:R).
Proof.
move=> a b; apply: ler_wsqrtr.
have -> : 2%:R * n%:R = \sum_(i < n) (2%:R : R) by rewrite sumr_const card_ord mulr_natr.
apply: ler_sum => i _; apply: (@le_trans _ _ (\sum_j (F i j ^+ 2 + F0 i j ^+ 2))); last first.
  by rewrite big_split /=; apply: ler_add; exact: stochastic_row_sq.
apply: ler_sum => j _; rewrite !mxE sqrrB addrAC ler_subl_addr ler_addl.
by rewrite mulrn_wge0 // mulr_ge0 // ?(proj2 a) ?(proj2 b).
Qed.

Lemma hadamard_le n (F C : 'M[R]_n) : row_stochastic F -> normF (hadamard C F) <= normF C.
Proof.
move=> sF; apply: ler_wsqrtr; apply: ler_sum => i _; apply: ler_sum => j _.
rewrite mxE exprMn; apply: ler_pimulr; first exact: sqr_ge0.
by have /andP[p q] := bound_basic_func_part4 i j sF; rewrite expr_le1.
Qed.

(* Part 3:  ||c o f~||_F <= 2 sqrt n *)
Theorem bound_basic_func_part3 n (F F0 : 'M[R]_n) :
  row_stochastic F -> row_stochastic F0 -> normF (hadamard (F - F0) F) <= 2%:R * Num.sqrt n%:R.
Proof. by move=> a b; apply: le_trans (hadamard_le _ a) _; exact: bound_c. Qed.

(* |<c_i, f~_i>| <= 1 *)
Lemma inner_c_le1 n (F F0 : 'M[R]_n) i :
  row_stochastic F -> row_stochastic F0 -> `|\sum_j (F - F0) i j * F i j| <= 1.
Proof.
move=> a b; apply: le_trans (ler_norm_sum _ _ _) _; rewrite -(stochastic_row i a).
apply: ler_sum => j _; rewrite !mxE normrM.
have /andP[p q] := bound_basic_func_part4 i j a; have /andP[p0 q0] := bound_basic_func_part4 i j b.
rewrite [X in _ * X]ger0_norm //; apply: ler_pimull => //.
rewrite ler_norml; apply/andP; split.
  by rewrite ler_subr_addl; apply: le_trans (_ : F0 i j - 1 <= 0) _; rewrite ?subr_le0.
by rewrite ler_subl_addr; apply: le_trans q _; rewrite ler_addl.
Qed.

(* Part 10:  ||diag((c o f~) 1)||_F <= 2 n; here the sharper sqrt n, and n <= 2 n
   gives the printed one. *)
Theorem bound_basic_func_part10_sharp n (F F0 : 'M[R]_n) :
  row_stochastic F -> row_stochastic F0 ->
  normF (rowdiag (hadamard (F - F0) F *m ones R n 1)) <= Num.sqrt n%:R.
Proof.
move=> a b; apply: ler_wsqrtr.
have -> : n%:R = \sum_(i < n) (1 : R) by rewrite sumr_const card_ord.
apply: ler_sum => i _; rewrite (bigD1 i) //= big1 ?addr0; last first.
  by move=> j ji; rewrite !mxE eq_sym (negbTE ji) mulr0n expr0n.
rewrite /rowdiag mxE eqxx mulr1n mxE row_sums -real_normK ?num_real // expr_le1 ?normr_ge0 //.
under eq_bigr do rewrite mxE; exact: inner_c_le1.
Qed.

Theorem bound_basic_func_part10 n (F F0 : 'M[R]_n) :
  row_stochastic F -> row_stochastic F0 ->
  normF (rowdiag (hadamard (F - F0) F *m ones R n 1)) <= 2%:R * n%:R.
Proof.
move=> a b; apply: le_trans (bound_basic_func_part10_sharp a b) _.
case: n F F0 a b => [|n] _ _ _ _; first by rewrite mulr0 sqrtr0.
apply: (@le_trans _ _ (n.+1%:R)); last by rewrite ler_pmull ?ltr0n // ler1n.
rewrite -ler_sqr ?nnegrE ?sqrtr_ge0 ?ler0n // sqr_sqrtr ?ler0n //.
by rewrite expr2 ler_pmull ?ltr0n // ler1n.
Qed.

(* lem:bound_diag_f:  ||diag((c o f~) 1) f~||_F <= sqrt n *)
Theorem bound_diag_f n (F F0 : 'M[R]_n) :
  row_stochastic F -> row_stochastic F0 ->
  normF (rowdiag (hadamard (F - F0) F *m ones R n 1) *m F) <= Num.sqrt n%:R.
Proof.
move=> a b; apply: le_trans (bound_basic_func_part1 a); apply: ler_wsqrtr.
apply: ler_sum => i _; apply: ler_sum => j _.
rewrite /rowdiag mul_diag_mx mxE mxE exprMn; apply: ler_pimull; first exact: sqr_ge0.
rewrite row_sums -real_normK ?num_real // expr_le1 ?normr_ge0 //.
under eq_bigr do rewrite mxE; exact: inner_c_le1.
Qed.

(* The bound of p inside the proof of lem:PL_ineq:  ||p||_F <= 3 sqrt n *)
Theorem bound_p n (F F0 : 'M[R]_n) :
  row_stochastic F -> row_stochastic F0 -> normF (p_map (F - F0) F) <= 3%:R * Num.sqrt n%:R.
Proof.
move=> a b; apply: le_trans (norm_bound_triangle _ _) _; rewrite normFN.
have -> : 3%:R * Num.sqrt n%:R = 2%:R * Num.sqrt n%:R + Num.sqrt (n%:R : R) by ring.
by apply: ler_add; [exact: bound_basic_func_part3 | exact: bound_diag_f].
Qed.

(* A lower bound delta of all entries is at most 1/n; a lower bound of the allowed
   entries of row i is at most one over their number. *)
Theorem delta_le_inverse_allowed n (S : pred 'I_n) (F : 'M[R]_n) (delta : R) i :
  row_stochastic F -> (forall j, S j -> delta <= F i j) -> delta * #|S|%:R <= 1.
Proof.
move=> sF Fd; have -> : delta * #|S|%:R = \sum_(j | S j) delta.
  by rewrite (eq_bigl (mem S)) // sumr_const mulr_natr.
rewrite -[X in _ <= X](stochastic_row i sF) [X in _ <= X](bigID S) /=.
rewrite -[X in X <= _]addr0; apply: ler_add; [exact: ler_sum | apply: sumr_ge0 => j _; exact: (proj2 sF)].
Qed.

Lemma delta_le_inverse_n n (F : 'M[R]_n) (delta : R) :
  (0 < n)%N -> row_stochastic F -> (forall i j, delta <= F i j) -> delta <= n%:R^-1.
Proof.
move=> n0 sF Fd; rewrite -[n%:R^-1]mul1r ler_pdivl_mulr ?ltr0n //.
have := @delta_le_inverse_allowed _ predT F delta (Ordinal n0) sF (fun j _ => Fd _ j).
by rewrite card_ord.
Qed.

End AttentionBounds.

(* ---- as Trusted.v states them ---- *)
Definition checked_bound_basic_func_part4 : forall R, Statement.bound_basic_func_part4 R := @bound_basic_func_part4.
Definition checked_bound_basic_func_part7 : forall R, Statement.bound_basic_func_part7 R := @bound_basic_func_part7.
Definition checked_bound_basic_func_part1 : forall R, Statement.bound_basic_func_part1 R := @bound_basic_func_part1.
Definition checked_bound_c R : Statement.bound_c R.
Proof. by move=> n F F0 [sF sF0]; exact: bound_c. Qed.
Definition checked_bound_c_sharp R : Statement.bound_c_sharp R.
Proof. by move=> n F F0 [sF sF0]; exact: bound_c_sharp. Qed.
Definition checked_bound_basic_func_part3 R : Statement.bound_basic_func_part3 R.
Proof. by move=> n F F0 [sF sF0]; exact: bound_basic_func_part3. Qed.
Definition checked_bound_basic_func_part10_sharp R : Statement.bound_basic_func_part10_sharp R.
Proof. by move=> n F F0 [sF sF0]; exact: bound_basic_func_part10_sharp. Qed.
Definition checked_bound_basic_func_part10 R : Statement.bound_basic_func_part10 R.
Proof. by move=> n F F0 [sF sF0]; exact: bound_basic_func_part10. Qed.
Definition checked_bound_diag_f R : Statement.bound_diag_f R.
Proof. by move=> n F F0 [sF sF0]; exact: bound_diag_f. Qed.
Definition checked_bound_p R : Statement.bound_p R.
Proof. by move=> n F F0 [sF sF0]; exact: bound_p. Qed.
Definition checked_delta_le_inverse_allowed : forall R, Statement.delta_le_inverse_allowed R := @delta_le_inverse_allowed.
