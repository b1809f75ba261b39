(* The main theorem with the operator's own constants, kappa, l and K, and what M = 1 has to do with it.

   new:our_convergence_sharp: at an iterate with a small gradient, ||G + lam M||^2 >= ||G||^2 + lam^2 ||M||^2
   - 2 lam ||G|| ||M|| for G = W o (X^T p X), kappa l ||c|| <= ||G|| <= K ||c||/2, and ||c|| ||M|| <= sqrt(lam) d^2/2
   because ||M||^2 + ||c||^2/lam <= d^2.
   new:ones_witness_sharp: at M = 1 the left side is lam^2 d^2/(mu n^2).                                         *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model Gradient LipschitzGradient LipschitzSharp.
From AttnPrune.analysis Require Import Descent OnesWitness Confinement PLTrueGradient MainTheorem PLOperator.
Open Scope R_scope.

Theorem ones_witness_sharp n d X W Mc lam mu K : (0 < n)%nat -> (0 < d)%nat -> 0 < mu -> 0 < lam -> 0 <= K ->
  (guarantee_sharp n d X W Mc lam mu K 0 ones <-> lam <= K ^ 2 / 4) /\ C_minus * K ^ 2 <= K ^ 2 / 4.
Proof.
  intros Hn Hd Hmu Hl HK. split.
  2:{ pose proof C_minus_value as [_ H]. pose proof (sq_nonneg K). nra. }
  assert (N : 0 < INR n) by (apply lt_0_INR, Hn). assert (D : 0 < INR d) by (apply lt_0_INR, Hd).
  unfold guarantee_sharp. rewrite ones_attention_loss_zero, nsq_ones.
  set (s := sqrt lam). assert (s0 : 0 < s) by (apply sqrt_lt_R0, Hl).
  assert (E : lam = s * s) by (symmetry; apply sqrt_sqrt; lra). rewrite E.
  set (k := (s * s * s * INR d ^ 2) / (2 * mu * INR n ^ 2)).
  assert (k0 : 0 < k).
  { unfold k.
    apply Rdiv_lt_0_compat; repeat apply Rmult_lt_0_compat; try assumption; try lra; apply pow_lt; assumption. }
  replace (0 / INR n ^ 2 + (s * s) ^ 2 * (INR d * INR d) / (mu * INR n ^ 2)) with (k * (2 * s))
    by (unfold k; field; lra).
  replace ((K * (s * s * s) * INR d ^ 2 / (INR n ^ 2 * mu) + 0) / 2) with (k * K) by (unfold k; field; lra).
  split; intro H.
  - apply Rmult_le_reg_l in H; [|exact k0]. nra.
  - apply Rmult_le_compat_l; [lra|]. apply Rnot_lt_le. intro Z. nra.
Qed.

Section Sharp.
Variables (n d : nat) (X W Mc : mat) (lam C K eta : R) (T : nat).
Hypothesis HT : (1 <= T)%nat.
Hypothesis Hs : step_ok n d X W Mc lam C K eta 1.
Notation grad := (grad n d X W Mc lam).
Let M t := gd grad eta ones t.

Lemma small_gradient q : 0 < q -> lam * INR d ^ 2 / (eta * q) <= INR T ->
  exists t, (t < T)%nat /\ nsq d d (grad (M t)) <= q.
Proof.
  intros Hq HN. destruct Hs as [HMc [Hl [HC [HK [He H1]]]]].
  apply (some_small_gradient n d X W Mc lam K C eta T HMc Hl HC HK He H1 HT q Hq).
  replace (INR d * INR d) with (INR d ^ 2) by ring. exact HN.
Qed.

Theorem gradient_norm r : (0 < d)%nat -> 0 < r -> / (eta * lam * r ^ 2) <= INR T ->
  exists t, (t < T)%nat /\ nF d d (grad (M t)) <= r * lam * INR d.
Proof.
  intros Hd Hr HN. assert (D : 0 < INR d) by (apply lt_0_INR, Hd).
  destruct Hs as [_ [Hl [_ [_ [He _]]]]].
  assert (q0 : 0 < r * lam * INR d) by (repeat apply Rmult_lt_0_compat; assumption).
  destruct (small_gradient (r * lam * INR d * (r * lam * INR d))) as [t [Ht E]].
  - apply Rmult_lt_0_compat; exact q0.
  - eapply Rle_trans; [|exact HN]. right. field. lra.
  - exists t. split; [exact Ht|]. apply nF_le_of_nsq; lra.
Qed.

Variables (kappa l eps : R).
Hypothesis Hn : (0 < n)%nat.
Hypothesis Heps : 0 < eps.
Hypothesis Hk : pull_bound n d X W Mc kappa.
Hypothesis Hkl : 0 < kappa * l.
Hypothesis Hg : forall t, (t < T)%nat -> gap_bound n Mc (f n d X Mc (had (M t) W)) l.
Let mu := 2 * (kappa * l) ^ 2.

(* the proxy PL inequality along descent *)
Lemma proxy_PL t : (t < T)%nat -> mu / 2 * nsq n n (c n d X W Mc (M t)) + lam ^ 2 * nsq d d (M t)
  - K * (lam * sqrt lam) * INR d ^ 2 / 2 <= nsq d d (grad (M t)).
Proof.
  intro Ht. destruct Hs as [HMc [Hl [HC [HK [He H1]]]]].
  set (A := adjoint n X W (p n d X W Mc (M t))). set (cn := nF n n (c n d X W Mc (M t))).
  set (mn := nF d d (M t)). set (an := nF d d A).
  assert (c0 : 0 <= cn) by apply nF_nonneg. assert (m0 : 0 <= mn) by apply nF_nonneg.
  assert (a0 : 0 <= an) by apply nF_nonneg.
  assert (Lo : kappa * l * cn <= an) by (apply PL_sharp; [exact HMc | exact Hk | apply Hg, Ht]).
  assert (Up : an <= K * (/ 2 * cn)).
  { apply Rle_trans with (K * nF n n (p n d X W Mc (M t))).
    - apply (adjoint_bound n d X W Mc K HMc HK).
      + intros i j _ E. apply p_masked, E.
      + intros i Hi. apply p_sum; assumption.
    - apply Rmult_le_compat_l; [apply HK | apply p_norm_half_c, HMc]. }
  assert (Ball : nsq d d (M t) + / lam * nsq n n (c n d X W Mc (M t)) <= INR d * INR d).
  { apply (confinement n d X W Mc lam HMc Hl C K eta HC HK He t). lra. }
  rewrite <- !nF_sq in *. fold cn mn in Ball |- *.
  assert (G : nF d d (grad (M t)) * nF d d (grad (M t)) >= an * an + lam ^ 2 * (mn * mn) - 2 * lam * (an * mn)).
  { rewrite nF_sq, (nsq_ext d d _ (fun a b => A a b + lam * M t a b)) by reflexivity.
    rewrite nsq_plus, nsq_scal, ip_scal_r. pose proof (ip_cauchy_schwarz d d A (M t)) as CS.
    apply Rabs_le_between in CS. fold an mn in CS. unfold an, mn. rewrite !nF_sq. fold an mn. nra. }
  set (s := sqrt lam). assert (s0 : 0 < s) by (apply sqrt_lt_R0, Hl).
  assert (E : s * s = lam) by (apply sqrt_sqrt; lra).
  (* 2 ||c|| ||M|| <= sqrt lam (||M||^2 + ||c||^2/lam) *)
  assert (P : 2 * (cn * mn) <= s * (INR d * INR d)).
  { apply Rle_trans with (s * (mn * mn + / lam * (cn * cn))); [|apply Rmult_le_compat_l; lra].
    pose proof (sq_nonneg (s * mn - cn)) as Q. apply Rmult_le_reg_l with s; [exact s0|].
    replace (s * (s * (mn * mn + / lam * (cn * cn)))) with (s * s * (mn * mn) + s * s * / lam * (cn * cn)) by ring.
    rewrite E, Rinv_r, <- E by lra. lra. }
  assert (B : 2 * lam * (an * mn) <= K * (lam * s) * INR d ^ 2 / 2).
  { apply Rle_trans with (lam * K * (cn * mn)).
    - replace (lam * K * (cn * mn)) with (2 * lam * (K * (/ 2 * cn) * mn)) by field.
      apply Rmult_le_compat_l; [lra|]. apply Rmult_le_compat_r; assumption.
    - replace (K * (lam * s) * INR d ^ 2 / 2) with (lam * K * (s * (INR d * INR d) / 2)) by field.
      apply Rmult_le_compat_l; [apply Rmult_le_pos; [lra | apply HK] | lra]. }
  assert (Q : kappa * l * cn * (kappa * l * cn) <= an * an)
    by (apply Rmult_le_compat; try exact Lo; apply Rmult_le_pos; lra).
  unfold mu. replace (2 * (kappa * l) ^ 2 / 2 * (cn * cn)) with (kappa * l * cn * (kappa * l * cn)) by field. lra.
Qed.

Theorem our_convergence_sharp : 2 * lam * INR d ^ 2 / (eta * mu * eps * INR n ^ 2) <= INR T ->
  exists t, (t < T)%nat /\ guarantee_sharp n d X W Mc lam mu K eps (M t).
Proof.
  intro HN. assert (N : 0 < INR n) by (apply lt_0_INR, Hn).
  assert (NN : 0 < INR n ^ 2) by (apply pow_lt, N).
  assert (mu0 : 0 < mu) by (unfold mu; apply Rmult_lt_0_compat; [lra | apply pow_lt, Hkl]).
  assert (He : 0 < eta) by apply Hs.
  set (q := mu * eps * INR n ^ 2 / 2).
  assert (q0 : 0 < q).
  { unfold q. apply Rdiv_lt_0_compat; [|lra]. apply Rmult_lt_0_compat; [|exact NN].
    apply Rmult_lt_0_compat; assumption. }
  destruct (small_gradient q q0) as [t [Ht E]].
  { eapply Rle_trans; [|exact HN]. right. unfold q. field. lra. }
  exists t. split; [exact Ht|]. pose proof (proxy_PL t Ht) as P. unfold guarantee_sharp, Lattn.
  set (cc := nsq n n (c n d X W Mc (M t))) in *. set (mm := nsq d d (M t)) in *.
  set (z := K * (lam * sqrt lam) * INR d ^ 2) in *. clearbody mu.
  apply Rmult_le_reg_l with (mu * INR n ^ 2); [apply Rmult_lt_0_compat; assumption|].
  replace (mu * INR n ^ 2 * (/ 2 * cc / INR n ^ 2 + lam ^ 2 * mm / (mu * INR n ^ 2))) with (mu / 2 * cc + lam ^ 2 * mm)
    by (field; lra).
  replace (mu * INR n ^ 2 * ((z / (INR n ^ 2 * mu) + eps) / 2)) with (z / 2 + q) by (unfold q; field; lra).
  lra.
Qed.
End Sharp.

(* ---- as Trusted.v states them ---- *)
Definition checked_ones_witness_sharp : Statement.ones_witness_sharp := ones_witness_sharp.
Definition checked_gradient_norm : Statement.gradient_norm.
Proof.
  intros n d X W Mc lam C K eta r T Hd Hr HT Hs HN. exact (gradient_norm n d X W Mc lam C K eta T HT Hs r Hd Hr HN).
Qed.
Definition checked_our_convergence_sharp : Statement.our_convergence_sharp.
Proof.
  intros n d X W Mc lam C K eta eps T kappa l [Hn [HT [Heps [Hs [Hk [Hkl [Hg HN]]]]]]].
  exact (our_convergence_sharp n d X W Mc lam C K eta T HT Hs kappa l eps Hn Heps Hk Hkl Hg HN).
Qed.
