(* The Frobenius norm, over an arbitrary real closed field R and for all sizes.

   Paper: fac:norm_bound (the part about the rank is in RankNorm.v) and
   fac:F_norm_A_plus_B.

   normF2 A    is  ||A||_F^2 = sum_ij A_ij^2
   normF A     is  ||A||_F
   inner A B   is  <A, B> = sum_ij A_ij B_ij
   hadamard    is  the entrywise product, written with a ring in the paper     *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix ring.
From AttnPrune Require Import Trusted.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory Algebra.
Local Open Scope ring_scope.

Section Frobenius.
Variable R : rcfType.

(* ---- elementary properties ---- *)

Lemma normF2_ge0 m n (A : 'M[R]_(m, n)) : 0 <= normF2 A.
Proof. by apply: sumr_ge0 => i _; apply: sumr_ge0 => j _; exact: sqr_ge0. Qed.

Lemma normF_ge0 m n (A : 'M[R]_(m, n)) : 0 <= normF A.
Proof. exact: sqrtr_ge0. Qed.

Lemma normF_sq m n (A : 'M[R]_(m, n)) : normF A ^+ 2 = normF2 A.
Proof. by rewrite sqr_sqrtr ?normF2_ge0. Qed.

Lemma sum_ord1 (g : 'I_1 -> R) : \sum_i g i = g ord0.
Proof. by rewrite big_ord_recl big_ord0 addr0. Qed.

Lemma mul_normF m n k (A : 'M[R]_(m, n)) : 0 <= k -> k * normF A = Num.sqrt (k ^+ 2 * normF2 A).
Proof. by move=> k0; rewrite sqrtrM ?sqr_ge0 // sqrtr_sqr ger0_norm. Qed.

Lemma inner_scale m n (A B : 'M[R]_(m, n)) k : inner A (k *: B) = k * inner A B.
Proof.
rewrite /inner mulr_sumr; apply: eq_bigr => i _; rewrite mulr_sumr.
by apply: eq_bigr => j _; rewrite mxE mulrCA.
Qed.

Lemma normF2Z m n (k : R) (A : 'M[R]_(m, n)) : normF2 (k *: A) = k ^+ 2 * normF2 A.
Proof.
rewrite /normF2 mulr_sumr; apply: eq_bigr => i _; rewrite mulr_sumr; apply: eq_bigr => j _.
by rewrite mxE exprMn.
Qed.

Lemma normF2_tr m n (A : 'M[R]_(m, n)) : normF2 A^T = normF2 A.
Proof.
by rewrite /normF2 exchange_big; apply: eq_bigr => i _; apply: eq_bigr => j _; rewrite mxE.
Qed.

Lemma normFN m n (A : 'M[R]_(m, n)) : normF (- A) = normF A.
Proof. by rewrite /normF -scaleN1r normF2Z sqrrN expr1n mul1r. Qed.

(* Cauchy-Schwarz for finite sums, from Lagrange's identity:
   2 (sum a^2 sum b^2 - (sum a b)^2) = sum_ij (a_i b_j - a_j b_i)^2. *)
Lemma sum_cauchy_schwarz (I : finType) (a b : I -> R) :
  (\sum_i a i * b i) ^+ 2 <= (\sum_i a i ^+ 2) * (\sum_i b i ^+ 2).
Proof.
have E : ((\sum_i a i ^+ 2) * (\sum_i b i ^+ 2) - (\sum_i a i * b i) ^+ 2) *+ 2
         = \sum_i \sum_j (a i * b j - a j * b i) ^+ 2.
  have -> : \sum_i \sum_j (a i * b j - a j * b i) ^+ 2 =
     \sum_i \sum_j (a i ^+ 2 * b j ^+ 2) + \sum_i \sum_j (b i ^+ 2 * a j ^+ 2)
     - (\sum_i \sum_j (a i * b i) * (a j * b j)) *+ 2.
    rewrite -sumrMnl -sumrN -!big_split; apply: eq_bigr => i _ /=.
    rewrite -sumrMnl -sumrN -!big_split; apply: eq_bigr => j _ /=; ring.
  rewrite -!big_distrlr /= expr2; ring.
rewrite -subr_ge0 -(pmulrn_lge0 _ (isT : (0 < 2)%N)) E.
by apply: sumr_ge0 => i _; apply: sumr_ge0 => j _; exact: sqr_ge0.
Qed.

(* ---- fac:F_norm_A_plus_B:  ||A + B||^2 = ||A||^2 + ||B||^2 + 2 <A, B> ---- *)
Theorem F_norm_A_plus_B m n (A B : 'M[R]_(m, n)) :
  normF2 (A + B) = normF2 A + normF2 B + inner A B *+ 2.
Proof.
rewrite /normF2 /inner -sumrMnl -!big_split; apply: eq_bigr => i _ /=.
by rewrite -sumrMnl -!big_split; apply: eq_bigr => j _ /=; rewrite mxE sqrrD addrAC.
Qed.

(* ---- fac:norm_bound ---- *)

(* ||a X||_F = |a| ||X||_F *)
Theorem norm_bound_homogeneous m n (a : R) (X : 'M[R]_(m, n)) : normF (a *: X) = `|a| * normF X.
Proof. by rewrite /normF normF2Z sqrtrM ?sqr_ge0 // sqrtr_sqr. Qed.

(* |<X, Y>| <= ||X||_F ||Y||_F *)
Theorem norm_bound_cauchy_schwarz m n (X Y : 'M[R]_(m, n)) : `|inner X Y| <= normF X * normF Y.
Proof.
rewrite /inner /normF /normF2 !pair_big /= -sqrtrM; last by apply: sumr_ge0 => i _; exact: sqr_ge0.
rewrite -sqrtr_sqr; apply: ler_wsqrtr.
exact: (sum_cauchy_schwarz (fun p => X p.1 p.2) (fun p => Y p.1 p.2)).
Qed.

(* ||X + Y||_F <= ||X||_F + ||Y||_F *)
Theorem norm_bound_triangle m n (X Y : 'M[R]_(m, n)) : normF (X + Y) <= normF X + normF Y.
Proof.
rewrite -ler_sqr ?nnegrE ?normF_ge0 //; last by apply: addr_ge0; exact: normF_ge0.
have -> : (normF X + normF Y) ^+ 2 = normF2 X + normF2 Y + (normF X * normF Y) *+ 2.
  by rewrite sqrrD !normF_sq addrAC.
rewrite normF_sq F_norm_A_plus_B ler_add2l ler_muln2r /=.
exact: le_trans (ler_norm _) (norm_bound_cauchy_schwarz _ _).
Qed.

(* ||X^T||_F = ||X||_F *)
Theorem norm_bound_transpose m n (X : 'M[R]_(m, n)) : normF X^T = normF X.
Proof. by rewrite /normF normF2_tr. Qed.

(* |X_ij| <= ||X||_F *)
Theorem norm_bound_entry m n (X : 'M[R]_(m, n)) i j : `|X i j| <= normF X.
Proof.
rewrite -sqrtr_sqr; apply: ler_wsqrtr; rewrite /normF2 (bigD1 i) //= (bigD1 j) //= -addrA ler_addl.
apply: addr_ge0; first by apply: sumr_ge0 => k _; exact: sqr_ge0.
by apply: sumr_ge0 => k _; apply: sumr_ge0 => l _; exact: sqr_ge0.
Qed.

(* || X o Y ||_F <= ||X||_F ||Y||_F *)
Theorem norm_bound_hadamard m n (X Y : 'M[R]_(m, n)) : normF (hadamard X Y) <= normF X * normF Y.
Proof.
rewrite /normF -sqrtrM ?normF2_ge0 //; apply: ler_wsqrtr.
rewrite [normF2 X]/normF2 mulr_suml; apply: ler_sum => i _; rewrite mulr_suml.
apply: ler_sum => j _; rewrite mxE exprMn; apply: ler_wpmul2l; first exact: sqr_ge0.
have := norm_bound_entry Y i j; rewrite -ler_sqr ?nnegrE ?normr_ge0 ?normF_ge0 // normF_sq.
by rewrite real_normK ?num_real.
Qed.

(* ||Y Z||_F <= ||Y||_F ||Z||_F *)
Lemma normF2_mul m n d (A : 'M[R]_(m, n)) (B : 'M[R]_(n, d)) :
  normF2 (A *m B) <= normF2 A * normF2 B.
Proof.
rewrite -[normF2 B]normF2_tr /normF2 big_distrlr /=; apply: ler_sum => i _; apply: ler_sum => j _.
rewrite mxE; apply: le_trans (sum_cauchy_schwarz _ _) _; rewrite le_eqVlt; apply/orP; left.
by apply/eqP; congr (_ * _); apply: eq_bigr => k _; rewrite mxE.
Qed.

Theorem norm_bound_product m n d (Y : 'M[R]_(m, n)) (Z : 'M[R]_(n, d)) :
  normF (Y *m Z) <= normF Y * normF Z.
Proof. by rewrite /normF -sqrtrM ?normF2_ge0 //; apply: ler_wsqrtr; exact: normF2_mul. Qed.

(* ||X u|| <= ||X|| ||u||, which the definition of the spectral norm has, and ||X|| <= ||X||_F; RankNorm.v has the
   converse, ||X||_F <= sqrt(rank) ||X|| *)
Theorem norm_bound_operator m n (X : 'M[R]_(m, n)) s : spectral_norm X s ->
  forall u : 'cV[R]_n, normF (X *m u) <= s * normF u.
Proof. by case. Qed.

Theorem norm_bound_spectral_le_frobenius m n (X : 'M[R]_(m, n)) s : spectral_norm X s -> s <= normF X.
Proof. by case=> _ _; apply; [exact: normF_ge0 | move=> u; exact: norm_bound_product]. Qed.

End Frobenius.

(* ---- as Trusted.v states them ---- *)
Definition checked_F_norm_A_plus_B : forall R, Statement.F_norm_A_plus_B R := @F_norm_A_plus_B.
Definition checked_norm_bound_homogeneous : forall R, Statement.norm_bound_homogeneous R := @norm_bound_homogeneous.
Definition checked_norm_bound_cauchy_schwarz : forall R, Statement.norm_bound_cauchy_schwarz R := @norm_bound_cauchy_schwarz.
Definition checked_norm_bound_triangle : forall R, Statement.norm_bound_triangle R := @norm_bound_triangle.
Definition checked_norm_bound_transpose : forall R, Statement.norm_bound_transpose R := @norm_bound_transpose.
Definition checked_norm_bound_entry : forall R, Statement.norm_bound_entry R := @norm_bound_entry.
Definition checked_norm_bound_hadamard : forall R, Statement.norm_bound_hadamard R := @norm_bound_hadamard.
Definition checked_norm_bound_product : forall R, Statement.norm_bound_product R := @norm_bound_product.
Definition checked_norm_bound_operator : forall R, Statement.norm_bound_operator R := @norm_bound_operator.
Definition checked_norm_bound_spectral_le_frobenius : forall R, Statement.norm_bound_spectral_le_frobenius R := @norm_bound_spectral_le_frobenius.
