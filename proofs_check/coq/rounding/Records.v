(* How often a running maximum may still change after a key. *)
Require Import Reals Lra Lia List.
From AttnPrune.analysis Require Import Sums.
From AttnPrune.rounding Require Import Radius Trees Online.
Open Scope R_scope.

(* the largest number on a way *)
Fixpoint top (s : vec) (way : list nat) (best : R) : R := match way with
  | nil => best
  | i :: way => top s way (if Rlt_dec best (s i) then s i else best) end.

Lemma records_app s a b best : records s (a ++ b) best = (records s a best + records s b (top s a best))%nat.
Proof.
  revert best. induction a as [|i a IH]; intro best; [reflexivity|]. simpl.
  destruct (Rlt_dec best (s i)); rewrite IH; reflexivity.
Qed.

Lemma top_below s a best m : best <= m -> (forall i, In i a -> s i <= m) -> top s a best <= m.
Proof.
  revert best. induction a as [|i a IH]; intros best Hb H; [exact Hb|]. simpl in *.
  apply IH; [|auto]. destruct (Rlt_dec best (s i)); auto.
Qed.

Lemma records_pos s a best i : In i a -> best < s i -> (1 <= records s a best)%nat.
Proof.
  revert best. induction a as [|k a IH]; intros best I H; [destruct I|]. simpl in *.
  destruct (Rlt_dec best (s k)); [lia|]. destruct I as [->|I]; [contradiction|]. apply IH; assumption.
Qed.

(* on a longer way there are no fewer, and one more beyond a number above all before *)
Lemma records_longer s a b best m i : best <= m -> (forall k, In k a -> s k <= m) -> In i b -> m < s i ->
  (S (records s a best) <= records s (a ++ b) best)%nat.
Proof.
  intros Hb Ha I H. rewrite records_app. pose proof (top_below s a best m Hb Ha).
  pose proof (records_pos s b (top s a best) i I ltac:(lra)). lia.
Qed.

Definition right j hi := seq (S j) (hi - S j).
Definition wayleft j lo := rev (seq lo (j - lo)).

Lemma right_split j h hi : (j < h <= hi)%nat -> right j hi = right j h ++ seq h (hi - h).
Proof.
  intro H. unfold right. replace (hi - S j)%nat with ((h - S j) + (hi - h))%nat by lia.
  rewrite seq_app. f_equal. f_equal; lia.
Qed.

Lemma left_split j l lo : (lo <= l <= j)%nat -> wayleft j lo = wayleft j l ++ rev (seq lo (l - lo)).
Proof.
  intro H. unfold wayleft. replace (j - lo)%nat with ((l - lo) + (j - l))%nat by lia.
  rewrite seq_app, rev_app_distr. replace (lo + (l - lo))%nat with l by lia. reflexivity.
Qed.

Definition counted s j lo hi := (records s (right j hi) (s j) + records s (wayleft j lo) (s j))%nat.

Lemma counted_mono s j l h lo hi : (lo <= l <= j)%nat -> (j < h <= hi)%nat -> (counted s j l h <= counted s j lo hi)%nat.
Proof.
  intros Hl Hh. unfold counted. rewrite (right_split j h hi), (left_split j l lo), !records_app by assumption. lia.
Qed.

Lemma counted_more s j l h lo hi m m' : (lo <= l <= j)%nat -> (j < h <= hi)%nat ->
  (forall i, (l <= i < h)%nat -> s i <= m) -> (exists i, (lo <= i < hi)%nat /\ s i = m') -> m < m' ->
  (S (counted s j l h) <= counted s j lo hi)%nat.
Proof.
  intros Hl Hh Hm (i & I & E) N.
  assert (Out : (h <= i)%nat \/ (i < l)%nat).
  { destruct (Nat.lt_ge_cases i l) as [L|L]; [auto|]. destruct (Nat.lt_ge_cases i h) as [L'|L']; [|auto].
    assert (s i <= m) by (apply Hm; lia). lra. }
  assert (Hj : s j <= m) by (apply Hm; lia).
  unfold counted. rewrite (right_split j h hi), (left_split j l lo) by assumption.
  destruct Out as [O|O].
  - pose proof (records_longer s (right j h) (seq h (hi - h)) (s j) m i Hj) as R1.
    rewrite (records_app s (wayleft j l)).
    assert (S (records s (right j h) (s j)) <= records s (right j h ++ seq h (hi - h)) (s j))%nat; [|lia].
    apply R1; [intros k K; apply Hm; unfold right in K; apply in_seq in K; lia|apply in_seq; lia|lra].
  - pose proof (records_longer s (wayleft j l) (rev (seq lo (l - lo))) (s j) m i Hj) as R1.
    rewrite (records_app s (right j h)).
    assert (S (records s (wayleft j l) (s j)) <= records s (wayleft j l ++ rev (seq lo (l - lo))) (s j))%nat; [|lia].
    apply R1; [intros k K; apply Hm; unfold wayleft in K; apply in_rev, in_seq in K; lia
      |apply in_rev; rewrite rev_involutive; apply in_seq; lia|lra].
Qed.

Lemma running_shift tau s p lo hi : running tau s p lo hi -> largest tau s lo hi (shift p).
Proof. destruct p; simpl; tauto. Qed.

Lemma running_inside tau s p lo hi j : running tau s p lo hi -> In j (keys p) -> (lo <= j < hi)%nat.
Proof.
  revert lo hi. induction p as [m i|m a IHa b IHb]; simpl; intros lo hi H I.
  - destruct I as [->|[]]. tauto.
  - destruct H as (_ & (l & h & Hl & Hh & Ha & _) & (l' & h' & Hl' & Hh' & Hb & _)).
    apply in_app_or in I. destruct I as [I|I]; [specialize (IHa l h Ha I)|specialize (IHb l' h' Hb I)]; lia.
Qed.

Lemma changes_counted tau s p lo hi j : running tau s p lo hi -> NoDup (keys p) -> In j (keys p) ->
  (changes p j <= counted s j lo hi)%nat.
Proof.
  revert lo hi. induction p as [m i|m a IHa b IHb]; intros lo hi H D I; [simpl; lia|].
  simpl in D, I. destruct H as (Hm & (l & h & Hl & Hh & Ha & Ja) & (l' & h' & Hl' & Hh' & Hb & Jb)).
  destruct (nodup_apart _ _ D) as (Da & Db & Apart).
  assert (Step : forall c x y, (lo <= x)%nat -> (y <= hi)%nat -> running tau s c x y ->
    shift c = m \/ shift c + tau < m -> In j (keys c) ->
    (changes c j <= counted s j x y)%nat ->
    (changes c j + (if Req_EM_T (shift c) m then 0 else 1) <= counted s j lo hi)%nat).
  { intros c x y Hx Hy Hc Jc Ic IH. pose proof (running_inside tau s c x y j Hc Ic) as B.
    destruct (Req_EM_T (shift c) m) as [E|N].
    - pose proof (counted_mono s j x y lo hi ltac:(lia) ltac:(lia)). lia.
    - destruct Jc as [E|L]; [contradiction|].
      pose proof (counted_more s j x y lo hi _ m ltac:(lia) ltac:(lia) (proj1 (running_shift tau s c x y Hc)) (proj2 Hm) L). lia. }
  cbn [changes]. cbv zeta. destruct (existsb (Nat.eqb j) (keys a)) eqn:Ea; destruct (existsb (Nat.eqb j) (keys b)) eqn:Eb.
  - apply seen in Ea, Eb. destruct (Apart j Ea Eb).
  - apply seen in Ea. rewrite Nat.add_0_r. apply (Step a l h); auto.
  - apply seen in Eb. rewrite Nat.add_0_l. apply (Step b l' h'); auto.
  - lia.
Qed.

Theorem changes_at_most_records n tau s p j : 0 <= tau -> running tau s p 0 n -> NoDup (keys p) -> In j (keys p) ->
  (changes p j <= both_ways n s j)%nat.
Proof.
  intros _ H D I. pose proof (changes_counted tau s p 0 n j H D I) as C. unfold counted, right, wayleft in C.
  rewrite Nat.sub_0_r in C. exact C.
Qed.
Definition checked_changes_at_most_records : Statement.changes_at_most_records :=
  fun n tau s p j => changes_at_most_records n tau s p j.

(* ---- any order ---- *)
Definition above n (s : vec) (x : R) := length (filter (fun i => if Rlt_dec x (s i) then true else false) (seq 0 n)).

Lemma filter_le (f g : nat -> bool) l : (forall i, In i l -> f i = true -> g i = true) ->
  (length (filter f l) <= length (filter g l))%nat.
Proof.
  induction l as [|k l IH]; intro H; [simpl; lia|]. pose proof (IH (fun i I => H i (or_intror I))) as L. simpl.
  pose proof (H k (or_introl eq_refl)) as Hk. destruct (f k); [rewrite Hk by reflexivity|destruct (g k)]; simpl; lia.
Qed.

Lemma filter_more (f g : nat -> bool) l i : (forall k, In k l -> f k = true -> g k = true) -> In i l -> f i = false ->
  g i = true -> (S (length (filter f l)) <= length (filter g l))%nat.
Proof.
  induction l as [|k l IH]; intros H I F G; [destruct I|]. simpl. destruct I as [->|I].
  - rewrite F, G. simpl. apply le_n_S, filter_le. intros; apply H; [right; assumption|assumption].
  - pose proof (IH (fun i I => H i (or_intror I)) I F G) as L. pose proof (H k (or_introl eq_refl)) as Hk.
    destruct (f k); [rewrite Hk by reflexivity|destruct (g k)]; simpl; lia.
Qed.

Lemma changes_above n tau s p j : 0 <= tau -> climbing tau s p -> raised n tau s p -> NoDup (keys p) -> In j (keys p) ->
  (changes p j + above n s (shift p + tau) <= above n s (s j))%nat.
Proof.
  intros Ht. induction p as [m i|m a IHa b IHb]; intros C H D I.
  - simpl in *. destruct I as [->|[]]. apply filter_le. intros k _. destruct (Rlt_dec (m + tau) (s k)), (Rlt_dec (s j) (s k)); auto; lra.
  - cbn [climbing raised keys shift] in *. destruct C as (Ca & Cb & _ & _). destruct H as (Ha & Hb & Ja & Jb & (i & Hi & Ei)).
    destruct (nodup_apart _ _ D) as (Da & Db & Apart).
    assert (Step : forall c, (shift c = m \/ shift c + tau < m) ->
      (changes c j + above n s (shift c + tau) <= above n s (s j))%nat ->
      (changes c j + (if Req_EM_T (shift c) m then 0 else 1) + above n s (m + tau) <= above n s (s j))%nat).
    { intros c Jc IH. destruct (Req_EM_T (shift c) m) as [E|N]; [rewrite E in IH; lia|]. destruct Jc as [E|L]; [contradiction|].
      assert (S (above n s (m + tau)) <= above n s (shift c + tau))%nat; [|lia].
      apply filter_more with i; [| |rewrite Ei|rewrite Ei].
      - intros k _. destruct (Rlt_dec (m + tau) (s k)), (Rlt_dec (shift c + tau) (s k)); auto; lra.
      - apply in_seq. lia.
      - destruct (Rlt_dec (m + tau) m); [lra|reflexivity].
      - destruct (Rlt_dec (shift c + tau) m); [reflexivity|contradiction]. }
    cbn [changes]. cbv zeta. destruct (existsb (Nat.eqb j) (keys a)) eqn:Ea; destruct (existsb (Nat.eqb j) (keys b)) eqn:Eb.
    + apply seen in Ea, Eb. destruct (Apart j Ea Eb).
    + apply seen in Ea. rewrite Nat.add_0_r. apply Step; auto.
    + apply seen in Eb. rewrite Nat.add_0_l. apply Step; auto.
    + apply in_app_or in I. destruct I as [I|I]; apply seen in I; congruence.
Qed.

Theorem changes_at_most_larger n tau s sh a p j : 0 <= tau -> (forall i, (i < n)%nat -> Rabs (sh i - s i) <= a i) ->
  climbing tau sh p -> raised n tau sh p -> NoDup (keys p) -> In j (keys p) -> (j < n)%nat ->
  (changes p j <= larger n s a j)%nat.
Proof.
  intros Ht Ha C H D I Hj. pose proof (changes_above n tau sh p j Ht C H D I) as B.
  apply Nat.le_trans with (above n sh (sh j)); [lia|]. apply filter_le. intros i Hi. apply in_seq in Hi.
  pose proof (Ha i ltac:(lia)) as Ai. pose proof (Ha j Hj) as Aj.
  destruct (Rlt_dec (sh j) (sh i)) as [L|]; [intros _|discriminate].
  destruct (Rlt_dec (s j - a j) (s i + a i)) as [_|N].
  - destruct (Nat.eqb_spec i j) as [->|_]; [lra|reflexivity].
  - unfold Rabs in *. destruct (Rcase_abs (sh i - s i)), (Rcase_abs (sh j - s j)); lra.
Qed.
Definition checked_changes_at_most_larger : Statement.changes_at_most_larger :=
  fun n tau s sh a p j => changes_at_most_larger n tau s sh a p j.
