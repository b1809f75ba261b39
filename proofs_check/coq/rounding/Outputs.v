(* The output from weights that are divided first, or that are exp(s - log sum exp). *)
Require Import Reals Lra Lia List Permutation.
From AttnPrune.analysis Require Import Sums.
From AttnPrune.rounding Require Import Radius Trees Online Forward Weights.
Open Scope R_scope.

(* without underflow, every term of a sum has its own factor *)
Lemma added_factors u x t y : 0 <= u < 1 -> added u 0 x t y -> NoDup (leaves t) ->
  exists tau, (forall j, Rabs (tau j) <= INR (length (leaves t) - 1) * lam u) /\
    y = lsum (fun j => x j * exp (tau j)) (leaves t).
Proof.
  intro Hu. pose proof (lam_nonneg u Hu) as L0. revert y. induction t as [i|a IHa b IHb]; intros y H D.
  - simpl in *. exists (fun _ => 0). split; [intro j; rewrite Rabs_R0; lra|]. rewrite H, exp_0. ring.
  - simpl in H, D. destruct H as (ya & yb & Ha & Hb & R). destruct (nodup_apart _ _ D) as (Da & Db & Apart).
    destruct (IHa ya Ha Da) as (ta & Ta & Ea). destruct (IHb yb Hb Db) as (tb & Tb & Eb).
    destruct (rounded_near u _ _ Hu R) as (d & Hd & Ed).
    exists (fun j => (if existsb (Nat.eqb j) (leaves a) then ta j else tb j) + d). cbn [leaves]. rewrite app_length.
    pose proof (leaves_pos a). pose proof (leaves_pos b). split.
    + intro j. assert (B : forall k k' t, (S k <= k')%nat -> Rabs t <= INR k * lam u ->
        Rabs (t + d) <= INR k' * lam u).
      { intros k k' t Hk Ht. eapply Rle_trans; [apply Rabs_triang|]. apply le_INR in Hk. rewrite S_INR in Hk.
        assert ((INR k + 1) * lam u <= INR k' * lam u) by (apply Rmult_le_compat_r; assumption). lra. }
      destruct (existsb _ _); [apply (B (length (leaves a) - 1)%nat)|apply (B (length (leaves b) - 1)%nat)]; auto; lia.
    + rewrite lsum_app, Ed, Ea, Eb, Rmult_plus_distr_r. f_equal; rewrite Rmult_comm, <- lsum_scal; apply lsum_ext; intros j I.
      * replace (existsb (Nat.eqb j) (leaves a)) with true by (symmetry; apply seen; exact I). rewrite exp_plus. ring.
      * destruct (existsb (Nat.eqb j) (leaves a)) eqn:Ex; [apply seen in Ex; exfalso; apply (Apart j Ex I)|].
        rewrite exp_plus. ring.
Qed.

(* one choice for all of finitely many indices *)
Lemma choose n (A : nat -> R -> Prop) : (forall j, (j < n)%nat -> exists t, A j t) ->
  exists f : vec, forall j, (j < n)%nat -> A j (f j).
Proof.
  induction n as [|n IH]; intro H; [exists (fun _ => 0); intros; lia|].
  destruct IH as (f & Hf); [intros; apply H; lia|]. destruct (H n ltac:(lia)) as (t & Ht).
  exists (fun j => if Nat.eqb j n then t else f j). intros j Hj.
  destruct (Nat.eqb_spec j n) as [->|N]; [exact Ht|apply Hf; lia].
Qed.

Lemma product_factors u n q v y : 0 <= u < 1 -> product u 0 n q v y ->
  exists tau, (forall j, (j < n)%nat -> Rabs (tau j) <= INR n * lam u) /\ y = rsum n (fun j => q j * v j * exp (tau j)).
Proof.
  intros Hu (xz & Hp & t & P & A). destruct (added_factors u xz t y Hu A (nodup_once _ _ P)) as (ta & Ta & E).
  assert (Hn : (0 < n)%nat) by (rewrite <- (length_once _ _ P); apply leaves_pos).
  destruct (choose n (fun j d => Rabs d <= lam u /\ xz j = q j * v j * exp d)) as (d & Hd).
  { intros j Hj. destruct (rounded_near u _ _ Hu (Hp j Hj)) as (d & Hd & Ed). exists d. split; assumption. }
  rewrite (length_once _ _ P) in Ta. exists (fun j => d j + ta j). split.
  - intros j Hj. destruct (Hd j Hj) as [D _]. eapply Rle_trans; [apply Rabs_triang|]. specialize (Ta j).
    replace (INR n) with (INR (n - 1) + 1) by (rewrite <- S_INR; f_equal; lia). lra.
  - rewrite E, (lsum_once _ _ _ P). apply rsum_ext. intros j Hj. destruct (Hd j Hj) as [_ ->]. rewrite exp_plus. ring.
Qed.

Theorem output_divided_first n u e tau w F s sh a amax top count p v l q y0 y : 0 <= w < 1 ->
  row n u e 0 tau F s sh a amax top count p -> carried u 0 F sh own_weight p l ->
  (forall j, (j < n)%nat -> exists z, divided u 0 (weight F sh p j) l z /\ rounded w z (q j)) ->
  product u 0 n q v y0 -> rounded_times w 0 2 y0 y ->
  let E := exponent u e tau top amax s a count in 0 < remaining n (prob n s) E ->
  Rabs (y - output n s v) <= output_bound n (prob n s) E v (fun _ => grow u (n + 2) * grow w 1 - 1)
    (grow u (2 * (n - 1)) * grow w 2) (output n s v).
Proof.
  intros Hw Row Hl Hq Hy0 Hy E Left. pose proof Row as (Hu & He & Hn & HF & Hs & Hop & Hc & _).
  pose proof (row_sum n u e tau F s sh a amax top count p Row p l Hop (fun _ _ => eq_refl) Hl) as (th & Hth & El).
  destruct (row_weights n u e tau F s sh a amax top count p Row) as (t & Ht & Et).
  destruct (product_factors u n q v y0 Hu Hy0) as (ta & Ta & E0).
  destruct (times_rounded w 2 y0 y Hw Hy) as (d2 & Hd2 & E2).
  destruct (choose n (fun j x => Rabs x <= 2 * lam u + lam w /\ q j = weight F sh p j / l * exp x)) as (x & Hx).
  { intros j Hj. destruct (Hq j Hj) as (z & Dz & Rz).
    destruct (near_trans _ _ _ _ _ (divided_near n u e tau F s sh a amax top count p Row _ _ _ Dz) (rounded_near _ _ _ Hw Rz))
      as (x & X1 & X2). exists x. split; assumption. }
  set (r := radius u e tau top amax s a count) in *.
  assert (HE : forall j, E j = exp (r j) - 1) by (intro j; apply radius_exponent; exact He).
  rewrite (remaining_ext _ _ _ _ HE) in Left.
  pose proof (fair_bound n (prob n s) t r (fun j _ => Rlt_le _ _ (prob_pos n s j Hn)) (prob_sum n s Hn) Ht Left
    v (fun j => x j + ta j) (fun _ => INR (n + 2) * lam u + INR 1 * lam w) (d2 - th)
    (INR (2 * (n - 1)) * lam u + INR 2 * lam w) y) as B.
  cbv zeta in B. rewrite !exp_plus, !exp_lam in B by assumption.
  rewrite (output_bound_ext _ _ _ _ v _ (fun _ => grow u (n + 2) * grow w 1 - 1) _ _ HE (fun _ => eq_refl)).
  apply B; clear B.
  - intros j Hj. destruct (Hx j Hj) as [X _]. specialize (Ta j Hj). eapply Rle_trans; [apply Rabs_triang|].
    rewrite plus_INR. simpl (INR 2). simpl (INR 1). lra.
  - unfold Rminus. eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_Ropp. lra.
  - set (S := rsum n (place F sh p)) in *.
    assert (S0 : 0 < S).
    { unfold S. apply Rlt_le_trans with (place F sh p 0%nat).
      - rewrite Et by lia. repeat apply Rmult_lt_0_compat; apply exp_pos.
      - apply rsum_ge_term; [|lia]. intros j Hj. rewrite Et by exact Hj. left. repeat apply Rmult_lt_0_compat; apply exp_pos. }
    pose proof (exp_pos th) as Pth.
    rewrite E2, E0. unfold Rminus. rewrite exp_plus, exp_Ropp, !Rmult_assoc, (Rmult_comm _ (exp d2)), <- !rsum_scal.
    apply rsum_ext. intros j Hj. destruct (Hx j Hj) as [_ ->].
    rewrite <- (moved_place n u e tau F s sh a amax top count p Row t j Et Hj). fold S. unfold place.
    rewrite El, exp_plus. field. split; lra.
Qed.
Definition checked_output_divided_first : Statement.output_divided_first :=
  fun n u e tau w F s sh a amax top count p v l q y0 y => output_divided_first n u e tau w F s sh a amax top count p v l q y0 y.

Theorem output_of_lse n u e w b s sh a v L q y0 y : 0 <= u < 1 -> 0 <= e * u < 1 -> 0 <= w < 1 -> (0 < n)%nat ->
  (forall j, (j < n)%nat -> Rabs (sh j - s j) <= a j) -> Rabs (L - lse n sh) <= b ->
  (forall j, (j < n)%nat -> exists x z, Rabs (x - (sh j - L)) <= 2 * u * Rabs (sh j - L) /\
    rounded (e * u) (exp x) z /\ rounded w z (q j)) ->
  product u 0 n q v y0 -> rounded_times w 0 2 y0 y ->
  let E := fun j => exp (a j) - 1 in 0 < remaining n (prob n s) E -> Rabs (y - output n s v) <=
  output_bound n (prob n s) E v (fun j => exp (2 * u * (lse n sh - sh j + b)) * (grow (e * u) 1 * grow u n * grow w 1) - 1)
    (exp b * grow w 2) (output n s v).
Proof.
  intros Hu He Hw Hn Ha Hb Hq Hy0 Hy E Left.
  destruct (product_factors u n q v y0 Hu Hy0) as (ta & Ta & E0).
  destruct (times_rounded w 2 y0 y Hw Hy) as (d2 & Hd2 & E2).
  destruct (choose n (fun j x => Rabs x <= 2 * u * (lse n sh - sh j + b) + lam (e * u) + lam w /\
    q j = exp (sh j - L) * exp x)) as (x & Hx).
  { intros j Hj. destruct (Hq j Hj) as (x & z & X & Z & Q).
    destruct (by_lse u e w x z (q j) _ Hw (proj1 Hu) He X Z Q) as (k & K1 & K2). exists k. split; [|exact K2].
    pose proof (lse_top n sh j Hj) as Top.
    assert (Rabs (sh j - L) <= lse n sh - sh j + b).
    { replace (sh j - L) with ((sh j - lse n sh) - (L - lse n sh)) by ring. unfold Rminus at 1.
      eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_Ropp, (Rabs_left1 (sh j - lse n sh)) by lra. lra. }
    assert (2 * u * Rabs (sh j - L) <= 2 * u * (lse n sh - sh j + b)) by (apply Rmult_le_compat_l; lra). lra. }
  set (c := fun j => 2 * u * (lse n sh - sh j + b) + lam (e * u) + lam w + INR n * lam u).
  assert (HE : forall j, E j = exp (a j) - 1) by reflexivity.
  pose proof (fair_bound n (prob n s) (fun j => sh j - s j) a (fun j _ => Rlt_le _ _ (prob_pos n s j Hn)) (prob_sum n s Hn)
    Ha Left v (fun j => x j + ta j) c (d2 - (L - lse n sh)) (b + INR 2 * lam w) y) as B.
  cbv zeta in B. rewrite exp_plus, exp_lam in B by assumption.
  rewrite (output_bound_ext _ _ _ _ v _ (fun j => exp (c j) - 1) _ _ HE).
  2: { intro j. unfold c. rewrite !exp_plus, exp_lam by assumption.
       rewrite <- !exp_lam by assumption. simpl (INR 1). rewrite !Rmult_1_l. ring. }
  apply B; clear B.
  - intros j Hj. destruct (Hx j Hj) as [X _]. specialize (Ta j Hj). eapply Rle_trans; [apply Rabs_triang|]. unfold c. lra.
  - unfold Rminus at 1. eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_Ropp. lra.
  - set (Z := rsum n (fun i => exp (s i))). pose proof (total_pos n s Hn) as HZ. fold Z in HZ.
    set (Y := rsum n (fun i => exp (sh i))). pose proof (total_pos n sh Hn) as HY. fold Y in HY.
    assert (W : forall j, prob n s j * exp (sh j - s j) = exp (sh j) / Z).
    { intro j. unfold prob. fold Z. unfold Rminus. rewrite exp_plus, exp_Ropp. pose proof (exp_pos (s j)). field. split; lra. }
    assert (TT : rsum n (fun j => prob n s j * exp (sh j - s j)) = Y / Z).
    { unfold Rdiv. unfold Y. rewrite <- rsum_scal_r. apply rsum_ext. intros j _. apply W. }
    rewrite E2, E0. unfold Rminus at 1. rewrite (exp_plus d2), (Rmult_comm _ (exp d2)), !Rmult_assoc, <- !rsum_scal.
    apply rsum_ext. intros j Hj. destruct (Hx j Hj) as [_ ->]. unfold moved. rewrite W, TT. f_equal.
    unfold lse. fold Y. unfold Rminus. rewrite !exp_plus, Ropp_plus_distr, Ropp_involutive, exp_plus, exp_ln by lra.
    field. lra.
Qed.
Definition checked_output_of_lse : Statement.output_of_lse :=
  fun n u e w b s sh a v L q y0 y => output_of_lse n u e w b s sh a v L q y0 y.
