(* fac:lip_product, over an arbitrary real closed field: square matrices A_0..A_k (the values
   f_i(x)) and B_0..B_k (the values f_i(y)) with norms at most r_i, r_i >= 1, and
   ||A_i - B_i|| <= l.  Then
     ||A_0 ... A_k - B_0 ... B_k|| <= (k + 1) l r_0 ... r_k <= 2^k l r_0 ... r_k.
   There are k + 1 factors, so 2^k is the paper's 2^{n-1}; k + 1 = n is the better constant. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix ring.
From AttnPrune Require Import Trusted.
From AttnPrune.algebra Require Import Frobenius.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory Algebra.
Local Open Scope ring_scope.

Section LipschitzProduct.
Variables (R : rcfType) (d : nat) (A B : nat -> 'M[R]_d) (r : nat -> R) (l : R).
Hypothesis l0 : 0 <= l.
Hypothesis r1 : forall i, 1 <= r i.
Hypothesis Ar : forall i, normF (A i) <= r i.
Hypothesis Br : forall i, normF (B i) <= r i.
Hypothesis AB : forall i, normF (A i - B i) <= l.

Local Notation bound := (Algebra.bound r).

Lemma bound_ge1 k : 1 <= bound k.
Proof. by elim: k => [|k IH] //=; rewrite -[1]mulr1; apply: ler_pmul; rewrite ?ler01. Qed.

Lemma product_le (C : nat -> 'M[R]_d) k : (forall i, normF (C i) <= r i) -> normF (product C k) <= bound k.
Proof.
move=> Cr; elim: k => [|k IH] //=.
by apply: le_trans (norm_bound_product _ _) _; apply: ler_pmul; rewrite ?normF_ge0.
Qed.

Theorem lip_product_linear k : normF (product A k - product B k) <= k.+1%:R * l * bound k.
Proof.
elim: k => [|k IH] /=.
  by rewrite mul1r; apply: le_trans (AB 0) _; rewrite ler_pemulr.
have -> : product A k *m A k.+1 - product B k *m B k.+1
        = (product A k - product B k) *m A k.+1 + product B k *m (A k.+1 - B k.+1).
  by rewrite mulmxBl mulmxBr addrA subrK.
apply: le_trans (norm_bound_triangle _ _) _.
have H1 : normF ((product A k - product B k) *m A k.+1) <= k.+1%:R * l * bound k * r k.+1.
  by apply: le_trans (norm_bound_product _ _) _; apply: ler_pmul; rewrite ?normF_ge0.
have H2 : normF (product B k *m (A k.+1 - B k.+1)) <= l * bound k * r k.+1.
  apply: le_trans (norm_bound_product _ _) _.
  apply: (@le_trans _ _ (bound k * l)); first by apply: ler_pmul; rewrite ?normF_ge0 // product_le.
  by rewrite mulrC ler_pemulr // mulr_ge0 // (le_trans ler01) // bound_ge1.
apply: le_trans (ler_add H1 H2) _; rewrite le_eqVlt; apply/orP; left; apply/eqP.
by rewrite -[k.+2%:R]/((k.+1).+1%:R) -[in RHS]addn1 natrD; ring.
Qed.

Theorem lip_product k : normF (product A k - product B k) <= 2%:R ^+ k * l * bound k.
Proof.
apply: le_trans (lip_product_linear k) _; rewrite -!mulrA; apply: ler_wpmul2r.
  by rewrite mulr_ge0 // (le_trans ler01) // bound_ge1.
by rewrite -natrX ler_nat ltn_expl.
Qed.

End LipschitzProduct.

(* ---- as Trusted.v states them ---- *)
Definition checked_lip_product_linear R : Statement.lip_product_linear R.
Proof. by move=> d A B r l [l0 H] k; apply: lip_product_linear => // i; case: (H i). Qed.
Definition checked_lip_product R : Statement.lip_product R.
Proof. by move=> d A B r l [l0 H] k; apply: lip_product => // i; case: (H i). Qed.
