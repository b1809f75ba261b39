(* The sharp constants cannot be lowered: no smaller multiple of K serves for f~, none of K^2 for the gradient.

   Two tokens, one feature: X = (1, -1)^T, W = w, so that the logits of a row are +-w m and differ by 2 w m, K = 2w, and
   with phi(s) = e^s/(e^s + e^-s) both rows of f~ are (phi(wm), 1 - phi(wm)) up to order.  Then
     |f~(m') - f~(m)| = 2 |phi(wm') - phi(wm)|,      phi' = 2 phi (1 - phi), 1/2 at 0;
     grad L_attn(m) = 8 w h(wm),  h = (phi - a0) phi (1 - phi), a0 = phi(w),
     2 h' = 4 phi (1 - phi) [phi (1 - phi) + (phi - a0)(1 - 2 phi)],
   which at phi = (9 + sqrt 33)/24 tends to C_+ as a0 tends to 1.                                                     *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model LipschitzGradient LipschitzSharp.
Open Scope R_scope.

(* |g(x) - g(x0)| <= k |x - x0| for all x bounds the derivative at x0 *)
Lemma derivative_le_lipschitz g x0 l k : is_derive g x0 l ->
  (forall x, Rabs (g x - g x0) <= k * Rabs (x - x0)) -> Rabs l <= k.
Proof.
  intros D H. apply le_epsilon. intros eps He.
  apply is_derive_Reals in D. destruct (D eps He) as [delta Hd].
  pose proof (cond_pos delta) as d0. set (t := delta / 2). assert (t0 : 0 < t) by (unfold t; lra).
  specialize (Hd t). rewrite (Rabs_pos_eq t) in Hd by lra. specialize (Hd ltac:(lra) ltac:(unfold t; lra)).
  specialize (H (x0 + t)). replace (x0 + t - x0) with t in H by ring. rewrite (Rabs_pos_eq t) in H by lra.
  set (q := (g (x0 + t) - g x0) / t) in *.
  assert (Q : Rabs q <= k).
  { unfold q. rewrite Rabs_div by lra. rewrite (Rabs_pos_eq t) by lra.
    apply Rmult_le_reg_r with t; [exact t0|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra. exact H. }
  replace l with (q - (q - l)) by ring. eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_Ropp. lra.
Qed.

Definition phi s := exp s / (exp s + exp (- s)).

Lemma phi_derive s : is_derive phi s (2 * phi s * (1 - phi s)).
Proof.
  unfold phi. pose proof (exp_pos s). pose proof (exp_pos (- s)).
  auto_derive; [lra|]. field. lra.
Qed.

Lemma phi_opp s : phi (- s) = 1 - phi s.
Proof. unfold phi. rewrite Ropp_involutive. pose proof (exp_pos s). pose proof (exp_pos (- s)). field. lra. Qed.

(* phi takes every value between 0 and 1 *)
Lemma phi_onto a : 0 < a < 1 -> phi (ln (a / (1 - a)) / 2) = a.
Proof.
  intro Ha. set (s := ln (a / (1 - a)) / 2). unfold phi.
  assert (Q : exp s * exp s = a / (1 - a)).
  { rewrite <- exp_plus. replace (s + s) with (ln (a / (1 - a))) by (unfold s; field).
    apply exp_ln, Rdiv_lt_0_compat; lra. }
  rewrite exp_Ropp. pose proof (exp_pos s).
  replace (exp s / (exp s + / exp s)) with (exp s * exp s / (exp s * exp s + 1)) by (field; split; nra).
  rewrite Q. field. split; lra.
Qed.

Definition tokens : mat := fun i _ => match i with O => 1 | _ => -1 end.
Definition weight (w : R) : mat := fun _ _ => w.
Definition entry (m : R) : mat := fun _ _ => m.

Section Instance.
Variable w : R.
Hypothesis Hw : 0 <= w.
Notation fm m := (f 2 1 tokens full (had (entry m) (weight w))).
Notation cm m := (c 2 1 tokens (weight w) full (entry m)).
Notation pm m := (p 2 1 tokens (weight w) full (entry m)).

Lemma K_of_two : logit_bound 2 1 tokens (weight w) full (2 * w).
Proof.
  split; [lra|]. intro N. exists (fun _ => 0). right.
  unfold masked_sqnorm, logit, had, weight, tokens, full, nsq, rsum. ring.
Qed.

Lemma f_of_two m i j : (i < 2)%nat -> (j < 2)%nat ->
  fm m i j = if Nat.eqb i j then phi (w * m) else 1 - phi (w * m).
Proof.
  intros Hi Hj. pose proof (exp_pos (w * m)). pose proof (exp_pos (- (w * m))).
  assert (P : phi (w * m) = exp (w * m) / (exp (w * m) + exp (- (w * m)))) by reflexivity.
  destruct i as [|[|i]]; [| |lia]; destruct j as [|[|j]]; try lia;
    unfold f, alpha, u, logit, had, weight, entry, tokens, full, rsum; simpl Nat.eqb; cbv iota; rewrite P;
    repeat match goal with |- context [exp ?e] =>
      first [ constr_eq e (w * m); fail 1 | constr_eq e (- (w * m)); fail 1
            | replace e with (w * m) by ring | replace e with (- (w * m)) by ring ] end; field; lra.
Qed.

Lemma f_dense : f 2 1 tokens full (weight w) = fm 1.
Proof.
  unfold f, alpha, u, logit, had, weight, entry. do 2 (apply FunctionalExtensionality.functional_extensionality; intro).
  rewrite Rmult_1_l. reflexivity.
Qed.

Lemma c_of_two m i j : (i < 2)%nat -> (j < 2)%nat ->
  cm m i j = if Nat.eqb i j then phi (w * m) - phi w else phi w - phi (w * m).
Proof.
  intros Hi Hj. unfold c. rewrite f_dense, !f_of_two by assumption. rewrite Rmult_1_r. destruct (Nat.eqb i j); ring.
Qed.

(* h(s) = (phi - a0) phi (1 - phi) *)
Definition h s := (phi s - phi w) * phi s * (1 - phi s).

Lemma p_of_two m i j : (i < 2)%nat -> (j < 2)%nat ->
  pm m i j = if Nat.eqb i j then 2 * h (w * m) else - (2 * h (w * m)).
Proof.
  intros Hi Hj. unfold p.
  unfold rsum. rewrite !c_of_two, !f_of_two by (assumption || lia). unfold h.
  destruct i as [|[|i]]; [| |lia]; destruct j as [|[|j]]; try lia; simpl Nat.eqb; cbv iota; ring.
Qed.

Lemma grad_of_two m : grad 2 1 tokens (weight w) full 0 (entry m) 0%nat 0%nat = 8 * (w * h (w * m)).
Proof.
  unfold grad, adjoint, rsum. rewrite !p_of_two by lia. unfold tokens, weight, entry. simpl Nat.eqb; cbv iota. ring.
Qed.

Lemma h_derive s : is_derive h s
  (2 * phi s * (1 - phi s) * (phi s * (1 - phi s) + (phi s - phi w) * (1 - 2 * phi s))).
Proof.
  unfold h. set (a0 := phi w). unfold phi. pose proof (exp_pos s). pose proof (exp_pos (- s)).
  auto_derive; [repeat split; lra|]. field. lra.
Qed.

Lemma entry_distance m m' : nF 1 1 (msub (entry m') (entry m)) <= Rabs (m' - m).
Proof.
  apply nF_le_of_nsq; [apply Rabs_pos|]. unfold nsq, msub, entry, rsum.
  rewrite <- Rabs_mult, Rabs_pos_eq by apply sq_nonneg. right. ring.
Qed.
End Instance.

(* four equal squares *)
Lemma four_entries (A : mat) a r : 0 <= r -> nF 2 2 A <= 2 * r -> nsq 2 2 A = 4 * (a * a) -> Rabs a <= r.
Proof.
  intros Hr H E. apply Rabs_le_of_sqr; [exact Hr|]. pose proof (nsq_le_of_nF 2 2 A (2 * r) H). lra.
Qed.

Lemma lipschitz_nonneg (g : mat -> mat) k : lipschitz 1 2 2 g k -> 0 <= k.
Proof.
  intro H. specialize (H (entry 0) (entry 1)). pose proof (nF_nonneg 2 2 (msub (g (entry 1)) (g (entry 0)))).
  assert (E : nF 1 1 (msub (entry 1) (entry 0)) = 1).
  { unfold nF. replace (nsq 1 1 (msub (entry 1) (entry 0))) with 1
      by (unfold nsq, msub, entry, rsum; ring). apply sqrt_1. }
  rewrite E in H. lra.
Qed.

Theorem lip_f_half_least k : (forall n d X W Mc K, valid_mask n Mc -> logit_bound n d X W Mc K ->
  lipschitz d n n (fun M => f n d X Mc (had M W)) (k * K)) -> / 2 <= k.
Proof.
  intro H. specialize (H 2%nat 1%nat tokens (weight 1) full (2 * 1) (full_valid 2) (K_of_two 1 Rle_0_1)).
  pose proof (lipschitz_nonneg _ _ H) as k0.
  replace (/ 2) with (Rabs (2 * phi 0 * (1 - phi 0))).
  2:{ unfold phi. rewrite Ropp_0, exp_0. rewrite Rabs_pos_eq; lra. }
  apply (derivative_le_lipschitz phi 0); [apply phi_derive|]. intro x.
  specialize (H (entry 0) (entry x)). pose proof (entry_distance 0 x) as E.
  assert (kx : 0 <= k * Rabs (x - 0)) by (apply Rmult_le_pos; [lra | apply Rabs_pos]).
  apply (four_entries (msub (f 2 1 tokens full (had (entry x) (weight 1))) (f 2 1 tokens full (had (entry 0) (weight 1)))));
    [exact kx| |].
  - eapply Rle_trans; [exact H|]. replace (2 * (k * Rabs (x - 0))) with (k * (2 * 1) * Rabs (x - 0)) by ring.
    apply Rmult_le_compat_l; assumption.
  - unfold nsq, rsum, msub. rewrite !f_of_two by lia. rewrite !Rmult_1_l. simpl Nat.eqb; cbv iota. ring.
Qed.

(* what bounds the change of h for every w bounds C_+ *)
Lemma h_bounds_C_plus C : 0 <= C ->
  (forall w, 0 < w -> forall s s', Rabs (h w s' - h w s) <= C / 2 * Rabs (s' - s)) -> C_plus <= C.
Proof.
  intros C0 H. set (r := sqrt 33). assert (rr : r * r = 33) by (apply sqrt_sqrt; lra).
  assert (rb : 5.74 < r < 5.75) by (split; apply Rsqr_incrst_0; unfold Rsqr; try lra; apply sqrt_pos).
  set (a := (9 + r) / 24). assert (ab : 0.61 < a < 0.62) by (unfold a; lra).
  set (k := 4 * (a * (1 - a)) * (2 * a - 1)). assert (kb : 0 <= k <= 1) by (unfold k; nra).
  (* at a0 = 1 - e the second derivative is C_+ - k e *)
  assert (B : forall e, 0 < e < 1 / 4 -> C_plus - k * e <= C).
  { intros e He. set (w := ln ((1 - e) / (1 - (1 - e))) / 2).
    assert (P0 : phi w = 1 - e) by (apply phi_onto; lra).
    assert (Pa : phi (ln (a / (1 - a)) / 2) = a) by (apply phi_onto; lra). set (s := ln (a / (1 - a)) / 2) in *.
    assert (w0 : 0 < w).
    { unfold w. apply Rdiv_lt_0_compat; [|lra]. rewrite <- ln_1. apply ln_increasing; [lra|].
      apply Rmult_lt_reg_r with e; [lra|]. replace ((1 - e) / (1 - (1 - e)) * e) with (1 - e) by (field; lra). lra. }
    pose proof (derivative_le_lipschitz (h w) s _ (C / 2) (h_derive w s) (fun x => H w w0 s x)) as D.
    rewrite Pa, P0 in D. pose proof (Rle_abs (2 * a * (1 - a) * (a * (1 - a) + (a - (1 - e)) * (1 - 2 * a)))) as U.
    assert (E : C_plus = 4 * a * (1 - a) * (a * (1 - a) + (a - 1) * (1 - 2 * a))).
    { transitivity ((r - 15) * (r - 15) * ((r + 1) * (r + 9)) / 27648); [|unfold a; field].
      assert (A1 : (r - 15) * (r - 15) = 258 - 30 * r) by lra. assert (A2 : (r + 1) * (r + 9) = 42 + 10 * r) by lra.
      rewrite A1, A2. unfold C_plus. fold r. lra. }
    unfold k. rewrite E. lra. }
  apply Rnot_lt_le. intro N.
  assert (S : exists e, 0 < e < 1 / 4 /\ e < C_plus - C).
  { exists (Rmin (1 / 8) ((C_plus - C) / 2)). pose proof (Rmin_l (1 / 8) ((C_plus - C) / 2)).
    pose proof (Rmin_r (1 / 8) ((C_plus - C) / 2)).
    assert (0 < Rmin (1 / 8) ((C_plus - C) / 2)) by (apply Rmin_pos; lra). lra. }
  destruct S as [e [He Hs]]. specialize (B e He). assert (k * e <= 1 * e) by (apply Rmult_le_compat_r; lra). lra.
Qed.

Section Least.
Variable C : R.

Theorem lip_p_least : (forall n d X W Mc K, valid_mask n Mc -> logit_bound n d X W Mc K ->
  lipschitz d n n (p n d X W Mc) (C * K)) -> C_plus <= C.
Proof.
  intro H.
  assert (L : forall w, 0 < w -> lipschitz 1 2 2 (p 2 1 tokens (weight w) full) (C * (2 * w))).
  { intros w Hw. apply H; [apply full_valid | apply K_of_two; lra]. }
  assert (C0 : 0 <= C) by (pose proof (lipschitz_nonneg _ _ (L 1 Rlt_0_1)); lra).
  apply h_bounds_C_plus; [exact C0|]. intros w Hw s s'.
  specialize (L w Hw (entry (s / w)) (entry (s' / w))). pose proof (entry_distance (s / w) (s' / w)) as E.
  assert (D : w * Rabs (s' / w - s / w) = Rabs (s' - s)).
  { rewrite <- (Rabs_pos_eq w) at 1 by lra. rewrite <- Rabs_mult. f_equal. field. lra. }
  assert (X2 : Rabs (2 * (h w s' - h w s)) <= C * Rabs (s' - s)).
  2:{ rewrite Rabs_mult, (Rabs_pos_eq 2) in X2 by lra. lra. }
  apply (four_entries (msub (p 2 1 tokens (weight w) full (entry (s' / w))) (p 2 1 tokens (weight w) full (entry (s / w))))).
  - apply Rmult_le_pos; [exact C0 | apply Rabs_pos].
  - eapply Rle_trans; [exact L|]. rewrite <- D.
    replace (2 * (C * (w * Rabs (s' / w - s / w)))) with (C * (2 * w) * Rabs (s' / w - s / w)) by ring.
    apply Rmult_le_compat_l; [apply Rmult_le_pos; lra | exact E].
  - unfold nsq, rsum, msub. rewrite !p_of_two by (lra || lia).
    replace (w * (s' / w)) with s' by (field; lra). replace (w * (s / w)) with s by (field; lra).
    simpl Nat.eqb; cbv iota. ring.
Qed.

Theorem lip_grad_least : (forall n d X W Mc K lam, valid_mask n Mc -> logit_bound n d X W Mc K ->
  0 <= lam -> lipschitz d d d (grad n d X W Mc lam) (lam + C * (K * K))) -> C_plus <= C.
Proof.
  intro H.
  assert (L : forall w, 0 < w -> forall s s', Rabs (8 * (w * (h w s' - h w s))) <= C * (4 * w) * Rabs (s' - s)).
  { intros w Hw s s'.
    specialize (H 2%nat 1%nat tokens (weight w) full (2 * w) 0 (full_valid 2) (K_of_two w (Rlt_le _ _ Hw)) (Rle_refl 0)
      (entry (s / w)) (entry (s' / w))).
    set (A := msub (grad 2 1 tokens (weight w) full 0 (entry (s' / w)))
                   (grad 2 1 tokens (weight w) full 0 (entry (s / w)))) in *.
    assert (EA : A 0%nat 0%nat = 8 * (w * (h w s' - h w s))).
    { unfold A, msub. rewrite !grad_of_two by lra.
      replace (w * (s' / w)) with s' by (field; lra). replace (w * (s / w)) with s by (field; lra). ring. }
    rewrite <- EA.
    assert (EB : nF 1 1 (msub (entry (s' / w)) (entry (s / w))) = Rabs (s' - s) / w).
    { unfold nF. replace (nsq 1 1 (msub (entry (s' / w)) (entry (s / w)))) with (Rsqr ((s' - s) / w))
        by (unfold nsq, msub, entry, rsum, Rsqr; field; lra).
      rewrite sqrt_Rsqr_abs, Rabs_div by lra. rewrite (Rabs_pos_eq w) by lra. reflexivity. }
    rewrite EB in H. apply Rle_trans with (nF 1 1 A).
    - apply Rabs_le_of_sqr; [apply nF_nonneg|]. rewrite nF_sq. unfold nsq, rsum. lra.
    - eapply Rle_trans; [exact H|]. right. field. lra. }
  assert (C0 : 0 <= C).
  { specialize (L 1 Rlt_0_1 0 1). rewrite Rabs_pos_eq with (x := 1 - 0) in L by lra.
    pose proof (Rabs_pos (8 * (1 * (h 1 1 - h 1 0)))). lra. }
  apply h_bounds_C_plus; [exact C0|]. intros w Hw s s'. specialize (L w Hw s s').
  rewrite !Rabs_mult, (Rabs_pos_eq 8), (Rabs_pos_eq w) in L by lra.
  apply Rmult_le_reg_l with (8 * w); [lra|]. lra.
Qed.
End Least.

(* a row of two tokens: sigma = (a, 1 - a), f = e_0, v = (1, -1), where v^T H v = 2 * 4 (1 - a)^2 a (3 a - 1) *)
Definition two (s t : R) : vec := fun j => match j with O => s | _ => t end.

Lemma two_probability a : 0 <= a <= 1 -> probability 2 (two a (1 - a)).
Proof. intro Ha. split; [intros [|j] _; unfold two; lra | unfold rsum, two; lra]. Qed.

Lemma vertex_probability : probability 2 (two 1 0).
Proof. split; [intros [|j] _; unfold two; lra | unfold rsum, two; lra]. Qed.

Lemma two_sqnorm : sqnorm 2 (two 1 (-1)) = 2.
Proof. unfold sqnorm, rsum, two. ring. Qed.

Lemma two_bil a : bil 2 (two a (1 - a)) (two 1 0) (two 1 (-1)) (two 1 (-1))
  = 8 * ((1 - a) * (1 - a)) * (a * (3 * a - 1)).
Proof. unfold bil, third, jacobian, mean, rsum, two. ring. Qed.

(* reached at a = (9 + sqrt 33)/24 *)
Theorem row_hessian_least C : (forall n sigma f v, probability n sigma -> probability n f ->
  bil n sigma f v v <= C * sqnorm n v) -> C_plus <= C.
Proof.
  intro H. set (r := sqrt 33). assert (rr : r * r = 33) by (apply sqrt_sqrt; lra).
  assert (rb : 5.74 < r < 5.75) by (split; apply Rsqr_incrst_0; unfold Rsqr; try lra; apply sqrt_pos).
  specialize (H 2%nat _ _ (two 1 (-1)) (two_probability ((9 + r) / 24) ltac:(lra)) vertex_probability).
  rewrite two_bil, two_sqnorm in H.
  assert (A1 : (1 - (9 + r) / 24) * (1 - (9 + r) / 24) = (258 - 30 * r) / 576) by lra.
  assert (A2 : (9 + r) / 24 * (3 * ((9 + r) / 24) - 1) = (42 + 10 * r) / 192) by lra.
  rewrite A1, A2 in H. unfold C_plus. fold r. lra.
Qed.

(* reached at a = (9 - sqrt 33)/24 *)
Theorem row_hessian_lower_least C : (forall n sigma f v, probability n sigma -> probability n f ->
  - (C * sqnorm n v) <= bil n sigma f v v) -> C_minus <= C.
Proof.
  intro H. set (r := sqrt 33). assert (rr : r * r = 33) by (apply sqrt_sqrt; lra).
  assert (rb : 5.74 < r < 5.75) by (split; apply Rsqr_incrst_0; unfold Rsqr; try lra; apply sqrt_pos).
  specialize (H 2%nat _ _ (two 1 (-1)) (two_probability ((9 - r) / 24) ltac:(lra)) vertex_probability).
  rewrite two_bil, two_sqnorm in H.
  assert (A1 : (1 - (9 - r) / 24) * (1 - (9 - r) / 24) = (258 + 30 * r) / 576) by lra.
  assert (A2 : (9 - r) / 24 * (3 * ((9 - r) / 24) - 1) = (42 - 10 * r) / 192) by lra.
  rewrite A1, A2 in H. unfold C_minus. fold r. lra.
Qed.

(* ---- as Trusted.v states them ---- *)
Definition checked_lip_f_half_least : Statement.lip_f_half_least := lip_f_half_least.
Definition checked_lip_p_least : Statement.lip_p_least := lip_p_least.
Definition checked_lip_grad_least : Statement.lip_grad_least := lip_grad_least.
Definition checked_row_hessian_least : Statement.row_hessian_least := row_hessian_least.
Definition checked_row_hessian_lower_least : Statement.row_hessian_lower_least := row_hessian_lower_least.
