(* fix:PL_ineq: the corrected form of lem:PL_ineq, over an arbitrary real closed field.

   The paper claims, with mu = 2 min|W| beta delta,
     ||grad L(M)||_F^2 >= mu/2 ( ||c||_F^2 + 2 lambda^2/mu ||M||_F^2 - xi ),
     xi = 12 sqrt(n) max|W| ||X||_F^2 lambda d / mu.
   Its steps 3, 4 and 5 each use a bound on a norm as if it were a bound on the squared
   norm.  With the three squares restored the lemma holds with
     mu = 2 (min|W| beta delta)^2
   and an otherwise unchanged statement.  analysis/PLRefuted.v refutes the printed mu.

   F = f~(M) and F0 = f are any row-stochastic matrices here, so nothing about exp
   enters; analysis/PLTrueGradient.v joins the lemma to the derivative of the loss.

   Reading of the mask: *_masked takes delta over the allowed positions S only.        *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix ring.
From AttnPrune Require Import Trusted.
From AttnPrune.algebra Require Import Frobenius Sandwich HadamardBounds BPlusM RowBounds.
From AttnPrune.algebra Require Import AttentionBounds.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory Algebra.
Local Open Scope ring_scope.

Section PLCorrected.
Variable R : rcfType.

(* The second display of the paper's proof:
   ||W o (X^T p X)||_F <= 3 sqrt(n) max|W| ||X||_F^2. *)
Lemma attention_gradient_upper n d (X : 'M[R]_(n, d)) (W : 'M[R]_d) (F F0 : 'M[R]_n) (wmax : R) :
  row_stochastic F -> row_stochastic F0 -> 0 <= wmax -> (forall i j, `|W i j| <= wmax) ->
  normF (attention_gradient X W F F0) <= wmax * (normF2 X * (3%:R * Num.sqrt n%:R)).
Proof.
move=> sF sF0 w0 Wmax; apply: le_trans (upper_bound_hadamard _ w0 Wmax) _; apply: ler_wpmul2l => //.
apply: le_trans (norm_bound_product _ _) _.
apply: le_trans (ler_wpmul2r (normF_ge0 _) (norm_bound_product _ _)) _.
rewrite norm_bound_transpose mulrAC -expr2 normF_sq; apply: (ler_wpmul2l (normF2_ge0 _)).
exact: bound_p.
Qed.

(* The corrected chain of steps 3, 4, 5, on norms:
   ||W o (X^T p X)||_F >= min|W| beta delta ||c||_F.  No lambda, no bound on M. *)
Theorem attention_gradient_lower_masked n d (S : 'I_n -> pred 'I_n) (X : 'M[R]_(n, d)) (W : 'M[R]_d)
    (F F0 : 'M[R]_n) (beta delta wmin : R) :
  0 <= beta -> psd_ge (X *m X^T) beta -> row_stochastic F -> row_stochastic F0 ->
  0 <= delta -> (forall i j, S i j -> delta <= F i j) ->
  (forall i j, ~~ S i j -> F i j = 0) -> (forall i j, ~~ S i j -> F0 i j = 0) ->
  0 <= wmin -> (forall i j, wmin <= `|W i j|) ->
  wmin * beta * delta * normF (F - F0) <= normF (attention_gradient X W F F0).
Proof.
move=> b0 P sF sF0 d0 Fd FS F0S w0 Wmin.
have sC : (F - F0) *m ones R n 1 = 0 by rewrite mulmxBl (proj1 sF) (proj1 sF0) subrr.
have CS i j : ~~ S i j -> (F - F0) i j = 0 by move=> h; rewrite !mxE FS // F0S // subrr.
apply: le_trans (lower_bound_hadamard _ w0 Wmin); rewrite -!mulrA; apply: ler_wpmul2l => //.
apply: le_trans (lower_bound_XBX _ P); apply: ler_wpmul2l => //.
exact: lower_bound_p_masked Fd CS.
Qed.

(* ---- the corrected lemma, undivided: no mu in a denominator, so beta = 0, delta = 0
   and min|W| = 0 are allowed ---- *)
Theorem PL_corrected_masked n d (S : 'I_n -> pred 'I_n) (X : 'M[R]_(n, d)) (W M : 'M[R]_d)
    (F F0 : 'M[R]_n) (lam beta delta wmin wmax : R) :
  0 <= lam -> normF M <= d%:R ->
  0 <= beta -> psd_ge (X *m X^T) beta -> row_stochastic F -> row_stochastic F0 ->
  0 <= delta -> (forall i j, S i j -> delta <= F i j) ->
  (forall i j, ~~ S i j -> F i j = 0) -> (forall i j, ~~ S i j -> F0 i j = 0) ->
  0 <= wmin -> 0 <= wmax -> (forall i j, wmin <= `|W i j| <= wmax) ->
  (wmin * beta * delta) ^+ 2 * normF2 (F - F0) + lam ^+ 2 * normF2 M
    - 6%:R * Num.sqrt n%:R * wmax * normF2 X * lam * d%:R
  <= normF2 (gradient X W M F F0 lam).
Proof.
move=> l0 Md b0 P sF sF0 d0 Fd FS F0S w0 w1 Wb.
have Wmin i j : wmin <= `|W i j| by case/andP: (Wb i j).
have Wmax i j : `|W i j| <= wmax by case/andP: (Wb i j).
have up := attention_gradient_upper X sF sF0 w1 Wmax.
apply: le_trans (lower_bound_B_plus_M_ball l0 Md up).
have -> : 2%:R * (wmax * (normF2 X * (3%:R * Num.sqrt n%:R))) * lam * d%:R
        = 6%:R * Num.sqrt n%:R * wmax * normF2 X * lam * d%:R by ring.
rewrite !ler_add2r.
have low := attention_gradient_lower_masked b0 P sF sF0 d0 Fd FS F0S w0 Wmin.
rewrite -normF_sq -exprMn -[X in _ <= X]normF_sq ler_sqr ?nnegrE ?normF_ge0 //.
by rewrite !mulr_ge0 ?normF_ge0.
Qed.

(* as printed: M in the box, delta a lower bound of every entry *)
Lemma PL_corrected n d (X : 'M[R]_(n, d)) (W M : 'M[R]_d) (F F0 : 'M[R]_n)
    (lam beta delta wmin wmax : R) :
  0 <= lam -> (forall i j, 0 <= M i j <= 1) ->
  0 <= beta -> psd_ge (X *m X^T) beta -> row_stochastic F -> row_stochastic F0 ->
  0 <= delta -> (forall i j, delta <= F i j) ->
  0 <= wmin -> 0 <= wmax -> (forall i j, wmin <= `|W i j| <= wmax) ->
  (wmin * beta * delta) ^+ 2 * normF2 (F - F0) + lam ^+ 2 * normF2 M
    - 6%:R * Num.sqrt n%:R * wmax * normF2 X * lam * d%:R
  <= normF2 (gradient X W M F F0 lam).
Proof.
move=> l0 M01 b0 P sF sF0 d0 Fd.
exact: (@PL_corrected_masked _ _ (fun=> predT)) (M_bounds M01) _ _ _ _ _ _ _ _.
Qed.

(* ---- the corrected lemma in the paper's own shape, mu = 2 (min|W| beta delta)^2 > 0 ---- *)
Definition mu_corrected (wmin beta delta : R) : R := 2%:R * (wmin * beta * delta) ^+ 2.
Definition xi_of (n d : nat) (X : 'M[R]_(n, d)) (wmax lam mu : R) : R :=
  12%:R * Num.sqrt n%:R * wmax * normF2 X * lam * d%:R / mu.
Lemma PL_corrected_masked_mu n d (S : 'I_n -> pred 'I_n) (X : 'M[R]_(n, d)) (W M : 'M[R]_d)
    (F F0 : 'M[R]_n) (lam beta delta wmin wmax : R) :
  0 <= lam -> normF M <= d%:R ->
  0 < beta -> psd_ge (X *m X^T) beta -> row_stochastic F -> row_stochastic F0 ->
  0 < delta -> (forall i j, S i j -> delta <= F i j) ->
  (forall i j, ~~ S i j -> F i j = 0) -> (forall i j, ~~ S i j -> F0 i j = 0) ->
  0 < wmin -> 0 <= wmax -> (forall i j, wmin <= `|W i j| <= wmax) ->
  mu_corrected wmin beta delta / 2%:R
    * (normF2 (F - F0) + 2%:R * lam ^+ 2 / mu_corrected wmin beta delta * normF2 M
       - xi_of X wmax lam (mu_corrected wmin beta delta))
  <= normF2 (gradient X W M F F0 lam).
Proof.
move=> l0 Md b0 P sF sF0 d0 Fd FS F0S w0 w1 Wb.
have := PL_corrected_masked l0 Md (ltW b0) P sF sF0 (ltW d0) Fd FS F0S (ltW w0) w1 Wb.
apply: le_trans; rewrite le_eqVlt; apply/orP; left; apply/eqP.
set mu := mu_corrected wmin beta delta.
have mu0 : mu != 0 by rewrite gt_eqF // mulr_gt0 ?ltr0n // exprn_gt0 // !mulr_gt0.
have -> : (wmin * beta * delta) ^+ 2 = mu / 2%:R by rewrite /mu /mu_corrected; field.
by rewrite /xi_of; move: mu mu0 => mu mu0; field; rewrite mu0.
Qed.

End PLCorrected.

(* ---- as Trusted.v states them ---- *)
Definition checked_attention_gradient_lower_masked R : Statement.attention_gradient_lower_masked R.
Proof. by move=> n d S X W F F0 beta delta wmin b0 P [[sF sF0] off] d0 Fd w0 Wm;
  apply: attention_gradient_lower_masked Fd _ _ _ _ => // i j /off[]. Qed.
Definition checked_PL_corrected_masked R : Statement.PL_corrected_masked R.
Proof. by move=> n d S X W M F F0 lam beta delta wmin wmax l0 Md b0 P [[sF sF0] off] d0 Fd w0 w1 Wb;
  apply: PL_corrected_masked Fd _ _ _ _ _ => // i j /off[]. Qed.
