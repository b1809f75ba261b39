(* Descent with momentum, w_{t+1} = w_t - eta G(w_t) + theta (w_t - w_{t-1}).

   new:heavy_ball: with s = w_t - w_{t-1} and D = w_{t+1} - w_t = theta s - eta G(w_t), the quadratic upper bound along
   D and 2 <s, D> <= ||s||^2 + ||D||^2 make F(w_t) + theta/(2 eta) ||s||^2 fall by ((1 - theta)/eta - L/2) ||D||^2.
   new:heavy_ball_diverges: where attention does not see M the recursion is linear, and changes sign in each step.   *)
Require Import Reals Lra Lia FunctionalExtensionality.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model Gradient LipschitzGradient Descent.
From AttnPrune.analysis Require Import OnesWitness Confinement Projection.
Open Scope R_scope.

Lemma ip_between m n A B : - (nsq m n A + nsq m n B) <= 2 * ip m n A B <= nsq m n A + nsq m n B.
Proof.
  pose proof (nsq_nonneg m n (fun i j => A i j + B i j)) as P. rewrite nsq_plus in P.
  pose proof (nsq_nonneg m n (fun i j => A i j + -1 * B i j)) as Q.
  rewrite (nsq_plus m n A (fun i j => -1 * B i j)), nsq_scal, ip_scal_r in Q. lra.
Qed.

Section Smooth.
Variables (m n : nat) (F : mat -> R) (G : mat -> mat) (Lip : R).
Hypothesis HF : smooth m n F G Lip.

(* F(w + v) <= F(w) + <G(w), v> + L/2 ||v||^2 *)
Lemma quadratic_upper w v : F (mline w 1 v) <= F w + ip m n (G w) v + Lip / 2 * nsq m n v.
Proof.
  destruct HF as [HG [HL [HE H0]]]. set (g := ip m n (G w) v). set (S := nsq m n v).
  set (phi := fun t => F (mline w t v) + (- t * g - Lip * t * t / 2 * S)).
  set (dphi := fun t => ip m n (G (mline w t v)) v + (- g - Lip * t * S)).
  destruct (mean_value phi dphi 0 1) as [t [Ht E]]; [lra| |].
  { intro t. apply (is_derive_plus (fun t => F (mline w t v)) (fun t => - t * g - Lip * t * t / 2 * S)); [apply HG|].
    auto_derive; [trivial | field]. }
  assert (D : dphi t <= 0).
  { unfold dphi, g. set (gt := G (mline w t v)).
    pose proof (ip_cauchy_schwarz m n (msub gt (G w)) v) as C. pose proof (Rle_abs (ip m n (msub gt (G w)) v)).
    assert (B : nF m n (msub gt (G w)) <= Lip * (t * nF m n v)).
    { eapply Rle_trans; [apply HL|]. apply Rmult_le_compat_l; [exact H0|]. right.
      rewrite <- (Rabs_pos_eq t) at 2 by lra. rewrite <- nF_scal. unfold nF. f_equal.
      apply nsq_ext; intros. unfold msub, mline. ring. }
    pose proof (nF_nonneg m n v) as N.
    assert (nF m n (msub gt (G w)) * nF m n v <= Lip * (t * nF m n v) * nF m n v)
      by (apply Rmult_le_compat_r; assumption).
    assert (Lip * (t * nF m n v) * nF m n v = Lip * t * S) by (unfold S; rewrite <- nF_sq; ring).
    rewrite ip_sub_l in *. lra. }
  unfold phi in E.
  rewrite (HE (mline w 0 v) w) in E by (intros; unfold mline; ring). lra.
Qed.

Section Step.
Variables (theta eta : R) (w v : mat).
Hypothesis Ht : 0 <= theta.
Hypothesis He : 0 < eta.
Let w' := momentum_step G eta theta w v.
Let s := msub w v.
Let D := msub w' w.

Lemma move_sq : nsq m n D = theta * ip m n s D - eta * ip m n (G w) D.
Proof.
  unfold nsq, ip. rewrite <- !rsum_scal, <- rsum_minus. apply rsum_ext; intros i _.
  rewrite <- !rsum_scal, <- rsum_minus. apply rsum_ext; intros j _.
  unfold D, w', s, msub, momentum_step. ring.
Qed.

Theorem heavy_ball_energy : F w' + theta / (2 * eta) * nsq m n D
  <= F w + theta / (2 * eta) * nsq m n s - ((1 - theta) / eta - Lip / 2) * nsq m n D.
Proof.
  pose proof (quadratic_upper w D) as Q. pose proof move_sq as I. pose proof (proj2 (ip_between m n s D)) as B.
  rewrite (proj1 (proj2 (proj2 HF)) (mline w 1 D) w') in Q by (intros; unfold D, mline, msub; ring).
  set (k := / eta). assert (k0 : 0 < k) by (apply Rinv_0_lt_compat, He).
  assert (E : ip m n (G w) D = k * theta * ip m n s D - k * nsq m n D) by (rewrite I; unfold k; field; lra).
  assert (k * theta * (2 * ip m n s D) <= k * theta * (nsq m n s + nsq m n D))
    by (apply Rmult_le_compat_l; [apply Rmult_le_pos|]; lra).
  replace (theta / (2 * eta)) with (k * theta / 2) by (unfold k; field; lra).
  replace ((1 - theta) / eta) with (k - k * theta) by (unfold k; field; lra). lra.
Qed.

(* ||G(w)||^2 <= (1 + theta) (theta ||s||^2 + ||D||^2)/eta^2 *)
Lemma gradient_by_moves : eta * eta * nsq m n (G w) <= (1 + theta) * (theta * nsq m n s + nsq m n D).
Proof.
  assert (E : eta * eta * nsq m n (G w) = theta * theta * nsq m n s - theta * (2 * ip m n s D) + nsq m n D).
  { unfold nsq, ip. rewrite <- !rsum_scal, <- rsum_minus, <- rsum_plus. apply rsum_ext; intros i _.
    rewrite <- !rsum_scal, <- rsum_minus, <- rsum_plus. apply rsum_ext; intros j _.
    unfold D, w', s, msub, momentum_step. ring. }
  rewrite E. pose proof (proj1 (ip_between m n s D)) as B.
  assert (theta * - (nsq m n s + nsq m n D) <= theta * (2 * ip m n s D)) by (apply Rmult_le_compat_l; assumption). lra.
Qed.
End Step.

(* from rest: what the energy and the gradients of the first T iterates add up to *)
Section Rest.
Variables (theta eta : R) (w0 : mat).
Hypothesis Ht : 0 <= theta.
Hypothesis He : 0 < eta.
Let q t := momentum G eta theta w0 t.
Let w t := fst (q t).
Let last t := nsq m n (msub (w t) (snd (q t))).
Let b := (1 - theta) / eta - Lip / 2.
Hypothesis Hb : 0 <= b.

Lemma energy_sum T : F (w T) + theta / (2 * eta) * last T + b * (eta * eta / ((1 + theta) * (1 + theta))
  * rsum T (fun t => nsq m n (G (w t))) + theta / (1 + theta) * last T) <= F w0.
Proof.
  induction T as [|T IH].
  - unfold last, w, q. simpl. rewrite (nsq_ext m n _ (fun _ _ => 0 * 0)) by (intros; unfold msub; ring).
    rewrite nsq_scal. lra.
  - pose proof (heavy_ball_energy theta eta (w T) (snd (q T)) Ht He) as E.
    pose proof (gradient_by_moves theta eta (w T) (snd (q T)) Ht) as Gr.
    change (momentum_step G eta theta (w T) (snd (q T))) with (w (S T)) in *.
    change (nsq m n (msub (w T) (snd (q T)))) with (last T) in *.
    change (nsq m n (msub (w (S T)) (w T))) with (last (S T)) in *. fold b in E. simpl rsum.
    set (k := / (1 + theta)). assert (k0 : 0 < k) by (apply Rinv_0_lt_compat; lra).
    set (g := nsq m n (G (w T))) in *. set (R0 := rsum T _) in *.
    replace (eta * eta / ((1 + theta) * (1 + theta))) with (k * k * (eta * eta)) in * by (unfold k; field; lra).
    replace (theta / (1 + theta)) with (1 - k) in * by (unfold k; field; lra).
    assert (A : k * k * (eta * eta * g) <= (1 - k) * last T + k * last (S T)).
    { apply Rle_trans with (k * k * ((1 + theta) * (theta * last T + last (S T)))).
      - apply Rmult_le_compat_l; [nra | exact Gr].
      - right. unfold k. field. lra. }
    assert (b * (k * k * (eta * eta * g)) <= b * ((1 - k) * last T + k * last (S T)))
      by (apply Rmult_le_compat_l; assumption).
    lra.
Qed.
End Rest.
End Smooth.

Lemma below_mean T (g : nat -> R) B : (1 <= T)%nat -> rsum T g <= INR T * B -> exists t, (t < T)%nat /\ g t <= B.
Proof.
  intros HT H. destruct T as [|T]; [lia|]. clear HT. induction T as [|T IH].
  - exists 0%nat. split; [lia|]. simpl in H. lra.
  - rewrite S_INR in H. change (rsum (S (S T)) g) with (rsum (S T) g + g (S T)) in H.
    destruct (Rle_lt_dec (g (S T)) B) as [E | E]; [exists (S T); split; [lia | exact E]|].
    destruct IH as [t [Ht A]]; [lra | exists t; split; [lia | exact A]].
Qed.

Section Loss.
Variables (n d : nat) (X W Mc : mat) (lam C K eta theta : R).
Hypothesis Ht : 0 <= theta.
Hypothesis Hs : step_ok n d X W Mc lam C K eta (2 * (1 - theta)).
Notation grad := (grad n d X W Mc lam).
Notation L := (L n d X W Mc lam).
Let Lip := lam + C * (K * K).
Let M t := fst (momentum grad eta theta ones t).
Let b := (1 - theta) / eta - Lip / 2.

Lemma eta_pos : 0 < eta.
Proof. apply Hs. Qed.

Lemma b_eta : b * (2 * eta) = 2 * (1 - theta) - eta * Lip.
Proof. pose proof eta_pos. unfold b. field. lra. Qed.

Lemma loss_sum T : L (M T) + b * (eta * eta / ((1 + theta) * (1 + theta)))
  * rsum T (fun t => nsq d d (grad (M t))) <= / 2 * lam * (INR d * INR d).
Proof.
  pose proof eta_pos as He. pose proof b_eta as Eb.
  destruct Hs as [HMc [Hl [HC [HK [_ Hb]]]]]. fold Lip in Hb.
  assert (b0 : 0 <= b) by (apply Rmult_le_reg_r with (2 * eta); lra).
  pose proof (energy_sum d d L grad Lip (loss_smooth n d X W Mc lam C K HMc (Rlt_le _ _ Hl) HC HK) theta eta ones Ht He b0 T) as E.
  rewrite ones_loss in E. fold (M T) in E. fold b in E.
  set (N := nsq d d (msub _ _)) in E. assert (N0 : 0 <= N) by apply nsq_nonneg.
  assert (0 <= theta / (2 * eta) * N).
  { apply Rmult_le_pos; [|exact N0]. unfold Rdiv. apply Rmult_le_pos; [exact Ht|]. left. apply Rinv_0_lt_compat. lra. }
  assert (0 <= b * (theta / (1 + theta) * N)).
  { repeat apply Rmult_le_pos; try assumption. left. apply Rinv_0_lt_compat. lra. }
  set (k := eta * eta / ((1 + theta) * (1 + theta))) in *.
  change (rsum T (fun t => nsq d d (grad (M t)))) with
    (rsum T (fun t => nsq d d (grad (fst (momentum grad eta theta ones t))))).
  set (G := rsum T _) in *. clearbody b k G N. lra.
Qed.

Lemma heavy_ball_loss t : L (M t) <= / 2 * lam * (INR d * INR d).
Proof.
  pose proof (loss_sum t) as S. pose proof b_eta as Eb. pose proof eta_pos.
  destruct Hs as [_ [_ [_ [_ [_ Hb]]]]]. fold Lip in Hb.
  assert (b0 : 0 <= b) by (apply Rmult_le_reg_r with (2 * eta); lra).
  assert (0 <= b * (eta * eta / ((1 + theta) * (1 + theta))) * rsum t (fun t => nsq d d (grad (M t)))); [|lra].
  repeat apply Rmult_le_pos; try lra.
  - left. apply Rinv_0_lt_compat. nra.
  - apply rsum_nonneg. intros. apply nsq_nonneg.
Qed.

Lemma heavy_ball_gradient T : eta * Lip < 2 * (1 - theta) -> (1 <= T)%nat ->
  exists t, (t < T)%nat /\ nsq d d (grad (M t)) <=
    (1 + theta) * (1 + theta) * lam * (INR d * INR d) / (eta * (2 * (1 - theta) - eta * Lip) * INR T).
Proof.
  intros Hb HT. pose proof eta_pos as He. pose proof b_eta as Eb. pose proof (loss_sum T) as S.
  assert (b0 : 0 < b) by (apply Rmult_lt_reg_r with (2 * eta); lra).
  assert (P : 0 <= L (M T)) by (apply loss_nonneg; apply Hs).
  assert (T0 : 0 < INR T) by (apply lt_0_INR; lia).
  set (k := b * (eta * eta / ((1 + theta) * (1 + theta)))) in *.
  assert (k0 : 0 < k).
  { unfold k, Rdiv. repeat apply Rmult_lt_0_compat; try assumption. apply Rinv_0_lt_compat. nra. }
  apply below_mean; [exact HT|]. apply Rmult_le_reg_l with k; [exact k0|].
  apply Rle_trans with (/ 2 * lam * (INR d * INR d)); [lra|]. right. rewrite <- Eb. unfold k. field. lra.
Qed.

Theorem heavy_ball_descent : (forall t, L (M t) <= lam * INR d ^ 2 / 2) /\
  forall T, (1 <= T)%nat -> let h := 2 * (1 - theta) - eta * Lip in 0 < h ->
  exists t, (t < T)%nat /\ nsq d d (grad (M t)) <= (1 + theta) ^ 2 * lam * INR d ^ 2 / (eta * h * INR T).
Proof.
  split.
  - intro t. pose proof (heavy_ball_loss t). lra.
  - intros T HT h Hh. destruct (heavy_ball_gradient T) as [t [H E]]; [unfold h in Hh; lra | exact HT|].
    exists t. split; [exact H|]. simpl. rewrite !Rmult_1_r. exact E.
Qed.
End Loss.

Section Unseen.
Variables (n d : nat) (X W Mc : mat) (lam eta theta : R) (M0 : mat).
Hypothesis HMc : valid_mask n Mc.
Hypothesis Ht : 0 <= theta.
Notation grad := (grad n d X W Mc lam).
Let M t := fst (momentum grad eta theta M0 t).
Let x := eta * lam - 2 * (1 + theta).
Hypothesis Hx : 0 < x.
Let r := (x + 1 + theta + sqrt (x ^ 2 + 2 * x * (1 + theta) + (1 - theta) ^ 2)) / 2.

Lemma r_root : r * r - (x + 1 + theta) * r + theta = 0 /\ 1 < r <= x + 1 + theta.
Proof.
  unfold r. set (y := x ^ 2 + 2 * x * (1 + theta) + (1 - theta) ^ 2). set (q := sqrt y).
  assert (xt : 0 <= x * theta) by (apply Rmult_le_pos; lra).
  pose proof (sq_nonneg x). pose proof (sq_nonneg (1 - theta)).
  assert (y0 : 0 <= y) by (unfold y; lra). pose proof (sqrt_sqrt y y0) as Q. fold q in Q.
  pose proof (sqrt_pos y) as q0. fold q in q0. unfold y in Q.
  assert (1 - theta < q) by (apply Rnot_le_lt; intro Z; pose proof (Rmult_le_compat q _ q _ q0 q0 Z Z); nra).
  assert (q <= x + 1 + theta).
  { apply Rnot_lt_le. intro Z. pose proof (Rmult_le_0_lt_compat (x + 1 + theta) q (x + 1 + theta) q). nra. }
  split; [|lra]. replace ((x + 1 + theta + q) / 2 * ((x + 1 + theta + q) / 2))
    with (((x + 1 + theta) * (x + 1 + theta) + 2 * (x + 1 + theta) * q + q * q) / 4) by field.
  rewrite Q. field.
Qed.

Lemma unseen_gradient N A : unseen n d X W Mc N -> ip d d (grad A) N = lam * ip d d A N.
Proof.
  intro HN.
  assert (E : ip d d (grad A) N = ip d d (adjoint n X W (p n d X W Mc A)) N + lam * ip d d A N).
  { unfold ip. rewrite <- rsum_scal, <- rsum_plus. apply rsum_ext; intros i _.
    rewrite <- rsum_scal, <- rsum_plus. apply rsum_ext; intros j _. unfold Analysis.grad. ring. }
  rewrite E, adjoint_ip. assert (Z : ip n n (p n d X W Mc A) (logit d X (had N W)) = 0); [|rewrite Z; ring].
  apply rsum_zero; intros i Hi. destruct (HN i Hi) as [a Ha].
  rewrite (rsum_ext n _ (fun j => a * p n d X W Mc A i j)).
  - rewrite rsum_scal, p_sum by assumption. ring.
  - intros j Hj. destruct (proj1 (HMc i Hi) j) as [Z | Z]; [rewrite (p_masked n d X W Mc) by exact Z; ring|].
    rewrite Ha by assumption. ring.
Qed.

Section Direction.
Variable N : mat.
Hypothesis HN : unseen n d X W Mc N.
Let z t := ip d d (M t) N.

Lemma z_step t : z (S t) = (1 - eta * lam) * z t + theta * (z t - ip d d (snd (momentum grad eta theta M0 t)) N).
Proof.
  unfold z. change (M (S t)) with (momentum_step grad eta theta (M t) (snd (momentum grad eta theta M0 t))).
  set (v := snd _). replace ((1 - eta * lam) * ip d d (M t) N) with (ip d d (M t) N - eta * ip d d (grad (M t)) N)
    by (rewrite (unseen_gradient N (M t) HN); ring).
  unfold ip. rewrite <- !rsum_scal, <- !rsum_minus, <- rsum_scal, <- rsum_plus. apply rsum_ext; intros i _.
  rewrite <- !rsum_scal, <- !rsum_minus, <- rsum_scal, <- rsum_plus. apply rsum_ext; intros j _.
  unfold momentum_step. ring.
Qed.

(* each iterate is at least r times the one before, of the other sign *)
Lemma z_ratio t : exists k, r <= k /\ z (S t) = - k * z t.
Proof.
  destruct r_root as [R0 [R1 R2]]. induction t as [|t [k [Hk E]]].
  - exists (x + 1 + 2 * theta). split; [lra|]. rewrite z_step. simpl snd. fold (z 0). change (ip d d M0 N) with (z 0).
    unfold x. ring.
  - exists (x + 1 + theta - theta * / k). split.
    + assert (theta * / k <= theta * / r) by (apply Rmult_le_compat_l; [|apply Rinv_le_contravar]; lra).
      assert (E' : theta * / r = x + 1 + theta - r); [|lra].
      apply Rmult_eq_reg_r with r; [|lra]. rewrite Rmult_assoc, Rinv_l by lra. lra.
    + rewrite z_step. change (snd (momentum grad eta theta M0 (S t))) with (M t). change (ip d d (M t) N) with (z t).
      rewrite E. unfold x. field. lra.
Qed.

Lemma z_grows t : r ^ t * Rabs (z 0) <= Rabs (z t).
Proof.
  destruct r_root as [_ [R1 _]]. induction t as [|t IH]; [simpl; lra|].
  destruct (z_ratio t) as [k [Hk E]]. rewrite E, Rabs_mult, Rabs_Ropp, (Rabs_pos_eq k) by lra.
  simpl. rewrite Rmult_assoc. apply Rmult_le_compat; try lra.
  apply Rmult_le_pos; [apply pow_le; lra | apply Rabs_pos].
Qed.
End Direction.

Lemma part_grows t N0 N : unseen_part n d X W Mc M0 N0 -> unseen_part n d X W Mc (M t) N ->
  r ^ t * nF d d N0 <= nF d d N.
Proof.
  intros [U0 H0] [_ H]. pose proof (z_grows N0 U0 t) as Z.
  specialize (H0 N0 U0). specialize (H N0 U0). rewrite ip_sub_l in H0, H. cbv beta zeta in Z.
  change (M 0%nat) with M0 in Z.
  replace (ip d d M0 N0) with (nF d d N0 * nF d d N0) in Z by (rewrite nF_sq, <- ip_self; lra).
  replace (ip d d (M t) N0) with (ip d d N N0) in Z by lra.
  pose proof (ip_cauchy_schwarz d d N N0) as C. pose proof (nF_nonneg d d N0) as P. pose proof (nF_nonneg d d N).
  rewrite Rabs_pos_eq in Z by (apply Rmult_le_pos; assumption).
  destruct (Req_dec (nF d d N0) 0) as [-> | E]; [lra|]. apply Rmult_le_reg_r with (nF d d N0); lra.
Qed.

Theorem heavy_ball_diverges t : 1 < r /\
  (exists N0 N, unseen_part n d X W Mc M0 N0 /\ unseen_part n d X W Mc (M t) N /\ r ^ t * nF d d N0 <= nF d d N) /\
  forall a b, (a < d)%nat -> (b < d)%nat -> W a b = 0 -> r ^ t * Rabs (M0 a b) <= Rabs (M t a b).
Proof.
  split; [apply r_root | split].
  - destruct (unseen_part_exists n d X W Mc HMc M0) as [N0 H0].
    destruct (unseen_part_exists n d X W Mc HMc (M t)) as [N H].
    exists N0, N. split; [exact H0|]. split; [exact H | apply part_grows; assumption].
  - intros a b Ha Hb HW. rewrite <- (ip_unit d a b Ha Hb M0), <- (ip_unit d a b Ha Hb (M t)). apply z_grows.
    intros i _. exists 0. intros j _ _. apply rsum_zero; intros a' _. apply rsum_zero; intros b' _.
    unfold had, unit_matrix.
    destruct (Nat.eqb_spec a' a) as [-> |]; destruct (Nat.eqb_spec b' b) as [-> |]; simpl; rewrite ?HW; ring.
Qed.
End Unseen.

(* without momentum: gradient descent *)
Lemma momentum_zero G eta w0 t : fst (momentum G eta 0 w0 t) = gd G eta w0 t.
Proof.
  induction t as [|t IH]; [reflexivity|]. simpl. rewrite IH. extensionality i. extensionality j.
  unfold momentum_step, gd_step. ring.
Qed.

Theorem smallest_gradient n d X W Mc lam C K eta T : step_ok n d X W Mc lam C K eta 2 -> (1 <= T)%nat ->
  let h := 2 - eta * (lam + C * (K * K)) in 0 < h -> exists t, (t < T)%nat /\
  nsq d d (grad n d X W Mc lam (gd (grad n d X W Mc lam) eta ones t)) <= lam * INR d ^ 2 / (eta * h * INR T).
Proof.
  intros S HT h Hh. assert (E : 2 * (1 - 0) = 2) by ring.
  assert (S0 : step_ok n d X W Mc lam C K eta (2 * (1 - 0))) by (rewrite E; exact S).
  destruct S0 as [HMc [Hl [HC [HK [He Hs]]]]].
  destruct (heavy_ball_descent n d X W Mc lam C K eta 0 (Rle_refl 0)
    (conj HMc (conj Hl (conj HC (conj HK (conj He Hs)))))) as [_ H].
  destruct (H T HT) as [t [Ht G]]; [rewrite E; exact Hh|]. exists t. split; [exact Ht|].
  rewrite momentum_zero in G. eapply Rle_trans; [exact G|]. right. unfold h. rewrite E. f_equal; ring.
Qed.

(* ---- as Trusted.v states them ---- *)
Definition checked_smallest_gradient : Statement.smallest_gradient := smallest_gradient.
Definition checked_heavy_ball_energy : Statement.heavy_ball_energy.
Proof. intros m n F G Lip eta theta w v HF Ht He. exact (heavy_ball_energy m n F G Lip HF theta eta w v Ht He). Qed.
Definition checked_heavy_ball_descent : Statement.heavy_ball_descent.
Proof. intros n d X W Mc lam C K eta theta Ht Hs. exact (heavy_ball_descent n d X W Mc lam C K eta theta Ht Hs). Qed.
Definition checked_heavy_ball_diverges : Statement.heavy_ball_diverges.
Proof.
  intros n d X W Mc lam eta theta M0 t HMc Ht M x Hx.
  exact (heavy_ball_diverges n d X W Mc lam eta theta M0 HMc Ht Hx t).
Qed.
