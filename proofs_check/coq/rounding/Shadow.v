(* What underflow takes: beside every computed sum runs one that loses nothing, and the two are close. *)
Require Import Reals Lra Lia List Permutation.
From AttnPrune.analysis Require Import Sums.
From AttnPrune.rounding Require Import Radius Trees Online Forward.
Open Scope R_scope.

(* one operation *)
Lemma fl_shadow u h x x' y : 0 <= u -> 0 <= h -> fl u h x y ->
  exists y', rounded u x' y' /\ Rabs (y - y') <= (1 + u) * Rabs (x - x') + h.
Proof.
  intros Hu Hh H. unfold fl in H.
  assert (S : exists d e, Rabs d <= u /\ Rabs e <= h /\ y = x * (1 + d) + e).
  { destruct (Rle_dec (Rabs (y - x)) (u * Rabs x)) as [L|L].
    - destruct (Req_dec x 0) as [->|N].
      + rewrite Rabs_R0, Rmult_0_r in L. exists 0, 0. rewrite Rabs_R0. repeat split; try lra.
        rewrite Rminus_0_r in L. pose proof (Rabs_pos y). assert (Rabs y = 0) by lra.
        destruct (Req_dec y 0) as [->|Ny]; [ring|apply Rabs_pos_lt in Ny; lra].
      + exists (y / x - 1), 0. rewrite Rabs_R0. repeat split; [|lra|field; exact N].
        replace (y / x - 1) with ((y - x) * / x) by (field; exact N).
        rewrite Rabs_mult, Rabs_Rinv by exact N. apply Rabs_pos_lt in N.
        apply (Rmult_le_reg_r (Rabs x)); [exact N|]. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra. exact L.
    - apply Rnot_le_lt in L. exists (if Rle_dec 0 ((y - x) * x) then u else - u),
        (y - x - x * (if Rle_dec 0 ((y - x) * x) then u else - u)).
      split; [|split; [|ring]].
      + destruct (Rle_dec _ _); [|rewrite Rabs_Ropp]; rewrite Rabs_pos_eq; lra.
      + destruct (Rle_dec 0 ((y - x) * x)) as [P|P]; [|apply Rnot_le_lt in P];
          destruct (Rle_dec 0 x) as [X|X]; [| apply Rnot_le_lt in X | | apply Rnot_le_lt in X];
          unfold Rabs in *; repeat destruct (Rcase_abs _); try lra; try nra. }
  destruct S as (d & e & Hd & He & ->). exists (x' * (1 + d)). split.
  - unfold rounded, fl. rewrite Rplus_0_r. replace (x' * (1 + d) - x') with (d * x') by ring. rewrite Rabs_mult.
    apply Rmult_le_compat_r; [apply Rabs_pos|exact Hd].
  - replace (x * (1 + d) + e - x' * (1 + d)) with ((1 + d) * (x - x') + e) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_mult. apply Rplus_le_compat; [|exact He].
    apply Rmult_le_compat_r; [apply Rabs_pos|]. eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_R1. lra.
Qed.

Lemma rounded_le u x y : 0 <= u -> rounded u x y -> Rabs y <= (1 + u) * Rabs x.
Proof.
  intros Hu H. unfold rounded, fl in H. rewrite Rplus_0_r in H. replace y with ((y - x) + x) by ring.
  eapply Rle_trans; [apply Rabs_triang|]. lra.
Qed.

Section Shadow.
Variables (u e hx tau h w hw : R) (F : R -> R -> R) (s : vec).
Hypotheses (Hu : 0 <= u < 1) (Hu2 : 2 * u <= 1) (He : 0 <= e * u < 1) (HF : exponential u e hx F) (Tau : 0 <= tau)
  (Hx : 0 <= hx) (Hh : 0 <= h) (Hw : 0 <= w < 1) (Hhw : 0 <= hw).

(* the exponential that loses nothing: F, moved into what roundings allow *)
Definition low a b := exp ((a - b) - 2 * u * Rabs (a - b)) * (1 - e * u).
Definition high a b := exp ((a - b) + 2 * u * Rabs (a - b)) * (1 + e * u).
Definition kept a b := Rmax (low a b) (Rmin (high a b) (F a b)).

Lemma low_high a b : low a b <= high a b.
Proof.
  unfold low, high. assert (0 <= 2 * u * Rabs (a - b)) by (apply Rmult_le_pos; [lra|apply Rabs_pos]).
  apply Rmult_le_compat; try lra; [left; apply exp_pos|apply exp_le; lra].
Qed.

Lemma kept_close a b : Rabs (F a b - kept a b) <= hx.
Proof.
  destruct HF as [_ H]. destruct (H a b) as (x & X & R). unfold fl in R. rewrite (Rabs_pos_eq (exp x)) in R by (left; apply exp_pos).
  assert (Hd : - (2 * u * Rabs (a - b)) <= x - (a - b) <= 2 * u * Rabs (a - b)).
  { revert X. generalize (2 * u * Rabs (a - b)). intros q X. unfold Rabs in X. destruct (Rcase_abs _); lra. }
  assert (L : low a b <= exp x * (1 - e * u)).
  { unfold low. apply Rmult_le_compat_r; [lra|]. apply exp_le. lra. }
  assert (U : exp x * (1 + e * u) <= high a b).
  { unfold high. apply Rmult_le_compat_r; [lra|]. apply exp_le. lra. }
  pose proof (low_high a b). assert (B : exp x * (1 - e * u) - hx <= F a b <= exp x * (1 + e * u) + hx).
  { unfold Rabs in R. destruct (Rcase_abs _); lra. }
  unfold kept, Rmax, Rmin. destruct (Rle_dec (high a b) (F a b)), (Rle_dec (low a b) _); unfold Rabs;
    destruct (Rcase_abs _); lra.
Qed.

Lemma kept_exponential : exponential u e 0 kept.
Proof.
  split.
  - intro a. unfold kept, low, high. destruct HF as [H _]. rewrite H, Rminus_eq_0, Rabs_R0, Rmult_0_r, Rminus_0_r, Rplus_0_r, exp_0.
    rewrite Rmin_right, Rmax_right; lra.
  - intros a b. set (q := 2 * u * Rabs (a - b)). assert (Q : 0 <= q) by (apply Rmult_le_pos; [lra|apply Rabs_pos]).
    set (k := kept a b). assert (K : low a b <= k <= high a b).
    { unfold k, kept. pose proof (low_high a b). split; [apply Rmax_l|]. apply Rmax_lub; [assumption|apply Rmin_l]. }
    unfold low, high in K. fold q in K. set (E := exp ((a - b) - q)) in *. set (E' := exp ((a - b) + q)) in *.
    assert (EE : E <= E') by (apply exp_le; lra). assert (0 < E) by apply exp_pos.
    assert (G : forall x, Rabs (k - exp x) <= e * u * exp x -> fl (e * u) 0 (exp x) k).
    { intros x R. unfold fl. rewrite (Rabs_pos_eq (exp x)) by (left; apply exp_pos). lra. }
    destruct (Rle_dec k E) as [L|L]; [|apply Rnot_le_lt in L; destruct (Rle_dec E' k) as [M|M]; [|apply Rnot_le_lt in M]].
    + exists ((a - b) - q). split; [replace (a - b - q - (a - b)) with (- q) by ring; rewrite Rabs_Ropp, Rabs_pos_eq; lra|].
      apply G. fold E. rewrite Rabs_left1 by lra. lra.
    + exists ((a - b) + q). split; [replace (a - b + q - (a - b)) with q by ring; rewrite Rabs_pos_eq; lra|].
      apply G. fold E'. rewrite Rabs_pos_eq by lra. lra.
    + exists (ln k). assert (Lk : exp (ln k) = k) by (apply exp_ln; lra). split.
      * assert ((a - b) - q <= ln k) by (rewrite <- (ln_exp ((a - b) - q)); left; apply ln_increasing; [apply exp_pos|exact L]).
        assert (ln k <= (a - b) + q) by (rewrite <- (ln_exp ((a - b) + q)); left; apply ln_increasing; [lra|exact M]).
        fold q. unfold Rabs. destruct (Rcase_abs _); lra.
      * apply G. rewrite Lk, Rminus_eq_0, Rabs_R0. nra.
Qed.

Let B := 1 + e * u + hx.
Let T := exp ((1 + 2 * u) * tau).
Let M := (1 + u) ^ 2 * B.
Let K := (1 + w) * M.

Lemma T1 : 1 <= T.
Proof. unfold T. rewrite <- exp_0 at 1. apply exp_le. apply Rmult_le_pos; lra. Qed.
Lemma B1 : 1 <= B. Proof. unfold B. lra. Qed.
Lemma M1 : 1 <= M. Proof. unfold M. pose proof B1. nra. Qed.

Lemma kept_le a b : a <= b + tau -> 0 <= kept a b <= T * (1 + e * u).
Proof.
  intro H. assert (0 <= low a b) by (unfold low; apply Rmult_le_pos; [left; apply exp_pos|lra]).
  unfold kept. split; [apply Rle_trans with (low a b); [assumption|apply Rmax_l]|].
  assert (U : high a b <= T * (1 + e * u)).
  { unfold high, T. apply Rmult_le_compat_r; [lra|]. apply exp_le. unfold Rabs. destruct (Rcase_abs _); nra. }
  apply Rmax_lub; [pose proof (low_high a b); lra|]. eapply Rle_trans; [apply Rmin_l|exact U].
Qed.

Lemma step_le a b : a <= b -> 0 <= kept a b <= 1 + e * u /\ Rabs (F a b) <= B.
Proof.
  intro H. assert (0 <= low a b) by (unfold low; apply Rmult_le_pos; [left; apply exp_pos|lra]).
  assert (U : high a b <= 1 + e * u).
  { unfold high. rewrite <- (Rmult_1_l (1 + e * u)) at 2. apply Rmult_le_compat_r; [lra|]. rewrite <- exp_0. apply exp_le.
    rewrite Rabs_left1 by lra. nra. }
  assert (Kb : 0 <= kept a b <= 1 + e * u).
  { unfold kept. split; [apply Rle_trans with (low a b); [assumption|apply Rmax_l]|].
    apply Rmax_lub; [pose proof (low_high a b); lra|]. eapply Rle_trans; [apply Rmin_l|exact U]. }
  split; [exact Kb|]. pose proof (kept_close a b) as C. unfold B. unfold Rabs in *.
  destruct (Rcase_abs (F a b - kept a b)), (Rcase_abs (F a b)); lra.
Qed.
(* a running sum *)
Section Sum.
Variables (one one0 : nat -> R -> R -> Prop) (x : vec).
Hypothesis Leaf : forall j g g0 t, one j g t -> Rabs (g - g0) <= hx -> 0 <= g0 <= T * (1 + e * u) ->
  exists t0, one0 j g0 t0 /\ Rabs (t - t0) <= K * ((hx + hw) * Rabs (x j) + h) /\ Rabs t0 <= T * K * Rabs (x j).
Let size c := lsum (fun j => Rabs (x j)) (keys c).
Let terms p c := lsum (fun j => (INR (S (changes p j)) * hx + hw) * Rabs (x j)) (keys c).

Lemma size_pos c : 0 <= size c. Proof. apply lsum_nonneg. intros; apply Rabs_pos. Qed.

Lemma terms_pos p c : 0 <= terms p c.
Proof.
  apply lsum_nonneg. intros j _. apply Rmult_le_pos; [|apply Rabs_pos]. pose proof (pos_INR (S (changes p j))).
  assert (0 <= INR (S (changes p j)) * hx) by (apply Rmult_le_pos; assumption). lra.
Qed.

(* in a meeting, each key of a part has its changes there, and one more where the shift changes *)
Lemma terms_more p c m : (forall j, In j (keys c) -> (changes c j + (if Req_EM_T (shift c) m then 0 else 1) <= changes p j)%nat) ->
  terms c c + (if Req_EM_T (shift c) m then 0 else 1) * hx * size c <= terms p c.
Proof.
  intro H. unfold terms, size. rewrite <- lsum_scal. assert (Add : forall f g l, lsum f l + lsum g l = lsum (fun j => f j + g j) l).
  { intros f g l. induction l as [|i l IH]; simpl; [ring|rewrite <- IH; ring]. }
  rewrite Add. apply lsum_le. intros j I. specialize (H j I). apply le_INR in H. rewrite plus_INR in H. rewrite !S_INR.
  pose proof (Rabs_pos (x j)). set (k := INR (changes c j)) in *. set (k' := INR (changes p j)) in *.
  assert (Q : (k + 1 + (if Req_EM_T (shift c) m then 0 else 1)) * hx <= (k' + 1) * hx).
  { apply Rmult_le_compat_r; [exact Hx|]. destruct (Req_EM_T _ _); simpl in H; lra. }
  replace ((((k + 1) * hx + hw) * Rabs (x j)) + (if Req_EM_T (shift c) m then 0 else 1) * hx * Rabs (x j)) with
    (((k + 1 + (if Req_EM_T (shift c) m then 0 else 1)) * hx + hw) * Rabs (x j)) by ring.
  apply Rmult_le_compat_r; [assumption|lra].
Qed.

Lemma keys_some p : (1 <= length (keys p))%nat.
Proof. induction p; simpl; [|rewrite app_length]; lia. Qed.

Lemma carried_shadow p y : climbing tau s p -> carried u h F s one p y -> exists y0, carried u 0 kept s one0 p y0 /\
  Rabs (y - y0) <= T * K * M ^ (length (keys p) - 1) * (terms p p + (3 * INR (length (keys p)) - 2) * h) /\
  Rabs y0 <= T * K * M ^ (length (keys p) - 1) * size p.
Proof.
  pose proof T1 as HT. pose proof M1 as HM. assert (HK : 1 <= K) by (unfold K; nra).
  assert (HP : forall k, 1 <= M ^ k) by (intro k; apply pow_R1_Rle; exact HM).
  assert (TK : 1 <= T * K) by nra. revert y.
  induction p as [m i|m a IHa b IHb]; intros y C R.
  - simpl in C, R. destruct (Leaf i (F (s i) m) (kept (s i) m) y R (kept_close _ _) (kept_le _ _ C)) as (y0 & H0 & H1 & H2).
    exists y0. split; [exact H0|]. unfold terms, size. cbn [keys length Nat.sub pow lsum changes]. simpl INR. rewrite !Rplus_0_r, !Rmult_1_r.
    split; [|lra]. assert (0 <= (hx + hw) * Rabs (x i) + h) by (pose proof (Rabs_pos (x i)); nra).
    eapply Rle_trans; [exact H1|]. apply Rle_trans with (T * (K * ((hx + hw) * Rabs (x i) + h))); [|right; ring].
    rewrite <- (Rmult_1_l (K * _)) at 1. apply Rmult_le_compat_r; [nra|exact HT].
  - simpl in C, R. destruct C as (Ca & Cb & La & Lb). destruct R as (ya & yb & za & zb & Ra & Rb & Sa & Sb & Rs).
    destruct (IHa ya Ca Ra) as (ya0 & Pa & Ha & Ya). destruct (IHb yb Cb Rb) as (yb0 & Pb & Hb & Yb). clear IHa IHb.
    assert (Step : forall c yc yc0 zc, shift c <= m -> rescaled u h F (shift c) m yc zc ->
      (forall j, In j (keys c) -> (changes c j + (if Req_EM_T (shift c) m then 0 else 1) <= changes (meet m a b) j)%nat) ->
      Rabs (yc - yc0) <= T * K * M ^ (length (keys c) - 1) * (terms c c + (3 * INR (length (keys c)) - 2) * h) ->
      Rabs yc0 <= T * K * M ^ (length (keys c) - 1) * size c ->
      exists z0, rescaled u 0 kept (shift c) m yc0 z0 /\
        (1 + u) * Rabs (zc - z0) <= T * K * M ^ length (keys c) * (terms (meet m a b) c + (3 * INR (length (keys c)) - 1) * h) /\
        (1 + u) * Rabs z0 <= T * K * M ^ length (keys c) * size c).
    { intros c yc yc0 zc Lc Rc Ch Hc Yc. pose proof (terms_more (meet m a b) c m Ch) as Tm.
      pose proof (size_pos c) as Sp. pose proof (terms_pos c c) as Tp. pose proof (keys_some c) as Kc. pose proof (le_INR _ _ Kc) as Kr. simpl INR in Kr.
      replace (M ^ length (keys c)) with (M * M ^ (length (keys c) - 1)).
      2: { change (M * M ^ (length (keys c) - 1)) with (M ^ S (length (keys c) - 1)). f_equal. lia. }
      set (D := T * K * M ^ (length (keys c) - 1)) in *. replace (T * K * (M * M ^ (length (keys c) - 1))) with (M * D) by (unfold D; ring).
      assert (D1 : 1 <= D) by (unfold D; pose proof (HP (length (keys c) - 1)%nat); nra).
      assert (Um : 1 + u <= (1 + u) ^ 2) by nra. assert (Um2 : (1 + u) ^ 2 <= M) by (unfold M; pose proof B1; nra).
      assert (N0 : 0 <= (3 * INR (length (keys c)) - 2) * h) by (apply Rmult_le_pos; lra).
      set (L := (3 * INR (length (keys c)) - 2) * h) in *. replace ((3 * INR (length (keys c)) - 1) * h) with (L + h) by (unfold L; ring).
      pose proof (Rabs_pos (yc - yc0)) as P1. pose proof (Rabs_pos yc0) as P2.
      destruct Rc as [[Es Ez]|Rc].
      - exists yc0. split; [left; split; [exact Es|reflexivity]|]. subst zc.
        destruct (Req_EM_T (shift c) m); [|contradiction]. rewrite !Rmult_0_l, Rplus_0_r in Tm.
        split.
        + apply Rle_trans with (M * (D * (terms c c + L))); [apply Rmult_le_compat; lra|].
          rewrite <- Rmult_assoc. apply Rmult_le_compat_l; [apply Rmult_le_pos; lra|lra].
        + rewrite (Rmult_assoc M). apply Rmult_le_compat; lra.
      - destruct (fl_shadow u h (yc * F (shift c) m) (yc0 * kept (shift c) m) zc (proj1 Hu) Hh Rc) as (z0 & Z0 & Z1).
        destruct (step_le (shift c) m Lc) as [K0 Fb].
        exists z0. split; [right; exact Z0|]. split.
        + assert (Q : Rabs (yc * F (shift c) m - yc0 * kept (shift c) m) <= Rabs (yc - yc0) * B + Rabs yc0 * (if Req_EM_T (shift c) m then 0 else 1) * hx).
          { replace (yc * F (shift c) m - yc0 * kept (shift c) m) with ((yc - yc0) * F (shift c) m + yc0 * (F (shift c) m - kept (shift c) m)) by ring.
            eapply Rle_trans; [apply Rabs_triang|]. rewrite !Rabs_mult. apply Rplus_le_compat; [apply Rmult_le_compat_l; assumption|].
            rewrite Rmult_assoc. apply Rmult_le_compat_l; [exact P2|]. destruct (Req_EM_T (shift c) m) as [E|N].
            - destruct kept_exponential as [K1 _]. destruct HF as [F1 _]. rewrite E, K1, F1, Rminus_eq_0, Rabs_R0. lra.
            - rewrite Rmult_1_l. apply kept_close. }
          set (i := if Req_EM_T (shift c) m then 0 else 1) in *.
          assert (I01 : 0 <= i) by (unfold i; destruct (Req_EM_T _ _); lra).
          apply Rle_trans with ((1 + u) * ((1 + u) * (Rabs (yc - yc0) * B + Rabs yc0 * i * hx) + h)).
          { apply Rmult_le_compat_l; [lra|]. eapply Rle_trans; [exact Z1|]. apply Rplus_le_compat_r, Rmult_le_compat_l; [lra|exact Q]. }
          apply Rle_trans with (M * (D * (terms c c + L)) + M * (D * size c * i * hx) + M * D * h).
          * replace ((1 + u) * ((1 + u) * (Rabs (yc - yc0) * B + Rabs yc0 * i * hx) + h)) with
              (M * Rabs (yc - yc0) + (1 + u) ^ 2 * (Rabs yc0 * i * hx) + (1 + u) * h) by (unfold M; ring).
            assert (0 <= i * hx) by (apply Rmult_le_pos; lra).
            apply Rplus_le_compat; [apply Rplus_le_compat|].
            -- apply Rmult_le_compat_l; [lra|exact Hc].
            -- rewrite !Rmult_assoc. apply Rmult_le_compat; [nra|apply Rmult_le_pos; assumption|exact Um2|]. rewrite <- (Rmult_assoc D).
               apply Rmult_le_compat_r; assumption.
            -- apply Rmult_le_compat_r; [exact Hh|]. nra.
          * apply Rle_trans with (M * D * ((terms c c + i * hx * size c) + (L + h))); [right; ring|].
            apply Rmult_le_compat_l; [apply Rmult_le_pos; lra|lra].
        + pose proof (rounded_le u _ _ (proj1 Hu) Z0) as Z2. rewrite Rabs_mult, (Rabs_pos_eq (kept _ _)) in Z2 by tauto.
          apply Rle_trans with ((1 + u) * ((1 + u) * (Rabs yc0 * B))).
          { apply Rmult_le_compat_l; [lra|]. eapply Rle_trans; [exact Z2|]. apply Rmult_le_compat_l; [lra|].
            apply Rmult_le_compat_l; [exact P2|]. unfold B. lra. }
          replace ((1 + u) * ((1 + u) * (Rabs yc0 * B))) with (M * Rabs yc0) by (unfold M; ring).
          rewrite (Rmult_assoc M). apply Rmult_le_compat_l; [lra|exact Yc]. }
    destruct (Step a ya ya0 za La Sa) as (za0 & Qa & Xa & Wa); [|exact Ha|exact Ya|].
    { intros j I. cbn [changes]. cbv zeta. apply seen in I. rewrite I. lia. }
    destruct (Step b yb yb0 zb Lb Sb) as (zb0 & Qb & Xb & Wb); [|exact Hb|exact Yb|].
    { intros j I. cbn [changes]. cbv zeta. apply seen in I. rewrite I. lia. }
    clear Step Ha Ya Hb Yb.
    destruct (fl_shadow u 0 (za + zb) (za0 + zb0) y (proj1 Hu) (Rle_refl 0) Rs) as (y0 & Y0 & Y1).
    exists y0. split; [exists ya0, yb0, za0, zb0; tauto|].
    assert (Split : terms (meet m a b) (meet m a b) = terms (meet m a b) a + terms (meet m a b) b) by (unfold terms at 1; cbn [keys]; apply lsum_app).
    assert (Split' : size (meet m a b) = size a + size b) by (unfold size at 1; cbn [keys]; apply lsum_app).
    rewrite Split, Split'. cbn [keys]. rewrite app_length, plus_INR.
    pose proof (keys_some a) as Na. pose proof (keys_some b) as Nb.
    set (P := M ^ (length (keys a) + length (keys b) - 1)).
    assert (Pa' : M ^ length (keys a) <= P) by (apply Rle_pow; [exact HM|lia]).
    assert (Pb' : M ^ length (keys b) <= P) by (apply Rle_pow; [exact HM|lia]).
    pose proof (terms_pos (meet m a b) a) as Ta. pose proof (terms_pos (meet m a b) b) as Tb. pose proof (size_pos a) as Za. pose proof (size_pos b) as Zb.
    pose proof (le_INR _ _ Na) as Ia. pose proof (le_INR _ _ Nb) as Ib. simpl INR in Ia, Ib.
    assert (Up : forall k v v', M ^ k <= P -> v <= T * K * M ^ k * v' -> 0 <= v' -> v <= T * K * P * v').
    { intros k v v' Hk Hv V. eapply Rle_trans; [exact Hv|]. apply Rmult_le_compat_r; [exact V|]. apply Rmult_le_compat_l; lra. }
    apply (Up _ _ _ Pa') in Xa; [|apply Rplus_le_le_0_compat; [exact Ta|apply Rmult_le_pos; lra]].
    apply (Up _ _ _ Pb') in Xb; [|apply Rplus_le_le_0_compat; [exact Tb|apply Rmult_le_pos; lra]].
    apply (Up _ _ _ Pa') in Wa; [|exact Za]. apply (Up _ _ _ Pb') in Wb; [|exact Zb].
    split.
    + eapply Rle_trans; [exact Y1|]. rewrite Rplus_0_r.
      apply Rle_trans with ((1 + u) * Rabs (za - za0) + (1 + u) * Rabs (zb - zb0)).
      { rewrite <- Rmult_plus_distr_l. apply Rmult_le_compat_l; [lra|].
        replace (za + zb - (za0 + zb0)) with ((za - za0) + (zb - zb0)) by ring. apply Rabs_triang. }
      eapply Rle_trans; [apply Rplus_le_compat; [exact Xa|exact Xb]|]. right. ring.
    + eapply Rle_trans; [apply (rounded_le u (za0 + zb0)); [lra|exact Y0]|].
      apply Rle_trans with ((1 + u) * Rabs za0 + (1 + u) * Rabs zb0).
      { rewrite <- Rmult_plus_distr_l. apply Rmult_le_compat_l; [lra|]. apply Rabs_triang. }
      eapply Rle_trans; [apply Rplus_le_compat; [exact Wa|exact Wb]|]. right. ring.
Qed.
End Sum.
End Shadow.
