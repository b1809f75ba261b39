(* Everything a reader has to believe: the definitions, and what is proved about them.  No proofs.

   Each proposition of a module `Statement` bears the name of the theorem that proves it, and that theorem's file ends
   in a check of the one against the other.  types.txt pins every definition as Coq prints it with all notations undone,
   and `make` compares; ../PROOFS.md and the table in README.md say which statement of the paper each belongs to.

   Two halves that share nothing.  Algebra: matrices over any real closed field R, indices of type 'I_n.
   Analysis: softmax, loss and gradient over Coq's real numbers, matrices being functions of natural-number indices
   of which only those below the stated size enter.  Norms are Frobenius norms.
   Rounding: how far computed attention may be off; uses the sums of Analysis.                                        *)
From mathcomp Require all_ssreflect ssralg ssrnum matrix mxalgebra.
From Coq Require Reals List Permutation.
From Coquelicot Require Coquelicot.
From Flocq Require Core.

Module Algebra.
Import all_ssreflect ssralg ssrnum matrix mxalgebra.
Import GRing.Theory Num.Theory.
Local Open Scope ring_scope.
Set Implicit Arguments.
Unset Strict Implicit.

Section Definitions.
Variable R : rcfType.
(* ||A||^2, ||A||, <A, B>, A o B, the matrix of ones, diag(u) *)
Definition normF2 m n (A : 'M[R]_(m, n)) : R := \sum_i \sum_j A i j ^+ 2.
Definition normF m n (A : 'M[R]_(m, n)) : R := Num.sqrt (normF2 A).
Definition inner m n (A B : 'M[R]_(m, n)) : R := \sum_i \sum_j A i j * B i j.
Definition hadamard m n (A B : 'M[R]_(m, n)) : 'M[R]_(m, n) := \matrix_(i, j) (A i j * B i j).
Definition ones m n : 'M[R]_(m, n) := const_mx 1.
Definition rowdiag n (v : 'cV[R]_n) : 'M[R]_n := diag_mx v^T.
(* s is at least the spectral norm of X *)
Definition spectral_bound m n (X : 'M[R]_(m, n)) (s : R) := forall u : 'cV[R]_n, normF (X *m u) <= s * normF u.
(* s is the spectral norm of X, the least of these *)
Definition spectral_norm m n (X : 'M[R]_(m, n)) (s : R) :=
  [/\ 0 <= s, spectral_bound X s & forall t, 0 <= t -> spectral_bound X t -> s <= t].
(* A >= beta I:  v (A - beta I) v^T >= 0 for every row vector v *)
Definition psd n (A : 'M[R]_n) := forall v : 'rV[R]_n, 0 <= (v *m A *m v^T) ord0 ord0.
Definition psd_ge n (A : 'M[R]_n) (beta : R) := psd (A - beta%:M).
(* products C_0 C_1 ... C_k of square matrices, and of numbers *)
Fixpoint product d (C : nat -> 'M[R]_d) k : 'M[R]_d := if k is k'.+1 then product C k' *m C k else C 0%N.
Fixpoint bound (r : nat -> R) k : R := if k is k'.+1 then bound r k' * r k else r 0%N.
(* A_i and B_i: the values f_i(x) and f_i(y) of l-Lipschitz functions with norms at most r_i, r_i >= 1 *)
Definition lipschitz_factors d (A B : nat -> 'M[R]_d) (r : nat -> R) (l : R) := 0 <= l /\
  forall i, [/\ 1 <= r i, normF (A i) <= r i, normF (B i) <= r i & normF (A i - B i) <= l].
(* entries >= 0, rows that sum to 1; F stands for f~(M), F0 for f, and F - F0 for c *)
Definition row_stochastic n (F : 'M[R]_n) := F *m ones n 1 = ones n 1 /\ forall i j, 0 <= F i j.
Definition stochastic_pair n (F F0 : 'M[R]_n) := row_stochastic F /\ row_stochastic F0.
(* S i j: position j is allowed in row i *)
Definition masked_pair n (S : 'I_n -> pred 'I_n) (F F0 : 'M[R]_n) :=
  stochastic_pair F F0 /\ forall i j, ~~ S i j -> F i j = 0 /\ F0 i j = 0.
(* def:p, for any B in place of c:  B o F - diag((B o F) 1) F *)
Definition p_map n (B F : 'M[R]_n) : 'M[R]_n := hadamard B F - rowdiag (hadamard B F *m ones n 1) *m F.
(* W o (X^T p X), and the gradient W o (X^T p X) + lam M *)
Definition attention_gradient n d (X : 'M[R]_(n, d)) (W : 'M[R]_d) (F F0 : 'M[R]_n) : 'M[R]_d :=
  hadamard W (X^T *m p_map (F - F0) F *m X).
Definition gradient n d (X : 'M[R]_(n, d)) (W M : 'M[R]_d) (F F0 : 'M[R]_n) (lam : R) : 'M[R]_d :=
  attention_gradient X W F F0 + lam *: M.
End Definitions.
(* Every statement of this module is proved for every R. *)
Module Statement.
Section Statements.
Variable R : rcfType.
Local Notation diag u := (rowdiag u).
Local Notation sqrt := Num.sqrt.
(* fac:F_norm_A_plus_B, fac:norm_bound *)
Definition F_norm_A_plus_B := forall m n (A B : 'M[R]_(m, n)), normF2 (A + B) = normF2 A + normF2 B + inner A B *+ 2.
Definition norm_bound_homogeneous := forall m n (a : R) (X : 'M[R]_(m, n)), normF (a *: X) = `|a| * normF X.
Definition norm_bound_cauchy_schwarz := forall m n (X Y : 'M[R]_(m, n)), `|inner X Y| <= normF X * normF Y.
Definition norm_bound_triangle := forall m n (X Y : 'M[R]_(m, n)), normF (X + Y) <= normF X + normF Y.
Definition norm_bound_transpose := forall m n (X : 'M[R]_(m, n)), normF X^T = normF X.
Definition norm_bound_entry := forall m n (X : 'M[R]_(m, n)) i j, `|X i j| <= normF X.
Definition norm_bound_hadamard := forall m n (X Y : 'M[R]_(m, n)), normF (hadamard X Y) <= normF X * normF Y.
Definition norm_bound_product := forall m n d (Y : 'M[R]_(m, n)) (Z : 'M[R]_(n, d)),
  normF (Y *m Z) <= normF Y * normF Z.
Definition norm_bound_operator := forall m n (X : 'M[R]_(m, n)) s, spectral_norm X s ->
  forall u : 'cV[R]_n, normF (X *m u) <= s * normF u.
Definition norm_bound_spectral_le_frobenius := forall m n (X : 'M[R]_(m, n)) s, spectral_norm X s -> s <= normF X.
Definition norm_bound_frobenius_le_rank := forall m n (X : 'M[R]_(m, n)) (s : R),
  spectral_norm X s -> normF X <= sqrt (\rank X)%:R * s.
(* fac:indexing, fac:combine, fac:algebra; vectors are columns *)
Definition indexing_row := forall n m d (U : 'M[R]_(n, m)) (V : 'M[R]_(m, d)) i,
  (row i (U *m V))^T = V^T *m (row i U)^T /\ row i (U *m V) = row i U *m V.
Definition indexing_column := forall n m d (U : 'M[R]_(n, m)) (V : 'M[R]_(m, d)) j, col j (U *m V) = U *m col j V.
Definition combine_part1 := forall n (u v x : 'cV[R]_n), (forall i, x i ord0 = u i ord0 * v i ord0) ->
  [/\ x = hadamard u v, x = diag u *m v & x = diag v *m u].
Definition combine_part2 := forall n (W X : 'M[R]_n) (u : 'cV[R]_n),
  (forall i j, X i j = W i j * u j ord0) -> X = W *m diag u.
Definition algebra_inner_symmetric := forall n (u v : 'cV[R]_n),
  [/\ inner u v = inner v u, inner u v = (u^T *m v) ord0 ord0 & inner u v = (v^T *m u) ord0 ord0].
Definition algebra_hadamard_diag := forall n (u v : 'cV[R]_n),
  [/\ hadamard u v = hadamard v u, hadamard u v = diag u *m v & hadamard u v = diag v *m u].
Definition algebra_inner_ones := forall n (u v : 'cV[R]_n), inner u v = inner (hadamard u v) (ones R n 1).
Definition algebra_inner_hadamard := forall n (u v w : 'cV[R]_n),
  inner (hadamard u v) w = inner (hadamard u w) v /\ inner (hadamard u v) w = inner (hadamard w v) u.
Definition algebra_row_hadamard := forall n (u v w : 'cV[R]_n), u^T *m hadamard v w = u^T *m diag v *m w.
Definition algebra_hadamard_transpose := forall n d (X Y : 'M[R]_(n, d)), (hadamard X Y)^T = hadamard X^T Y^T.
Definition algebra_hadamard_unit := forall n d (X : 'M[R]_(n, d)) i j,
  hadamard X (delta_mx i j) = X i j *: delta_mx i j.
Definition algebra_diag_sandwich := forall n (u v : 'cV[R]_n) (Z : 'M[R]_n),
  diag u *m Z *m diag v = hadamard (u *m v^T) Z.
Definition algebra_outer_products := forall n d (X Y : 'M[R]_(n, d)), X *m Y^T = \sum_i col i X *m (col i Y)^T.
Definition algebra_hadamard_entry := forall n d (X Y : 'M[R]_(n, d)) i j, X i j * Y i j = hadamard X Y i j.
Definition algebra_hadamard_sum := forall n m (u : 'cV[R]_n) (A : 'M[R]_(n, m)),
  \sum_j hadamard u (col j A) = hadamard u (\sum_j col j A).
Definition algebra_norm_trace := forall n d (X : 'M[R]_(n, d)), normF2 X = \tr (X *m X^T).
Definition algebra_trace_commutes := forall n d (X Y : 'M[R]_(n, d)), \tr (X *m Y^T) = \tr (Y^T *m X).
Definition algebra_norm_diag := forall n (u : 'cV[R]_n), normF (diag u) = normF u.
(* fac:abs_inequality; fac:lip_product and fix:lip_product, k + 1 factors; fac:trace_BAB *)
Definition abs_inequality_part1 := forall a b : R, (`|a| + `|b|) / sqrt 2%:R <= sqrt (a ^+ 2 + b ^+ 2).
Definition abs_inequality_part2 := forall a b : R, `|b| <= `|a| -> sqrt `|a| - sqrt `|b| <= sqrt (`|a| - `|b|).
Definition lip_product_linear := forall d (A B : nat -> 'M[R]_d) r l, lipschitz_factors A B r l ->
  forall k, normF (product A k - product B k) <= k.+1%:R * l * bound r k.
Definition lip_product := forall d (A B : nat -> 'M[R]_d) r l, lipschitz_factors A B r l ->
  forall k, normF (product A k - product B k) <= 2%:R ^+ k * l * bound r k.
Definition trace_BAB := forall n m (A : 'M[R]_n) (beta : R) (B : 'M[R]_(n, m)),
  psd_ge A beta -> beta * \tr (B^T *m B) <= \tr (B^T *m A *m B).
(* lem:lower_bound_XBX; beta > 0 needs n <= d; lem:lower_bound_hadamard; lem:M_bounds *)
Definition lower_bound_XBX := forall n d (X : 'M[R]_(n, d)) (beta : R) (B : 'M[R]_n),
  psd_ge (X *m X^T) beta -> beta * normF B <= normF (X^T *m B *m X).
Definition beta_needs_n_le_d := forall n d (X : 'M[R]_(n, d)) (beta : R),
  0 < beta -> psd_ge (X *m X^T) beta -> (n <= d)%N.
Definition lower_bound_hadamard := forall m n (W B : 'M[R]_(m, n)) (lo : R),
  0 <= lo -> (forall i j, lo <= `|W i j|) -> lo * normF B <= normF (hadamard W B).
Definition upper_bound_hadamard := forall m n (W B : 'M[R]_(m, n)) (hi : R),
  0 <= hi -> (forall i j, `|W i j| <= hi) -> normF (hadamard W B) <= hi * normF B.
Definition M_bounds := forall d (M : 'M[R]_d), (forall i j, 0 <= M i j <= 1) -> normF M <= d%:R.
(* lem:lower_bound_B_plus_M, for M in the box or, in the first, for ||M|| <= d *)
Definition lower_bound_B_plus_M_ball := forall d (B M : 'M[R]_d) (lam r : R), 0 <= lam -> normF M <= d%:R ->
  normF B <= r -> normF2 B + lam ^+ 2 * normF2 M - 2%:R * r * lam * d%:R <= normF2 (B + lam *: M).
Definition lower_bound_B_plus_M_part1 := forall d (B M : 'M[R]_d) (lam r : R), 0 <= lam -> (forall i j,
  0 <= M i j <= 1) -> normF B <= r -> normF2 B + lam ^+ 2 * normF2 M - 2%:R * r * lam * d%:R <= normF2 (B + lam *: M).
Definition lower_bound_B_plus_M_part2 := forall d (B M : 'M[R]_d) (lam r : R), 0 <= lam -> (forall i j, 0 <= M i j <= 1)
  -> normF B <= r -> (normF B + lam * normF M) / sqrt 2%:R - sqrt (2%:R * r * lam * d%:R) <= normF (B + lam *: M).
(* lem:lower_bound_p_row, lem:lower_bound_p: delta over all positions, or over the allowed ones S *)
Definition lower_bound_p_row_masked := forall n (S : pred 'I_n) (b f : 'rV[R]_n) (delta : R), 0 <= delta ->
  inner b (ones R 1 n) = 0 -> (forall j, S j -> delta <= f ord0 j) -> (forall j, ~~ S j -> b ord0 j = 0) ->
  delta * normF b <= normF (hadamard (b - inner b f *: ones R 1 n) f).
Definition lower_bound_p_row := forall n (b f : 'rV[R]_n) (delta : R),
  0 <= delta -> inner b (ones R 1 n) = 0 -> (forall j, delta <= f ord0 j <= 1) -> inner f (ones R 1 n) = 1 ->
  delta * normF b <= normF (hadamard (b - inner b f *: ones R 1 n) f).
Definition lower_bound_p_masked := forall n (S : 'I_n -> pred 'I_n) (B F : 'M[R]_n) (delta : R),
  0 <= delta -> B *m ones R n 1 = 0 -> (forall i j, S i j -> delta <= F i j) -> (forall i j, ~~ S i j -> B i j = 0) ->
  delta * normF B <= normF (p_map B F).
Definition lower_bound_p := forall n (B F : 'M[R]_n) (delta : R), 0 <= delta -> B *m ones R n 1 = 0 ->
  F *m ones R n 1 = ones R n 1 -> (forall i j, delta <= F i j <= 1) -> delta * normF B <= normF (p_map B F).
(* lem:bound_basic_func, lem:bound_c, lem:bound_diag_f, for any two row-stochastic matrices *)
Definition bound_basic_func_part4 := forall n (F : 'M[R]_n) i j, row_stochastic F -> 0 <= F i j <= 1.
Definition bound_basic_func_part7 := forall n (F : 'M[R]_n) i, row_stochastic F -> normF (row i F) <= 1.
Definition bound_basic_func_part1 := forall n (F : 'M[R]_n), row_stochastic F -> normF F <= sqrt n%:R.
Definition bound_c := forall n (F F0 : 'M[R]_n), stochastic_pair F F0 -> normF (F - F0) <= 2%:R * sqrt n%:R.
Definition bound_c_sharp := forall n (F F0 : 'M[R]_n), stochastic_pair F F0 -> normF (F - F0) <= sqrt (2%:R * n%:R).
Definition bound_basic_func_part3 := forall n (F F0 : 'M[R]_n),
  stochastic_pair F F0 -> normF (hadamard (F - F0) F) <= 2%:R * sqrt n%:R.
Definition bound_basic_func_part10_sharp := forall n (F F0 : 'M[R]_n),
  stochastic_pair F F0 -> normF (diag (hadamard (F - F0) F *m ones R n 1)) <= sqrt n%:R.
Definition bound_basic_func_part10 := forall n (F F0 : 'M[R]_n),
  stochastic_pair F F0 -> normF (diag (hadamard (F - F0) F *m ones R n 1)) <= 2%:R * n%:R.
Definition bound_diag_f := forall n (F F0 : 'M[R]_n),
  stochastic_pair F F0 -> normF (diag (hadamard (F - F0) F *m ones R n 1) *m F) <= sqrt n%:R.
Definition bound_p := forall n (F F0 : 'M[R]_n), stochastic_pair F F0 -> normF (p_map (F - F0) F) <= 3%:R * sqrt n%:R.
Definition delta_le_inverse_allowed := forall n (S : pred 'I_n) (F : 'M[R]_n) (delta : R) i,
  row_stochastic F -> (forall j, S j -> delta <= F i j) -> delta * #|S|%:R <= 1.
(* fix:PL_ineq, the corrected PL lemma, for any two row-stochastic matrices *)
Definition attention_gradient_lower_masked := forall n d S (X : 'M[R]_(n, d)) (W : 'M[R]_d) (F F0 : 'M[R]_n)
    (beta delta wmin : R), 0 <= beta -> psd_ge (X *m X^T) beta -> masked_pair S F F0 ->
  0 <= delta -> (forall i j, S i j -> delta <= F i j) -> 0 <= wmin -> (forall i j, wmin <= `|W i j|) ->
  wmin * beta * delta * normF (F - F0) <= normF (attention_gradient X W F F0).
Definition PL_corrected_masked := forall n d S (X : 'M[R]_(n, d)) (W M : 'M[R]_d) (F F0 : 'M[R]_n)
    (lam beta delta wmin wmax : R), 0 <= lam -> normF M <= d%:R ->
  0 <= beta -> psd_ge (X *m X^T) beta -> masked_pair S F F0 -> 0 <= delta -> (forall i j, S i j -> delta <= F i j) ->
  0 <= wmin -> 0 <= wmax -> (forall i j, wmin <= `|W i j| <= wmax) ->
  (wmin * beta * delta) ^+ 2 * normF2 (F - F0) + lam ^+ 2 * normF2 M
    - 6%:R * sqrt n%:R * wmax * normF2 X * lam * d%:R <= normF2 (gradient X W M F F0 lam).
Definition PL_corrected_attained := forall n (F0 : 'M[R]_n), (0 < n)%N -> row_stochastic F0 ->
  let F : 'M[R]_n := const_mx n%:R^-1 in [/\ row_stochastic F, psd_ge (1%:M *m 1%:M^T : 'M[R]_n) 1,
      (forall i j, `|ones R n n i j| = 1), (forall i j, F i j = n%:R^-1) &
      normF2 (attention_gradient 1%:M (ones R n n) F F0) = (1 * 1 * n%:R^-1) ^+ 2 * normF2 (F - F0)].
End Statements.
End Statement.
End Algebra.

Module Analysis.
Import Reals.
Import Coquelicot.Coquelicot.
Local Open Scope R_scope.
(* ---- sums, vectors, matrices ---- *)
Definition vec := nat -> R.
Definition mat := nat -> nat -> R.
(* rsum n g = g 0 + ... + g (n-1) *)
Fixpoint rsum (n : nat) (g : nat -> R) : R := match n with O => 0 | S k => rsum k g + g k end.
(* ||A||^2, <A, B>, ||A||, A - B, and M + t D *)
Definition nsq m n (A : mat) := rsum m (fun i => rsum n (fun j => A i j * A i j)).
Definition ip m n (A B : mat) := rsum m (fun i => rsum n (fun j => A i j * B i j)).
Definition nF m n (A : mat) := sqrt (nsq m n A).
Definition msub (A B : mat) : mat := fun i j => A i j - B i j.
Definition mline (M : mat) (t : R) (D : mat) : mat := fun i j => M i j + t * D i j.
(* the matrix with a single 1, at (a, b); M with its entry (a, b) replaced by t; diag(v) *)
Definition unit_matrix a b : mat := fun i j => if andb (Nat.eqb i a) (Nat.eqb j b) then 1 else 0.
Definition upd (M : mat) a b t : mat := fun i j => if andb (Nat.eqb i a) (Nat.eqb j b) then t else M i j.
Definition diagonal (v : vec) : mat := fun i j => if Nat.eqb j i then v i else 0.
(* g, a p x q matrix that depends on a d x d matrix, is k-Lipschitz *)
Definition lipschitz d p q (g : mat -> mat) k := forall M M', nF p q (msub (g M') (g M)) <= k * nF d d (msub M' M).
(* ---- one row: the softmax of s over the positions that a 0/1 row m allows ---- *)
Definition valid_row n (m : vec) := (forall j, m j = 0 \/ m j = 1) /\ exists j, (j < n)%nat /\ m j = 1.
Definition partition n (m s : vec) := rsum n (fun l => exp (s l) * m l).
Definition softmax n (m s : vec) : vec := fun j => exp (s j) * m j / partition n m s.
Definition probability n (sigma : vec) := (forall j, (j < n)%nat -> 0 <= sigma j) /\ rsum n sigma = 1.
Definition sqnorm n (v : vec) := rsum n (fun j => v j * v j).
(* <sigma, v>; (diag sigma - sigma sigma^T) v; the covariance of v and w under sigma *)
Definition mean n (sigma v : vec) := rsum n (fun j => sigma j * v j).
Definition jacobian n (sigma v : vec) : vec := fun j => sigma j * (v j - mean n sigma v).
Definition covariance n (sigma v w : vec) :=
  rsum n (fun j => sigma j * ((v j - mean n sigma v) * (w j - mean n sigma w))).
(* ||v - a 1||^2 over the allowed positions *)
Definition masked_sqnorm n (m v : vec) (a : R) := rsum n (fun j => m j * ((v j - a) * (v j - a))).
(* a row of p, as a function of sigma = f~_i *)
Definition p_row n (sigma f : vec) : vec := jacobian n sigma (fun j => sigma j - f j).
(* the Hessian of 1/2 ||softmax(s) - f||^2 as a bilinear form of v and w, sigma = softmax(s) *)
Definition third n (sigma f v w : vec) := let e := fun j => sigma j - f j in
  rsum n (fun j => sigma j * ((e j - mean n sigma e) * (v j - mean n sigma v) * (w j - mean n sigma w))).
Definition bil n (sigma f v w : vec) :=
  rsum n (fun j => jacobian n sigma w j * jacobian n sigma v j) + third n sigma f v w.
(* KL(f || softmax(s)); off f's support ln and its product are 0 times whatever *)
Definition kl_row n (m f s : vec) := rsum n (fun j => f j * (ln (f j) - ln (softmax n m s j))).
(* every row of p is C-Lipschitz in its logits *)
Definition row_constant C := 0 <= C /\ forall n m f s s' a, valid_row n m -> probability n f ->
  sqnorm n (fun j => p_row n (softmax n m s') f j - p_row n (softmax n m s) f j)
  <= C * C * masked_sqnorm n m (fun j => s' j - s j) a.
Definition C_plus := (39 + 55 * sqrt 33) / 1152.
Definition C_minus := (55 * sqrt 33 - 39) / 1152.
(* ---- the paper's objects: X is n x d, W and M are d x d, Mc is the n x n attention mask ---- *)
Definition full : mat := fun _ _ => 1.
Definition causal : mat := fun i j => if Nat.leb j i then 1 else 0.
Definition ones : mat := fun _ _ => 1.
Definition zeros : mat := fun _ _ => 0.
Definition valid_mask n (Mc : mat) := forall i, (i < n)%nat -> valid_row n (Mc i).
Definition had (M W : mat) : mat := fun i j => M i j * W i j.
Section Model.
Variables (n d : nat) (X W Mc : mat).
Definition logit (V : mat) : mat := fun i j => rsum d (fun a => rsum d (fun b => X i a * V a b * X j b)).
Definition u V : mat := fun i j => exp (logit V i j).
Definition alpha V i := rsum n (fun j => u V i j * Mc i j).
(* f W is the attention matrix, f~ is f (M o W) *)
Definition f V : mat := fun i j => u V i j * Mc i j / alpha V i.
Definition c M : mat := fun i j => f (had M W) i j - f W i j.
Definition Lattn M := / 2 * nsq n n (c M).
(* the sum over the rows of KL(f_i || f~_i) *)
Definition KL M := rsum n (fun i => kl_row n (Mc i) (f W i) (logit (had M W) i)).
Definition Lreg lam M := / 2 * lam * nsq d d M.
Definition L lam M := Lattn M + Lreg lam M.
Definition p M : mat := fun i j =>
  c M i j * f (had M W) i j - rsum n (fun k => c M i k * f (had M W) i k) * f (had M W) i j.
(* W o (X^T q X), and the gradient W o (X^T p X) + lam M *)
Definition adjoint (q : mat) : mat := fun a b => W a b * rsum n (fun i => rsum n (fun j => X i a * q i j * X j b)).
Definition grad lam M : mat := fun a b => adjoint (p M) a b + lam * M a b.
(* p = p1 - p2; the summands of lem:grad_rec; f~ o c; the diagonal of diag((f~ o c) 1) *)
Definition p1 M : mat := fun i j => c M i j * f (had M W) i j.
Definition p2 M : mat := fun i j => rsum n (p1 M i) * f (had M W) i j.
Definition B1 M a b i j := c M i j * f (had M W) i j * (W a b * X i a * X j b).
Definition B2 M a b i j := - (c M i j * f (had M W) i j * rsum n (fun l => f (had M W) i l * (W a b * X i a * X l b))).
Definition B3 (lam : R) (M : mat) a b := lam * M a b.
Definition c_times_f M : mat := fun i j => f (had M W) i j * c M i j.
Definition row_means M i := rsum n (c_times_f M i).
(* d f~_ij / d M_ab *)
Definition df M i j a b := f (had M W) i j * (W a b * X i a * X j b)
  - f (had M W) i j * rsum n (fun l => f (had M W) i l * (W a b * X i a * X l b)).
End Model.
(* k samples of n tokens: the mean of their attention errors; their tokens below each other, block-diagonal mask *)
Definition L_batch n d k (Xs : nat -> mat) W mc lam M :=
  / INR k * rsum k (fun s => Lattn n d (Xs s) W mc M) + Lreg d lam M.
Definition grad_batch n d k (Xs : nat -> mat) W mc lam M : mat := fun a b =>
  / INR k * rsum k (fun s => adjoint n (Xs s) W (p n d (Xs s) W mc M) a b) + lam * M a b.
Definition stack n (Xs : nat -> mat) : mat := fun i a => Xs (Nat.div i n) (Nat.modulo i n) a.
Definition block n (mc : mat) : mat := fun i j =>
  if Nat.eqb (Nat.div i n) (Nat.div j n) then mc (Nat.modulo i n) (Nat.modulo j n) else 0.
(* K bounds N -> X (N o W) X^T over the allowed positions, up to a constant a_i in each row *)
Definition logit_bound n d X W Mc K := 0 <= K /\ forall N, exists a : vec,
  rsum n (fun i => masked_sqnorm n (Mc i) (logit d X (had N W) i) (a i)) <= K * K * nsq d d N.
(* s is at least the spectral norm of X; the number of rows with two or more allowed positions *)
Definition spectral n d (X : mat) s := 0 <= s /\ forall v : vec,
  sqnorm n (fun i => rsum d (fun a => X i a * v a)) <= s * s * sqnorm d v.
Definition choices n (Mc : mat) := rsum n (fun i => if Rlt_dec 1 (rsum n (Mc i)) then 1 else 0).
(* Pi A: the allowed positions of A, the mean over them subtracted *)
Definition allowed_mean n (m v : vec) := rsum n (fun j => m j * v j) / rsum n m.
Definition centred (n : nat) (Mc A : mat) : mat := fun i j => Mc i j * (A i j - allowed_mean n (Mc i) (A i)).
(* where a row of p lives; kappa bounds q -> W o (X^T q X) from below there, and l every row's Jacobian *)
Definition zero_sum n (m v : vec) := (forall j, (j < n)%nat -> m j = 0 -> v j = 0) /\ rsum n v = 0.
Definition pull_bound n d X W Mc kappa := 0 <= kappa /\ forall q : mat,
  (forall i, (i < n)%nat -> zero_sum n (Mc i) (q i)) -> kappa * nF n n q <= nF d d (adjoint n X W q).
Definition gap_bound n (Mc F : mat) l := 0 <= l /\ forall i v, (i < n)%nat -> zero_sum n (Mc i) v ->
  l * l * sqnorm n v <= sqnorm n (jacobian n (F i) v).
(* a change N of the mask that moves no row of f~, the kernel of Pi A; N is the part of M there, a projection *)
Definition unseen n d X W (Mc N : mat) := forall i, (i < n)%nat -> exists a, forall j, (j < n)%nat -> Mc i j = 1 ->
  logit d X (had N W) i j = a.
Definition unseen_part n d X W Mc M N := unseen n d X W Mc N /\
  forall N', unseen n d X W Mc N' -> ip d d (msub M N) N' = 0.
(* ---- hypotheses of the paper ---- *)
(* X X^T >= beta I;  m = min|W_ij|;  m = max|W_ij|;  M in [0,1]^{d x d} *)
Definition gram_ge n d (X : mat) beta := forall v : nat -> R, beta * rsum n (fun i => v i * v i)
  <= rsum d (fun a => rsum n (fun i => v i * X i a) * rsum n (fun i => v i * X i a)).
Definition is_min m d (W : mat) := (forall i j, (i < d)%nat -> (j < d)%nat -> m <= Rabs (W i j)) /\
  exists i j, (i < d)%nat /\ (j < d)%nat /\ Rabs (W i j) = m.
Definition is_max m d (W : mat) := (forall i j, (i < d)%nat -> (j < d)%nat -> Rabs (W i j) <= m) /\
  exists i j, (i < d)%nat /\ (j < d)%nat /\ Rabs (W i j) = m.
Definition box d (M : mat) := forall i j, (i < d)%nat -> (j < d)%nat -> 0 <= M i j <= 1.
(* wmin <= |W_ij| <= wmax; asp:bound_parameters *)
Definition between wmin wmax d (W : mat) := forall a b, (a < d)%nat -> (b < d)%nat -> wmin <= Rabs (W a b) <= wmax.
Definition bounded n d (X W : mat) R0 := (0 < n)%nat /\ (0 < d)%nat /\ 1 < R0 /\ nF n d X <= R0 /\ nF d d W <= R0.
(* delta bounds every entry of F, as printed, or the entries at allowed positions *)
Definition delta_all (Mc : mat) n (F : mat) delta := forall i j, (i < n)%nat -> (j < n)%nat -> delta <= F i j.
Definition delta_allowed (Mc : mat) n (F : mat) delta :=
  forall i j, (i < n)%nat -> (j < n)%nat -> Mc i j = 1 -> delta <= F i j.
(* mu as printed, and with the three missing squares *)
Definition mu_paper wmin beta delta := 2 * wmin * beta * delta.
Definition mu_corrected wmin beta delta := 2 * ((wmin * beta * delta) * (wmin * beta * delta)).
(* ---- lem:PL_ineq, for a mask, a reading of delta, a formula for mu and a set of lam; G is any matrix of partial
   derivatives of the loss ---- *)
Definition xi_PL n d X wmax lam mu := 12 * sqrt (INR n) * wmax * nsq n d X * lam * INR d / mu.
Definition PL_inequality n d X W Mc M lam wmax mu (G : mat) :=
  nsq d d G >= / 2 * mu * (nsq n n (c n d X W Mc M) + 2 * lam * lam / mu * nsq d d M - xi_PL n d X wmax lam mu).
Definition partials n d X W Mc lam M (G : mat) := forall a b, (a < d)%nat -> (b < d)%nat ->
  is_derive (fun t => L n d X W Mc lam (upd M a b t)) (M a b) (G a b).
Definition PL_ineq (Mc : mat) (delta_ok : nat -> mat -> R -> Prop) (mu_of : R -> R -> R -> R)
    (lam_ok : R -> Prop) : Prop := forall n d X W M lam beta delta wmin wmax G,
  (0 < n)%nat -> (0 < d)%nat -> box d M -> 0 <= lam <= 1 -> lam_ok lam -> 0 < beta -> 0 < delta ->
  gram_ge n d X beta -> delta_ok n (f n d X Mc (had M W)) delta ->
  0 < wmin -> is_min wmin d W -> is_max wmax d W -> partials n d X W Mc lam M G ->
  PL_inequality n d X W Mc M lam wmax (mu_of wmin beta delta) G.
(* ---- gradient descent on F with gradient G, m x n matrices ---- *)
Definition is_gradient m n (F : mat -> R) (G : mat -> mat) := forall w v t,
  is_derive (fun t => F (mline w t v)) t (ip m n (G (mline w t v)) v).
Definition gradient_lipschitz m n (G : mat -> mat) Lip := forall w w',
  nF m n (msub (G w') (G w)) <= Lip * nF m n (msub w' w).
(* F sees only the entries below m x n *)
Definition extensional m n (F : mat -> R) := forall w w',
  (forall i j, (i < m)%nat -> (j < n)%nat -> w i j = w' i j) -> F w = F w'.
Definition smooth m n F G Lip := is_gradient m n F G /\ gradient_lipschitz m n G Lip /\ extensional m n F /\ 0 <= Lip.
Definition gd_step (G : mat -> mat) eta w : mat := fun i j => w i j - eta * G w i j.
Fixpoint gd (G : mat -> mat) eta w0 (t : nat) : mat := match t with O => w0 | S s => gd_step G eta (gd G eta w0 s) end.
(* with momentum: w_{t+1} from w = w_t and v = w_{t-1}; the pair w_t, w_{t-1} from rest at w_0 *)
Definition momentum_step G eta theta (w v : mat) : mat := fun i j => w i j - eta * G w i j + theta * (w i j - v i j).
Fixpoint momentum (G : mat -> mat) eta theta w0 (t : nat) : mat * mat := match t with O => (w0, w0)
  | S s => let q := momentum G eta theta w0 s in (momentum_step G eta theta (fst q) (snd q), fst q) end.
(* a step that the Lipschitz constant lam + C K^2 allows, at most s over it *)
Definition step_ok n d X W Mc lam C K eta s := valid_mask n Mc /\ 0 < lam /\ row_constant C /\
  logit_bound n d X W Mc K /\ 0 < eta /\ eta * (lam + C * (K * K)) <= s.
(* x^a for x >= 0 and a > 0 *)
Definition power x a := if Rlt_dec 0 x then Rpower x a else 0.
(* ---- thm:our_convergence, for a set of lam and one of starting points, a relation between the iterates of its two
   terms, a mask, a reading of delta and a formula for mu; T is the printed number of iterations rounded up ---- *)
Definition xi_theorem n d X wmax lam mu := 12 / (INR n * sqrt (INR n)) * wmax * nsq n d X * lam * INR d / mu.
Definition guarantee n d X W Mc lam wmax mu eps M :=
  Lattn n d X W Mc M / (INR n * INR n) + lam * lam / (mu * (INR n * INR n)) * nsq d d M
  <= (xi_theorem n d X wmax lam mu + eps) / 2.
Definition unit_lam (lam : R) := 0 < lam <= 1.
Definition L_paper n d lam R0 := lam + 30 * INR d * (INR n ^ 3 * sqrt (INR n)) * R0 ^ 6.
Definition our_convergence (lam_ok : R -> Prop) (start : nat -> nat -> mat -> Prop) (iterates : nat -> nat -> Prop)
    (Mc : mat) (delta_ok : nat -> mat -> R -> Prop) (mu_of : R -> R -> R -> R) : Prop :=
  forall n d X W lam beta delta wmin wmax R0 eta eps M0 T, (0 < n)%nat -> (0 < d)%nat -> start n d M0 -> lam_ok lam ->
  0 < beta -> gram_ge n d X beta -> 0 < delta -> 0 < wmin -> is_min wmin d W -> is_max wmax d W ->
  1 < R0 -> nF n d X <= R0 -> nF d d W <= R0 -> 0 < eta -> eta < / L_paper n d lam R0 -> 0 < eps ->
  let M := gd (grad n d X W Mc lam) eta M0 in let mu := mu_of wmin beta delta in
  (forall t, (t < T)%nat -> delta_ok n (f n d X Mc (had (M t) W)) delta) ->
  INR T - 1 < 4 * L n d X W Mc lam M0 / (eta * mu * eps * (INR n * INR n)) <= INR T ->
  exists t t', (t < T)%nat /\ (t' < T)%nat /\ iterates t t' /\
    Lattn n d X W Mc (M t) / (INR n * INR n) + lam * lam / (mu * (INR n * INR n)) * nsq d d (M t')
    <= (xi_theorem n d X wmax lam mu + eps) / 2.
(* ---- the guarantee with the operator's constants ---- *)
Definition guarantee_sharp n d X W Mc lam mu K eps M := let n2 := INR n ^ 2 in
  Lattn n d X W Mc M / n2 + lam ^ 2 * nsq d d M / (mu * n2) <= (K * (lam * sqrt lam) * INR d ^ 2 / (n2 * mu) + eps) / 2.
Definition sharp_hypotheses n d X W Mc lam C K eta eps T kappa l :=
  (0 < n)%nat /\ (1 <= T)%nat /\ 0 < eps /\ step_ok n d X W Mc lam C K eta 1 /\ pull_bound n d X W Mc kappa /\
  0 < kappa * l /\
  (forall t, (t < T)%nat -> gap_bound n Mc (f n d X Mc (had (gd (grad n d X W Mc lam) eta ones t) W)) l) /\
  2 * lam * INR d ^ 2 / (eta * (2 * (kappa * l) ^ 2) * eps * INR n ^ 2) <= INR T.
(* ---- fix:our_convergence ---- *)
Definition corrected_hypotheses n d X W Mc lam beta delta wmin wmax K C eta eps T :=
  (0 < n)%nat /\ step_ok n d X W Mc lam C K eta 1 /\ 0 < beta /\ gram_ge n d X beta /\ 0 < delta /\ 0 < wmin /\
  0 <= wmax /\ between wmin wmax d W /\ (1 <= T)%nat /\ 0 < eps /\
  (forall t, (t < T)%nat -> delta_allowed Mc n (f n d X Mc (had (gd (grad n d X W Mc lam) eta ones t) W)) delta) /\
  2 * lam * (INR d * INR d) / (eta * mu_corrected wmin beta delta * eps * (INR n * INR n)) <= INR T.

Module Statement.
(* fix:calculus, entry by entry, and fac:mean_value *)
Definition calculus_power := forall (f : R -> R) n t df, is_derive f t df ->
  is_derive (fun s => f s ^ n) t (INR n * f t ^ pred n * df).
Definition calculus_hadamard := forall (x y : R -> R) t dx dy, is_derive x t dx -> is_derive y t dy ->
  is_derive (fun s => x s * y s) t (dx * y t + dy * x t).
Definition calculus_inner := forall n (x y : nat -> R -> R) (dx dy : vec) t,
  (forall i, (i < n)%nat -> is_derive (x i) t (dx i)) -> (forall i, (i < n)%nat -> is_derive (y i) t (dy i)) ->
  is_derive (fun s => rsum n (fun i => x i s * y i s)) t
    (rsum n (fun i => dx i * y i t) + rsum n (fun i => x i t * dy i)).
Definition calculus_exp := forall (f : R -> R) t df, is_derive f t df ->
  is_derive (fun s => exp (f s)) t (exp (f t) * df).
Definition calculus_right_factor := forall m (X : nat -> nat -> R -> R) (dX Z : mat) t i b,
  (forall k, (k < m)%nat -> is_derive (X i k) t (dX i k)) ->
  is_derive (fun s => rsum m (fun k => X i k s * Z k b)) t (rsum m (fun k => dX i k * Z k b)).
Definition calculus_left_factor := forall m (X : nat -> nat -> R -> R) (dX Z : mat) t a j,
  (forall k, (k < m)%nat -> is_derive (X j k) t (dX j k)) ->
  is_derive (fun s => rsum m (fun k => Z a k * X j k s)) t (rsum m (fun k => Z a k * dX j k)).
Definition calculus_sum := forall n (f : nat -> R -> R) (df : vec) t,
  (forall i, (i < n)%nat -> is_derive (f i) t (df i)) -> is_derive (fun s => rsum n (fun i => f i s)) t (rsum n df).
Definition calculus_entry := forall (X : mat) a b i j,
  is_derive (fun t => upd X a b t i j) (X a b) (unit_matrix a b i j).
(* J Z i j is the p x q matrix of partial derivatives of the entry (i, j) of g at Z *)
Definition mean_value_matrix := forall p q r s (g : mat -> mat) (J : mat -> nat -> nat -> mat) A B R0,
  let V := msub B A in (forall t i j, 0 <= t <= 1 -> (i < r)%nat -> (j < s)%nat ->
     is_derive (fun t => g (mline A t V) i j) t (ip p q (J (mline A t V) i j) V)) -> 0 <= R0 ->
  (forall t, 0 <= t <= 1 -> sqrt (rsum r (fun i => rsum s (fun j => nsq p q (J (mline A t V) i j)))) <= R0) ->
  nF r s (msub (g (mline A 1 V)) (g (mline A 0 V))) <= R0 * nF p q V.
(* one row: the softmax Jacobian has norm at most 1/2, and the softmax is 1/2-Lipschitz *)
Definition softmax_jacobian_norm := forall n sigma, probability n sigma ->
  forall v, sqnorm n (jacobian n sigma v) <= / 4 * sqnorm n v.
Definition softmax_lipschitz := forall n m s s' a, valid_row n m ->
  sqnorm n (fun j => softmax n m s' j - softmax n m s j) <= / 4 * masked_sqnorm n m (fun j => s' j - s j) a.
(* KL is convex in the logits: its tangent at s is below it at every s' *)
Definition kl_tangent := forall n m f s s', valid_row n m -> probability n f -> (forall j, m j = 0 -> f j = 0) ->
  kl_row n m f s + rsum n (fun j => (softmax n m s j - f j) * (s' j - s j)) <= kl_row n m f s'.
(* no mask B in the box with entries that add up to k has less than what one gradient G, at any real Y, and a threshold
   tau give; for the k-th smallest entry of G as tau, tau k + sum min(G - tau, 0) is the sum of the k smallest *)
Definition divergence_floor := forall n d X W Mc Y B k tau, valid_mask n Mc -> box d B ->
  rsum d (fun a => rsum d (fun b => B a b)) = k -> let G := adjoint n X W (c n d X W Mc Y) in
  KL n d X W Mc Y - ip d d G Y + (tau * k + rsum d (fun a => rsum d (fun b => Rmin (G a b - tau) 0)))
  <= KL n d X W Mc B.
(* with s2 a bound of all weights but the largest, sigma_i: v^T J v <= sigma_i (1 - sigma_i + s2) ||v||^2 *)
Definition jacobian_two_largest := forall n i sigma s2, probability n sigma -> (i < n)%nat -> 0 <= s2 <= sigma i ->
  (forall j, (j < n)%nat -> j <> i -> sigma j <= s2) ->
  forall v, covariance n sigma v v <= sigma i * (1 - sigma i + s2) * sqnorm n v.
(* logits moved by u: each weight, and v^T J v, change at most by the factor e^(hi - lo); no smaller exponent serves *)
Definition softmax_move := forall n m s u lo hi, valid_row n m ->
  (forall j, (j < n)%nat -> m j = 1 -> lo <= u j <= hi) ->
  let e := exp (hi - lo) in let F := softmax n m s in let F' := softmax n m (fun j => s j + u j) in
  (forall j, (j < n)%nat -> F j <= e * F' j /\ F' j <= e * F j) /\
  forall v, covariance n F v v <= e * covariance n F' v v /\ covariance n F' v v <= e * covariance n F v v.
Definition softmax_move_least := forall k, (forall n m s u lo hi, valid_row n m ->
  (forall j, (j < n)%nat -> m j = 1 -> lo <= u j <= hi) ->
  let e := exp (k * (hi - lo)) in let F := softmax n m s in let F' := softmax n m (fun j => s j + u j) in
  (forall j, (j < n)%nat -> F' j <= e * F j) \/ forall v, covariance n F' v v <= e * covariance n F v v) -> 1 <= k.
(* one row of p: constants 5/4 and C_+ = 0.30811..., from below C_- = 0.24040... *)
Definition row_constant_five_quarters := row_constant (5 / 4).
Definition row_loss_hessian := forall n m f s v, valid_row n m -> probability n f ->
  let sigma t := softmax n m (fun j => s j + t * v j) in
  (forall t, is_derive (fun t => / 2 * sqnorm n (fun j => sigma t j - f j)) t
     (rsum n (fun j => v j * p_row n (sigma t) f j))) /\
  forall t, is_derive (fun t => rsum n (fun j => v j * p_row n (sigma t) f j)) t (bil n (sigma t) f v v).
Definition row_hessian_bound := forall n sigma, probability n sigma -> forall f, probability n f ->
  forall v, - (C_plus * sqnorm n v) <= bil n sigma f v v <= C_plus * sqnorm n v.
Definition row_hessian_lower := forall n sigma, probability n sigma -> forall f, probability n f ->
  forall v, - (C_minus * sqnorm n v) <= bil n sigma f v v.
Definition curvature_domination := forall n sigma f l r, probability n sigma -> let e := fun j => sigma j - f j in
  (forall v, rsum n v = 0 -> l * sqnorm n v <= covariance n sigma v v) ->
  (forall j, (j < n)%nat -> mean n sigma e - e j <= r) ->
  forall v, (l - r) * covariance n sigma v v <= bil n sigma f v v.
Definition row_constant_C_plus := row_constant C_plus.
Definition C_plus_value := 0.30811 < C_plus < 0.30812.
Definition C_minus_value := 0.24040 < C_minus < 0.24041.
(* the gradient: thm:mat_view_l and the lemmas that lead to it, for every M and every valid mask *)
Definition mat_view_l_directional := forall n d X W Mc, valid_mask n Mc -> forall M D t lam,
  is_derive (fun t => L n d X W Mc lam (mline M t D)) t (ip d d (grad n d X W Mc lam (mline M t D)) D).
Definition mask_hadamard := forall W M a b i j,
  is_derive (fun t => had (upd M a b t) W i j) (M a b) (W a b * unit_matrix a b i j).
Definition grad_one_row_mat := forall d X W M a b, (a < d)%nat -> (b < d)%nat -> forall i j,
  is_derive (fun t => logit d X (had (upd M a b t) W) i j) (M a b) (W a b * X i a * X j b).
Definition grad_exp_func := forall d X W M a b, (a < d)%nat -> (b < d)%nat -> forall i j,
  is_derive (fun t => u d X (had (upd M a b t) W) i j) (M a b) (u d X (had M W) i j * (W a b * X i a * X j b)).
Definition grad_sum := forall n d X W Mc M a b, (a < d)%nat -> (b < d)%nat -> forall i,
  is_derive (fun t => alpha n d X Mc (had (upd M a b t) W) i) (M a b)
    (rsum n (fun j => u d X (had M W) i j * Mc i j * (W a b * X i a * X j b))).
Definition grad_soft_prob := forall n d X W Mc, valid_mask n Mc -> forall M a b, (a < d)%nat -> (b < d)%nat ->
  forall i j, (i < n)%nat ->
  is_derive (fun t => f n d X Mc (had (upd M a b t) W) i j) (M a b) (df n d X W Mc M i j a b).
Definition grad_one_unit := forall n d X W Mc, valid_mask n Mc -> forall M a b, (a < d)%nat -> (b < d)%nat ->
  forall i j, (i < n)%nat -> is_derive (fun t => c n d X W Mc (upd M a b t) i j) (M a b) (df n d X W Mc M i j a b).
Definition grad_rec := forall n d X W Mc, valid_mask n Mc -> forall M a b, (a < d)%nat -> (b < d)%nat ->
  is_derive (fun t => Lattn n d X W Mc (upd M a b t)) (M a b)
    (rsum n (fun i => rsum n (fun j => B1 n d X W Mc M a b i j + B2 n d X W Mc M a b i j))).
Definition grad_reg := forall d M a b, (a < d)%nat -> (b < d)%nat -> forall lam,
  is_derive (fun t => Lreg d lam (upd M a b t)) (M a b) (lam * M a b).
Definition grad_loss_func := forall n d X W Mc, valid_mask n Mc -> forall M a b, (a < d)%nat -> (b < d)%nat ->
  forall lam, is_derive (fun t => L n d X W Mc lam (upd M a b t)) (M a b)
    (rsum n (fun i => rsum n (fun j => B1 n d X W Mc M a b i j + B2 n d X W Mc M a b i j)) + B3 lam M a b).
Definition mat_view_l := forall n d X W Mc, valid_mask n Mc -> forall M lam,
  partials n d X W Mc lam M (grad n d X W Mc lam M).
Definition mat_view_b1_part1 := forall n d X W Mc M a b i j,
  B1 n d X W Mc M a b i j = c n d X W Mc M i j * f n d X Mc (had M W) i j * (W a b * (X i a * X j b)).
Definition mat_view_b1_part2 := forall n d X W Mc M a b,
  rsum n (fun i => rsum n (fun j => B1 n d X W Mc M a b i j)) = adjoint n X W (p1 n d X W Mc M) a b.
Definition mat_view_b2_part1 := forall n d X W Mc M a b i j, B2 n d X W Mc M a b i j = - (c n d X W Mc M i j
  * f n d X Mc (had M W) i j * (X i a * W a b * rsum n (fun l => X l b * f n d X Mc (had M W) i l))).
Definition mat_view_b2_part2 := forall n d X W Mc M a b,
  rsum n (fun i => rsum n (fun j => B2 n d X W Mc M a b i j)) = - adjoint n X W (p2 n d X W Mc M) a b.
Definition mat_view_b3 := forall lam M a b, B3 lam M a b = lam * M a b.
(* what a lower bound delta of f~ means *)
Definition causal_no_delta := forall n d X V delta, (2 <= n)%nat -> 0 < delta ->
  ~ delta_all causal n (f n d X causal V) delta.
Definition causal_floor := forall n d X V, (2 <= n)%nat ->
  f n d X causal V 0%nat 1%nat = 0 /\ forall i j, (i < n)%nat -> 0 <= f n d X causal V i j.
Definition masked_no_delta := forall n d X Mc V delta i j, (i < n)%nat -> (j < n)%nat -> Mc i j = 0 -> 0 < delta ->
  ~ delta_all Mc n (f n d X Mc V) delta.
Definition delta_le_inverse_n_softmax := forall n d X Mc V delta, (0 < n)%nat -> valid_mask n Mc ->
  delta_all Mc n (f n d X Mc V) delta -> delta <= / INR n.
(* lem:PL_ineq as printed is refuted without a mask, vacuous with the causal one *)
Definition PL_ineq_full_refuted := ~ PL_ineq full (delta_all full) mu_paper (fun lam => 0 < lam).
Definition PL_ineq_full_refuted_lam0 := ~ PL_ineq full (delta_all full) mu_paper (fun lam => lam = 0).
Definition PL_ineq_causal_allowed_refuted := ~ PL_ineq causal (delta_allowed causal) mu_paper (fun lam => 0 < lam).
Definition PL_ineq_causal_allowed_refuted_lam0 := ~ PL_ineq causal (delta_allowed causal) mu_paper (fun lam => lam = 0).
(* M = 1 prunes nothing and satisfies the guarantee of thm:our_convergence *)
Definition ones_attention_loss_zero := forall n d X W Mc, Lattn n d X W Mc ones = 0.
Definition ones_satisfies_guarantee := forall n d X W Mc lam wmax mu eps, (0 < n)%nat -> 0 < mu -> 0 <= lam ->
  0 <= eps -> lam * INR d <= 6 * sqrt (INR n) * wmax * nsq n d X -> guarantee n d X W Mc lam wmax mu eps ones.
Definition ones_witness_sharp := forall n d X W Mc lam mu K, (0 < n)%nat -> (0 < d)%nat -> 0 < mu -> 0 < lam ->
  0 <= K -> (guarantee_sharp n d X W Mc lam mu K 0 ones <-> lam <= K ^ 2 / 4) /\ C_minus * K ^ 2 <= K ^ 2 / 4.
(* Lipschitz constants in terms of K *)
Definition lip_f_half_K := forall n d X W Mc K, valid_mask n Mc -> logit_bound n d X W Mc K ->
  lipschitz d n n (fun M => f n d X Mc (had M W)) (/ 2 * K).
Definition lip_c_half_K := forall n d X W Mc K, valid_mask n Mc -> logit_bound n d X W Mc K ->
  lipschitz d n n (c n d X W Mc) (/ 2 * K).
Definition lip_p := forall n d X W Mc K C, valid_mask n Mc -> logit_bound n d X W Mc K -> row_constant C ->
  lipschitz d n n (p n d X W Mc) (C * K).
Definition lip_p_sharp := forall n d X W Mc K, valid_mask n Mc -> logit_bound n d X W Mc K ->
  lipschitz d n n (p n d X W Mc) (C_plus * K).
Definition lip_grad := forall n d X W Mc K C lam, valid_mask n Mc -> logit_bound n d X W Mc K -> row_constant C ->
  0 <= lam -> lipschitz d d d (grad n d X W Mc lam) (lam + C * (K * K)).
Definition lip_grad_sharp := forall n d X W Mc K lam, valid_mask n Mc -> logit_bound n d X W Mc K -> 0 <= lam ->
  lipschitz d d d (grad n d X W Mc lam) (lam + C_plus * (K * K)).
Definition logit_bound_frobenius := forall n d X W Mc wmax, valid_mask n Mc -> 0 <= wmax ->
  (forall a b, (a < d)%nat -> (b < d)%nat -> Rabs (W a b) <= wmax) -> logit_bound n d X W Mc (wmax * nsq n d X).
Definition logit_bound_spectral := forall n d X W Mc s wmax, valid_mask n Mc -> spectral n d X s -> 0 <= wmax ->
  (forall a b, (a < d)%nat -> (b < d)%nat -> Rabs (W a b) <= wmax) -> logit_bound n d X W Mc (wmax * (s * s)).
Definition logit_bound_centred := forall n d X W Mc K, valid_mask n Mc -> 0 <= K ->
  (forall N, nF n n (centred n Mc (logit d X (had N W))) <= K * nF d d N) -> logit_bound n d X W Mc K.
Definition bound_grad_f_centred := forall n d X W Mc M, valid_mask n Mc ->
  rsum n (fun i => rsum n (fun j => nsq d d (df n d X W Mc M i j)))
  <= / 4 * rsum d (fun a => rsum d (fun b => nsq n n (centred n Mc (fun i j => W a b * X i a * X j b)))).
Definition bound_grad_f_columns := forall n d X W Mc M, valid_mask n Mc ->
  rsum n (fun i => rsum n (fun j => nsq d d (df n d X W Mc M i j))) <= / 4 * rsum d (fun a => rsum d (fun b =>
       W a b * W a b * (rsum n (fun i => X i a * X i a) * rsum n (fun j => X j b * X j b)))).
(* lem:bound_basic_func for the model's own f~, c, p, and its sharp forms *)
Definition model_bounds := forall n d X W Mc M, valid_mask n Mc -> let r := sqrt (INR n) in
  let F := f n d X Mc (had M W) in let mean_of := row_means n d X W Mc M in
  nF n n F <= r /\ nF n n (c n d X W Mc M) <= 2 * r /\ nF n n (c_times_f n d X W Mc M) <= 2 * r /\
  (forall i j, (i < n)%nat -> (j < n)%nat -> 0 <= F i j <= 1) /\ (forall i, (i < n)%nat -> sqnorm n (F i) <= 1) /\
  nF n n (diagonal mean_of) <= 2 * INR n /\ nF n n (fun i j => mean_of i * F i j) <= r /\
  nF n n (p n d X W Mc M) <= 3 * r.
Definition model_bounds_choices := forall n d X W Mc M, valid_mask n Mc ->
  nsq n n (c n d X W Mc M) <= 2 * choices n Mc /\ nsq n n (c_times_f n d X W Mc M) <= choices n Mc /\
  nsq n n (diagonal (row_means n d X W Mc M)) <= choices n Mc.
Definition bound_p_sharp := forall n d X W Mc M, valid_mask n Mc -> let P := nsq n n (p n d X W Mc M) in
  P <= 128 / 729 * choices n Mc /\ P <= / 4 * nsq n n (c n d X W Mc M).
Definition attention_gradient_sharp := forall n d X W Mc M K, valid_mask n Mc -> logit_bound n d X W Mc K ->
  let G := nsq d d (adjoint n X W (p n d X W Mc M)) in
  G <= 128 / 729 * (K * K) * choices n Mc /\ G <= / 4 * (K * K) * nsq n n (c n d X W Mc M).
(* no smaller multiple of K, of K^2, and no smaller constant of a row *)
Definition bound_p_least := forall k,
  ((forall n d X W Mc M, valid_mask n Mc -> nsq n n (p n d X W Mc M) <= k * choices n Mc) -> 128 / 729 <= k) /\
  ((forall n d X W Mc M, valid_mask n Mc -> nsq n n (p n d X W Mc M) <= k * nsq n n (c n d X W Mc M)) -> / 4 <= k).
Definition attention_gradient_least := forall k, ((forall n d X W Mc M K, valid_mask n Mc -> logit_bound n d X W Mc K ->
    nsq d d (adjoint n X W (p n d X W Mc M)) <= k * (K * K) * choices n Mc) -> 128 / 729 <= k) /\
  ((forall n d X W Mc M K, valid_mask n Mc -> logit_bound n d X W Mc K ->
    nsq d d (adjoint n X W (p n d X W Mc M)) <= k * (K * K) * nsq n n (c n d X W Mc M)) -> / 4 <= k).
Definition lip_f_half_least := forall k, (forall n d X W Mc K, valid_mask n Mc -> logit_bound n d X W Mc K ->
  lipschitz d n n (fun M => f n d X Mc (had M W)) (k * K)) -> / 2 <= k.
Definition lip_p_least := forall C, (forall n d X W Mc K, valid_mask n Mc -> logit_bound n d X W Mc K ->
  lipschitz d n n (p n d X W Mc) (C * K)) -> C_plus <= C.
Definition lip_grad_least := forall C, (forall n d X W Mc K lam, valid_mask n Mc -> logit_bound n d X W Mc K ->
  0 <= lam -> lipschitz d d d (grad n d X W Mc lam) (lam + C * (K * K))) -> C_plus <= C.
Definition row_hessian_least := forall C, (forall n sigma f v, probability n sigma -> probability n f ->
  bil n sigma f v v <= C * sqnorm n v) -> C_plus <= C.
Definition row_hessian_lower_least := forall C, (forall n sigma f v, probability n sigma -> probability n f ->
  - (C * sqnorm n v) <= bil n sigma f v v) -> C_minus <= C.
Definition curvature_range_least := forall c C, (forall n d X W Mc K lam M D h, valid_mask n Mc ->
  logit_bound n d X W Mc K -> 0 <= lam -> is_derive (fun t => ip d d (grad n d X W Mc lam (mline M t D)) D) 0 h ->
  (lam - c * (K * K)) * nsq d d D <= h <= (lam + C * (K * K)) * nsq d d D) -> C_minus <= c /\ C_plus <= C.
Definition strong_convexity_least := forall c, (forall n d X W Mc K lam M M', valid_mask n Mc ->
  logit_bound n d X W Mc K -> 0 <= lam -> let G := grad n d X W Mc lam in let D := msub M' M in
  (lam - c * (K * K)) * nsq d d D <= ip d d (msub (G M') (G M)) D) -> C_minus <= c.
(* the paper's constants, under asp:bound_parameters *)
Definition bound_basic_func_part5 := forall n d X W R0, bounded n d X W R0 ->
  forall a b, (a < d)%nat -> (b < d)%nat -> Rabs (W a b) <= R0.
Definition bound_basic_func_part6 := forall n d X W R0, bounded n d X W R0 ->
  forall i a, (i < n)%nat -> (a < d)%nat -> Rabs (X i a) <= R0.
Definition bound_basic_func_part8 := forall n d X W Mc R0, valid_mask n Mc -> bounded n d X W R0 ->
  forall M i j a b, (i < n)%nat -> (j < n)%nat -> (a < d)%nat -> (b < d)%nat ->
  Rabs (f n d X Mc (had M W) i j * (W a b * X i a * X j b)) <= R0 ^ 3.
Definition bound_basic_func_part9 := forall n d X W Mc R0, valid_mask n Mc -> bounded n d X W R0 ->
  forall M i j a b, (i < n)%nat -> (j < n)%nat -> (a < d)%nat -> (b < d)%nat ->
  Rabs (f n d X Mc (had M W) i j * rsum n (fun l => f n d X Mc (had M W) i l * (W a b * X i a * X l b))) <= R0 ^ 3.
Definition bound_grad_f := forall n d X W Mc R0, valid_mask n Mc -> bounded n d X W R0 -> forall M,
  sqrt (rsum n (fun i => rsum n (fun j => nsq d d (df n d X W Mc M i j)))) <= 2 * INR d * INR n * R0 ^ 3.
Definition lip_f := forall n d X W Mc R0, valid_mask n Mc -> bounded n d X W R0 ->
  lipschitz d n n (fun M => f n d X Mc (had M W)) (2 * INR d * INR n * R0 ^ 3).
Definition lip_c := forall n d X W Mc R0, valid_mask n Mc -> bounded n d X W R0 ->
  lipschitz d n n (c n d X W Mc) (2 * INR d * INR n * R0 ^ 3).
Definition lip_f_circ_c := forall n d X W Mc R0, valid_mask n Mc -> bounded n d X W R0 ->
  lipschitz d n n (c_times_f n d X W Mc) (6 * INR d * (INR n * sqrt (INR n)) * R0 ^ 3).
Definition lip_diag := forall n d X W Mc R0, valid_mask n Mc -> bounded n d X W R0 ->
  lipschitz d n n (fun M => diagonal (row_means n d X W Mc M)) (6 * INR d * (INR n * INR n) * R0 ^ 3).
Definition lip_diag_f := forall n d X W Mc R0, valid_mask n Mc -> bounded n d X W R0 -> lipschitz d n n
  (fun M i j => row_means n d X W Mc M i * f n d X Mc (had M W) i j) (24 * INR d * (INR n ^ 3 * sqrt (INR n)) * R0 ^ 3).
Definition lip_grad_l := forall n d X W Mc R0 lam, valid_mask n Mc -> bounded n d X W R0 -> 0 <= lam ->
  lipschitz d d d (grad n d X W Mc lam) (L_paper n d lam R0).
(* gradient descent on any smooth function, and thm:convergence *)
Definition descent_lemma := forall m n F G Lip, smooth m n F G Lip -> forall eta w, 0 <= eta ->
  F (gd_step G eta w) <= F w - eta * (1 - eta * Lip / 2) * nsq m n (G w).
Definition convergence := forall m n F G Lip, smooth m n F G Lip -> (forall w, 0 <= F w) ->
  forall (g : mat -> R) xi a mu eps eta w0 T, 0 < a -> 0 < mu -> 0 < eps -> 0 < eta -> eta * Lip <= 1 -> (1 <= T)%nat ->
  (forall t, (t < T)%nat -> power (nF m n (G (gd G eta w0 t))) a >= / 2 * mu * (g (gd G eta w0 t) - xi)) ->
  2 * / eta * Rpower (mu * eps / 2) (- 2 / a) * F w0 <= INR T -> exists t, (t < T)%nat /\ g (gd G eta w0 t) <= xi + eps.
Definition loss_smooth := forall n d X W Mc lam C K, valid_mask n Mc -> 0 <= lam -> row_constant C ->
  logit_bound n d X W Mc K -> smooth d d (L n d X W Mc lam) (grad n d X W Mc lam) (lam + C * (K * K)).
(* steps longer than 1/L: along the gradient, and by backtracking from eta / b to eta *)
Definition directional_step := forall n d X W Mc lam C M a, valid_mask n Mc -> row_constant C ->
  let G := grad n d X W Mc lam M in
  let moved := rsum n (fun i => masked_sqnorm n (Mc i) (logit d X (had G W) i) (a i)) in
  forall eta, 0 <= eta -> eta * (lam * nsq d d G + C * moved) <= nsq d d G ->
  L n d X W Mc lam (gd_step (grad n d X W Mc lam) eta M) <= L n d X W Mc lam M - eta / 2 * nsq d d G.
(* on the segment M + s V, V = -grad L(M): lo, hi, t and pull bound, row by row, the step's logits v, the weights and
   c_j - <c, sigma>; a is any shift *)
Definition segment_step := forall n d X W Mc lam M (a lo hi t pull : vec) eta, valid_mask n Mc ->
  let G := grad n d X W Mc lam in let F := f n d X Mc (had M W) in let r := c n d X W Mc M in
  let v := logit d X (had (G M) W) in let e i := exp (eta * (hi i - lo i)) in
  (forall i j, (i < n)%nat -> (j < n)%nat -> Mc i j = 1 ->
     lo i <= v i j <= hi i /\ F i j <= t i /\ r i j - mean n (F i) (r i) <= pull i) ->
  let bend i := Rmin (C_plus * masked_sqnorm n (Mc i) (v i) (a i)) (e i * covariance n (F i) (v i) (v i) *
    (Rmin (/ 2) (e i * t i) + Rmin (/ 2) (pull i + 4 * (e i - 1) * t i))) in
  let B := lam * nsq d d (G M) + rsum n bend in let V := fun i j => - G M i j in 0 <= eta ->
  (forall s, 0 <= s <= eta -> exists h, is_derive (fun s => ip d d (G (mline M s V)) V) s h /\ h <= B) /\
  (eta * B <= nsq d d (G M) -> L n d X W Mc lam (gd_step G eta M) <= L n d X W Mc lam M - eta / 2 * nsq d d (G M)).
Definition armijo_step := forall m n F G Lip alpha b eta w, smooth m n F G Lip -> 0 < Lip -> 0 < alpha < 1 -> 0 < b ->
  0 < eta -> F (gd_step G (eta / b) w) > F w - alpha * (eta / b) * nsq m n (G w) -> 2 * (1 - alpha) * b / Lip < eta.
Definition stopping_rule := forall n d X W Mc lam (M : nat -> mat) eta T, M 0%nat = ones -> (forall t, (t < T)%nat ->
  0 <= eta t /\
  L n d X W Mc lam (M (S t)) <= L n d X W Mc lam (M t) - eta t / 2 * nsq d d (grad n d X W Mc lam (M t))) -> 0 <= lam ->
  (1 <= T)%nat -> exists t, (t < T)%nat /\ nsq d d (grad n d X W Mc lam (M t)) * rsum T eta <= lam * (INR d * INR d).
(* the second derivative of L along D; the minimum, and what follows where lam outweighs C_- K^2 *)
Definition curvature_range := forall n d X W Mc K lam M D, valid_mask n Mc -> logit_bound n d X W Mc K ->
  exists h, is_derive (fun t => ip d d (grad n d X W Mc lam (mline M t D)) D) 0 h /\
  (lam - C_minus * (K * K)) * nsq d d D <= h <= (lam + C_plus * (K * K)) * nsq d d D.
Definition convex_near_dense := forall n d X W Mc lam M D fmin, valid_mask n Mc -> 0 <= fmin ->
  delta_allowed Mc n (f n d X Mc W) fmin -> nF n n (c n d X W Mc M) <= fmin / sqrt 5 ->
  exists h, is_derive (fun t => ip d d (grad n d X W Mc lam (mline M t D)) D) 0 h /\ lam * nsq d d D <= h.
Definition strong_convexity := forall n d X W Mc K lam M M', valid_mask n Mc -> logit_bound n d X W Mc K ->
  let G := grad n d X W Mc lam in let D := msub M' M in let m := lam - C_minus * (K * K) in
  m * nsq d d D <= ip d d (msub (G M') (G M)) D <= (lam + C_plus * (K * K)) * nsq d d D /\
  L n d X W Mc lam M + ip d d (G M) D + m / 2 * nsq d d D <= L n d X W Mc lam M'.
Definition minimum_exists := forall n d X W Mc lam, valid_mask n Mc -> 0 < lam -> exists M',
  nsq d d (grad n d X W Mc lam M') = 0 /\ forall M, L n d X W Mc lam M' <= L n d X W Mc lam M.
Definition strongly_convex_descent := forall n d X W Mc lam C K eta, step_ok n d X W Mc lam C K eta 1 ->
  let m := lam - C_minus * (K * K) in 0 < m -> let l := L n d X W Mc lam in let G := grad n d X W Mc lam in exists M',
  (forall M, l M' + m / 2 * nsq d d (msub M M') <= l M <= l M' + nsq d d (G M) / (2 * m) /\
     m * nF d d (msub M M') <= nF d d (G M)) /\
  forall M0 T, l (gd G eta M0 T) - l M' <= (1 - eta * m) ^ T * (l M0 - l M').
(* descent with momentum: the energy, loss and least gradient from M = 1, and steps for which it diverges *)
Definition heavy_ball_energy := forall m n F G Lip eta theta w v, smooth m n F G Lip -> 0 <= theta -> 0 < eta ->
  let w' := momentum_step G eta theta w v in let E a b := F a + theta / (2 * eta) * nsq m n (msub a b) in
  E w' w <= E w v - ((1 - theta) / eta - Lip / 2) * nsq m n (msub w' w).
Definition heavy_ball_descent := forall n d X W Mc lam C K eta theta, 0 <= theta ->
  step_ok n d X W Mc lam C K eta (2 * (1 - theta)) -> let G := grad n d X W Mc lam in
  let M t := fst (momentum G eta theta ones t) in (forall t, L n d X W Mc lam (M t) <= lam * INR d ^ 2 / 2) /\
  forall T, (1 <= T)%nat -> let h := 2 * (1 - theta) - eta * (lam + C * (K * K)) in 0 < h ->
  exists t, (t < T)%nat /\ nsq d d (G (M t)) <= (1 + theta) ^ 2 * lam * INR d ^ 2 / (eta * h * INR T).
Definition heavy_ball_diverges := forall n d X W Mc lam eta theta M0 t, valid_mask n Mc -> 0 <= theta ->
  let M := fst (momentum (grad n d X W Mc lam) eta theta M0 t) in let x := eta * lam - 2 * (1 + theta) in 0 < x ->
  let r := (x + 1 + theta + sqrt (x ^ 2 + 2 * x * (1 + theta) + (1 - theta) ^ 2)) / 2 in 1 < r /\
  (exists N0 N, unseen_part n d X W Mc M0 N0 /\ unseen_part n d X W Mc M N /\ r ^ t * nF d d N0 <= nF d d N) /\
  forall a b, (a < d)%nat -> (b < d)%nat -> W a b = 0 -> r ^ t * Rabs (M0 a b) <= Rabs (M a b).
(* confinement: gradient descent from M = 1 stays in the ball ||M|| <= d *)
Definition confinement_sublevel := forall n d X W Mc lam, 0 < lam -> forall M,
  L n d X W Mc lam M <= L n d X W Mc lam ones -> nsq d d M + / lam * nsq n n (c n d X W Mc M) <= INR d * INR d.
Definition gd_decreases := forall n d X W Mc lam C K eta M, step_ok n d X W Mc lam C K eta 2 ->
  L n d X W Mc lam (gd_step (grad n d X W Mc lam) eta M) <= L n d X W Mc lam M.
Definition confinement := forall n d X W Mc lam C K eta t, step_ok n d X W Mc lam C K eta 2 ->
  let M := gd (grad n d X W Mc lam) eta ones t in nsq d d M + / lam * nsq n n (c n d X W Mc M) <= INR d * INR d.
Definition smallest_gradient := forall n d X W Mc lam C K eta T, step_ok n d X W Mc lam C K eta 2 -> (1 <= T)%nat ->
  let h := 2 - eta * (lam + C * (K * K)) in 0 < h -> exists t, (t < T)%nat /\
  nsq d d (grad n d X W Mc lam (gd (grad n d X W Mc lam) eta ones t)) <= lam * INR d ^ 2 / (eta * h * INR T).
(* a batch is one sample: what holds for every n, X, mask, lam and step holds for k samples with k lam and eta/k *)
Definition batch_loss := forall n d k Xs W mc M,
  Lattn (k * n) d (stack n Xs) W (block n mc) M = rsum k (fun s => Lattn n d (Xs s) W mc M).
Definition batch_stacked := forall n d k Xs W mc lam eta, (0 < n)%nat -> (0 < k)%nat -> valid_mask n mc ->
  let X := stack n Xs in let Mc := block n mc in let lam' := INR k * lam in valid_mask (k * n) Mc /\
  (forall M, L_batch n d k Xs W mc lam M = / INR k * L (k * n) d X W Mc lam' M) /\
  (forall M a b, grad_batch n d k Xs W mc lam M a b = / INR k * grad (k * n) d X W Mc lam' M a b) /\
  forall M0 t, gd (grad_batch n d k Xs W mc lam) eta M0 t = gd (grad (k * n) d X W Mc lam') (eta / INR k) M0 t.
Definition batch_partials := forall n d k Xs W mc lam M a b, (0 < n)%nat -> (0 < k)%nat -> valid_mask n mc ->
  (a < d)%nat -> (b < d)%nat ->
  is_derive (fun t => L_batch n d k Xs W mc lam (upd M a b t)) (M a b) (grad_batch n d k Xs W mc lam M a b).
Definition batch_confinement := forall n d k Xs W mc lam C K eta t, (0 < k)%nat ->
  step_ok (k * n) d (stack n Xs) W (block n mc) (INR k * lam) C K (eta / INR k) 2 ->
  let M := gd (grad_batch n d k Xs W mc lam) eta ones t in
  nsq d d M + / (INR k * lam) * rsum k (fun s => nsq n n (c n d (Xs s) W mc M)) <= INR d * INR d.
Definition batch_gradient_norm := forall n d k Xs W mc lam C K eta r T, (0 < d)%nat -> (0 < k)%nat -> 0 < r ->
  (1 <= T)%nat -> step_ok (k * n) d (stack n Xs) W (block n mc) (INR k * lam) C K (eta / INR k) 1 ->
  / (eta * lam * r ^ 2) <= INR T -> let G := grad_batch n d k Xs W mc lam in
  exists t, (t < T)%nat /\ nF d d (G (gd G eta ones t)) <= r * lam * INR d.
(* the corrected PL lemma for the true gradient *)
Definition attention_gradient_upper_true := forall n d X W Mc M wmax, valid_mask n Mc -> 0 <= wmax ->
  between 0 wmax d W -> nF d d (adjoint n X W (p n d X W Mc M)) <= 3 * sqrt (INR n) * wmax * nsq n d X.
Definition PL_corrected_true_gradient := forall n d X W Mc M lam beta delta wmin wmax, valid_mask n Mc ->
  0 <= lam -> 0 <= beta -> gram_ge n d X beta -> 0 <= delta -> delta_allowed Mc n (f n d X Mc (had M W)) delta ->
  0 <= wmin -> 0 <= wmax -> between wmin wmax d W ->
  let kappa := wmin * beta * delta in forall G, nF d d M <= INR d -> partials n d X W Mc lam M G ->
  nsq d d G >= kappa * kappa * nsq n n (c n d X W Mc M) + lam * lam * nsq d d M
               - 6 * sqrt (INR n) * wmax * nsq n d X * lam * INR d.
Definition PL_additive_free := forall n d X W Mc M lam beta delta wmin wmax, valid_mask n Mc ->
  0 <= lam -> 0 <= beta -> gram_ge n d X beta -> 0 <= delta -> delta_allowed Mc n (f n d X Mc (had M W)) delta ->
  0 <= wmin -> between wmin wmax d W -> let kappa := wmin * beta * delta in
  kappa * nF n n (c n d X W Mc M) <= nF d d (grad n d X W Mc lam M) + lam * nF d d M.
(* the operator's constants: no beta, no delta, zero weights allowed; and how they compare *)
Definition PL_sharp := forall n d X W Mc M kappa l, valid_mask n Mc -> pull_bound n d X W Mc kappa ->
  gap_bound n Mc (f n d X Mc (had M W)) l ->
  kappa * l * nF n n (c n d X W Mc M) <= nF d d (adjoint n X W (p n d X W Mc M)).
Definition kappa_at_least := forall n d X W Mc beta wmin wmax, 0 <= beta -> gram_ge n d X beta -> 0 <= wmin ->
  between wmin wmax d W -> pull_bound n d X W Mc (wmin * beta).
Definition gap_at_least := forall n d X V Mc delta, valid_mask n Mc -> 0 <= delta ->
  delta_allowed Mc n (f n d X Mc V) delta -> gap_bound n Mc (f n d X Mc V) delta.
(* attained, with c <> 0: at X = I, |W| = 1, M = 0 *)
Definition PL_attained_signs := forall n, (2 <= n)%nat -> exists X W, let M := zeros in gram_ge n n X 1 /\
  is_min 1 n W /\ delta_all full n (f n n X full (had M W)) (/ INR n) /\ 0 < nsq n n (c n n X W full M) /\
  nsq n n (adjoint n X W (p n n X W full M)) = (1 * 1 * / INR n) * (1 * 1 * / INR n) * nsq n n (c n n X W full M).
Definition PL_ineq_corrected_masked := forall Mc, (forall n, valid_mask n Mc) ->
  PL_ineq Mc (delta_allowed Mc) mu_corrected (fun _ => True).
(* the main theorem, corrected and refuted *)
Definition our_convergence_corrected := forall n d X W Mc lam beta delta wmin wmax K C eta eps T,
  corrected_hypotheses n d X W Mc lam beta delta wmin wmax K C eta eps T -> exists t, (t < T)%nat /\
  guarantee n d X W Mc lam wmax (mu_corrected wmin beta delta) eps (gd (grad n d X W Mc lam) eta ones t).
Definition corrected_hypotheses_met := exists n d X W lam beta delta wmin wmax K C eta eps T,
  corrected_hypotheses n d X W full lam beta delta wmin wmax K C eta eps T /\
  sharp_hypotheses n d X W full lam C K eta eps T (wmin * beta) delta /\ 0 < nsq n n (c n d X W full zeros).
(* two tokens that meet the hypotheses of strongly_convex_descent, heavy_ball_descent, gradient_norm and confinement
   (a step for every s), of convex_near_dense at M = 0, and of our_convergence_from_ones (wmin = wmax = w); c not 0 *)
Definition hypotheses_met := exists n d X W K fmin beta delta w R0, (0 < n)%nat /\ (0 < d)%nat /\
  INR d * INR d <= 361 * INR n ^ 5 /\ 0 < nsq n n (c n d X W full zeros) /\
  (forall s, 0 < s -> exists eta, step_ok n d X W full 1 (5 / 4) K eta s) /\ 0 < 1 - C_minus * (K * K) /\
  0 < fmin /\ delta_allowed full n (f n d X full W) fmin /\ nF n n (c n d X W full zeros) <= fmin / sqrt 5 /\
  0 < beta /\ gram_ge n d X beta /\ 0 < delta /\ 0 < w /\ is_min w d W /\ is_max w d W /\
  1 < R0 /\ nF n d X <= R0 /\ nF d d W <= R0 /\
  forall M, nF d d M <= INR d -> delta_all full n (f n d X full (had M W)) delta.
(* at M = 1 the gradient is lam M; for r < 1 it is not the iterate that is promised *)
Definition ones_gradient_norm := forall n d X W Mc lam, 0 <= lam -> nF d d (grad n d X W Mc lam ones) = lam * INR d.
Definition stationarity := forall n d X W Mc lam C K eta T kappa l r, (0 < d)%nat -> 0 < r -> (1 <= T)%nat ->
  step_ok n d X W Mc lam C K eta 1 -> pull_bound n d X W Mc kappa -> / (eta * lam * r ^ 2) <= INR T ->
  let M := gd (grad n d X W Mc lam) eta ones in
  (forall t, (t < T)%nat -> gap_bound n Mc (f n d X Mc (had (M t) W)) l) ->
  exists t, (t < T)%nat /\ nF d d (grad n d X W Mc lam (M t)) <= r * lam * INR d /\
    kappa * l * nF n n (c n d X W Mc (M t)) <= (1 + r) * lam * INR d.
Definition our_convergence_sharp := forall n d X W Mc lam C K eta eps T kappa l,
  sharp_hypotheses n d X W Mc lam C K eta eps T kappa l -> exists t, (t < T)%nat /\
  guarantee_sharp n d X W Mc lam (2 * (kappa * l) ^ 2) K eps (gd (grad n d X W Mc lam) eta ones t).
Definition gradient_norm := forall n d X W Mc lam C K eta r T, (0 < d)%nat -> 0 < r -> (1 <= T)%nat ->
  step_ok n d X W Mc lam C K eta 1 -> / (eta * lam * r ^ 2) <= INR T -> let G := grad n d X W Mc lam in
  exists t, (t < T)%nat /\ nF d d (G (gd G eta ones t)) <= r * lam * INR d.
Definition our_convergence_full_refuted :=
  ~ our_convergence unit_lam (fun _ => box) (fun _ _ => True) full (delta_all full) mu_paper.
Definition our_convergence_causal_allowed_refuted :=
  ~ our_convergence unit_lam (fun _ => box) (fun _ _ => True) causal (delta_allowed causal) mu_paper.
(* from M_0 = 1, as Algorithm 1 starts: true for d^2 <= 361 n^5, false in general *)
Definition our_convergence_from_ones := our_convergence (fun lam => 0 < lam)
  (fun n d M => M = ones /\ INR d * INR d <= 361 * INR n ^ 5) eq full (delta_all full) mu_paper.
Definition PL_printed := forall n d X W lam beta delta wmin wmax M, (0 < n)%nat -> (0 < d)%nat ->
  INR d * INR d <= 361 * INR n ^ 5 -> 0 < lam -> 0 < beta -> gram_ge n d X beta -> 0 < delta -> 0 < wmin ->
  between wmin wmax d W -> delta_all full n (f n d X full (had M W)) delta -> nF d d M <= INR d ->
  6 * sqrt (INR n) * (wmax * nsq n d X) <= lam * INR d ->
  PL_inequality n d X W full M lam wmax (mu_paper wmin beta delta) (grad n d X W full lam M).
Definition our_convergence_from_ones_refuted :=
  ~ our_convergence unit_lam (fun _ _ M => M = ones) eq full (delta_all full) mu_paper.
(* the strongest form: delta bounds f~ on the whole ball ||M|| <= d, and no M at all meets the guarantee *)
Definition our_convergence_ball_refuted := exists n d X W lam beta delta wmin wmax R0 eps, (0 < n)%nat /\ (0 < d)%nat /\
  0 < lam <= 1 /\ 0 < beta /\ gram_ge n d X beta /\ 0 < delta /\ 0 < wmin /\ is_min wmin d W /\ is_max wmax d W /\
  1 < R0 /\ nF n d X <= R0 /\ nF d d W <= R0 /\ 0 < eps /\
  (forall M, nF d d M <= INR d -> delta_all full n (f n d X full (had M W)) delta) /\
  forall M, ~ guarantee n d X W full lam wmax (mu_paper wmin beta delta) eps M.
Definition our_convergence_causal_allowed_from_ones_refuted :=
  ~ our_convergence unit_lam (fun _ _ M => M = ones) eq causal (delta_allowed causal) mu_paper.
End Statement.
End Analysis.

Module Rounding.
Import Reals List Permutation.
Import Flocq.Core.Core.
Import Analysis.
Local Open Scope R_scope.
(* ---- one operation: y is x rounded; u is the unit roundoff, h what underflow may lose ---- *)
Definition fl (u h x y : R) := Rabs (y - x) <= u * Rabs x + h.
Definition rounded (u x y : R) := fl u 0 x y.
(* (1 - u)^-k: by what k roundings multiply or divide at most; gamma_k = k u / (1 - k u) *)
Definition grow (u : R) (k : nat) := / (1 - u) ^ k.
Definition gamma (u : R) (k : nat) := INR k * u / (1 - INR k * u).
(* ---- any order of additions: a binary tree; each of the numbers 0 ... n-1 stands at one leaf ---- *)
Inductive tree := leaf (j : nat) | node (a b : tree).
Fixpoint leaves (t : tree) : list nat := match t with leaf j => j :: nil | node a b => leaves a ++ leaves b end.
Definition each_once (n : nat) (l : list nat) := Permutation l (seq 0 n).
Fixpoint added (u h : R) (x : vec) (t : tree) (y : R) : Prop := match t with
  | leaf j => y = x j
  | node a b => exists ya yb, added u h x a ya /\ added u h x b yb /\ fl u h (ya + yb) y end.
Definition summed (u h : R) n (x : vec) (y : R) := exists t, each_once n (leaves t) /\ added u h x t y.
(* y is the computed sum of x_j z_j, j < n: products rounded or not (fused), added in any order *)
Definition product (u h : R) n (x z : vec) (y : R) :=
  exists xz, (forall j, (j < n)%nat -> fl u h (x j * z j) (xz j)) /\ summed u h n xz y.
(* ---- a row of softmax: blocks of keys with a maximum each, joined in any order ---- *)
(* meet m a b: what a and b hold is brought to the shift m and added; weigh m j: key j alone, with the shift m *)
Inductive plan := weigh (m : R) (j : nat) | meet (m : R) (a b : plan).
Definition shift (p : plan) := match p with weigh m _ => m | meet m _ _ => m end.
Fixpoint keys (p : plan) : list nat := match p with weigh _ j => j :: nil | meet _ a b => keys a ++ keys b end.
(* shifts never go down on the way to the end, and none is more than tau below a key's own logit: tau = 0, or the
   threshold up to which a kernel leaves its shift where it is (lazy rescaling) *)
Fixpoint climbing (tau : R) (s : vec) (p : plan) : Prop := match p with
  | weigh m j => s j <= m + tau
  | meet m a b => climbing tau s a /\ climbing tau s b /\ shift a <= m /\ shift b <= m end.
(* F a b: the computed exponential of a - b; the difference, perhaps times log2(e), in two roundings, exp within e u and
   what underflow loses, hx: exp may end at 0, or at some number above it *)
Definition exponential (u e hx : R) (F : R -> R -> R) := (forall a, F a a = 1) /\
  forall a b, exists x, Rabs (x - (a - b)) <= 2 * u * Rabs (a - b) /\ fl (e * u) hx (exp x) (F a b).
(* what is brought to another shift is multiplied and rounded; to the same one, left as it is *)
Definition rescaled (u h : R) F (from to y z : R) := (from = to /\ z = y) \/ fl u h (y * F from to) z.
(* y is the running sum at the end; `one j g y`: what key j, of weight g, adds *)
Fixpoint carried (u h : R) (F : R -> R -> R) (s : vec) (one : nat -> R -> R -> Prop) (p : plan) (y : R) : Prop :=
  match p with
  | weigh m j => one j (F (s j) m) y
  | meet m a b => exists ya yb za zb, carried u h F s one a ya /\ carried u h F s one b yb /\
      rescaled u h F (shift a) m ya za /\ rescaled u h F (shift b) m yb zb /\ rounded u (za + zb) y end.
(* the row sum adds the weights; the output adds weight times value, the weight perhaps stored in 16 bits (or w = 0) *)
Definition own_weight (j : nat) (g y : R) := y = g.
Definition times_value (u h w hw : R) (v : vec) (j : nat) (g y : R) := exists q, fl w hw g q /\ fl u h (q * v j) y.
(* the product of all exponentials that key j meets, and how many there are beyond the first *)
Fixpoint weight (F : R -> R -> R) (s : vec) (p : plan) (j : nat) : R := match p with
  | weigh m i => if Nat.eqb i j then F (s i) m else 0
  | meet m a b => weight F s a j * F (shift a) m + weight F s b j * F (shift b) m end.
Fixpoint changes (p : plan) (j : nat) : nat := match p with
  | weigh _ _ => O
  | meet m a b => let over c := if existsb (Nat.eqb j) (keys c)
                                then (changes c j + if Req_EM_T (shift c) m then 0 else 1)%nat else O in
                  (over a + over b)%nat end.
(* the same without rounding *)
Fixpoint unrounded (s x : vec) (p : plan) : R := match p with
  | weigh m j => exp (s j - m) * x j
  | meet m a b => unrounded s x a * exp (shift a - m) + unrounded s x b * exp (shift b - m) end.
(* ---- softmax over n keys, log sum exp, the mean of v ---- *)
Definition prob n (s : vec) : vec := fun j => exp (s j) / rsum n (fun i => exp (s i)).
Definition lse n (s : vec) := ln (rsum n (fun i => exp (s i))).
Definition output n (s v : vec) := rsum n (fun j => prob n s j * v j).
(* the computed logits sh are off by at most a, a by at most amax; top is at least every logit *)
Definition logits_off n (s sh a : vec) (amax top : R) :=
  forall j, (j < n)%nat -> Rabs (sh j - s j) <= a j /\ a j <= amax /\ s j <= top.
(* e_j of docs/kernels.md: by what an exponential may be off, relatively, after changes j changes of the shift *)
Definition exponent (u e tau top amax : R) (s a : vec) (changes : nat -> nat) : vec := fun j =>
  exp (a j + 2 * u * (top - s j + a j + amax + 2 * tau)) * grow (e * u) (S (changes j)) - 1.
(* what is left of the row sum at least; what a weight may grow to; errors of weights seen in the output *)
Definition remaining n (p E : vec) := 1 - rsum n (fun j => p j * E j).
Definition grown n (p E : vec) : vec := fun j => p j * (1 + E j) / remaining n p E.
Definition centred n (p E v : vec) (o : R) := rsum n (fun j => p j * E j * Rabs (v j - o)) / remaining n p E.
(* G: what all terms share; c_j: what the term of key j has of its own; the bound of the output *)
Definition output_bound n (p E v c : vec) (G o : R) :=
  G * (centred n p E v o + rsum n (fun j => grown n p E j * c j * Rabs (v j))) + (G - 1) * Rabs o.
(* A / l, or A times the reciprocal *)
Definition divided (u h A l y : R) := fl u h (A / l) y \/ exists r, rounded u (/ l) r /\ fl u h (A * r) y.
(* ---- further roundings of a result: stored, scaled, stored again when blocks or heads are joined ---- *)
Fixpoint rounded_times (u h : R) (k : nat) (x y : R) : Prop :=
  match k with O => y = x | S k => exists z, rounded_times u h k x z /\ fl u h z y end.
Definition settled u j w k x y := exists z, rounded_times u 0 j x z /\ rounded_times w 0 k z y.
(* one row: computed logits, exponentials, and the row sum of a plan *)
Definition row n (u e hx tau : R) F (s sh a : vec) amax top (count : nat -> nat) (p : plan) := 0 <= u < 1 /\
  0 <= e * u < 1 /\ (0 < n)%nat /\ exponential u e hx F /\ logits_off n s sh a amax top /\ each_once n (keys p) /\
  climbing tau sh p /\ shift p <= top + amax /\ 0 <= tau /\ forall j, (j < n)%nat -> (changes p j <= count j)%nat.
(* ---- what underflow takes ---- *)
(* of a sum of weights times x_j: hx of each exponential, hw of a weight that is stored, h of each product; all of it
   may grow on the way to the end *)
Definition lost n (u e hx tau h w hw : R) (count : nat -> nat) (x : vec) :=
  exp ((1 + 2 * u) * tau) * (1 + w) * ((1 + u) ^ 2 * (1 + e * u + hx)) ^ n *
  (rsum n (fun j => (INR (S (count j)) * hx + hw) * Rabs (x j)) + INR (3 * n) * h).
(* what the reciprocal of the row sum is at most, and what share of the row sum is lost *)
Definition reciprocal n u amax top (s p E : vec) := grow u (2 * (n - 1)) * exp (top + amax - lse n s) / remaining n p E.
Definition lost_share n u e hx tau h amax top count (s p E : vec) :=
  lost n u e hx tau h 0 0 count (fun _ => 1) * reciprocal n u amax top s p E.
(* ---- running maxima of neighbours: every shift is a logit of a range that grows, lo <= i < hi, and at most tau below
   the largest of it; where it changes, by more than tau ---- *)
Definition largest (tau : R) (s : vec) (lo hi : nat) (m : R) := (forall i, (lo <= i < hi)%nat -> s i <= m + tau) /\
  exists i, (lo <= i < hi)%nat /\ s i = m.
Fixpoint running (tau : R) (s : vec) (p : plan) (lo hi : nat) : Prop := match p with
  | weigh m j => (lo <= j < hi)%nat /\ largest tau s lo hi m
  | meet m a b => largest tau s lo hi m /\
      (exists l h, (lo <= l)%nat /\ (h <= hi)%nat /\ running tau s a l h /\ (shift a = m \/ shift a + tau < m)) /\
      exists l h, (lo <= l)%nat /\ (h <= hi)%nat /\ running tau s b l h /\ (shift b = m \/ shift b + tau < m) end.
(* how often the largest so far changes on a way, from `best` on; R: on the ways from key j to the right and the left *)
Fixpoint records (s : vec) (way : list nat) (best : R) : nat := match way with
  | nil => O
  | i :: way => if Rlt_dec best (s i) then S (records s way (s i)) else records s way best end.
Definition both_ways n (s : vec) (j : nat) :=
  (records s (seq (S j) (n - S j)) (s j) + records s (rev (seq 0 j)) (s j))%nat.
(* ---- any blocks in any order: each shift is a logit of a key; where it changes, by more than tau ---- *)
Fixpoint raised n (tau : R) (s : vec) (p : plan) : Prop := match p with
  | weigh m j => True
  | meet m a b => raised n tau s a /\ raised n tau s b /\ (shift a = m \/ shift a + tau < m) /\
      (shift b = m \/ shift b + tau < m) /\ exists i, (i < n)%nat /\ s i = m end.
(* how many computed logits may be larger than that of key j, where they are off by a *)
Definition larger n (s a : vec) (j : nat) :=
  length (filter (fun i => if Rlt_dec (s j - a j) (s i + a i) then negb (Nat.eqb i j) else false) (seq 0 n)).
(* IEEE numbers of `prec` binary digits, the smallest 2^emin, subnormal ones included, and none too large: float32 is
   24, -149, float64 53, -1074.  Rounding to nearest, ties to even. *)
Definition format prec emin (x : R) := generic_format radix2 (FLT_exp emin prec) x.
Definition ieee prec emin (x : R) := round radix2 (FLT_exp emin prec) ZnearestE x.
Module Statement.
(* the operations are those of IEEE, as long as nothing overflows: with the term of underflow; without it where the
   result is normal, and for every sum *)
Definition ieee_rounds := forall prec emin x, (0 < prec)%Z ->
  fl (bpow radix2 (- prec)) (bpow radix2 (emin - 1)) x (ieee prec emin x).
Definition ieee_normal := forall prec emin x, (0 < prec)%Z -> bpow radix2 (emin + prec - 1) <= Rabs x ->
  rounded (bpow radix2 (- prec)) x (ieee prec emin x).
Definition ieee_adds := forall prec emin x y, (0 < prec)%Z -> format prec emin x -> format prec emin y ->
  rounded (bpow radix2 (- prec)) (x + y) (ieee prec emin (x + y)).
(* the order of additions does not matter to this bound *)
Definition sum_error := forall n u h x y, 0 <= u < 1 -> 0 <= h -> summed u h n x y ->
  Rabs (y - rsum n x) <= (grow u (n - 1) - 1) * rsum n (fun j => Rabs (x j)) + grow u (n - 1) * INR (n - 1) * h.
Definition product_error := forall n u h x xh eps z y, 0 <= u < 1 -> 0 <= h ->
  (forall j, (j < n)%nat -> Rabs (xh j - x j) <= eps j) -> product u h n xh z y ->
  Rabs (y - rsum n (fun j => x j * z j)) <= rsum n (fun j => eps j * Rabs (z j)) +
    (grow u n - 1) * rsum n (fun j => (Rabs (x j) + eps j) * Rabs (z j)) + grow u n * INR (2 * n) * h.
Definition grow_gamma := forall u k, 0 <= u < 1 -> INR k * u < 1 -> grow u k <= 1 + gamma u k.
(* online softmax, any blocks in any order with any shifts, is softmax *)
Definition online_exact := forall n s v p, each_once n (keys p) ->
  unrounded s v p = exp (- shift p) * rsum n (fun j => exp (s j) * v j) /\
  ((0 < n)%nat -> unrounded s v p / unrounded s (fun _ => 1) p = output n s v).
(* k parts with outputs and logs of sums of their own, joined like keys whose logits are the logs *)
Definition joined_exact := forall k (n : nat -> nat) (s v : nat -> vec), (0 < k)%nat ->
  (forall i, (i < k)%nat -> (0 < n i)%nat) ->
  let Z := rsum k (fun i => rsum (n i) (fun j => exp (s i j))) in
  lse k (fun i => lse (n i) (s i)) = ln Z /\ output k (fun i => lse (n i) (s i)) (fun i => output (n i) (s i) (v i)) =
  rsum k (fun i => rsum (n i) (fun j => exp (s i j) * v i j)) / Z.
(* a logit x through a cap f, which moves nothing further apart, and a bias added to it; both within their roundings *)
Definition score_error := forall u h k f x xh eps y b bh beta z, 0 <= u -> 0 <= h -> 0 <= k ->
  (forall p q, Rabs (f p - f q) <= Rabs (p - q)) -> Rabs (xh - x) <= eps -> Rabs (bh - b) <= beta ->
  fl (k * u) h (f xh) y -> rounded u (y + bh) z ->
  Rabs (z - (f x + b)) <= (1 + u) * (eps + k * u * (Rabs (f x) + eps) + h + beta) + u * Rabs (f x + b).
(* two parts x and z, of weights 1 - p and p, joined as x - q (x - z), q off by rho: the difference, the product and the
   last subtraction rounded; the errors of both weights are opposite, and meet x - z *)
Definition merge_error := forall u rho p q x z d g y, 0 <= u -> Rabs (q - p) <= rho -> rounded u (x - z) d ->
  rounded u (q * d) g -> rounded u (x - g) y -> Rabs (y - ((1 - p) * x + p * z)) <=
  (1 + u) * (rho + (2 * u + u ^ 2) * (Rabs p + rho)) * Rabs (x - z) + u * Rabs ((1 - p) * x + p * z).
(* however neighbours are joined, key j meets no more changes than records on its way to the right and to the left *)
Definition changes_at_most_records := forall n tau s p j, 0 <= tau -> running tau s p 0 n -> NoDup (keys p) ->
  In j (keys p) -> (changes p j <= both_ways n s j)%nat.
(* in any order: no more changes than there are other keys whose computed logit may be larger, by exact logits s *)
Definition changes_at_most_larger := forall n tau s sh a p j, 0 <= tau ->
  (forall i, (i < n)%nat -> Rabs (sh i - s i) <= a i) -> climbing tau sh p -> raised n tau sh p -> NoDup (keys p) ->
  In j (keys p) -> (j < n)%nat -> (changes p j <= larger n s a j)%nat.
(* the output, divided by the row sum at the end; the row sum may be added in another order, pl; values are off by eps.
   What underflow takes vanishes with hx = h = hw = 0.  Parts are joined by the same rule: joined_exact *)
Definition output_error := forall n u e hx tau h w hw F s sh a amax top count pl p v vh eps l A y0 y, 0 <= w < 1 ->
  2 * u <= 1 -> 0 <= hx -> 0 <= h -> 0 <= hw -> row n u e hx tau F s sh a amax top count p ->
  row n u e hx tau F s sh a amax top count pl ->
  (forall H, (forall x, H x x = 1) -> forall j, (j < n)%nat -> weight H sh pl j = weight H sh p j) ->
  (forall j, (j < n)%nat -> Rabs (vh j - v j) <= eps j) ->
  carried u h F sh own_weight pl l -> carried u h F sh (times_value u h w hw vh) p A -> divided u h A l y0 ->
  rounded_times w hw 2 y0 y ->
  let E := exponent u e tau top amax s a count in 0 < remaining n (prob n s) E ->
  let eta := lost_share n u e hx tau h amax top count s (prob n s) E in eta < 1 ->
  let C := grow u (2 * n - 1) * grow w 1 in let G := grow u (2 * n) * grow w 2 / (1 - eta) in
  Rabs (y - output n s v) <= output_bound n (prob n s) E v (fun _ => C - 1) G (output n s v) +
    G * rsum n (fun j => grown n (prob n s) E j * C * eps j) + (1 + w) ^ 2 * ((1 + u) ^ 2 *
    (lost n u e hx tau h w hw count (fun j => Rabs (v j) + eps j) *
      reciprocal n u amax top s (prob n s) E / (1 - eta)) + h) + (2 + w) * hw.
(* log sum exp: log within k units; top is the largest logit *)
Definition lse_error := forall n u e hx tau h k F s sh a amax top count p l g y, 2 * u <= 1 -> 0 <= hx -> 0 <= h ->
  row n u e hx tau F s sh a amax top count p -> 0 <= k -> (exists i, (i < n)%nat /\ s i = top) ->
  carried u h F sh own_weight p l -> Rabs (g - ln l) <= k * u * Rabs (ln l) -> rounded u (shift p + g) y ->
  let E := exponent u e tau top amax s a count in 0 < remaining n (prob n s) E ->
  let eta := lost_share n u e hx tau h amax top count s (prob n s) E in eta < 1 ->
  let B := ln (grow u (2 * (n - 1)) / remaining n (prob n s) E / (1 - eta)) in
  let B' := B + k * u * (lse n s - top + amax + tau + B) in
  Rabs (y - lse n s) <= B' + u * (Rabs (lse n s) + B').
(* a weight computed anew, from logits of its own: divided by the row sum, or as exp(s - log sum exp) *)
Definition weight_divided := forall n u e tau w F F' s sh sh' a amax top count p l q y j, 0 <= w < 1 ->
  row n u e 0 tau F s sh a amax top count p -> carried u 0 F sh own_weight p l -> exponential u e 0 F' ->
  logits_off n s sh' a amax top -> (forall i, (i < n)%nat -> sh' i <= shift p + tau) -> (j < n)%nat ->
  divided u 0 (F' (sh' j) (shift p)) l q -> rounded w q y -> let E := exponent u e tau top amax s a count in
  0 < remaining n (prob n s) E -> Rabs (y - prob n s j) <=
  prob n s j * ((1 + E j) / remaining n (prob n s) E * (grow u (2 * n) * grow w 1) - 1).
Definition weight_of_lse := forall n u e w s a b L x g y j sj, 0 <= w < 1 -> 0 <= u -> 0 <= e * u < 1 -> (j < n)%nat ->
  Rabs (sj - s j) <= a -> Rabs (L - lse n s) <= b -> Rabs (x - (sj - L)) <= 2 * u * Rabs (sj - L) ->
  rounded (e * u) (exp x) g -> rounded w g y -> Rabs (y - prob n s j) <= prob n s j *
  (exp (a + b + 2 * u * (lse n s - s j + a + b)) * (grow (e * u) 1 * grow w 1) - 1).
(* what such a weight is at most, however small the sum may have come out: its logit was sh in L, and is sj now *)
Definition weight_of_lse_at_most := forall n u e hx w hw s sh a b L x g y j sj, 0 <= w < 1 -> 0 <= u -> 2 * u <= 1 ->
  0 <= e * u < 1 -> 0 <= hx -> 0 <= b -> (j < n)%nat -> Rabs (sh j - s j) <= a -> Rabs (sj - s j) <= a ->
  lse n sh - b <= L -> Rabs (x - (sj - L)) <= 2 * u * Rabs (sj - L) -> fl (e * u) hx (exp x) g -> fl w hw g y ->
  y <= (exp ((1 + 2 * u) * (2 * a + b)) * (1 + e * u) + hx) * (1 + w) + hw.
(* the output from weights that are divided first, or are exp(s - L); L is off by b for the computed logits *)
Definition output_divided_first := forall n u e tau w F s sh a amax top count p v l q y0 y, 0 <= w < 1 ->
  row n u e 0 tau F s sh a amax top count p -> carried u 0 F sh own_weight p l ->
  (forall j, (j < n)%nat -> exists z, divided u 0 (weight F sh p j) l z /\ rounded w z (q j)) ->
  product u 0 n q v y0 -> rounded_times w 0 2 y0 y ->
  let E := exponent u e tau top amax s a count in 0 < remaining n (prob n s) E ->
  Rabs (y - output n s v) <= output_bound n (prob n s) E v (fun _ => grow u (n + 2) * grow w 1 - 1)
    (grow u (2 * (n - 1)) * grow w 2) (output n s v).
Definition output_of_lse := forall n u e w b s sh a v L q y0 y,
  0 <= u < 1 -> 0 <= e * u < 1 -> 0 <= w < 1 -> (0 < n)%nat ->
  (forall j, (j < n)%nat -> Rabs (sh j - s j) <= a j) -> Rabs (L - lse n sh) <= b ->
  (forall j, (j < n)%nat -> exists x z, Rabs (x - (sh j - L)) <= 2 * u * Rabs (sh j - L) /\
    rounded (e * u) (exp x) z /\ rounded w z (q j)) ->
  product u 0 n q v y0 -> rounded_times w 0 2 y0 y ->
  let E := fun j => exp (a j) - 1 in 0 < remaining n (prob n s) E -> Rabs (y - output n s v) <=
  output_bound n (prob n s) E v
    (fun j => exp (2 * u * (lse n sh - sh j + b)) * (grow (e * u) 1 * grow u n * grow w 1) - 1)
    (exp b * grow w 2) (output n s v).
(* D from its terms is an output whose values dP are off by eps; D = dO o^T, and dP = dO V^T, are products *)
Definition mean_of_terms := forall n p t r v vh eps tau c d D y, (forall j, (j < n)%nat -> 0 <= p j) -> rsum n p = 1 ->
  (forall j, (j < n)%nat -> Rabs (t j) <= r j /\ Rabs (tau j) <= c j /\ Rabs (vh j - v j) <= eps j) -> Rabs d <= D ->
  y = exp d * rsum n (fun j => p j * exp (t j) / rsum n (fun i => p i * exp (t i)) * exp (tau j) * vh j) ->
  let E := fun j => exp (r j) - 1 in let o := rsum n (fun j => p j * v j) in 0 < remaining n p E ->
  Rabs (y - o) <= output_bound n p E v (fun j => exp (c j) - 1) (exp D) o +
    exp D * rsum n (fun j => grown n p E j * exp (c j) * eps j).
(* dS = P (dP - D), the difference, the product and three storings rounded; rho: relative error of the weight *)
Definition logit_gradient_error := forall u w p ph rho dp dph eps D Dh eta x z y, 0 <= u < 1 -> 0 <= w < 1 -> 0 <= p ->
  Rabs (ph - p) <= p * rho -> Rabs (dph - dp) <= eps -> Rabs (Dh - D) <= eta -> rounded u (dph - Dh) x ->
  rounded w x z -> settled u 1 w 2 (ph * z) y -> let K := (1 + rho) * (grow u 2 * grow w 3) in
  Rabs (y - p * (dp - D)) <= K * p * (eps + eta) + (K - 1) * Rabs (p * (dp - D)).
(* dQ, dK and dV: a sum of n products, a factor, and j + k further roundings *)
Definition gradient_error := forall n u h w j k c x xh eps z y0 y, 0 <= u < 1 -> 0 <= h -> 0 <= w < 1 ->
  (forall i, (i < n)%nat -> Rabs (xh i - x i) <= eps i) -> product u h n xh z y0 -> settled u j w k (c * y0) y ->
  let K := grow u j * grow w k in let g := rsum n (fun i => x i * z i) in Rabs (y - c * g) <=
  K * Rabs c * (rsum n (fun i => eps i * Rabs (z i)) +
    (grow u n - 1) * rsum n (fun i => (Rabs (x i) + eps i) * Rabs (z i)) + grow u n * INR (2 * n) * h) +
  (K - 1) * Rabs (c * g).
(* the hypotheses are met, in bfloat16 with sums in float32 and exp off by 64 units, by a row whose shift changes, stays
   below a logit, and leaves nothing of a weight *)
Definition hypotheses_met := let u := bpow radix2 (- 24) in let w := bpow radix2 (- 8) in let h := bpow radix2 (- 149)
  in let hx := exp (- 99) in exists F s sh a p v l A y0 y, row 2 u 64 hx 1 F s sh a 0 100 (changes p) p /\ changes p 0
  = 1%nat /\ weight F sh p 0 = 0 /\ shift p < sh 1%nat /\ carried u h F sh own_weight p l /\ carried u h F sh
  (times_value u h w h v) p A /\ divided u h A l y0 /\ rounded_times w h 2 y0 y /\ let E := exponent u 64 1 100 0 s a
  (changes p) in 0 < remaining 2 (prob 2 s) E /\ lost_share 2 u 64 hx 1 h 0 100 (changes p) s (prob 2 s) E < 1.
End Statement.
End Rounding.
