(* What the gradient of a row is made of: products of what is already off, and further roundings. *)
Require Import Reals Lra Lia.
From AttnPrune.analysis Require Import Sums.
From AttnPrune.rounding Require Import Radius Trees Online Forward.
Open Scope R_scope.

(* y within a factor exp r of xh, which is off by eps from x *)
Lemma near_off r x xh y eps : near r xh y -> Rabs (xh - x) <= eps ->
  Rabs (y - x) <= exp r * eps + (exp r - 1) * Rabs x.
Proof.
  intros (t & Ht & ->) He. replace (xh * exp t - x) with (exp t * (xh - x) + (exp t - 1) * x) by ring.
  eapply Rle_trans; [apply Rabs_triang|]. rewrite !Rabs_mult. apply Rplus_le_compat.
  - rewrite Rabs_pos_eq by (left; apply exp_pos). apply Rmult_le_compat; [left; apply exp_pos|apply Rabs_pos| |exact He].
    apply exp_le. unfold Rabs in Ht; destruct (Rcase_abs _); lra.
  - apply Rmult_le_compat_r; [apply Rabs_pos|apply expm1_abs, Ht].
Qed.

Lemma settled_near u j w k x y : 0 <= u < 1 -> 0 <= w < 1 -> settled u j w k x y ->
  near (INR j * lam u + INR k * lam w) x y.
Proof.
  intros Hu Hw (z & Hz & Hy). apply near_trans with z; apply times_rounded; assumption.
Qed.

Lemma grow_two u j w k : 0 <= u < 1 -> 0 <= w < 1 -> exp (INR j * lam u + INR k * lam w) = grow u j * grow w k.
Proof. intros Hu Hw. rewrite exp_plus, !exp_lam by assumption. reflexivity. Qed.

Theorem gradient_error n u h w j k c x xh eps z y0 y : 0 <= u < 1 -> 0 <= h -> 0 <= w < 1 ->
  (forall i, (i < n)%nat -> Rabs (xh i - x i) <= eps i) -> product u h n xh z y0 -> settled u j w k (c * y0) y ->
  let K := grow u j * grow w k in let g := rsum n (fun i => x i * z i) in Rabs (y - c * g) <=
  K * Rabs c * (rsum n (fun i => eps i * Rabs (z i)) + (grow u n - 1) * rsum n (fun i => (Rabs (x i) + eps i) * Rabs (z i))
    + grow u n * INR (2 * n) * h) + (K - 1) * Rabs (c * g).
Proof.
  intros Hu Hh Hw He Hp Hs K g. pose proof (product_error n u h x xh eps z y0 Hu Hh He Hp) as B.
  pose proof (near_off _ (c * g) _ _ _ (settled_near u j w k _ _ Hu Hw Hs)
    (Rle_refl (Rabs (c * y0 - c * g)))) as N. rewrite grow_two in N by assumption. fold K in N.
  eapply Rle_trans; [exact N|]. apply Rplus_le_compat_r.
  replace (c * y0 - c * g) with (c * (y0 - g)) by ring. rewrite Rabs_mult, Rmult_assoc.
  assert (0 <= K) by (apply Rmult_le_pos; left; apply grow_pos; assumption).
  apply Rmult_le_compat_l; [assumption|]. apply Rmult_le_compat_l; [apply Rabs_pos|exact B].
Qed.
Definition checked_gradient_error : Statement.gradient_error :=
  fun n u h w j k c x xh eps z y0 y => gradient_error n u h w j k c x xh eps z y0 y.

Theorem logit_gradient_error u w p ph rho dp dph eps D Dh eta x z y : 0 <= u < 1 -> 0 <= w < 1 -> 0 <= p ->
  Rabs (ph - p) <= p * rho -> Rabs (dph - dp) <= eps -> Rabs (Dh - D) <= eta -> rounded u (dph - Dh) x ->
  rounded w x z -> settled u 1 w 2 (ph * z) y -> let K := (1 + rho) * (grow u 2 * grow w 3) in
  Rabs (y - p * (dp - D)) <= K * p * (eps + eta) + (K - 1) * Rabs (p * (dp - D)).
Proof.
  intros Hu Hw Hp Hph Hdp HD Hx Hz Hy K.
  assert (N : near (INR 2 * lam u + INR 3 * lam w) (ph * (dph - Dh)) y).
  { replace (INR 2 * lam u + INR 3 * lam w) with ((lam u + lam w) + (INR 1 * lam u + INR 2 * lam w)) by (simpl; ring).
    apply near_trans with (ph * z); [|apply settled_near; assumption]. apply near_scale.
    apply near_trans with x; apply rounded_near; assumption. }
  set (g := grow u 2 * grow w 3) in *.
  pose proof (near_off _ (p * (dp - D)) _ _ _ N (Rle_refl _)) as B. rewrite grow_two in B by assumption. fold g in B.
  assert (G : 1 <= g). { unfold g. pose proof (grow_ge1 u 2 Hu). pose proof (grow_ge1 w 3 Hw). nra. }
  eapply Rle_trans; [exact B|]. rewrite Rabs_mult, (Rabs_pos_eq p) by exact Hp.
  assert (E : Rabs (ph * (dph - Dh) - p * (dp - D)) <= p * rho * (Rabs (dp - D) + (eps + eta)) + p * (eps + eta)).
  { replace (ph * (dph - Dh) - p * (dp - D)) with
      ((ph - p) * (dph - Dh) + p * ((dph - dp) - (Dh - D))) by ring.
    assert (Q : Rabs ((dph - dp) - (Dh - D)) <= eps + eta).
    { unfold Rminus at 1. eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_Ropp. lra. }
    eapply Rle_trans; [apply Rabs_triang|]. rewrite !Rabs_mult, (Rabs_pos_eq p) by exact Hp. apply Rplus_le_compat.
    - apply Rmult_le_compat; [apply Rabs_pos|apply Rabs_pos|exact Hph|].
      replace (dph - Dh) with ((dp - D) + ((dph - dp) - (Dh - D))) by ring.
      eapply Rle_trans; [apply Rabs_triang|]. lra.
    - apply Rmult_le_compat_l; assumption. }
  unfold K. pose proof (Rmult_le_compat_l g _ _ ltac:(lra) E). nra.
Qed.
Definition checked_logit_gradient_error : Statement.logit_gradient_error :=
  fun u w p ph rho dp dph eps D Dh eta x z y => logit_gradient_error u w p ph rho dp dph eps D Dh eta x z y.
