(* new:our_convergence_from_ones: from M_0 = 1, without a mask, the printed theorem is true for d^2 <= 361 n^5.

   Either lam d <= 6 sqrt(n) K with K = max|W| ||X||^2, and M = 1 is a witness (OnesWitness.v).  Or the printed PL
   inequality holds along descent: with G = W o (X^T p X) and R = 3 sqrt(n) K,
     ||grad L||^2 >= ||G||^2 + lam^2 ||M||^2 - 2 lam ||G|| d,   ||G|| <= sqrt(n/2) K,   lam d > 2 R,
   so that ||G||^2 + 2 lam d (R - ||G||) >= 27.5 n K^2, which min|W| beta delta ||c||^2 does not exceed: delta <= 1/n and
   n beta <= ||X||^2 give min|W| beta delta <= K/n^2, and ||c||^2 is at most 2 n and at most K^2 d^2.               *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model Gradient MaskReadings.
From AttnPrune.analysis Require Import LipschitzGradient Descent OnesWitness Confinement PLTrueGradient MainTheorem ModelBounds.
Open Scope R_scope.

(* beta n <= ||X||^2, from the rows of X *)
Lemma gram_trace n d X beta : gram_ge n d X beta -> beta * INR n <= nsq n d X.
Proof.
  intro H. unfold nsq. rewrite Rmult_comm, <- rsum_const. apply rsum_le; intros i Hi.
  set (e := fun l => if Nat.eqb l i then 1 else 0).
  assert (E : forall g, rsum n (fun l => e l * g l) = g i).
  { intro g. rewrite <- (rsum_delta n i g Hi). apply rsum_ext; intros l _. unfold e. destruct (Nat.eqb l i); ring. }
  specialize (H e). rewrite (E e) in H. replace (e i) with 1 in H by (unfold e; rewrite Nat.eqb_refl; reflexivity).
  rewrite Rmult_1_r in H. eapply Rle_trans; [exact H|]. right. apply rsum_ext; intros a _.
  rewrite (E (fun l => X l a)). reflexivity.
Qed.

(* the two bounds of ||c||^2 together *)
Lemma small_product N K w cc dd : 1 <= N -> 0 < K -> 0 < w -> 0 <= cc -> 0 <= dd ->
  w * (N * N) <= K -> cc <= 2 * N -> cc <= K * K * dd -> dd <= 361 * N ^ 5 -> w * cc <= 55 / 2 * N * (K * K).
Proof.
  intros N1 K0 w0 C0 D0 Hw C1 C2 Hd. assert (NN : 0 < N * N) by nra.
  apply Rmult_le_reg_l with (N * N); [exact NN|].
  apply Rle_trans with (K * cc).
  { replace (N * N * (w * cc)) with (w * (N * N) * cc) by ring. apply Rmult_le_compat_r; assumption. }
  destruct (Rle_lt_dec (4 / 55) (N * N * K)) as [L | S].
  - apply Rle_trans with (K * (2 * N)); [apply Rmult_le_compat_l; lra|].
    replace (N * N * (55 / 2 * N * (K * K))) with (K * (2 * N) * (55 / 4 * (N * N * K))) by field.
    rewrite <- (Rmult_1_r (K * (2 * N))) at 1. apply Rmult_le_compat_l; [nra | lra].
  - apply Rle_trans with (K * (K * K * (361 * N ^ 5))).
    + apply Rmult_le_compat_l; [lra|]. eapply Rle_trans; [exact C2|]. apply Rmult_le_compat_l; [nra | exact Hd].
    + replace (K * (K * K * (361 * N ^ 5))) with (K * K * N ^ 3 * (361 * (N * N * K))) by ring.
      replace (N * N * (55 / 2 * N * (K * K))) with (K * K * N ^ 3 * (55 / 2)) by ring.
      apply Rmult_le_compat_l; [apply Rmult_le_pos; [nra | apply pow_le; lra] | lra].
Qed.

(* 4 R (R - g) with R = 3 r K, g = (17/24) r K, r^2 = N, and 17/24 > 1/sqrt 2 *)
Lemma gap N K r G ld w cc : 0 <= K -> 0 <= r -> r * r = N -> 0 <= G -> G <= 17 / 24 * (r * K) ->
  6 * (r * K) <= ld -> w * cc <= 55 / 2 * N * (K * K) -> w * cc <= G * G + 2 * ld * (3 * (r * K) - G).
Proof.
  intros K0 r0 rN G0 HG Hl H. assert (0 <= r * K) by (apply Rmult_le_pos; assumption).
  replace (55 / 2 * N * (K * K)) with (55 / 2 * (r * K * (r * K))) in H by (rewrite <- rN; ring).
  set (z := r * K) in *. assert (0 <= 3 * z - G) by lra.
  assert (2 * (6 * z) * (3 * z - G) <= 2 * ld * (3 * z - G)) by (apply Rmult_le_compat_r; lra). nra.
Qed.

Section FromOnes.
Variables (n d : nat) (X W : mat) (lam beta delta wmin wmax : R).
Hypothesis Hn : (0 < n)%nat.
Hypothesis Hd : (0 < d)%nat.
Hypothesis Hd2 : INR d * INR d <= 361 * INR n ^ 5.
Hypothesis Hlam : 0 < lam.
Hypothesis Hbeta : 0 < beta.
Hypothesis HX : gram_ge n d X beta.
Hypothesis Hdelta : 0 < delta.
Hypothesis Hw0 : 0 < wmin.
Hypothesis Hw : between wmin wmax d W.
Let Hv := full_valid n.
Let N := INR n.
Let K := wmax * nsq n d X.

Lemma wmax_pos : 0 < wmax.
Proof. destruct (Hw 0%nat 0%nat Hd Hd). lra. Qed.

Lemma K_bound : logit_bound n d X W full K.
Proof.
  apply logit_bound_frobenius; [exact Hv | left; exact wmax_pos | intros a b Ha Hb; apply (Hw a b Ha Hb)].
Qed.

(* the printed PL inequality at a point of the ball, for large lam *)
Lemma PL_of_ball M : delta_all full n (f n d X full (had M W)) delta -> nF d d M <= INR d ->
  6 * sqrt N * K <= lam * INR d ->
  wmin * beta * delta * nsq n n (c n d X W full M) + lam * lam * nsq d d M
    - 6 * sqrt N * wmax * nsq n d X * lam * INR d <= nsq d d (grad n d X W full lam M).
Proof.
  intros HF HM Hbig. pose proof wmax_pos as W0. pose proof K_bound as HK.
  assert (N1 : 1 <= N) by (apply (le_INR 1), Hn).
  pose proof (gram_trace n d X beta HX) as T. fold N in T.
  assert (x0 : 0 < nsq n d X) by (apply Rlt_le_trans with (beta * N); [apply Rmult_lt_0_compat; lra | exact T]).
  assert (K0 : 0 < K) by (apply Rmult_lt_0_compat; assumption).
  set (w := wmin * beta * delta). assert (w0 : 0 < w) by (repeat apply Rmult_lt_0_compat; assumption).
  assert (D : delta * N <= 1).
  { pose proof (delta_le_inverse_n_softmax n d X full (had M W) delta Hn Hv HF) as Q. fold N in Q.
    apply Rle_trans with (/ N * N); [apply Rmult_le_compat_r; lra | right; field; lra]. }
  assert (Hw1 : w * (N * N) <= K).
  { replace (w * (N * N)) with (wmin * (beta * N) * (delta * N)) by (unfold w; ring).
    assert (0 <= wmin * (beta * N)) by (apply Rmult_le_pos; [lra | apply Rmult_le_pos; lra]).
    apply Rle_trans with (wmin * (beta * N) * 1); [apply Rmult_le_compat_l; assumption|]. rewrite Rmult_1_r.
    destruct (Hw 0%nat 0%nat Hd Hd). apply Rmult_le_compat; try lra. apply Rmult_le_pos; lra. }
  set (r := sqrt N) in *. assert (r0 : 0 <= r) by apply sqrt_pos. assert (rr : r * r = N) by (apply sqrt_sqrt; lra).
  set (cc := nsq n n (c n d X W full M)). assert (c0 : 0 <= cc) by apply nsq_nonneg.
  assert (C1 : cc <= 2 * N).
  { destruct (model_bounds_choices n d X W full M Hv) as [Q _]. fold cc in Q.
    pose proof (n_e_le n full) as E. fold N in E. lra. }
  assert (C2 : cc <= K * K * (INR d * INR d)).
  { pose proof (lip_c_half_K n d X W full K Hv HK ones M) as Q.
    assert (E : nF n n (msub (c n d X W full M) (c n d X W full ones)) = nF n n (c n d X W full M)).
    { unfold nF. f_equal. apply nsq_ext; intros. unfold msub. rewrite c_ones. ring. }
    rewrite E in Q. assert (B : nF d d (msub M ones) <= 2 * INR d).
    { apply Rle_trans with (nF d d M + nF d d (fun i j => -1 * ones i j)).
      - eapply Rle_trans; [|apply nF_triangle]. right. unfold nF. f_equal. apply nsq_ext; intros. unfold msub. ring.
      - rewrite nF_scal. replace (Rabs (-1)) with 1 by (rewrite Rabs_left; lra).
        unfold nF at 2. rewrite nsq_ones, sqrt_square by apply pos_INR. lra. }
    assert (nF n n (c n d X W full M) <= K * INR d).
    { eapply Rle_trans; [exact Q|]. apply Rle_trans with (/ 2 * K * (2 * INR d)); [apply Rmult_le_compat_l; lra | lra]. }
    apply nsq_le_of_nF in H. fold cc in H. lra. }
  assert (P : w * cc <= 55 / 2 * N * (K * K)).
  { apply (small_product N K w cc (INR d * INR d)); try assumption. apply Rmult_le_pos; apply pos_INR. }
  set (G := nF d d (adjoint n X W (p n d X W full M))). assert (G0 : 0 <= G) by apply nF_nonneg.
  assert (GB : G <= 17 / 24 * (r * K)).
  { apply Rle_trans with (K * (/ 2 * nF n n (c n d X W full M))).
    - eapply Rle_trans; [apply (adjoint_bound n d X W full K Hv HK)|].
      + intros i j _ E. apply (p_masked n d X W full), E.
      + intros i Hi. apply p_sum; assumption.
      + apply Rmult_le_compat_l; [lra | apply p_norm_half_c, Hv].
    - assert (nF n n (c n d X W full M) <= 17 / 12 * r).
      { apply nF_le_of_nsq; [lra|]. fold cc. replace (17 / 12 * r * (17 / 12 * r)) with (289 / 144 * (r * r)) by field.
        rewrite rr. lra. }
      apply Rle_trans with (K * (/ 2 * (17 / 12 * r))); [|lra]. apply Rmult_le_compat_l; lra. }
  pose proof (gap N K r G (lam * INR d) w cc (Rlt_le _ _ K0) r0 rr G0 GB ltac:(lra) P) as Q.
  unfold grad. rewrite nsq_plus, nsq_scal, ip_scal_r. fold cc.
  pose proof (ip_cauchy_schwarz d d (adjoint n X W (p n d X W full M)) M) as CS. fold G in CS.
  apply Rabs_le_between in CS. rewrite <- (nF_sq d d (adjoint n X W (p n d X W full M))). fold G.
  assert (G * nF d d M <= G * INR d) by (apply Rmult_le_compat_l; assumption).
  set (i0 := ip d d (adjoint n X W (p n d X W full M)) M) in *.
  assert (lam * - (G * INR d) <= lam * i0) by (apply Rmult_le_compat_l; lra).
  replace (6 * r * wmax * nsq n d X * lam * INR d) with (2 * (lam * INR d) * (3 * (r * K))) by (unfold K; ring). lra.
Qed.
End FromOnes.

(* the printed step is one that the Lipschitz constant allows *)
Lemma paper_step n d lam R0 eta : (0 < n)%nat -> (0 < d)%nat -> 0 < lam -> 1 < R0 -> 0 < eta ->
  eta < / L_paper n d lam R0 -> eta * (lam + 5 / 4 * (R0 * R0 * R0 * (R0 * R0 * R0))) <= 1.
Proof.
  intros Hn Hd Hl HR He HeL. pose proof (INR_ge1 n Hn) as N1. pose proof (INR_ge1 d Hd) as D1.
  assert (S1 : 1 <= sqrt (INR n)) by (rewrite <- sqrt_1; apply sqrt_le_1_alt; exact N1).
  set (r := R0 * R0 * R0). assert (r0 : 0 <= r) by (unfold r; repeat apply Rmult_le_pos; lra).
  assert (P : lam + 5 / 4 * (r * r) <= L_paper n d lam R0).
  { unfold L_paper. replace (R0 ^ 6) with (r * r) by (unfold r; ring).
    assert (P1 : 1 <= INR n ^ 3 * sqrt (INR n)).
    { assert (1 <= INR n ^ 3) by (apply pow_R1_Rle; exact N1). nra. }
    assert (P2 : 1 <= INR d * (INR n ^ 3 * sqrt (INR n))) by nra. pose proof (sq_nonneg r).
    assert (r * r <= INR d * (INR n ^ 3 * sqrt (INR n)) * (r * r)) by nra. lra. }
  assert (0 < lam + 5 / 4 * (r * r)) by (pose proof (sq_nonneg r); lra).
  apply Rle_trans with (/ L_paper n d lam R0 * L_paper n d lam R0); [|right; field; lra].
  apply Rmult_le_compat; lra.
Qed.

Theorem our_convergence_from_ones : our_convergence (fun lam => 0 < lam) (fun n d M => M = ones /\ INR d * INR d <= 361 * INR n ^ 5)
  eq full (delta_all full) mu_paper.
Proof.
  intros n d X W lam beta delta wmin wmax R0 eta eps M0 T Hn Hd [-> Hd2] Hl Hb HX Hdl Hw Hmin Hmax HR HXR HWR
    He HeL Hep M mu Hf [_ HT]. cbv beta in Hl.
  assert (Hbw : between wmin wmax d W).
  { intros a b Ha Hbb. split; [apply (proj1 Hmin) | apply (proj1 Hmax)]; assumption. }
  assert (N : 0 < INR n) by (apply lt_0_INR, Hn). assert (D : 0 < INR d) by (apply lt_0_INR, Hd).
  assert (w0 : 0 < wmin * beta * delta) by (repeat apply Rmult_lt_0_compat; assumption).
  assert (mu0 : 0 < mu) by (unfold mu, mu_paper; lra).
  assert (NN : 0 < INR n * INR n) by (apply Rmult_lt_0_compat; assumption).
  set (q := mu * eps * (INR n * INR n) / 2).
  assert (q0 : 0 < q) by (unfold q; repeat apply Rmult_lt_0_compat; lra).
  assert (E : 2 * L n d X W full lam ones / (eta * q)
              = 4 * L n d X W full lam ones / (eta * mu * eps * (INR n * INR n))) by (unfold q; field; repeat split; lra).
  assert (L0 : 0 < L n d X W full lam ones) by (rewrite ones_loss; repeat apply Rmult_lt_0_compat; lra).
  assert (T1 : (1 <= T)%nat).
  { destruct T as [|T]; [|lia]. exfalso. simpl in HT. assert (0 < eta * q) by (apply Rmult_lt_0_compat; assumption).
    assert (0 < 2 * L n d X W full lam ones / (eta * q)) by (apply Rdiv_lt_0_compat; lra). lra. }
  pose proof (full_valid n) as Hv.
  destruct (Rle_lt_dec (lam * INR d) (6 * sqrt (INR n) * wmax * nsq n d X)) as [Small | Big].
  { exists 0%nat, 0%nat. repeat split; try lia.
    exact (ones_satisfies_guarantee n d X W full lam wmax mu eps Hn mu0 (Rlt_le _ _ Hl) (Rlt_le _ _ Hep) Small). }
  pose proof (paper_step n d lam R0 eta Hn Hd Hl HR He HeL) as St.
  pose proof (logit_bound_R3 n d X W full R0 Hv HR HXR HWR) as HK. set (K := R0 * R0 * R0) in *.
  destruct (small_gradient_exists d d (L n d X W full lam) (grad n d X W full lam) (lam + 5 / 4 * (K * K))
    (loss_gradient n d X W full lam Hv)
    (loss_gradient_lipschitz n d X W full lam Hv Hl (5 / 4) K row_constant_five_quarters HK)
    (loss_extensional n d X W full lam) (Lip_nonneg n d X W full lam Hl (5 / 4) K row_constant_five_quarters HK)
    (loss_nonneg n d X W full lam Hl) eta ones T q He St q0 T1) as [t [Ht Hg]]; [rewrite E; exact HT|].
  exists t, t. repeat split; try exact Ht. fold (M t) in Hg.
  assert (Ball : nF d d (M t) <= INR d).
  { apply (confinement_ball n d X W full lam Hv Hl (5 / 4) K eta row_constant_five_quarters HK He t). lra. }
  pose proof (PL_of_ball n d X W lam beta delta wmin wmax Hn Hd Hd2 Hl Hb HX Hdl Hw Hbw (M t) (Hf t Ht) Ball ltac:(lra)) as P.
  replace (wmin * beta * delta) with (mu / 2) in P by (unfold mu, mu_paper; field).
  unfold xi_theorem, Lattn.
  set (cc := nsq n n (c n d X W full (M t))) in *. set (mm := nsq d d (M t)) in *. set (xx := nsq n d X) in *.
  set (r := sqrt (INR n)) in *. assert (r0 : 0 < r) by (apply sqrt_lt_R0, N).
  assert (rr : INR n = r * r) by (symmetry; apply sqrt_sqrt; lra).
  assert (B : mu / 2 * cc + lam * lam * mm - 6 * r * wmax * xx * lam * INR d
              <= mu * eps * (INR n * INR n) / 2) by (unfold q in Hg; lra).
  rewrite rr in *.
  apply Rmult_le_reg_l with (mu * (r * r * (r * r))); [apply Rmult_lt_0_compat; [exact mu0 | exact NN]|].
  replace (mu * (r * r * (r * r)) * (/ 2 * cc / (r * r * (r * r)) + lam * lam / (mu * (r * r * (r * r))) * mm))
    with (mu / 2 * cc + lam * lam * mm) by (field; lra).
  replace (mu * (r * r * (r * r)) * ((12 / (r * r * r) * wmax * xx * lam * INR d / mu + eps) / 2))
    with (6 * r * wmax * xx * lam * INR d + mu * eps * (r * r * (r * r)) / 2) by (field; lra).
  lra.
Qed.

(* the inequality in the printed form *)
Theorem PL_printed n d X W lam beta delta wmin wmax M : (0 < n)%nat -> (0 < d)%nat ->
  INR d * INR d <= 361 * INR n ^ 5 -> 0 < lam -> 0 < beta -> gram_ge n d X beta -> 0 < delta -> 0 < wmin ->
  between wmin wmax d W -> delta_all full n (f n d X full (had M W)) delta -> nF d d M <= INR d ->
  6 * sqrt (INR n) * (wmax * nsq n d X) <= lam * INR d ->
  PL_inequality n d X W full M lam wmax (mu_paper wmin beta delta) (grad n d X W full lam M).
Proof.
  intros Hn Hd Hd2 Hl Hb HX Hdl Hw Hbw HF HM Hbig. apply Rle_ge.
  pose proof (PL_of_ball n d X W lam beta delta wmin wmax Hn Hd Hd2 Hl Hb HX Hdl Hw Hbw M HF HM Hbig) as P.
  eapply Rle_trans; [|exact P]. right.
  assert (0 < wmin * beta * delta) by (repeat apply Rmult_lt_0_compat; assumption).
  unfold mu_paper, xi_PL. field. repeat split; lra.
Qed.

(* ---- as Trusted.v states them ---- *)
Definition checked_PL_printed : Statement.PL_printed := PL_printed.
Definition checked_our_convergence_from_ones : Statement.our_convergence_from_ones := our_convergence_from_ones.
