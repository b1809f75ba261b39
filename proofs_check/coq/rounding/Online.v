(* Online softmax: running sums over any plan, exactly and with rounding. *)
Require Import Reals Lra Lia List Permutation.
From AttnPrune.analysis Require Import Sums.
From AttnPrune.rounding Require Import Radius Trees.
Open Scope R_scope.

(* ---- without rounding ---- *)
Lemma unrounded_sum s x p : unrounded s x p = exp (- shift p) * lsum (fun j => exp (s j) * x j) (keys p).
Proof.
  induction p as [m j|m a IHa b IHb]; simpl.
  - unfold Rminus. rewrite exp_plus. ring.
  - rewrite IHa, IHb, lsum_app. unfold Rminus. rewrite !exp_plus.
    assert (E : forall t, exp (- t) * exp t = 1) by (intro t; rewrite <- exp_plus, Rplus_opp_l, exp_0; reflexivity).
    pose proof (E (shift a)) as Ea. pose proof (E (shift b)) as Eb.
    set (Sa := lsum _ (keys a)). set (Sb := lsum _ (keys b)).
    replace (exp (- shift a) * Sa * (exp (shift a) * exp (- m))) with (exp (- shift a) * exp (shift a) * Sa * exp (- m)) by ring.
    replace (exp (- shift b) * Sb * (exp (shift b) * exp (- m))) with (exp (- shift b) * exp (shift b) * Sb * exp (- m)) by ring.
    rewrite Ea, Eb. ring.
Qed.

Lemma total_pos n s : (0 < n)%nat -> 0 < rsum n (fun i => exp (s i)).
Proof.
  intro H. apply Rlt_le_trans with (exp (s 0%nat)); [apply exp_pos|].
  apply (rsum_ge_term n (fun i => exp (s i))); [intros; left; apply exp_pos|exact H].
Qed.

Theorem online_exact n s v p : each_once n (keys p) ->
  unrounded s v p = exp (- shift p) * rsum n (fun j => exp (s j) * v j) /\
  ((0 < n)%nat -> unrounded s v p / unrounded s (fun _ => 1) p = output n s v).
Proof.
  intro P. rewrite !unrounded_sum, !(lsum_once _ _ _ P). split; [reflexivity|]. intro Hn.
  rewrite (rsum_ext n (fun j => exp (s j) * 1) (fun j => exp (s j))) by (intros; ring).
  pose proof (total_pos n s Hn) as T. pose proof (exp_pos (- shift p)).
  unfold output, prob. rewrite (rsum_ext n (fun j => exp (s j) / _ * v j)
    (fun j => / rsum n (fun i => exp (s i)) * (exp (s j) * v j))) by (intros; field; lra).
  rewrite rsum_scal. field. split; lra.
Qed.
Definition checked_online_exact : Statement.online_exact := fun n s v p => online_exact n s v p.

(* ---- the factors that a key meets ---- *)
Lemma weight_outside F s p j : ~ In j (keys p) -> weight F s p j = 0.
Proof.
  induction p as [m i|m a IHa b IHb]; simpl; intro H.
  - destruct (Nat.eqb_spec i j) as [->|_]; [tauto|reflexivity].
  - rewrite IHa, IHb; [ring| |]; intro I; apply H, in_or_app; auto.
Qed.

Lemma seen j l : existsb (Nat.eqb j) l = true <-> In j l.
Proof.
  rewrite existsb_exists. split.
  - intros (i & I & E). apply Nat.eqb_eq in E. subst i. exact I.
  - intro I. exists j. split; [exact I|apply Nat.eqb_refl].
Qed.

Lemma nodup_apart (a b : list nat) : NoDup (a ++ b) -> NoDup a /\ NoDup b /\ forall j, In j a -> ~ In j b.
Proof.
  induction a as [|x a IH]; simpl; intro H; [repeat split; [constructor|exact H|tauto]|].
  apply NoDup_cons_iff in H. destruct H as [N H]. destruct (IH H) as (Na & Nb & D).
  repeat split; [apply NoDup_cons; [|exact Na]|exact Nb|]; [intro I; apply N, in_or_app; auto|].
  intros j [->|I]; [intro J; apply N, in_or_app; auto|apply D; exact I].
Qed.

Section Weights.
Variables (u e tau : R) (F : R -> R -> R) (s : vec).
Hypotheses (Hu : 0 <= u < 1) (He : 0 <= e * u < 1) (HF : exponential u e 0 F) (Tau : 0 <= tau).

(* one exponential *)
Lemma exponential_near a b : near (2 * u * Rabs (a - b) + lam (e * u)) (exp (a - b)) (F a b).
Proof.
  destruct HF as [_ H]. destruct (H a b) as (x & Hx & R).
  apply near_trans with (exp x); [|apply rounded_near; assumption].
  exists (x - (a - b)). split; [exact Hx|]. rewrite <- exp_plus. f_equal. ring.
Qed.

Lemma climbing_top p j : climbing tau s p -> In j (keys p) -> s j <= shift p + tau.
Proof.
  induction p as [m i|m a IHa b IHb]; simpl; intros H I.
  - destruct I as [->|[]]. exact H.
  - destruct H as (Ha & Hb & La & Lb). apply in_app_or in I.
    destruct I as [I|I]; [pose proof (IHa Ha I)|pose proof (IHb Hb I)]; lra.
Qed.

Lemma step_near c m : c <= m ->
  near (2 * u * (m - c) + INR (if Req_EM_T c m then 0 else 1) * lam (e * u)) (exp (c - m)) (F c m).
Proof.
  intro H. destruct (Req_EM_T c m) as [->|N].
  - destruct HF as [H1 _]. rewrite H1. unfold Rminus. rewrite Rplus_opp_r, exp_0. apply near_refl. simpl. lra.
  - pose proof (exponential_near c m) as E. rewrite Rabs_left1 in E by lra. simpl INR.
    replace (2 * u * (m - c) + 1 * lam (e * u)) with (2 * u * - (c - m) + lam (e * u)) by ring. exact E.
Qed.

Lemma weight_near p j : climbing tau s p -> NoDup (keys p) -> In j (keys p) ->
  near (2 * u * (shift p - s j + 2 * tau) + INR (S (changes p j)) * lam (e * u)) (exp (s j - shift p)) (weight F s p j).
Proof.
  induction p as [m i|m a IHa b IHb]; intros C D I.
  - simpl in I. destruct I as [->|[]]. simpl. rewrite Nat.eqb_refl.
    pose proof (exponential_near (s j) m) as E. simpl in C. eapply near_weaken; [|exact E].
    assert (2 * u * Rabs (s j - m) <= 2 * u * (m - s j + 2 * tau)); [|lra].
    apply Rmult_le_compat_l; [lra|]. unfold Rabs. destruct (Rcase_abs _); lra.
  - simpl in C, D, I. destruct C as (Ca & Cb & La & Lb). destruct (nodup_apart _ _ D) as (Da & Db & Apart).
    assert (Step : forall c, climbing tau s c -> shift c <= m -> In j (keys c) ->
      near (2 * u * (shift c - s j + 2 * tau) + INR (S (changes c j)) * lam (e * u)) (exp (s j - shift c)) (weight F s c j) ->
      near (2 * u * (m - s j + 2 * tau) + INR (S (changes c j + (if Req_EM_T (shift c) m then 0 else 1))) * lam (e * u))
        (exp (s j - m)) (weight F s c j * F (shift c) m)).
    { intros c Cc Lc Ic IH. pose proof (near_mul _ _ _ _ _ _ IH (step_near (shift c) m Lc)) as N.
      rewrite <- exp_plus in N. replace (s j - shift c + (shift c - m)) with (s j - m) in N by ring.
      eapply near_weaken; [|exact N]. rewrite !S_INR, plus_INR. lra. }
    simpl. apply in_app_or in I. destruct I as [I|I].
    + pose proof (Apart j I) as NI. rewrite (weight_outside F s b j NI).
      replace (existsb (Nat.eqb j) (keys a)) with true by (symmetry; apply seen; exact I).
      replace (existsb (Nat.eqb j) (keys b)) with false.
      2: { symmetry. destruct (existsb (Nat.eqb j) (keys b)) eqn:Eb; [|reflexivity]. apply seen in Eb. tauto. }
      rewrite Rmult_0_l, Rplus_0_r, Nat.add_0_r. apply Step; auto.
    + assert (NI : ~ In j (keys a)) by (intro J; apply (Apart j J I)). rewrite (weight_outside F s a j NI).
      replace (existsb (Nat.eqb j) (keys b)) with true by (symmetry; apply seen; exact I).
      replace (existsb (Nat.eqb j) (keys a)) with false.
      2: { symmetry. destruct (existsb (Nat.eqb j) (keys a)) eqn:Ea; [|reflexivity]. apply seen in Ea. tauto. }
      rewrite Rmult_0_l, Rplus_0_l, Nat.add_0_l. apply Step; auto.
Qed.

(* ---- running sums: every key's own roundings ---- *)
Lemma carried_factors c0 (one : nat -> R -> R -> Prop) (x : vec) p y :
  (forall j g t, one j g t -> near c0 (g * x j) t) -> 0 <= c0 -> carried u 0 F s one p y -> NoDup (keys p) ->
  exists tau, (forall j, Rabs (tau j) <= c0 + INR (2 * (length (keys p) - 1)) * lam u) /\
    y = lsum (fun j => weight F s p j * x j * exp (tau j)) (keys p).
Proof.
  intros Hone Hc0. pose proof (lam_nonneg u Hu) as L0. revert y.
  assert (Len : forall q, (0 < length (keys q))%nat).
  { induction q as [|m a IHa b IHb]; simpl; [|rewrite app_length]; lia. }
  induction p as [m i|m a IHa b IHb]; intros y C D.
  - simpl in *. destruct (Hone _ _ _ C) as (t & Ht & E). exists (fun _ => t). split; [intro j; lra|].
    rewrite Nat.eqb_refl, E. ring.
  - simpl in C, D. destruct C as (ya & yb & za & zb & Ca & Cb & Ra & Rb & R).
    destruct (nodup_apart _ _ D) as (Da & Db & Apart).
    destruct (IHa ya Ca Da) as (ta & Ta & Ea). destruct (IHb yb Cb Db) as (tb & Tb & Eb).
    assert (Sc : forall c yc zc, rescaled u 0 F (shift c) m yc zc -> near (lam u) (yc * F (shift c) m) zc).
    { intros c yc zc [[E ->]|E].
      - destruct HF as [H1 _]. rewrite E, H1, Rmult_1_r. apply near_refl, L0.
      - apply rounded_near; assumption. }
    destruct (Sc a ya za Ra) as (ra & Hra & Era). destruct (Sc b yb zb Rb) as (rb & Hrb & Erb).
    destruct (rounded_near u _ _ Hu R) as (d & Hd & Ed).
    exists (fun j => (if existsb (Nat.eqb j) (keys a) then ta j + ra else tb j + rb) + d). cbn [keys weight]. rewrite app_length.
    pose proof (Len a). pose proof (Len b). split.
    + intro j. assert (B : forall k k' t r, (k <= k')%nat -> Rabs t <= c0 + INR (2 * k) * lam u -> Rabs r <= lam u ->
        Rabs (t + r + d) <= c0 + INR (2 * S k') * lam u).
      { intros k k' t r Hk Ht Hr. eapply Rle_trans; [apply Rabs_triang|].
        pose proof (Rabs_triang t r). rewrite mult_INR, (S_INR k'). rewrite mult_INR in Ht. simpl (INR 2) in *.
        apply le_INR in Hk. assert (INR k * lam u <= INR k' * lam u) by (apply Rmult_le_compat_r; assumption). lra. }
      replace (2 * (length (keys a) + length (keys b) - 1))%nat
        with (2 * S (length (keys a) + length (keys b) - 2))%nat by lia.
      destruct (existsb _ _); [apply (B (length (keys a) - 1)%nat)|apply (B (length (keys b) - 1)%nat)];
        auto; lia.
    + rewrite lsum_app, Ed, Era, Erb, Ea, Eb.
      rewrite !Rmult_plus_distr_r. f_equal.
      * rewrite !Rmult_assoc, (Rmult_comm (lsum _ _)), <- lsum_scal. apply lsum_ext. intros j I.
        rewrite (weight_outside F s b j (Apart j I)). replace (existsb (Nat.eqb j) (keys a)) with true by (symmetry; apply seen; exact I).
        rewrite !exp_plus. ring.
      * rewrite !Rmult_assoc, (Rmult_comm (lsum _ _)), <- lsum_scal. apply lsum_ext. intros j I.
        assert (NI : ~ In j (keys a)) by (intro J; apply (Apart j J I)). rewrite (weight_outside F s a j NI).
        destruct (existsb (Nat.eqb j) (keys a)) eqn:Ex; [apply seen in Ex; tauto|].
        rewrite !exp_plus. ring.
Qed.
End Weights.
