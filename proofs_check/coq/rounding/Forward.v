(* The output of a row, and log sum exp. *)
Require Import Reals Lra Lia List Permutation.
From AttnPrune.analysis Require Import Sums.
From AttnPrune.rounding Require Import Radius Trees Online.
Open Scope R_scope.

Lemma prob_pos n s j : (0 < n)%nat -> 0 < prob n s j.
Proof. intro H. apply Rdiv_lt_0_compat; [apply exp_pos|apply total_pos; exact H]. Qed.

Lemma prob_sum n s : (0 < n)%nat -> rsum n (prob n s) = 1.
Proof.
  intro H. pose proof (total_pos n s H). unfold prob, Rdiv. rewrite rsum_scal_r. field. lra.
Qed.

(* ---- weights off by a factor each, brought back to sum 1, and errors of each term ---- *)
Section Fair.
Variables (n : nat) (p t r : vec).
Hypotheses (P0 : forall j, (j < n)%nat -> 0 <= p j) (P1 : rsum n p = 1)
  (Ht : forall j, (j < n)%nat -> Rabs (t j) <= r j).
Let E : vec := fun j => exp (r j) - 1.
Let T := rsum n (fun j => p j * exp (t j)).
Definition moved j := p j * exp (t j) / T.
Hypothesis Left : 0 < remaining n p E.

Lemma expE j : (j < n)%nat -> Rabs (exp (t j) - 1) <= E j.
Proof. intro Hj. apply expm1_abs, Ht, Hj. Qed.

Lemma T_remaining : remaining n p E <= T.
Proof.
  unfold remaining, T. rewrite <- P1 at 1. rewrite <- rsum_minus. apply rsum_le. intros j Hj.
  pose proof (expE j Hj) as H. pose proof (P0 j Hj).
  assert (1 - E j <= exp (t j)) by (unfold Rabs in H; destruct (Rcase_abs _); lra). nra.
Qed.

Lemma moved_grown j : (j < n)%nat -> 0 <= moved j <= grown n p E j.
Proof.
  intro Hj. pose proof T_remaining as TL. unfold moved, grown. pose proof (P0 j Hj). pose proof (exp_pos (t j)).
  assert (exp (t j) <= 1 + E j).
  { pose proof (expE j Hj) as H1. unfold Rabs in H1; destruct (Rcase_abs _); lra. }
  split; [apply Rmult_le_pos; [nra|left; apply Rinv_0_lt_compat; lra]|].
  unfold Rdiv. apply Rmult_le_compat; try nra; [left; apply Rinv_0_lt_compat; lra|apply Rinv_le_contravar; lra].
Qed.

Lemma moved_sum : rsum n moved = 1.
Proof.
  pose proof T_remaining. unfold moved, Rdiv. rewrite rsum_scal_r. fold T. field. lra.
Qed.

Lemma moved_centred v : let o := rsum n (fun j => p j * v j) in
  Rabs (rsum n (fun j => moved j * v j) - o) <= centred n p E v o.
Proof.
  intro o. pose proof T_remaining as TL.
  assert (Id : rsum n (fun j => moved j * v j) - o = / T * rsum n (fun j => p j * (exp (t j) - 1) * (v j - o))).
  { rewrite (rsum_ext n (fun j => p j * (exp (t j) - 1) * (v j - o))
      (fun j => (p j * exp (t j) * v j - o * (p j * exp (t j))) - (p j * v j - o * p j))) by (intros; ring).
    rewrite !rsum_minus, !rsum_scal. fold T. fold o. rewrite P1.
    rewrite (rsum_ext n (fun j => moved j * v j) (fun j => / T * (p j * exp (t j) * v j))).
    2: { intros j Hj. unfold moved. field. lra. }
    rewrite rsum_scal. field. lra. }
  rewrite Id, Rabs_mult, Rabs_pos_eq by (left; apply Rinv_0_lt_compat; lra).
  unfold centred, Rdiv. rewrite Rmult_comm. apply Rmult_le_compat; [apply Rabs_pos|left; apply Rinv_0_lt_compat; lra| |].
  - eapply Rle_trans; [apply rsum_abs_le|]. apply rsum_le. intros j Hj. rewrite !Rabs_mult.
    apply Rmult_le_compat_r; [apply Rabs_pos|]. rewrite Rabs_pos_eq by (apply P0; exact Hj).
    apply Rmult_le_compat_l; [apply P0; exact Hj|apply expE; exact Hj].
  - apply Rinv_le_contravar; lra.
Qed.

Lemma fair_bound v tau c d D y : let o := rsum n (fun j => p j * v j) in
  (forall j, (j < n)%nat -> Rabs (tau j) <= c j) -> Rabs d <= D ->
  y = exp d * rsum n (fun j => moved j * exp (tau j) * v j) ->
  Rabs (y - o) <= output_bound n p E v (fun j => exp (c j) - 1) (exp D) o.
Proof.
  intros o Hc Hd ->. set (z := rsum n (fun j => moved j * exp (tau j) * v j)).
  assert (Z : Rabs (z - o) <= centred n p E v o + rsum n (fun j => grown n p E j * (exp (c j) - 1) * Rabs (v j))).
  { replace (z - o) with ((rsum n (fun j => moved j * v j) - o) + rsum n (fun j => moved j * (exp (tau j) - 1) * v j)).
    2: { unfold z. rewrite (rsum_ext n (fun j => moved j * (exp (tau j) - 1) * v j)
           (fun j => moved j * exp (tau j) * v j - moved j * v j)) by (intros; ring). rewrite rsum_minus. ring. }
    eapply Rle_trans; [apply Rabs_triang|]. apply Rplus_le_compat; [apply moved_centred|].
    eapply Rle_trans; [apply rsum_abs_le|]. apply rsum_le. intros j Hj. rewrite !Rabs_mult.
    pose proof (moved_grown j Hj) as [M0 M1]. apply Rmult_le_compat_r; [apply Rabs_pos|].
    rewrite Rabs_pos_eq by exact M0. apply Rmult_le_compat; [exact M0|apply Rabs_pos|exact M1|].
    apply expm1_abs, Hc, Hj. }
  unfold output_bound. replace (exp d * z - o) with (exp d * (z - o) + (exp d - 1) * o) by ring.
  eapply Rle_trans; [apply Rabs_triang|]. rewrite !Rabs_mult. apply Rplus_le_compat.
  - rewrite Rabs_pos_eq by (left; apply exp_pos). apply Rmult_le_compat; try apply Rabs_pos; [left; apply exp_pos| |exact Z].
    apply exp_le. unfold Rabs in Hd; destruct (Rcase_abs _); lra.
  - apply Rmult_le_compat_r; [apply Rabs_pos|]. apply expm1_abs, Hd.
Qed.
End Fair.

Theorem mean_of_terms n p t r v vh eps tau c d D y : (forall j, (j < n)%nat -> 0 <= p j) -> rsum n p = 1 ->
  (forall j, (j < n)%nat -> Rabs (t j) <= r j /\ Rabs (tau j) <= c j /\ Rabs (vh j - v j) <= eps j) -> Rabs d <= D ->
  y = exp d * rsum n (fun j => p j * exp (t j) / rsum n (fun i => p i * exp (t i)) * exp (tau j) * vh j) ->
  let E := fun j => exp (r j) - 1 in let o := rsum n (fun j => p j * v j) in 0 < remaining n p E ->
  Rabs (y - o) <= output_bound n p E v (fun j => exp (c j) - 1) (exp D) o +
    exp D * rsum n (fun j => grown n p E j * exp (c j) * eps j).
Proof.
  intros P0 P1 H Hd Hy E o Left.
  set (m := fun j => p j * exp (t j) / rsum n (fun i => p i * exp (t i))) in *.
  replace (y - o) with ((exp d * rsum n (fun j => m j * exp (tau j) * v j) - o)
    + exp d * rsum n (fun j => m j * exp (tau j) * (vh j - v j))).
  2: { rewrite Hy. rewrite (rsum_ext n (fun j => m j * exp (tau j) * (vh j - v j))
         (fun j => m j * exp (tau j) * vh j - m j * exp (tau j) * v j)) by (intros; ring). rewrite rsum_minus. unfold m. ring. }
  assert (Ht : forall j, (j < n)%nat -> Rabs (t j) <= r j) by (intros; apply H; assumption).
  eapply Rle_trans; [apply Rabs_triang|]. apply Rplus_le_compat.
  - apply (fair_bound n p t r P0 P1 Ht Left v tau c d D); [intros; apply H; assumption|exact Hd|reflexivity].
  - rewrite Rabs_mult, Rabs_pos_eq by (left; apply exp_pos).
    apply Rmult_le_compat; [left; apply exp_pos|apply Rabs_pos|apply exp_le; unfold Rabs in Hd; destruct (Rcase_abs _); lra|].
    eapply Rle_trans; [apply rsum_abs_le|]. apply rsum_le. intros j Hj. rewrite !Rabs_mult.
    pose proof (moved_grown n p t r P0 P1 Ht Left j Hj) as [M0 M1]. fold E in M1.
    change (moved n p t j) with (m j) in M0, M1. destruct (H j Hj) as (_ & Hc & He).
    rewrite (Rabs_pos_eq (m j)) by exact M0. rewrite (Rabs_pos_eq (exp _)) by (left; apply exp_pos).
    apply Rmult_le_compat; [apply Rmult_le_pos; [exact M0|left; apply exp_pos]|apply Rabs_pos| |exact He].
    apply Rmult_le_compat; [exact M0|left; apply exp_pos|exact M1|].
    apply exp_le. unfold Rabs in Hc; destruct (Rcase_abs _); lra.
Qed.
Definition checked_mean_of_terms : Statement.mean_of_terms :=
  fun n p t r v vh eps tau c d D y => mean_of_terms n p t r v vh eps tau c d D y.

Lemma times_rounded u k x y : 0 <= u < 1 -> rounded_times u 0 k x y -> near (INR k * lam u) x y.
Proof.
  intro Hu. revert y. induction k as [|k IH]; intros y H.
  - simpl in *. subst y. apply near_refl. lra.
  - destruct H as (z & Hz & Hy). rewrite S_INR. replace ((INR k + 1) * lam u) with (INR k * lam u + lam u) by ring.
    apply near_trans with z; [apply IH; exact Hz|apply rounded_near; assumption].
Qed.

(* ---- one row: what its weights and its row sum are ---- *)
Definition radius (u e tau top amax : R) (s a : vec) (count : nat -> nat) : vec := fun j =>
  a j + 2 * u * (top - s j + a j + amax + 2 * tau) + INR (S (count j)) * lam (e * u).

Lemma radius_exponent u e tau top amax s a count j : 0 <= e * u < 1 ->
  exponent u e tau top amax s a count j = exp (radius u e tau top amax s a count j) - 1.
Proof. intro H. unfold exponent, radius. rewrite <- exp_lam, <- exp_plus by exact H. reflexivity. Qed.

Section Row.
Variables (n : nat) (u e tau : R) (F : R -> R -> R) (s sh a : vec) (amax top : R) (count : nat -> nat) (p : plan).
Hypothesis Row : row n u e 0 tau F s sh a amax top count p.
Let r := radius u e tau top amax s a count.
Let P := prob n s.
Definition place j := weight F sh p j.

Lemma row_weights : exists t, (forall j, (j < n)%nat -> Rabs (t j) <= r j) /\
  forall j, (j < n)%nat -> place j = exp (- shift p) * (exp (s j) * exp (t j)).
Proof.
  destruct Row as (Hu & He & Hn & HF & Hs & Ho & Hc & Htop & Tau & Hch).
  exists (fun j => ln (place j * exp (shift p) * exp (- s j))).
  assert (W : forall j, (j < n)%nat -> exists x, Rabs x <= r j /\ place j = exp (- shift p) * (exp (s j) * exp x)).
  { intros j Hj. assert (I : In j (keys p)) by (apply (in_once n); assumption).
    destruct (weight_near u e tau F sh Hu He HF Tau p j Hc (nodup_once _ _ Ho) I) as (x & Hx & Ex).
    exists (sh j - s j + x). destruct (Hs j Hj) as (Ha & Hm & Ht). split.
    - eapply Rle_trans; [apply Rabs_triang|]. unfold r, radius.
      assert (D : shift p - sh j + 2 * tau <= top - s j + a j + amax + 2 * tau).
      { unfold Rabs in Ha; destruct (Rcase_abs _); lra. }
      assert (2 * u * (shift p - sh j + 2 * tau) <= 2 * u * (top - s j + a j + amax + 2 * tau))
        by (apply Rmult_le_compat_l; lra).
      assert (INR (S (changes p j)) * lam (e * u) <= INR (S (count j)) * lam (e * u)).
      { apply Rmult_le_compat_r; [apply lam_nonneg; exact He|apply le_INR]. specialize (Hch j Hj). lia. }
      lra.
    - unfold place. rewrite Ex, <- !exp_plus. f_equal. ring. }
  split; intros j Hj; destruct (W j Hj) as (x & Hx & Ex);
    assert (L : ln (place j * exp (shift p) * exp (- s j)) = x)
      by (rewrite Ex, <- (ln_exp x); f_equal; rewrite ln_exp, <- !exp_plus; f_equal; ring); rewrite L; assumption.
Qed.

Lemma own_near j g y : own_weight j g y -> near 0 (g * 1) y.
Proof. intros ->. rewrite Rmult_1_r. apply near_refl. lra. Qed.

Lemma times_near w v j g y : 0 <= w < 1 -> times_value u 0 w 0 v j g y -> near (lam w + lam u) (g * v j) y.
Proof.
  intros Hw (q & Hq & Hy). destruct Row as (Hu & _). apply near_trans with (q * v j); [|apply rounded_near; assumption].
  rewrite <- (Rplus_0_r (lam w)). apply near_mul; [apply rounded_near; assumption|apply near_refl; lra].
Qed.

(* the row sum is off by a factor *)
Lemma row_sum pl l : each_once n (keys pl) -> (forall j, (j < n)%nat -> weight F sh pl j = place j) ->
  carried u 0 F sh own_weight pl l -> near (INR (2 * (n - 1)) * lam u) (rsum n place) l.
Proof.
  intros Ho Hw Hl. pose proof Row as (Hu & He & Hn & HF & _).
  destruct (carried_factors u e F sh Hu He HF 0 own_weight (fun _ => 1) pl l own_near (Rle_refl 0) Hl (nodup_once _ _ Ho))
    as (xi & Ht & El).
  rewrite (length_once _ _ Ho), Rplus_0_l in Ht. set (R0 := INR (2 * (n - 1)) * lam u) in *.
  rewrite (lsum_once _ _ _ Ho) in El. destruct row_weights as (t & _ & Et).
  assert (Pos : forall j, (j < n)%nat -> 0 < place j).
  { intros j Hj. rewrite Et by exact Hj. repeat apply Rmult_lt_0_compat; apply exp_pos. }
  assert (R0n : 0 <= R0) by (apply Rmult_le_pos; [apply pos_INR|apply lam_nonneg; exact Hu]).
  apply near_of_bounds; [exact R0n| |].
  - apply Rlt_le_trans with (place 0%nat); [apply Pos; lia|]. apply rsum_ge_term; [intros; left; auto|lia].
  - rewrite El, <- !rsum_scal_r. split; apply rsum_le; intros j Hj; rewrite Hw, Rmult_1_r by exact Hj;
      (apply Rmult_le_compat_l; [left; auto|]); apply exp_le; specialize (Ht j);
      unfold Rabs in Ht; destruct (Rcase_abs _); lra.
Qed.

Lemma divided_near A l y : divided u 0 A l y -> near (2 * lam u) (A / l) y.
Proof.
  destruct Row as (Hu & _). pose proof (lam_nonneg u Hu). intros [H1|(q & Hq & Hy)].
  - apply near_weaken with (lam u); [lra|apply rounded_near; assumption].
  - replace (2 * lam u) with (lam u + 0 + lam u) by ring. apply near_trans with (A * q); [|apply rounded_near; assumption].
    unfold Rdiv. rewrite (Rmult_comm A), (Rmult_comm A). apply near_mul; [apply rounded_near; assumption|apply near_refl; lra].
Qed.

Lemma moved_place t j : (forall j, (j < n)%nat -> place j = exp (- shift p) * (exp (s j) * exp (t j))) ->
  (j < n)%nat -> place j / rsum n place = moved n P t j.
Proof.
  intros Et Hj. pose proof Row as (_ & _ & Hn & _).
  rewrite (rsum_ext n place (fun j => exp (- shift p) * rsum n (fun i => exp (s i)) * (P j * exp (t j)))).
  2: { intros i Hi. rewrite Et by exact Hi. unfold P, prob. field. pose proof (total_pos n s Hn). lra. }
  rewrite rsum_scal, Et by exact Hj. unfold moved. unfold P at 2, prob.
  pose proof (total_pos n s Hn). pose proof (exp_pos (- shift p)).
  assert (0 < rsum n (fun j => P j * exp (t j))).
  { apply Rlt_le_trans with (P 0%nat * exp (t 0%nat)).
    - apply Rmult_lt_0_compat; [apply prob_pos; exact Hn|apply exp_pos].
    - apply (rsum_ge_term n (fun j => P j * exp (t j))); [|lia].
      intros; apply Rmult_le_pos; left; [apply prob_pos; exact Hn|apply exp_pos]. }
  field. repeat split; lra.
Qed.
End Row.

Lemma remaining_ext n p E E' : (forall j, E j = E' j) -> remaining n p E = remaining n p E'.
Proof. intro H. unfold remaining. f_equal. apply rsum_ext. intros j _. rewrite H. reflexivity. Qed.

Lemma output_bound_ext n p E E' v c c' G o : (forall j, E j = E' j) -> (forall j, c j = c' j) ->
  output_bound n p E v c G o = output_bound n p E' v c' G o.
Proof.
  intros H Hc. unfold output_bound, centred, grown. rewrite (remaining_ext n p E E' H).
  rewrite (rsum_ext n (fun j => p j * E j * _) (fun j => p j * E' j * Rabs (v j - o))) by (intros; rewrite H; reflexivity).
  rewrite (rsum_ext n (fun j => p j * (1 + E j) / _ * c j * _)
    (fun j => p j * (1 + E' j) / remaining n p E' * c' j * Rabs (v j))) by (intros; rewrite H, Hc; reflexivity).
  reflexivity.
Qed.

(* the output from a row sum that is near the sum of the weights, of values that are off by eps *)
Lemma output_near n u e tau w F s sh a amax top count p v vh eps l A y0 y d : 0 <= w < 1 ->
  row n u e 0 tau F s sh a amax top count p -> (forall j, (j < n)%nat -> Rabs (vh j - v j) <= eps j) ->
  near d (rsum n (place F sh p)) l ->
  carried u 0 F sh (times_value u 0 w 0 vh) p A -> divided u 0 A l y0 -> rounded_times w 0 2 y0 y ->
  let E := exponent u e tau top amax s a count in 0 < remaining n (prob n s) E ->
  let C := grow u (2 * n - 1) * grow w 1 in let G := exp d * (grow u 2 * grow w 2) in
  Rabs (y - output n s v) <= output_bound n (prob n s) E v (fun _ => C - 1) G (output n s v) +
    G * rsum n (fun j => grown n (prob n s) E j * C * eps j).
Proof.
  intros Hw Row Hv (th & Hth & El) HA Hd Hst E Left C G. pose proof Row as (Hu & He & Hn & HF & Hs & Hop & Hc & _).
  destruct (row_weights n u e tau F s sh a amax top count p Row) as (t & Ht & Et).
  assert (C0 : 0 <= lam w + lam u) by (pose proof (lam_nonneg u Hu); pose proof (lam_nonneg w Hw); lra).
  destruct (carried_factors u e F sh Hu He HF (lam w + lam u) (times_value u 0 w 0 vh) vh p A
    (fun j g y => times_near n u e tau F s sh a amax top count p Row w vh j g y Hw) C0 HA (nodup_once _ _ Hop))
    as (xi & Hxi & EA).
  rewrite (length_once _ _ Hop) in Hxi. rewrite (lsum_once _ _ _ Hop) in EA.
  destruct (divided_near n u e tau F s sh a amax top count p Row A l y0 Hd) as (d1 & Hd1 & E1).
  destruct (times_rounded w 2 y0 y Hw Hst) as (d2 & Hd2 & E2). simpl (INR 2) in Hd2.
  set (r := radius u e tau top amax s a count) in *.
  assert (HE : forall j, E j = exp (r j) - 1) by (intro j; apply radius_exponent; exact He).
  rewrite (remaining_ext _ _ _ _ HE) in Left.
  pose proof (mean_of_terms n (prob n s) t r v vh eps xi (fun _ => lam w + lam u + INR (2 * (n - 1)) * lam u)
    (d1 + d2 - th) (d + 2 * lam u + 2 * lam w) y (fun j _ => Rlt_le _ _ (prob_pos n s j Hn)) (prob_sum n s Hn)) as B.
  assert (X1 : exp (d + 2 * lam u + 2 * lam w) = G).
  { unfold G. rewrite <- !exp_lam, <- !exp_plus by assumption. f_equal. simpl (INR 2). ring. }
  assert (X2 : exp (lam w + lam u + INR (2 * (n - 1)) * lam u) = C).
  { unfold C. rewrite <- !exp_lam, <- exp_plus by assumption. f_equal.
    replace (2 * n - 1)%nat with (2 * (n - 1) + 1)%nat by lia. rewrite plus_INR. simpl (INR 1). ring. }
  cbv zeta in B. rewrite X1, X2 in B.
  rewrite (output_bound_ext _ _ _ _ v _ (fun _ => C - 1) _ _ HE (fun _ => eq_refl)).
  rewrite (rsum_ext n (fun j => grown n (prob n s) E j * C * eps j)
    (fun j => grown n (prob n s) (fun j => exp (r j) - 1) j * C * eps j)).
  2: { intros j _. unfold grown. rewrite HE, (remaining_ext _ _ _ _ HE). reflexivity. }
  apply B; clear B; [|  | |exact Left].
  - intros j Hj. split; [apply Ht; exact Hj|split; [apply Hxi|apply Hv; exact Hj]].
  - unfold Rminus. eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_Ropp. pose proof (Rabs_triang d1 d2). lra.
  - rewrite E2, E1, EA, El.
    set (S := rsum n (place F sh p)).
    assert (S0 : 0 < S).
    { unfold S. apply Rlt_le_trans with (place F sh p 0%nat).
      - rewrite Et by lia. repeat apply Rmult_lt_0_compat; apply exp_pos.
      - apply rsum_ge_term; [|lia]. intros j Hj. rewrite Et by exact Hj. left. repeat apply Rmult_lt_0_compat; apply exp_pos. }
    rewrite (rsum_ext n (fun j => prob n s j * exp (t j) / rsum n (fun i => prob n s i * exp (t i)) * exp (xi j) * vh j)
      (fun j => / S * (weight F sh p j * vh j * exp (xi j)))).
    2: { intros j Hj. change (prob n s j * exp (t j) / rsum n (fun i => prob n s i * exp (t i))) with (moved n (prob n s) t j).
         rewrite <- (moved_place n u e tau F s sh a amax top count p Row t j Et Hj). fold S. unfold place. field. lra. }
    pose proof (exp_pos th) as Pth.
    rewrite rsum_scal. unfold Rminus. rewrite !exp_plus, exp_Ropp. field. split; lra.
Qed.
