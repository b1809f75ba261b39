(* The paper's two main statements as propositions about the TRUE derivative of the loss,
   with their hypotheses and with the reading of the mask and of delta as parameters.   *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model.
Open Scope R_scope.

(* X X^T >= beta I:  beta ||v||^2 <= ||v X||^2 for every row vector v *)
Definition gram_ge n d (X : mat) beta := forall v : nat -> R,
  beta * rsum n (fun i => v i * v i)
  <= rsum d (fun a => rsum n (fun i => v i * X i a) * rsum n (fun i => v i * X i a)).

(* m = min |W_ij|, m = max |W_ij| *)
Definition is_min m d (W : mat) :=
  (forall i j, (i < d)%nat -> (j < d)%nat -> m <= Rabs (W i j)) /\
  exists i j, (i < d)%nat /\ (j < d)%nat /\ Rabs (W i j) = m.
Definition is_max m d (W : mat) :=
  (forall i j, (i < d)%nat -> (j < d)%nat -> Rabs (W i j) <= m) /\
  exists i j, (i < d)%nat /\ (j < d)%nat /\ Rabs (W i j) = m.

(* M in [0,1]^{d x d} *)
Definition box d (M : mat) :=
  forall i j, (i < d)%nat -> (j < d)%nat -> 0 <= M i j <= 1.

(* delta bounds every entry (as printed), or the entries at allowed positions *)
Definition delta_all (Mc : mat) n (F : mat) delta :=
  forall i j, (i < n)%nat -> (j < n)%nat -> delta <= F i j.
Definition delta_allowed (Mc : mat) n (F : mat) delta :=
  forall i j, (i < n)%nat -> (j < n)%nat -> Mc i j = 1 -> delta <= F i j.

(* mu as printed, and with the three missing squares *)
Definition mu_paper wmin beta delta := 2 * wmin * beta * delta.
Definition mu_corrected wmin beta delta := 2 * ((wmin * beta * delta) * (wmin * beta * delta)).

Definition xi_PL n d X wmax lam mu := 12 * sqrt (INR n) * wmax * nsq n d X * lam * INR d / mu.

(* ||G||^2 >= mu/2 ( ||c||^2 + 2 lam^2/mu ||M||^2 - xi ) *)
Definition PL_inequality n d X W Mc M lam wmax mu (G : mat) :=
  nsq d d G >= / 2 * mu * (nsq n n (c n d X W Mc M) + 2 * lam * lam / mu * nsq d d M
                           - xi_PL n d X wmax lam mu).

(* lem:PL_ineq for the mask Mc, the reading delta_ok of delta, the constant mu_of and the
   regularisers lam_ok.  G is ANY matrix of partial derivatives of the loss.  min|W| > 0
   is asked for, since the paper divides by mu. *)
Definition PL_ineq (Mc : mat) (delta_ok : nat -> mat -> R -> Prop) (mu_of : R -> R -> R -> R)
    (lam_ok : R -> Prop) : Prop :=
  forall n d X W M lam beta delta wmin wmax G,
  (0 < n)%nat -> (0 < d)%nat ->
  box d M -> 0 <= lam <= 1 -> lam_ok lam -> 0 < beta -> 0 < delta ->
  gram_ge n d X beta -> delta_ok n (f n d X Mc (had M W)) delta ->
  0 < wmin -> is_min wmin d W -> is_max wmax d W ->
  (forall a b, (a < d)%nat -> (b < d)%nat ->
      is_derive (fun t => L n d X W Mc lam (upd M a b t)) (M a b) (G a b)) ->
  PL_inequality n d X W Mc M lam wmax (mu_of wmin beta delta) G.

(* thm:our_convergence's guarantee at one iterate M:
   (1/n^2) Lattn(M) + lam^2/(mu n^2) ||M||^2 <= (xi + eps)/2,
   xi = 12 n^{-3/2} max|W| ||X||^2 lam d / mu *)
Definition xi_theorem n d X wmax lam mu :=
  12 / (INR n * sqrt (INR n)) * wmax * nsq n d X * lam * INR d / mu.
Definition guarantee n d X W Mc lam wmax mu eps M :=
  Lattn n d X W Mc M / (INR n * INR n) + lam * lam / (mu * (INR n * INR n)) * nsq d d M
  <= (xi_theorem n d X wmax lam mu + eps) / 2.
