(* Errors in the exponent: y = x exp t with |t| <= r.  Roundings then add, and a common factor of a row stays one. *)
Require Import Reals Lra Lia.
From AttnPrune.analysis Require Import Sums.
From AttnPrune Require Export Trusted.
Export Trusted.Rounding.
Open Scope R_scope.

Definition near (r x y : R) := exists t, Rabs t <= r /\ y = x * exp t.
Definition lam (u : R) := - ln (1 - u).

Lemma lam_nonneg u : 0 <= u < 1 -> 0 <= lam u.
Proof.
  intros [H0 H1]. unfold lam.
  destruct (Req_dec u 0) as [->|Hn]; [replace (1 - 0) with 1 by ring; rewrite ln_1; lra|].
  assert (ln (1 - u) < ln 1) by (apply ln_increasing; lra). rewrite ln_1 in *. lra.
Qed.

Lemma exp_INR k x : exp (INR k * x) = exp x ^ k.
Proof.
  induction k as [|k IH]; [simpl; rewrite Rmult_0_l, exp_0; reflexivity|].
  rewrite S_INR, Rmult_plus_distr_r, exp_plus, IH, Rmult_1_l. simpl. ring.
Qed.

Lemma exp_lam u k : 0 <= u < 1 -> exp (INR k * lam u) = grow u k.
Proof.
  intro H. unfold grow, lam. rewrite exp_INR, exp_Ropp, exp_ln by lra.
  apply pow_inv.
Qed.

Lemma grow_pos u k : 0 <= u < 1 -> 0 < grow u k.
Proof. intro H. rewrite <- exp_lam by exact H. apply exp_pos. Qed.

Lemma grow_ge1 u k : 0 <= u < 1 -> 1 <= grow u k.
Proof.
  intro H. rewrite <- exp_lam by exact H. rewrite <- exp_0. 
  destruct (Req_dec (INR k * lam u) 0) as [->|Hn]; [lra|].
  left. apply exp_increasing. pose proof (lam_nonneg u H). pose proof (pos_INR k). nra.
Qed.

Lemma grow_S u k : 0 <= u < 1 -> grow u (S k) = grow u k * / (1 - u).
Proof. intro H. unfold grow. simpl. field. split; [lra|apply pow_nonzero; lra]. Qed.

Lemma grow_mono u j k : 0 <= u < 1 -> (j <= k)%nat -> grow u j <= grow u k.
Proof.
  intros H Hjk. rewrite <- !exp_lam by exact H.
  destruct (Req_dec (INR j * lam u) (INR k * lam u)) as [->|Hn]; [lra|].
  left. apply exp_increasing. pose proof (lam_nonneg u H). pose proof (le_INR _ _ Hjk). nra.
Qed.

Theorem grow_gamma u k : 0 <= u < 1 -> INR k * u < 1 -> grow u k <= 1 + gamma u k.
Proof.
  intros H Hk. unfold grow, gamma.
  assert (B : 1 - INR k * u <= (1 - u) ^ k).
  { clear Hk. induction k as [|k IH]; [simpl; lra|]. rewrite S_INR. simpl.
    pose proof (pos_INR k). assert (0 <= (1 - u) ^ k) by (apply pow_le; lra). nra. }
  replace (1 + INR k * u / (1 - INR k * u)) with (/ (1 - INR k * u)) by (field; lra).
  apply Rinv_le_contravar; lra.
Qed.
Definition checked_grow_gamma : Statement.grow_gamma := fun u k => grow_gamma u k.

Lemma exp_le a b : a <= b -> exp a <= exp b.
Proof. intros [H|H]; [left; apply exp_increasing; exact H|rewrite H; lra]. Qed.

Lemma near_refl r x : 0 <= r -> near r x x.
Proof. intro H. exists 0. rewrite Rabs_R0, exp_0. split; [exact H|ring]. Qed.

Lemma near_weaken r r' x y : r <= r' -> near r x y -> near r' x y.
Proof. intros H (t & Ht & E). exists t. split; [lra|exact E]. Qed.

Lemma near_trans r r' x y z : near r x y -> near r' y z -> near (r + r') x z.
Proof.
  intros (t & Ht & ->) (t' & Ht' & ->). exists (t + t'). split.
  - pose proof (Rabs_triang t t'). lra.
  - rewrite exp_plus. ring.
Qed.

Lemma near_sym r x y : near r x y -> near r y x.
Proof.
  intros (t & Ht & ->). exists (- t). split; [rewrite Rabs_Ropp; exact Ht|].
  rewrite Rmult_assoc, <- exp_plus, Rplus_opp_r, exp_0. ring.
Qed.

Lemma near_mul r r' x y x' y' : near r x y -> near r' x' y' -> near (r + r') (x * x') (y * y').
Proof.
  intros (t & Ht & ->) (t' & Ht' & ->). exists (t + t'). split.
  - pose proof (Rabs_triang t t'). lra.
  - rewrite exp_plus. ring.
Qed.

Lemma near_scale r c x y : near r x y -> near r (c * x) (c * y).
Proof. intros (t & Ht & ->). exists t. split; [exact Ht|ring]. Qed.

Lemma near_inv r x y : near r x y -> near r (/ x) (/ y).
Proof.
  intros (t & Ht & ->). exists (- t). split; [rewrite Rabs_Ropp; exact Ht|].
  rewrite exp_Ropp. destruct (Req_dec x 0) as [->|Hx].
  - rewrite Rmult_0_l, Rinv_0. ring.
  - field. split; [|exact Hx]. pose proof (exp_pos t). lra.
Qed.

Lemma rounded_near u x y : 0 <= u < 1 -> rounded u x y -> near (lam u) x y.
Proof.
  intros H R. unfold rounded, fl in R. rewrite Rplus_0_r in R.
  destruct (Req_dec x 0) as [->|Hx].
  - rewrite Rabs_R0, Rmult_0_r, Rminus_0_r in R.
    assert (y = 0) by (destruct (Req_dec y 0) as [E|E]; [exact E|]; apply Rabs_pos_lt in E; lra).
    subst y. apply near_refl, lam_nonneg, H.
  - assert (Hd : Rabs (y / x - 1) <= u).
    { replace (y / x - 1) with ((y - x) * / x) by (field; exact Hx).
      rewrite Rabs_mult, Rabs_Rinv by exact Hx. apply Rabs_pos_lt in Hx.
      apply (Rmult_le_reg_r (Rabs x)); [exact Hx|]. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra. exact R. }
    set (d := y / x) in *. assert (1 - u <= d <= 1 + u) by (unfold Rabs in Hd; destruct (Rcase_abs _); lra).
    exists (ln d). split.
    + unfold lam. assert (L1 : ln (1 - u) <= ln d).
      { destruct (Req_dec (1 - u) d) as [<-|N]; [lra|]. left. apply ln_increasing; lra. }
      assert (L2 : ln d <= - ln (1 - u)).
      { rewrite <- ln_Rinv by lra. assert (D : d <= / (1 - u)).
        { apply (Rmult_le_reg_r (1 - u)); [lra|]. rewrite Rinv_l by lra. nra. }
        destruct (Req_dec d (/ (1 - u))) as [<-|N]; [lra|]. left. apply ln_increasing; lra. }
      unfold Rabs. destruct (Rcase_abs _); lra.
    + rewrite exp_ln by lra. unfold d. field. exact Hx.
Qed.

Lemma near_bounds r x y : 0 <= x -> near r x y -> x * exp (- r) <= y <= x * exp r.
Proof.
  intros Hx (t & Ht & ->). assert (- r <= t <= r) by (unfold Rabs in Ht; destruct (Rcase_abs _); lra).
  split; apply Rmult_le_compat_l; try exact Hx; apply exp_le; lra.
Qed.

Lemma near_of_bounds r x y : 0 <= r -> 0 < x -> x * exp (- r) <= y <= x * exp r -> near r x y.
Proof.
  intros Hr Hx [L U]. pose proof (exp_pos (- r)). assert (0 < y) by nra.
  assert (Q : 0 < y / x) by (apply Rdiv_lt_0_compat; lra). exists (ln (y / x)). split.
  - assert (A : exp (- r) <= y / x <= exp r).
    { split; apply (Rmult_le_reg_r x); try exact Hx; unfold Rdiv;
        rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra; lra. }
    assert (- r <= ln (y / x)).
    { rewrite <- (ln_exp (- r)). destruct (proj1 A) as [S|S]; [left; apply ln_increasing; lra|rewrite S; lra]. }
    assert (ln (y / x) <= r).
    { rewrite <- (ln_exp r). destruct (proj2 A) as [S|S]; [left; apply ln_increasing; lra|rewrite S; lra]. }
    unfold Rabs. destruct (Rcase_abs _); lra.
  - rewrite exp_ln by exact Q. field. lra.
Qed.

(* |exp t - 1| <= exp r - 1 for |t| <= r *)
Lemma expm1_abs r t : Rabs t <= r -> Rabs (exp t - 1) <= exp r - 1.
Proof.
  intro H. assert (- r <= t <= r) by (unfold Rabs in H; destruct (Rcase_abs _); lra).
  assert (exp t <= exp r) by (apply exp_le; lra). assert (exp (- r) <= exp t) by (apply exp_le; lra).
  assert (2 <= exp r + exp (- r)).
  { rewrite exp_Ropp. pose proof (exp_pos r). apply (Rmult_le_reg_r (exp r)); [lra|].
    rewrite Rmult_plus_distr_r, Rinv_l by lra. pose proof (Rle_0_sqr (exp r - 1)) as Q. unfold Rsqr in Q. lra. }
  unfold Rabs. destruct (Rcase_abs _); lra.
Qed.
