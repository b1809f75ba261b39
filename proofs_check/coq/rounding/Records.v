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

Lemma counted_more s j l h lo hi m m' : (lo <= l <= j)%nat -> (j < h <= hi)%nat -> largest s l h m -> largest s lo hi m' ->
  m <> m' -> (S (counted s j l h) <= counted s j lo hi)%nat.
Proof.
  intros Hl Hh [Hm (i0 & I0 & E0)] [Hm' (i & I & E)] N.
  assert (m < m').
  { assert (m <= m') by (rewrite <- E0; apply Hm'; lia). lra. }
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

Lemma running_shift s p lo hi : running s p lo hi -> largest s lo hi (shift p).
Proof. destruct p; simpl; tauto. Qed.

Lemma running_inside s p lo hi j : running s p lo hi -> In j (keys p) -> (lo <= j < hi)%nat.
Proof.
  revert lo hi. induction p as [m i|m a IHa b IHb]; simpl; intros lo hi H I.
  - destruct I as [->|[]]. tauto.
  - destruct H as (_ & (l & h & Hl & Hh & Ha) & (l' & h' & Hl' & Hh' & Hb)).
    apply in_app_or in I. destruct I as [I|I]; [specialize (IHa l h Ha I)|specialize (IHb l' h' Hb I)]; lia.
Qed.

Lemma changes_counted s p lo hi j : running s p lo hi -> NoDup (keys p) -> In j (keys p) ->
  (changes p j <= counted s j lo hi)%nat.
Proof.
  revert lo hi. induction p as [m i|m a IHa b IHb]; intros lo hi H D I; [simpl; lia|].
  simpl in D, I. destruct H as (Hm & (l & h & Hl & Hh & Ha) & (l' & h' & Hl' & Hh' & Hb)).
  destruct (nodup_apart _ _ D) as (Da & Db & Apart).
  assert (Step : forall c x y, (lo <= x)%nat -> (y <= hi)%nat -> running s c x y -> In j (keys c) ->
    (changes c j <= counted s j x y)%nat ->
    (changes c j + (if Req_EM_T (shift c) m then 0 else 1) <= counted s j lo hi)%nat).
  { intros c x y Hx Hy Hc Ic IH. pose proof (running_inside s c x y j Hc Ic) as B.
    destruct (Req_EM_T (shift c) m) as [E|N].
    - pose proof (counted_mono s j x y lo hi ltac:(lia) ltac:(lia)). lia.
    - pose proof (counted_more s j x y lo hi (shift c) m ltac:(lia) ltac:(lia) (running_shift s c x y Hc) Hm N). lia. }
  cbn [changes]. cbv zeta. destruct (existsb (Nat.eqb j) (keys a)) eqn:Ea; destruct (existsb (Nat.eqb j) (keys b)) eqn:Eb.
  - apply seen in Ea, Eb. destruct (Apart j Ea Eb).
  - apply seen in Ea. rewrite Nat.add_0_r. apply (Step a l h); auto.
  - apply seen in Eb. rewrite Nat.add_0_l. apply (Step b l' h'); auto.
  - lia.
Qed.

Theorem changes_at_most_records n s p j : running s p 0 n -> NoDup (keys p) -> In j (keys p) ->
  (changes p j <= both_ways n s j)%nat.
Proof.
  intros H D I. pose proof (changes_counted s p 0 n j H D I) as C. unfold counted, right, wayleft in C.
  rewrite Nat.sub_0_r in C. exact C.
Qed.
Definition checked_changes_at_most_records : Statement.changes_at_most_records :=
  fun n s p j => changes_at_most_records n s p j.
