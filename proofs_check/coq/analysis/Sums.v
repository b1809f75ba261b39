(* Finite sums over the standard reals: rsum n g = g 0 + ... + g (n-1).
   Vectors and matrices of this half are functions of natural-number indices; only
   indices below the stated size ever enter a sum.                                  *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune Require Export Trusted.
Export Trusted.Analysis.
Open Scope R_scope.

Lemma rsum_ext k g h : (forall i, (i < k)%nat -> g i = h i) -> rsum k g = rsum k h.
Proof. induction k as [|k IH]; intro H; simpl; [reflexivity|]. rewrite IH, H; auto. Qed.

Lemma rsum_plus k g h : rsum k (fun i => g i + h i) = rsum k g + rsum k h.
Proof. induction k as [|k IH]; simpl; [|rewrite IH]; ring. Qed.

Lemma rsum_minus k g h : rsum k (fun i => g i - h i) = rsum k g - rsum k h.
Proof. induction k as [|k IH]; simpl; [|rewrite IH]; ring. Qed.

Lemma rsum_scal k r g : rsum k (fun i => r * g i) = r * rsum k g.
Proof. induction k as [|k IH]; simpl; [|rewrite IH]; ring. Qed.

Lemma rsum_scal_r k r g : rsum k (fun i => g i * r) = rsum k g * r.
Proof. induction k as [|k IH]; simpl; [|rewrite IH]; ring. Qed.

Lemma rsum_const k r : rsum k (fun _ => r) = INR k * r.
Proof. induction k as [|k IH]; [simpl; ring|]. rewrite S_INR; simpl rsum; rewrite IH; ring. Qed.

Lemma rsum_zero k g : (forall i, (i < k)%nat -> g i = 0) -> rsum k g = 0.
Proof. intro H. rewrite (rsum_ext k g (fun _ => 0) H), rsum_const; ring. Qed.

Lemma rsum_le k g h : (forall i, (i < k)%nat -> g i <= h i) -> rsum k g <= rsum k h.
Proof.
  induction k as [|k IH]; intro H; simpl; [lra|].
  assert (rsum k g <= rsum k h) by (apply IH; auto). specialize (H k ltac:(lia)). lra.
Qed.

Lemma rsum_nonneg k g : (forall i, (i < k)%nat -> 0 <= g i) -> 0 <= rsum k g.
Proof. intro H. rewrite <- (rsum_zero k (fun _ => 0)) by reflexivity. apply rsum_le; exact H. Qed.

Lemma rsum_ge_term k g i : (forall j, (j < k)%nat -> 0 <= g j) -> (i < k)%nat -> g i <= rsum k g.
Proof.
  induction k as [|k IH]; intros H Hi; [lia|]; simpl.
  destruct (Nat.eq_dec i k) as [->|Hn].
  - assert (0 <= rsum k g) by (apply rsum_nonneg; auto). lra.
  - assert (g i <= rsum k g) by (apply IH; auto; lia). specialize (H k ltac:(lia)). lra.
Qed.

Lemma rsum_abs_le k g : Rabs (rsum k g) <= rsum k (fun i => Rabs (g i)).
Proof.
  induction k as [|k IH]; simpl; [rewrite Rabs_R0; lra|].
  eapply Rle_trans; [apply Rabs_triang|]. lra.
Qed.

Lemma rsum_exchange m n (g : nat -> nat -> R) :
  rsum m (fun i => rsum n (fun j => g i j)) = rsum n (fun j => rsum m (fun i => g i j)).
Proof.
  induction m as [|m IH]; simpl.
  - symmetry; apply rsum_zero; reflexivity.
  - rewrite IH, <- rsum_plus. reflexivity.
Qed.

Lemma rsum_delta k a g : (a < k)%nat -> rsum k (fun i => if Nat.eqb i a then g i else 0) = g a.
Proof.
  intro H; induction k as [|k IH]; [lia|]; simpl.
  destruct (Nat.eq_dec a k) as [->|Hn].
  - rewrite Nat.eqb_refl, rsum_zero; [ring|]. intros i Hi.
    replace (Nat.eqb i k) with false by (symmetry; apply Nat.eqb_neq; lia). reflexivity.
  - rewrite IH by lia. replace (Nat.eqb k a) with false by (symmetry; apply Nat.eqb_neq; lia). ring.
Qed.

Lemma rsum_mult_rsum m n g h : rsum m g * rsum n h = rsum m (fun i => rsum n (fun j => g i * h j)).
Proof.
  rewrite <- rsum_scal_r. apply rsum_ext; intros i _. rewrite <- rsum_scal. reflexivity.
Qed.

Lemma sq_nonneg x : 0 <= x * x.
Proof. exact (Rle_0_sqr x). Qed.

(* ---- Cauchy-Schwarz, one term at a time ---- *)

Lemma Rabs_le_of_sqr x y : 0 <= y -> x * x <= y * y -> Rabs x <= y.
Proof.
  intros Hy H. rewrite <- (Rabs_pos_eq y Hy). apply Rsqr_le_abs_0. unfold Rsqr. exact H.
Qed.

Lemma cauchy_schwarz_step S T P Q U V :
  0 <= P -> 0 <= Q -> 0 <= U -> 0 <= V -> S * S <= P * Q -> T * T <= U * V ->
  (S + T) * (S + T) <= (P + U) * (Q + V).
Proof.
  intros HP HQ HU HV HS HT.
  assert (H : Rabs (2 * (S * T)) <= P * V + U * Q).
  { assert (0 <= P * V) by (apply Rmult_le_pos; assumption).
    assert (0 <= U * Q) by (apply Rmult_le_pos; assumption).
    apply Rabs_le_of_sqr; [lra|].
    assert ((S * S) * (T * T) <= (P * Q) * (U * V))
      by (apply Rmult_le_compat; try assumption; apply Rle_0_sqr).
    pose proof (Rle_0_sqr (P * V - U * Q)) as Z. unfold Rsqr in Z. nra. }
  pose proof (Rle_abs (2 * (S * T))). nra.
Qed.

Lemma rsum_cauchy_schwarz k a b :
  rsum k (fun i => a i * b i) * rsum k (fun i => a i * b i)
  <= rsum k (fun i => a i * a i) * rsum k (fun i => b i * b i).
Proof.
  induction k as [|k IH]; simpl; [lra|].
  apply cauchy_schwarz_step; try (apply rsum_nonneg; intros; nra); try nra; exact IH.
Qed.

Lemma rsum_cauchy_schwarz_weighted k w a b : (forall i, (i < k)%nat -> 0 <= w i) ->
  rsum k (fun i => w i * (a i * b i)) * rsum k (fun i => w i * (a i * b i))
  <= rsum k (fun i => w i * (a i * a i)) * rsum k (fun i => w i * (b i * b i)).
Proof.
  induction k as [|k IH]; intro Hw; simpl; [lra|].
  assert (0 <= w k) by (apply Hw; lia).
  assert (N : forall g, 0 <= rsum k (fun i => w i * (g i * g i))).
  { intro g; apply rsum_nonneg; intros i Hi. apply Rmult_le_pos; [apply Hw; lia | nra]. }
  apply cauchy_schwarz_step; [apply N | apply N | nra | nra | apply IH; auto | nra].
Qed.

(* ---- derivatives ---- *)

Lemma is_derive_rsum k (g : nat -> R -> R) (dg : nat -> R) x :
  (forall i, (i < k)%nat -> is_derive (g i) x (dg i)) ->
  is_derive (fun t => rsum k (fun i => g i t)) x (rsum k dg).
Proof.
  induction k as [|k IH]; intro H; simpl.
  - apply (is_derive_const 0 x).
  - apply (is_derive_plus (fun t => rsum k (fun i => g i t)) (g k)); [apply IH; auto | auto].
Qed.

Lemma mean_value f df a b : a <= b -> (forall t, is_derive f t (df t)) ->
  exists c, a <= c <= b /\ f b - f a = df c * (b - a).
Proof.
  intros Hab Hd.
  destruct (MVT_gen f a b df) as [c [Hc E]].
  - intros x _; apply Hd.
  - intros x _. apply derivable_continuous_pt. exists (df x). apply is_derive_Reals, Hd.
  - exists c. rewrite Rmin_left, Rmax_right in Hc by exact Hab. split; assumption.
Qed.
