(* Sums added in any order, of numbers and of computed products. *)
Require Import Reals Lra Lia List Permutation.
From AttnPrune.analysis Require Import Sums.
From AttnPrune.rounding Require Import Radius.
Open Scope R_scope.

(* ---- sums over lists of indices ---- *)
Fixpoint lsum (f : nat -> R) (l : list nat) : R := match l with nil => 0 | cons j r => f j + lsum f r end.

Lemma lsum_app f a b : lsum f (a ++ b) = lsum f a + lsum f b.
Proof. induction a as [|x a IH]; simpl; [|rewrite IH]; ring. Qed.

Lemma lsum_perm f a b : Permutation a b -> lsum f a = lsum f b.
Proof. induction 1; simpl; lra. Qed.

Lemma lsum_ext f g l : (forall j, In j l -> f j = g j) -> lsum f l = lsum g l.
Proof. induction l as [|x l IH]; simpl; intro H; [reflexivity|]. rewrite H, IH; auto. Qed.

Lemma lsum_le f g l : (forall j, In j l -> f j <= g j) -> lsum f l <= lsum g l.
Proof.
  induction l as [|x l IH]; simpl; intro H; [lra|].
  assert (f x <= g x) by auto. assert (lsum f l <= lsum g l) by auto. lra.
Qed.

Lemma lsum_scal c f l : lsum (fun j => c * f j) l = c * lsum f l.
Proof. induction l as [|x l IH]; simpl; [|rewrite IH]; ring. Qed.

Lemma lsum_nonneg f l : (forall j, In j l -> 0 <= f j) -> 0 <= lsum f l.
Proof.
  induction l as [|x l IH]; simpl; intro H; [lra|].
  assert (0 <= f x) by auto. assert (0 <= lsum f l) by auto. lra.
Qed.

Lemma lsum_seq f n : lsum f (seq 0 n) = rsum n f.
Proof. induction n as [|n IH]; [reflexivity|]. rewrite seq_S, lsum_app, IH. simpl. ring. Qed.

Lemma lsum_once f n l : each_once n l -> lsum f l = rsum n f.
Proof. intro H. rewrite (lsum_perm f _ _ H). apply lsum_seq. Qed.

Lemma in_once n l j : each_once n l -> In j l <-> (j < n)%nat.
Proof.
  intro H. split; intro I.
  - apply (Permutation_in j H) in I. apply in_seq in I. lia.
  - apply (Permutation_in j (Permutation_sym H)). apply in_seq. lia.
Qed.

Lemma nodup_once n l : each_once n l -> NoDup l.
Proof. intro H. apply (Permutation_NoDup (Permutation_sym H)), seq_NoDup. Qed.

Lemma length_once n l : each_once n l -> length l = n.
Proof. intro H. rewrite (Permutation_length H). apply seq_length. Qed.

(* ---- any tree ---- *)
Lemma leaves_pos t : (0 < length (leaves t))%nat.
Proof. induction t as [j|a IHa b IHb]; simpl; [|rewrite app_length]; lia. Qed.

Lemma added_error u h x t y : 0 <= u < 1 -> 0 <= h -> added u h x t y ->
  let k := (length (leaves t) - 1)%nat in
  Rabs (y - lsum x (leaves t)) <= (grow u k - 1) * lsum (fun j => Rabs (x j)) (leaves t) + grow u k * INR k * h.
Proof.
  intros Hu Hh. revert y. induction t as [j|a IHa b IHb]; simpl; intros y H.
  - subst y. unfold grow. simpl. replace (x j - (x j + 0)) with 0 by ring. rewrite Rabs_R0, Rinv_1. lra.
  - destruct H as (ya & yb & Ha & Hb & R). specialize (IHa ya Ha). specialize (IHb yb Hb). simpl in IHa, IHb.
    rewrite !lsum_app, app_length.
    pose proof (leaves_pos a) as Pa. pose proof (leaves_pos b) as Pb.
    set (na := length (leaves a)) in *. set (nb := length (leaves b)) in *.
    set (k := (na + nb - 2)%nat).
    replace (na + nb - 1)%nat with (S k) by (unfold k; lia).
    set (Sa := lsum x (leaves a)) in *. set (Sb := lsum x (leaves b)) in *.
    set (Aa := lsum (fun j => Rabs (x j)) (leaves a)) in *. set (Ab := lsum (fun j => Rabs (x j)) (leaves b)) in *.
    assert (Nonneg : forall l, 0 <= lsum (fun j => Rabs (x j)) l) by (intro l; apply lsum_nonneg; intros; apply Rabs_pos).
    assert (Ab0 : forall l, Rabs (lsum x l) <= lsum (fun j => Rabs (x j)) l).
    { induction l as [|i l IH]; simpl; [rewrite Rabs_R0; lra|]. eapply Rle_trans; [apply Rabs_triang|]. lra. }
    pose proof (Nonneg (leaves a)) as A0. pose proof (Nonneg (leaves b)) as B0. fold Aa in A0. fold Ab in B0.
    pose proof (Ab0 (leaves a)) as A1. pose proof (Ab0 (leaves b)) as B1. fold Aa Sa in A1. fold Ab Sb in B1.
    set (g := grow u k).
    assert (Ga : grow u (na - 1) <= g) by (apply grow_mono; [exact Hu|unfold k; lia]).
    assert (Gb : grow u (nb - 1) <= g) by (apply grow_mono; [exact Hu|unfold k; lia]).
    assert (g1 : 1 <= g) by (apply grow_ge1; exact Hu).
    assert (Ka : 0 <= INR (na - 1)) by apply pos_INR. assert (Kb : 0 <= INR (nb - 1)) by apply pos_INR.
    assert (K : INR (S k) = INR (na - 1) + INR (nb - 1) + 1) by (rewrite S_INR, <- plus_INR; f_equal; f_equal; unfold k; lia).
    assert (Ea : Rabs (ya - Sa) <= (g - 1) * Aa + g * (INR (na - 1) * h)).
    { eapply Rle_trans; [exact IHa|]. assert (0 <= INR (na - 1) * h) by (apply Rmult_le_pos; assumption).
      rewrite (Rmult_assoc (grow u _)). apply Rplus_le_compat; apply Rmult_le_compat_r; lra. }
    assert (Eb : Rabs (yb - Sb) <= (g - 1) * Ab + g * (INR (nb - 1) * h)).
    { eapply Rle_trans; [exact IHb|]. assert (0 <= INR (nb - 1) * h) by (apply Rmult_le_pos; assumption).
      rewrite (Rmult_assoc (grow u _)). apply Rplus_le_compat; apply Rmult_le_compat_r; lra. }
    rewrite grow_S by exact Hu. fold g.
    assert (gu : (1 + u) * g <= g * / (1 - u)).
    { rewrite Rmult_comm. apply Rmult_le_compat_l; [lra|].
      apply (Rmult_le_reg_r (1 - u)); [lra|]. rewrite Rinv_l by lra. nra. }
    set (G := g * / (1 - u)) in *. assert (1 <= G) by nra.
    unfold fl in R.
    assert (E1 : Rabs (ya + yb - (Sa + Sb)) <= (g - 1) * (Aa + Ab) + g * ((INR (na - 1) + INR (nb - 1)) * h)).
    { replace (ya + yb - (Sa + Sb)) with ((ya - Sa) + (yb - Sb)) by ring.
      eapply Rle_trans; [apply Rabs_triang|]. lra. }
    assert (E2 : Rabs (ya + yb) <= Aa + Ab + ((g - 1) * (Aa + Ab) + g * ((INR (na - 1) + INR (nb - 1)) * h))).
    { replace (ya + yb) with ((ya + yb - (Sa + Sb)) + (Sa + Sb)) by ring.
      eapply Rle_trans; [apply Rabs_triang|]. pose proof (Rabs_triang Sa Sb). lra. }
    set (N := (INR (na - 1) + INR (nb - 1)) * h) in *.
    assert (N0 : 0 <= N) by (apply Rmult_le_pos; lra).
    assert (E3 : Rabs (y - (Sa + Sb)) <= (1 + u) * ((g - 1) * (Aa + Ab) + g * N) + u * (Aa + Ab) + h).
    { replace (y - (Sa + Sb)) with ((y - (ya + yb)) + (ya + yb - (Sa + Sb))) by ring.
      eapply Rle_trans; [apply Rabs_triang|]. destruct Hu as [Hu0 _].
      pose proof (Rmult_le_compat_l u _ _ Hu0 E2). lra. }
    eapply Rle_trans; [exact E3|].
    replace (G * INR (S k) * h) with (G * N + G * h) by (rewrite K; unfold N; ring).
    assert ((1 + u) * g * (Aa + Ab) <= G * (Aa + Ab)) by (apply Rmult_le_compat_r; lra).
    assert ((1 + u) * g * N <= G * N) by (apply Rmult_le_compat_r; lra).
    assert (h <= G * h) by nra. nra.
Qed.

Theorem sum_error n u h x y : 0 <= u < 1 -> 0 <= h -> summed u h n x y ->
  Rabs (y - rsum n x) <= (grow u (n - 1) - 1) * rsum n (fun j => Rabs (x j)) + grow u (n - 1) * INR (n - 1) * h.
Proof.
  intros Hu Hh (t & P & A). pose proof (added_error u h x t y Hu Hh A) as E. simpl in E.
  rewrite (length_once _ _ P), !(lsum_once _ _ _ P) in E. exact E.
Qed.

Theorem product_error n u h x xh eps z y : 0 <= u < 1 -> 0 <= h ->
  (forall j, (j < n)%nat -> Rabs (xh j - x j) <= eps j) -> product u h n xh z y ->
  Rabs (y - rsum n (fun j => x j * z j)) <= rsum n (fun j => eps j * Rabs (z j)) +
    (grow u n - 1) * rsum n (fun j => (Rabs (x j) + eps j) * Rabs (z j)) + grow u n * INR (2 * n) * h.
Proof.
  intros Hu Hh He (xz & Hp & Hs). 
  assert (Hn : (0 < n)%nat).
  { destruct Hs as (t & P & _). rewrite <- (length_once _ _ P). apply leaves_pos. }
  pose proof (sum_error n u h xz y Hu Hh Hs) as E.
  set (B := rsum n (fun j => (Rabs (x j) + eps j) * Rabs (z j))).
  assert (B0 : 0 <= B).
  { apply rsum_nonneg. intros i Hi. apply Rmult_le_pos; [|apply Rabs_pos].
    pose proof (Rabs_pos (x i)). pose proof (Rabs_pos (xh i - x i)). pose proof (He i Hi). lra. }
  assert (S1 : forall j, (j < n)%nat -> Rabs (xh j * z j) <= (Rabs (x j) + eps j) * Rabs (z j)).
  { intros j Hj. rewrite Rabs_mult. apply Rmult_le_compat_r; [apply Rabs_pos|].
    replace (xh j) with (x j + (xh j - x j)) by ring. eapply Rle_trans; [apply Rabs_triang|]. pose proof (He j Hj). lra. }
  assert (E1 : Rabs (rsum n xz - rsum n (fun j => x j * z j)) <= rsum n (fun j => eps j * Rabs (z j)) + u * B + INR n * h).
  { rewrite <- rsum_minus. eapply Rle_trans; [apply rsum_abs_le|]. unfold B.
    rewrite <- rsum_scal, <- (rsum_const n h), <- !rsum_plus. apply rsum_le. intros j Hj.
    replace (xz j - x j * z j) with ((xz j - xh j * z j) + (xh j - x j) * z j) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. rewrite (Rabs_mult (xh j - x j)).
    pose proof (Hp j Hj) as F. unfold fl in F. pose proof (Rabs_pos (z j)) as Z. pose proof (S1 j Hj) as S. pose proof (He j Hj) as H1.
    assert (u * Rabs (xh j * z j) <= u * ((Rabs (x j) + eps j) * Rabs (z j))) by (apply Rmult_le_compat_l; lra).
    assert (Rabs (xh j - x j) * Rabs (z j) <= eps j * Rabs (z j)) by (apply Rmult_le_compat_r; lra). lra. }
  assert (E2 : rsum n (fun j => Rabs (xz j)) <= (1 + u) * B + INR n * h).
  { unfold B. rewrite <- rsum_scal, <- (rsum_const n h), <- !rsum_plus. apply rsum_le. intros j Hj.
    replace (xz j) with ((xz j - xh j * z j) + xh j * z j) by ring. eapply Rle_trans; [apply Rabs_triang|].
    pose proof (Hp j Hj) as F. unfold fl in F. pose proof (S1 j Hj) as S.
    assert (u * Rabs (xh j * z j) <= u * ((Rabs (x j) + eps j) * Rabs (z j))) by (apply Rmult_le_compat_l; lra). lra. }
  set (g := grow u (n - 1)) in *. assert (g1 : 1 <= g) by (apply grow_ge1; exact Hu).
  replace (grow u n) with (g * / (1 - u)) by (unfold g; rewrite <- grow_S by exact Hu; f_equal; lia).
  assert (gu : (1 + u) * g <= g * / (1 - u)).
  { rewrite Rmult_comm. apply Rmult_le_compat_l; [lra|].
    apply (Rmult_le_reg_r (1 - u)); [lra|]. rewrite Rinv_l by lra. nra. }
  set (G := g * / (1 - u)) in *.
  assert (g <= G) by nra.
  replace (y - rsum n (fun j => x j * z j)) with ((y - rsum n xz) + (rsum n xz - rsum n (fun j => x j * z j))) by ring.
  eapply Rle_trans; [apply Rabs_triang|].
  assert (N : INR (n - 1) <= INR n) by (apply le_INR; lia). pose proof (pos_INR (n - 1)) as N0.
  rewrite mult_INR. simpl (INR 2).
  assert ((g - 1) * rsum n (fun j => Rabs (xz j)) <= (g - 1) * ((1 + u) * B + INR n * h)) by (apply Rmult_le_compat_l; lra).
  assert ((1 + u) * g * B <= G * B) by (apply Rmult_le_compat_r; lra).
  assert (NH : 0 <= INR n * h) by (apply Rmult_le_pos; [apply pos_INR|exact Hh]).
  assert (g * (INR n * h) <= G * (INR n * h)) by (apply Rmult_le_compat_r; lra).
  assert (g * (INR (n - 1) * h) <= G * (INR n * h)).
  { apply Rmult_le_compat; try lra; [apply Rmult_le_pos; lra|apply Rmult_le_compat_r; lra]. }
  lra.
Qed.

Theorem score_error u h k f x xh eps y b bh beta z : 0 <= u -> 0 <= h -> 0 <= k ->
  (forall p q, Rabs (f p - f q) <= Rabs (p - q)) -> Rabs (xh - x) <= eps -> Rabs (bh - b) <= beta ->
  fl (k * u) h (f xh) y -> rounded u (y + bh) z ->
  Rabs (z - (f x + b)) <= (1 + u) * (eps + k * u * (Rabs (f x) + eps) + h + beta) + u * Rabs (f x + b).
Proof.
  intros Hu Hh Hk Hf Hx Hb Hy Hz. unfold rounded, fl in *. rewrite Rplus_0_r in Hz. specialize (Hf xh x).
  assert (F : Rabs (f xh) <= Rabs (f x) + eps).
  { replace (f xh) with (f x + (f xh - f x)) by ring. eapply Rle_trans; [apply Rabs_triang|]. lra. }
  assert (Y : Rabs (y + bh - (f x + b)) <= eps + k * u * (Rabs (f x) + eps) + h + beta).
  { replace (y + bh - (f x + b)) with ((y - f xh) + (f xh - f x) + (bh - b)) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. pose proof (Rabs_triang (y - f xh) (f xh - f x)).
    assert (k * u * Rabs (f xh) <= k * u * (Rabs (f x) + eps)) by (apply Rmult_le_compat_l; [apply Rmult_le_pos; assumption|exact F]).
    lra. }
  set (d := eps + k * u * (Rabs (f x) + eps) + h + beta) in *.
  assert (S : Rabs (y + bh) <= Rabs (f x + b) + d).
  { replace (y + bh) with ((f x + b) + (y + bh - (f x + b))) by ring. eapply Rle_trans; [apply Rabs_triang|]. lra. }
  replace (z - (f x + b)) with ((z - (y + bh)) + (y + bh - (f x + b))) by ring. eapply Rle_trans; [apply Rabs_triang|].
  pose proof (Rmult_le_compat_l u _ _ Hu S). lra.
Qed.
Definition checked_score_error : Statement.score_error :=
  fun u h k f x xh eps y b bh beta z => score_error u h k f x xh eps y b bh beta z.

Definition checked_sum_error : Statement.sum_error := fun n u h x y => sum_error n u h x y.
Definition checked_product_error : Statement.product_error := fun n u h x xh eps z y => product_error n u h x xh eps z y.

(* ---- two parts joined as x - q (x - z) ---- *)
Theorem merge_error u rho p q x z d g y : 0 <= u -> Rabs (q - p) <= rho -> rounded u (x - z) d -> rounded u (q * d) g ->
  rounded u (x - g) y -> Rabs (y - ((1 - p) * x + p * z)) <=
  (1 + u) * (rho + (2 * u + u ^ 2) * (Rabs p + rho)) * Rabs (x - z) + u * Rabs ((1 - p) * x + p * z).
Proof.
  unfold rounded, fl. rewrite !Rplus_0_r. intros Hu Hq Hd Hg Hy. set (D := x - z) in *.
  assert (W : Rabs q <= Rabs p + rho).
  { replace q with (p + (q - p)) by ring. eapply Rle_trans; [apply Rabs_triang|]. lra. }
  assert (Dd : Rabs d <= (1 + u) * Rabs D).
  { replace d with (D + (d - D)) by ring. eapply Rle_trans; [apply Rabs_triang|]. lra. }
  pose proof (Rabs_pos D). pose proof (Rabs_pos q). pose proof (Rabs_pos d).
  assert (A : Rabs (q * (d - D)) <= (Rabs p + rho) * (u * Rabs D)).
  { rewrite Rabs_mult. apply Rmult_le_compat; try apply Rabs_pos; lra. }
  assert (B : Rabs (q * d) <= (Rabs p + rho) * ((1 + u) * Rabs D)).
  { rewrite Rabs_mult. apply Rmult_le_compat; lra. }
  assert (C : Rabs ((q - p) * D) <= rho * Rabs D).
  { rewrite Rabs_mult. apply Rmult_le_compat_r; lra. }
  assert (E : Rabs (g - p * D) <= (rho + (2 * u + u ^ 2) * (Rabs p + rho)) * Rabs D).
  { replace (g - p * D) with ((g - q * d) + (q * (d - D) + (q - p) * D)) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. pose proof (Rabs_triang (q * (d - D)) ((q - p) * D)).
    pose proof (Rmult_le_compat_l u _ _ Hu B). lra. }
  set (t := (1 - p) * x + p * z).
  assert (F : x - g = t + (p * D - g)) by (unfold t, D; ring).
  assert (G : Rabs (x - g) <= Rabs t + Rabs (g - p * D)).
  { rewrite F, (Rabs_minus_sym g). apply Rabs_triang. }
  replace (y - t) with ((y - (x - g)) + (p * D - g)) by (rewrite F; ring).
  eapply Rle_trans; [apply Rabs_triang|]. rewrite (Rabs_minus_sym (p * D)).
  pose proof (Rmult_le_compat_l u _ _ Hu G). pose proof (Rmult_le_compat_l u _ _ Hu E). lra.
Qed.
Definition checked_merge_error : Statement.merge_error :=
  fun u rho p q x z d g y => merge_error u rho p q x z d g y.
