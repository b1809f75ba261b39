(* L attains its least value for every lam > 0; where lam outweighs C_- K^2, at one point, and descent goes there.

   A function of N numbers that is Lipschitz in each of them on a box has a least value there: one number after the other,
   the least value over the first ones being Lipschitz in the next.  L is such a function of the entries of M, as its
   gradient is bounded by a constant plus lam ||M||; outside of the box |M_ab| <= d it is above L(1) = lam d^2/2.      *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model Gradient RowHessian LipschitzGradient.
From AttnPrune.analysis Require Import LipschitzSharp Descent OnesWitness Confinement PLTrueGradient StrongConvexity.
Open Scope R_scope.

(* x with its entry i replaced by t *)
Definition put (x : vec) i t : vec := fun j => if Nat.eqb j i then t else x j.

Lemma put_same x i t : put x i t i = t.
Proof. unfold put. rewrite Nat.eqb_refl. reflexivity. Qed.

Lemma put_other x i t j : j <> i -> put x i t j = x j.
Proof. intro H. unfold put. rewrite (proj2 (Nat.eqb_neq j i) H). reflexivity. Qed.

(* ---- the least value over a box ---- *)
Section Box.
Variables (F : vec -> R) (B k : R).
Hypothesis HE : forall x y, (forall i, x i = y i) -> F x = F y.
Hypothesis HB : 0 <= B.
Hypothesis Hk : 0 <= k.

(* y is in the box in its first N entries, and x in the others *)
Definition in_box N (x y : vec) := (forall i, (i < N)%nat -> - B <= y i <= B) /\ forall i, (N <= i)%nat -> y i = x i.
Definition least N x v := (exists y, in_box N x y /\ F y = v) /\ forall y, in_box N x y -> v <= F y.
Definition entry_lipschitz N := forall i x s t, (i < N)%nat -> - B <= s <= B -> - B <= t <= B ->
  F (put x i s) <= F (put x i t) + k * Rabs (s - t).

(* a function of the reals that picks what exists and is unique *)
Lemma least_function N (x : R -> vec) : (forall t, exists v, least N (x t) v) ->
  exists v : R -> R, forall t, least N (x t) (v t).
Proof.
  intro H. set (E t := fun z => exists y, in_box N (x t) y /\ z = - F y).
  assert (bounded : forall t, bound (E t)).
  { intro t. destruct (H t) as [v [_ Hv]]. exists (- v). intros z [y [Hy ->]]. specialize (Hv y Hy). lra. }
  assert (some : forall t, exists z, E t z).
  { intro t. destruct (H t) as [v [[y [Hy _]] _]]. exists (- F y), y. auto. }
  exists (fun t => - proj1_sig (completeness (E t) (bounded t) (some t))). intro t.
  destruct (completeness (E t) (bounded t) (some t)) as [w [Up Low]]. simpl.
  destruct (H t) as [v [[y [Hy Ey]] Hv]]. assert (Ew : - w = v); [|rewrite Ew; split; [exists y; auto | exact Hv]].
  assert (w <= - v) by (apply Low; intros z [y' [Hy' ->]]; specialize (Hv y' Hy'); lra).
  assert (- v <= w) by (apply Up; exists y; rewrite Ey; auto). lra.
Qed.

Lemma lipschitz_continuous g : (forall s t, g s <= g t + k * Rabs (s - t)) -> forall t, continuity_pt g t.
Proof.
  intros H t eps Heps. exists (eps / (k + 1)). split; [apply Rdiv_lt_0_compat; lra|].
  intros s [_ D]. unfold dist in *; simpl in *; unfold R_dist in *.
  assert (S : Rabs (g s - g t) <= k * Rabs (s - t)).
  { apply Rabs_le. pose proof (H s t). pose proof (H t s). rewrite Rabs_minus_sym in H1. lra. }
  apply (Rmult_lt_compat_l (k + 1)) in D; [|lra].
  replace ((k + 1) * (eps / (k + 1))) with eps in D by (field; lra). pose proof (Rabs_pos (s - t)). lra.
Qed.

Definition clamp t := Rmax (- B) (Rmin B t).

Lemma clamp_in t : - B <= clamp t <= B.
Proof. unfold clamp, Rmax, Rmin. repeat destruct Rle_dec; lra. Qed.

Lemma clamp_id t : - B <= t <= B -> clamp t = t.
Proof. intro H. unfold clamp, Rmax, Rmin. repeat destruct Rle_dec; lra. Qed.

Lemma clamp_closer s t : Rabs (clamp s - clamp t) <= Rabs (s - t).
Proof. unfold clamp, Rmax, Rmin, Rabs. repeat destruct Rle_dec; repeat destruct Rcase_abs; lra. Qed.

Lemma least_exists N : entry_lipschitz N -> forall x, exists v, least N x v.
Proof.
  induction N as [|N IH]; intros HL x.
  - exists (F x). split; [exists x; split; [split; [intros; lia | reflexivity] | reflexivity]|].
    intros y [_ H]. right. apply HE. intro i. symmetry. apply H. lia.
  - destruct (least_function N (put x N)) as [v Hv].
    { intro t. apply IH. intros i y s t' Hi. apply HL. lia. }
    assert (V : forall s t, - B <= s <= B -> - B <= t <= B -> v s <= v t + k * Rabs (s - t)).
    { intros s t Bs Bt. destruct (Hv t) as [[y [[Hy Ty] Ey]] _]. destruct (Hv s) as [_ Ls].
      apply Rle_trans with (F (put y N s)).
      - apply Ls. split; intros i Hi.
        + rewrite put_other by lia. apply Hy, Hi.
        + destruct (Nat.eq_dec i N) as [-> | Ne]; [rewrite !put_same; reflexivity|].
          rewrite !put_other by exact Ne. rewrite Ty, put_other by (exact Hi || exact Ne). reflexivity.
      - rewrite <- Ey. eapply Rle_trans; [apply HL; [lia | exact Bs | exact Bt]|]. apply Req_le. f_equal.
        apply HE. intro i. destruct (Nat.eq_dec i N) as [-> | Ne]; [|apply put_other, Ne].
        rewrite put_same, Ty, put_same by lia. reflexivity. }
    destruct (continuity_ab_min (fun t => v (clamp t)) (- B) B) as [t [Low Ht]]; [lra| |].
    { intros t _. apply lipschitz_continuous. intros s t'. cbv beta. eapply Rle_trans; [apply (V _ (clamp t')); apply clamp_in|].
      pose proof (Rmult_le_compat_l k _ _ Hk (clamp_closer s t')). lra. }
    rewrite (clamp_id t Ht) in Low. exists (v t). destruct (Hv t) as [[y [[Hy Ty] Ey]] _]. split.
    + exists y. split; [|exact Ey]. split; intros i Hi.
      * destruct (Nat.eq_dec i N) as [-> | Ne]; [rewrite Ty, put_same by lia; exact Ht | apply Hy; lia].
      * rewrite Ty, put_other by lia. reflexivity.
    + intros z [Hz Tz]. assert (Bz : - B <= z N <= B) by (apply Hz; lia).
      apply Rle_trans with (v (z N)); [rewrite <- (clamp_id (z N) Bz); apply Low, Bz|].
      apply (Hv (z N)). split; intros i Hi; [apply Hz; lia|].
      destruct (Nat.eq_dec i N) as [-> | Ne]; [rewrite put_same | rewrite put_other by exact Ne; apply Tz; lia].
      reflexivity.
Qed.
End Box.

(* ---- a d x d matrix as a vector ---- *)
Definition rows_of d (x : vec) : mat := fun i j => x (i * d + j)%nat.
Definition flat d (M : mat) : vec := fun k => M (k / d)%nat (k mod d)%nat.

Lemma rows_of_flat d M i j : (j < d)%nat -> rows_of d (flat d M) i j = M i j.
Proof.
  intro H. unfold rows_of, flat. rewrite (Nat.add_comm (i * d)), Nat.div_add, Nat.mod_add by lia.
  rewrite Nat.div_small, Nat.mod_small by exact H. reflexivity.
Qed.

Lemma rows_of_put d x k t i j : (j < d)%nat ->
  rows_of d (put x k t) i j = upd (rows_of d x) (k / d)%nat (k mod d)%nat t i j.
Proof.
  intro H. unfold rows_of, upd, put. assert (d <> 0)%nat by lia.
  destruct (Nat.eqb_spec (i * d + j) k) as [<- | Ne].
  - rewrite (Nat.add_comm (i * d)), Nat.div_add, Nat.mod_add by lia.
    rewrite Nat.div_small, Nat.mod_small, !Nat.eqb_refl by exact H. reflexivity.
  - destruct (Nat.eqb_spec i (k / d)) as [-> |]; [|reflexivity].
    destruct (Nat.eqb_spec j (k mod d)) as [-> |]; [|reflexivity].
    destruct Ne. rewrite (Nat.mul_comm _ d), <- Nat.div_mod by assumption. reflexivity.
Qed.

Section Loss.
Variables (n d : nat) (X W Mc : mat) (lam : R).
Hypothesis HMc : valid_mask n Mc.
Hypothesis Hlam : 0 < lam.
Notation L := (L n d X W Mc lam).
Notation grad := (grad n d X W Mc lam).

Lemma nF_entry M a b : (a < d)%nat -> (b < d)%nat -> Rabs (M a b) <= nF d d M.
Proof.
  intros Ha Hb. apply Rabs_le_of_sqr; [apply nF_nonneg|]. rewrite nF_sq. apply nsq_entry; assumption.
Qed.

Let bend := 3 * sqrt (INR n) * nF d d W * nsq n d X.

Lemma gradient_entry M a b : (a < d)%nat -> (b < d)%nat -> Rabs (grad M a b) <= bend + lam * Rabs (M a b).
Proof.
  intros Ha Hb. unfold Analysis.grad. eapply Rle_trans; [apply Rabs_triang|].
  rewrite Rabs_mult, (Rabs_pos_eq lam) by lra. apply Rplus_le_compat_r.
  eapply Rle_trans; [apply nF_entry; assumption|].
  apply (attention_gradient_upper_true n d X W Mc M (nF d d W) HMc); [apply nF_nonneg|].
  intros i j Hi Hj. apply nF_entry; assumption.
Qed.

Lemma upd_upd M a b s t i j : upd (upd M a b s) a b t i j = upd M a b t i j.
Proof. unfold upd. destruct (andb _ _); reflexivity. Qed.

Lemma upd_at M a b t : upd M a b t a b = t.
Proof. unfold upd. rewrite !Nat.eqb_refl. reflexivity. Qed.

Lemma loss_along_entry M a b t : (a < d)%nat -> (b < d)%nat ->
  is_derive (fun t => L (upd M a b t)) t (grad (upd M a b t) a b).
Proof.
  intros Ha Hb. pose proof (mat_view_l n d X W Mc HMc (upd M a b t) a b Ha Hb lam) as H. rewrite upd_at in H.
  eapply is_derive_ext; [|exact H]. intro s. apply loss_extensional. intros. apply upd_upd.
Qed.

Lemma loss_entry_lipschitz B M a b s t : (a < d)%nat -> (b < d)%nat -> - B <= s <= B -> - B <= t <= B ->
  L (upd M a b s) <= L (upd M a b t) + (bend + lam * B) * Rabs (s - t).
Proof.
  intros Ha Hb Bs Bt.
  assert (G : forall c, - B <= c <= B -> Rabs (grad (upd M a b c) a b) <= bend + lam * B).
  { intros c Hc. eapply Rle_trans; [apply gradient_entry; assumption|]. rewrite upd_at.
    apply Rplus_le_compat_l, Rmult_le_compat_l; [lra | apply Rabs_le, Hc]. }
  assert (D : forall x, is_derive (fun t => L (upd M a b t)) x (grad (upd M a b x) a b))
    by (intro; apply loss_along_entry; assumption).
  assert (P : forall g r, Rabs g <= bend + lam * B -> g * r <= (bend + lam * B) * Rabs r).
  { intros g r Hg. eapply Rle_trans; [apply Rle_abs|]. rewrite Rabs_mult.
    apply Rmult_le_compat_r; [apply Rabs_pos | exact Hg]. }
  destruct (Rle_dec t s) as [H | H].
  - destruct (mean_value _ _ t s H D) as [x [Hx E]]. pose proof (P _ (s - t) (G x ltac:(lra))). lra.
  - destruct (mean_value _ _ s t ltac:(lra) D) as [x [Hx E]].
    pose proof (P _ (s - t) (G x ltac:(lra))). lra.
Qed.

Lemma minimum_exists_at : exists M', forall M, L M' <= L M.
Proof.
  set (B := INR d). assert (B0 : 0 <= B) by apply pos_INR.
  set (k := bend + lam * B).
  assert (k0 : 0 <= k).
  { unfold k, bend. assert (0 <= lam * B) by (apply Rmult_le_pos; lra).
    assert (0 <= 3 * sqrt (INR n) * nF d d W * nsq n d X); [|lra].
    repeat apply Rmult_le_pos; try lra; [apply sqrt_pos | apply nF_nonneg | apply nsq_nonneg]. }
  destruct (least_exists (fun x => L (rows_of d x)) B k) with (N := (d * d)%nat) (x := flat d zeros)
    as [v [[y [_ Ey]] Low]]; try assumption.
  { intros x x' H. apply loss_extensional. intros. apply H. }
  { intros i x s t Hi Bs Bt. assert (D0 : (d <> 0)%nat) by lia.
    assert (E : forall r, L (rows_of d (put x i r)) = L (upd (rows_of d x) (i / d)%nat (i mod d)%nat r))
      by (intro r; apply loss_extensional; intros a b _ Hb; apply rows_of_put, Hb).
    rewrite !E. apply loss_entry_lipschitz; try assumption.
    - apply Nat.div_lt_upper_bound; lia.
    - apply Nat.mod_upper_bound, D0. }
  assert (In : forall M, nsq d d M <= B * B -> L (rows_of d y) <= L M).
  { intros M H. rewrite Ey. set (z := fun i => if Nat.ltb i (d * d) then flat d M i else flat d zeros i).
    apply Rle_trans with (L (rows_of d z)).
    - apply Low. split; intros i Hi.
      + unfold z. rewrite (proj2 (Nat.ltb_lt _ _) Hi). assert (D0 : (d <> 0)%nat) by lia.
        apply Rabs_le_between, Rabs_le_of_sqr; [exact B0|]. eapply Rle_trans; [|exact H].
        unfold flat. apply nsq_entry; [apply Nat.div_lt_upper_bound; lia | apply Nat.mod_upper_bound, D0].
      + unfold z. rewrite (proj2 (Nat.ltb_ge _ _) Hi). reflexivity.
    - right. apply loss_extensional. intros a b Ha Hb. rewrite <- (rows_of_flat d M a b Hb) at 1.
      unfold rows_of, z. rewrite (proj2 (Nat.ltb_lt (a * d + b) (d * d))) by nia. reflexivity. }
  exists (rows_of d y). intro M. destruct (Rle_dec (nsq d d M) (B * B)) as [H | H]; [apply In, H|].
  apply Rle_trans with (L ones); [apply In; rewrite nsq_ones; unfold B; lra|].
  rewrite ones_loss. unfold Analysis.L, Analysis.Lattn, Lreg. fold B.
  pose proof (nsq_nonneg n n (c n d X W Mc M)). apply Rnot_le_lt in H.
  pose proof (Rmult_le_compat_l lam _ _ (Rlt_le _ _ Hlam) (Rlt_le _ _ H)). lra.
Qed.
End Loss.

(* at the least value the gradient vanishes *)
Theorem minimum_exists n d X W Mc lam : valid_mask n Mc -> 0 < lam -> exists M',
  nsq d d (grad n d X W Mc lam M') = 0 /\ forall M, L n d X W Mc lam M' <= L n d X W Mc lam M.
Proof.
  intros HMc Hl. destruct (minimum_exists_at n d X W Mc lam HMc Hl) as [M' H]. exists M'. split; [|exact H].
  set (K := nF d d W * nsq n d X).
  assert (HK : logit_bound n d X W Mc K)
    by (apply logit_bound_frobenius; [exact HMc | apply nF_nonneg | apply nF_entry]).
  pose proof row_constant_five_quarters as HC.
  destruct (loss_smooth n d X W Mc lam (5 / 4) K HMc (Rlt_le _ _ Hl) HC HK) as [HG [HL [HE H0]]].
  set (Lip := lam + 5 / 4 * (K * K)) in *.
  assert (P : 0 < Lip) by (unfold Lip; pose proof (sq_nonneg K); lra).
  pose proof (sufficient_decrease d d _ _ Lip HG HL HE H0 (/ Lip) M') as D.
  assert (I : 0 < / Lip) by (apply Rinv_0_lt_compat, P).
  specialize (D (Rlt_le _ _ I) ltac:(rewrite Rinv_l; lra)).
  specialize (H (gd_step (grad n d X W Mc lam) (/ Lip) M')). pose proof (nsq_nonneg d d (grad n d X W Mc lam M')).
  nra.
Qed.

Theorem strongly_convex_descent n d X W Mc lam C K eta : step_ok n d X W Mc lam C K eta 1 ->
  let m := lam - C_minus * (K * K) in 0 < m -> let l := L n d X W Mc lam in let G := grad n d X W Mc lam in exists M',
  (forall M, l M' + m / 2 * nsq d d (msub M M') <= l M <= l M' + nsq d d (G M) / (2 * m) /\
     m * nF d d (msub M M') <= nF d d (G M)) /\
  forall M0 T, l (gd G eta M0 T) - l M' <= (1 - eta * m) ^ T * (l M0 - l M').
Proof.
  intros [HMc [Hl [HC [HK [He Hs]]]]] m Hm l G.
  destruct (minimum_exists n d X W Mc lam HMc Hl) as [M' [Z _]]. exists M'. split.
  - intro M. destruct (stationary_point_near n d X W Mc lam HMc K HK Hm M M' Z) as [N [_ U]].
    destruct (strong_convexity n d X W Mc lam HMc K HK M' M) as [_ S].
    assert (I : ip d d (G M') (msub M M') = 0).
    { pose proof (ip_cauchy_schwarz_sq d d (G M') (msub M M')) as Q. unfold G in *. rewrite Z in Q. nra. }
    unfold G in I. rewrite I in S. fold l m in S, U. unfold G. repeat split; [lra | lra | exact N].
  - intros M0 T. apply (gap_closes n d X W Mc lam HMc K HK Hm C eta M0 M' T); assumption.
Qed.

(* ---- as Trusted.v states them ---- *)
Definition checked_minimum_exists : Statement.minimum_exists := minimum_exists.
Definition checked_strongly_convex_descent : Statement.strongly_convex_descent := strongly_convex_descent.
