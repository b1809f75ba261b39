(* fix:bound_c and fix:bound_basic_func without an axiom, for any two row-stochastic matrices (analysis/ModelBounds.v has
   them for the model's own f~): only rows with at least two allowed positions count.

     S i   the allowed positions of row i, outside of which F and F0 vanish
     n_e   the number of rows with two or more of them; in any other row F and F0 agree   *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix ring.
From AttnPrune Require Import Trusted.
From AttnPrune.algebra Require Import Frobenius RowBounds AttentionBounds.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory Algebra.
Local Open Scope ring_scope.

Definition has_choice_of n (S : 'I_n -> pred 'I_n) : pred 'I_n := fun i => (1 < #|S i|)%N.

Section ChoiceBounds.
Variables (R : rcfType) (n : nat) (S : 'I_n -> pred 'I_n) (F F0 : 'M[R]_n).
Hypothesis sF : row_stochastic F.
Hypothesis sF0 : row_stochastic F0.
Hypothesis FS : forall i j, ~~ S i j -> F i j = 0.
Hypothesis F0S : forall i j, ~~ S i j -> F0 i j = 0.

Local Notation has_choice := (has_choice_of S).
Local Notation n_e := (#|has_choice|%:R : R).

Lemma no_choice i j : ~~ has_choice i -> F i j = F0 i j.
Proof.
rewrite /has_choice_of -leqNgt => /card_le1_eqP C; case: (boolP (S i j)) => Sij; last by rewrite FS // F0S.
have E k : k != j -> ~~ S i k by apply: contra => Sik; apply/eqP; exact: C.
have one (G : 'M[R]_n) : row_stochastic G -> (forall l k, ~~ S l k -> G l k = 0) -> G i j = 1.
  by move=> sG GS; rewrite -(stochastic_row i sG) (bigD1 j) //= big1 ?addr0 // => k kj; apply: GS; exact: E.
by rewrite one // one.
Qed.

Lemma rows_with_choice (g : 'I_n -> R) (k : R) :
  (forall i, has_choice i -> g i <= k) -> (forall i, ~~ has_choice i -> g i = 0) -> \sum_i g i <= k * n_e.
Proof.
move=> H1 H0; rewrite (bigID has_choice) /= [X in _ + X]big1 ?addr0; last by move=> i; exact: H0.
apply: (@le_trans _ _ (\sum_(i | has_choice i) k)); first exact: ler_sum.
by rewrite (eq_bigl (mem has_choice)) // sumr_const mulr_natr.
Qed.

Lemma residual_le1 i j : (F - F0) i j ^+ 2 <= 1.
Proof.
rewrite -real_normK ?num_real // expr_le1 ?normr_ge0 // !mxE.
have /andP[p q] := bound_basic_func_part4 i j sF; have /andP[p0 q0] := bound_basic_func_part4 i j sF0.
rewrite ler_norml; apply/andP; split.
  by rewrite ler_subr_addl; apply: le_trans (_ : F0 i j - 1 <= 0) _; rewrite ?subr_le0.
by rewrite ler_subl_addr; apply: le_trans q _; rewrite ler_addl.
Qed.

(* ||c||_F <= sqrt(2 n_e) *)
Lemma bound_c_choices : normF (F - F0) <= Num.sqrt (2%:R * n_e).
Proof.
apply: ler_wsqrtr; apply: rows_with_choice => i => [_ | /no_choice E]; last first.
  by apply: big1 => j _; rewrite !mxE E subrr expr0n.
apply: (@le_trans _ _ (\sum_j (F i j ^+ 2 + F0 i j ^+ 2))).
  apply: ler_sum => j _; rewrite !mxE sqrrB addrAC ler_subl_addr ler_addl.
  by rewrite mulrn_wge0 // mulr_ge0 // ?(proj2 sF) ?(proj2 sF0).
by rewrite big_split /= (_ : 2%:R = 1 + 1) //; apply: ler_add; exact: stochastic_row_sq.
Qed.

(* ||c o f~||_F <= sqrt(n_e) *)
Lemma bound_hadamard_choices : normF (hadamard (F - F0) F) <= Num.sqrt n_e.
Proof.
apply: ler_wsqrtr; rewrite -[n_e]mul1r; apply: rows_with_choice => i => [_ | /no_choice E]; last first.
  by apply: big1 => j _; rewrite !mxE E subrr mul0r expr0n.
apply: le_trans (stochastic_row_sq i sF); apply: ler_sum => j _.
by rewrite [hadamard _ _ _ _]mxE exprMn; apply: ler_pimull; [exact: sqr_ge0 | exact: residual_le1].
Qed.

(* ||diag((c o f~) 1)||_F <= sqrt(n_e) *)
Lemma bound_diag_choices : normF (rowdiag (hadamard (F - F0) F *m ones R n 1)) <= Num.sqrt n_e.
Proof.
apply: ler_wsqrtr; rewrite -[n_e]mul1r.
have row i : \sum_j rowdiag (hadamard (F - F0) F *m ones R n 1) i j ^+ 2
             = (\sum_j (F - F0) i j * F i j) ^+ 2.
  rewrite (bigD1 i) //= big1 ?addr0; last first.
    by move=> j ji; rewrite !mxE eq_sym (negbTE ji) mulr0n expr0n.
  rewrite /rowdiag mxE eqxx mulr1n mxE row_sums; congr (_ ^+ 2).
  by apply: eq_bigr => j _; rewrite [hadamard _ _ _ _]mxE.
apply: rows_with_choice => i => [_ | /no_choice E]; rewrite row.
  by rewrite -real_normK ?num_real // expr_le1 ?normr_ge0 //; exact: inner_c_le1.
by rewrite big1 ?expr0n // => j _; rewrite !mxE E subrr mul0r.
Qed.
End ChoiceBounds.
