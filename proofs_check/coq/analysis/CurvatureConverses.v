(* Neither constant of new:curvature_range can be lowered, nor that of new:strong_convexity.

   The two tokens of Converses.v, K = 2w: the second derivative of L_attn along the only direction is 8 w^2 h'(wm),
   h' = 2 a (1 - a) [a (1 - a) + (a - a0)(1 - 2a)] with a = phi(wm), a0 = phi(w); as a0 tends to 1 this tends to
   2 a (1 - a)^2 (3a - 1), which is C_+/2 at a = (9 + sqrt 33)/24 and -C_-/2 at a = (9 - sqrt 33)/24.              *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model Converses.
Open Scope R_scope.

Definition slope w s := 2 * phi s * (1 - phi s) * (phi s * (1 - phi s) + (phi s - phi w) * (1 - 2 * phi s)).

Lemma slope_at a e : 0 < a < 1 -> 0 < e < 1 / 4 ->
  exists w s, 0 < w /\ slope w s = 2 * (a * ((1 - a) * (1 - a)) * (3 * a - 1)) + 2 * (a * (1 - a) * (1 - 2 * a)) * e.
Proof.
  intros Ha He. exists (ln ((1 - e) / (1 - (1 - e))) / 2), (ln (a / (1 - a)) / 2). split.
  - apply Rdiv_lt_0_compat; [|lra]. rewrite <- ln_1. apply ln_increasing; [lra|].
    apply Rmult_lt_reg_r with e; [lra|]. replace ((1 - e) / (1 - (1 - e)) * e) with (1 - e) by (field; lra). lra.
  - unfold slope. rewrite !phi_onto by lra. ring.
Qed.

Lemma le_of_small x y : (forall e, 0 < e < 1 / 4 -> x <= y + e) -> x <= y.
Proof.
  intro H. apply le_epsilon. intros eps He. pose proof (Rmin_l (1 / 8) eps). pose proof (Rmin_r (1 / 8) eps).
  assert (0 < Rmin (1 / 8) eps) by (apply Rmin_pos; lra). specialize (H (Rmin (1 / 8) eps) ltac:(lra)). lra.
Qed.

Lemma root33 : 5.74 < sqrt 33 < 5.75 /\ sqrt 33 * sqrt 33 = 33.
Proof.
  assert (E : sqrt 33 * sqrt 33 = 33) by (apply sqrt_sqrt; lra). split; [|exact E].
  split; apply Rsqr_incrst_0; unfold Rsqr; try lra; apply sqrt_pos.
Qed.

Lemma small_part a : 0 < a < 1 -> -1 <= 2 * (a * (1 - a) * (1 - 2 * a)) <= 1.
Proof. intro Ha. assert (0 <= a * (1 - a) <= 1 / 4) by (pose proof (sq_nonneg (a - 1 / 2)); nra). nra. Qed.

Lemma slopes_below c : (forall w s, 0 < w -> - (c / 2) <= slope w s) -> C_minus <= c.
Proof.
  intro H. destruct root33 as [rb rr]. set (r := sqrt 33) in *. set (a := (9 - r) / 24).
  assert (ab : 0 < a < 1) by (unfold a; lra). apply le_of_small. intros e He.
  destruct (slope_at a (e / 2) ab ltac:(lra)) as [w [s [w0 E]]]. specialize (H w s w0). rewrite E in H.
  assert (A1 : (1 - a) * (1 - a) = (258 + 30 * r) / 576) by (unfold a; lra).
  assert (A2 : a * (3 * a - 1) = (42 - 10 * r) / 192) by (unfold a; lra).
  replace (a * ((1 - a) * (1 - a)) * (3 * a - 1)) with ((1 - a) * (1 - a) * (a * (3 * a - 1))) in H by ring.
  rewrite A1, A2 in H. pose proof (small_part a ab) as B. unfold C_minus. fold r. nra.
Qed.

Lemma slopes_above C : (forall w s, 0 < w -> slope w s <= C / 2) -> C_plus <= C.
Proof.
  intro H. destruct root33 as [rb rr]. set (r := sqrt 33) in *. set (a := (9 + r) / 24).
  assert (ab : 0 < a < 1) by (unfold a; lra). apply le_of_small. intros e He.
  destruct (slope_at a (e / 2) ab ltac:(lra)) as [w [s [w0 E]]]. specialize (H w s w0). rewrite E in H.
  assert (A1 : (1 - a) * (1 - a) = (258 - 30 * r) / 576) by (unfold a; lra).
  assert (A2 : a * (3 * a - 1) = (42 + 10 * r) / 192) by (unfold a; lra).
  replace (a * ((1 - a) * (1 - a)) * (3 * a - 1)) with ((1 - a) * (1 - a) * (a * (3 * a - 1))) in H by ring.
  rewrite A1, A2 in H. pose proof (small_part a ab) as B. unfold C_plus. fold r. nra.
Qed.

Notation two_grad w := (grad 2 1 tokens (weight w) full 0).

Lemma inner_of_two w m t : 0 < w ->
  ip 1 1 (two_grad w (mline (entry m) t (entry 1))) (entry 1) = 8 * (w * h w (w * (m + t))).
Proof.
  intro Hw. change (mline (entry m) t (entry 1)) with (entry (m + t * 1)). unfold ip, rsum.
  rewrite grad_of_two by lra. unfold entry. rewrite (Rmult_1_r t). ring.
Qed.

Lemma curvature_of_two w m : 0 < w ->
  is_derive (fun t => ip 1 1 (two_grad w (mline (entry m) t (entry 1))) (entry 1)) 0 (8 * (w * w) * slope w (w * m)).
Proof.
  intro Hw. assert (I : forall t, 8 * w * h w (w * (m + t)) = ip 1 1 (two_grad w (mline (entry m) t (entry 1))) (entry 1))
    by (intro t; rewrite inner_of_two by exact Hw; ring).
  apply (is_derive_ext _ _ _ _ I).
  assert (E : is_derive (fun t => w * (m + t)) 0 w) by (auto_derive; [trivial | ring]).
  pose proof (is_derive_comp (h w) (fun t => w * (m + t)) 0 _ _ (h_derive w _) E) as S.
  apply (is_derive_scal _ _ (8 * w)) in S. evar_last; [exact S|].
  unfold scal, mult; simpl. unfold mult; simpl. rewrite Rplus_0_r. unfold slope. ring.
Qed.

Lemma entry_1_norm : nsq 1 1 (entry 1) = 1.
Proof. unfold nsq, entry, rsum. ring. Qed.

Theorem curvature_range_least c C : (forall n d X W Mc K lam M D h, valid_mask n Mc -> logit_bound n d X W Mc K ->
  0 <= lam -> is_derive (fun t => ip d d (grad n d X W Mc lam (mline M t D)) D) 0 h ->
  (lam - c * (K * K)) * nsq d d D <= h <= (lam + C * (K * K)) * nsq d d D) -> C_minus <= c /\ C_plus <= C.
Proof.
  intro H.
  assert (S : forall w s, 0 < w -> - (c / 2) <= slope w s <= C / 2).
  { intros w s w0. specialize (H 2%nat 1%nat tokens (weight w) full (2 * w) 0 (entry (s / w)) (entry 1)
      (8 * (w * w) * slope w (w * (s / w))) (full_valid 2) (K_of_two w (Rlt_le _ _ w0)) (Rle_refl 0)
      (curvature_of_two w (s / w) w0)).
    rewrite entry_1_norm in H. replace (w * (s / w)) with s in H by (field; lra).
    assert (0 < 8 * (w * w)) by (apply Rmult_lt_0_compat; [lra | apply Rmult_lt_0_compat; exact w0]).
    split; apply Rmult_le_reg_l with (8 * (w * w)); lra. }
  split; [apply slopes_below | apply slopes_above]; intros w s w0; apply S, w0.
Qed.

(* a function that falls nowhere faster than at the rate k has a derivative of at least -k *)
Lemma derivative_ge g x0 l k : is_derive g x0 l -> (forall x, x0 < x -> - k * (x - x0) <= g x - g x0) -> - k <= l.
Proof.
  intros D H. apply le_epsilon. intros eps He.
  apply is_derive_Reals in D. destruct (D eps He) as [delta Hd].
  pose proof (cond_pos delta) as d0. set (t := delta / 2). assert (t0 : 0 < t) by (unfold t; lra).
  specialize (Hd t). rewrite (Rabs_pos_eq t) in Hd by lra. specialize (Hd ltac:(lra) ltac:(unfold t; lra)).
  apply Rabs_def2 in Hd. specialize (H (x0 + t) ltac:(lra)). replace (x0 + t - x0) with t in H by ring.
  set (q := (g (x0 + t) - g x0) / t) in *.
  assert (Q : - k <= q).
  { unfold q. apply Rmult_le_reg_r with t; [exact t0|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra.
    exact H. }
  lra.
Qed.

Theorem strong_convexity_least c : (forall n d X W Mc K lam M M', valid_mask n Mc -> logit_bound n d X W Mc K ->
  0 <= lam -> let G := grad n d X W Mc lam in let D := msub M' M in
  (lam - c * (K * K)) * nsq d d D <= ip d d (msub (G M') (G M)) D) -> C_minus <= c.
Proof.
  intro H. apply slopes_below. intros w s w0. apply (derivative_ge (h w) s); [apply h_derive|]. intros x Hx.
  specialize (H 2%nat 1%nat tokens (weight w) full (2 * w) 0 (entry (s / w)) (entry (x / w)) (full_valid 2)
    (K_of_two w (Rlt_le _ _ w0)) (Rle_refl 0)). cbv zeta in H. unfold nsq, ip, rsum, msub in H.
  rewrite !grad_of_two in H by lra. unfold entry in H.
  replace (w * (s / w)) with s in H by (field; lra). replace (w * (x / w)) with x in H by (field; lra).
  assert (E : x / w - s / w = (x - s) / w) by (field; lra). rewrite E in H.
  assert (P : 0 < 8 * (x - s)) by lra. apply Rmult_le_reg_l with (8 * (x - s)); [exact P|].
  replace (8 * (x - s) * (- (c / 2) * (x - s))) with ((0 - c * (2 * w * (2 * w))) * (0 + (0 + (x - s) / w * ((x - s) / w))))
    by (field; lra).
  eapply Rle_trans; [exact H|]. right. field. lra.
Qed.

(* ---- as Trusted.v states them ---- *)
Definition checked_curvature_range_least : Statement.curvature_range_least := curvature_range_least.
Definition checked_strong_convexity_least : Statement.strong_convexity_least := strong_convexity_least.
