(* new:stationarity: among the first 1/(eta lam r^2) iterates of descent from M = 1 one has ||grad L|| <= r lam d and, with
   it, kappa l ||c|| <= (1 + r) lam d.

   At M = 1 the residual is 0 and the gradient is lam M, of norm lam d: for r < 1 the start itself does not serve.      *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model Gradient LipschitzGradient Descent.
From AttnPrune.analysis Require Import OnesWitness Confinement PLTrueGradient MainTheorem PLOperator SharpTheorem.
Open Scope R_scope.

Theorem ones_gradient_norm n d X W Mc lam : 0 <= lam -> nF d d (grad n d X W Mc lam ones) = lam * INR d.
Proof.
  intro Hl. transitivity (nF d d (fun a b => lam * ones a b)).
  - unfold nF. f_equal. apply nsq_ext; intros. rewrite ones_gradient. unfold ones. ring.
  - rewrite nF_scal, Rabs_pos_eq by exact Hl. f_equal. unfold nF. rewrite nsq_ones. apply sqrt_square, pos_INR.
Qed.

Theorem stationarity n d X W Mc lam C K eta T kappa l r : (0 < d)%nat -> 0 < r -> (1 <= T)%nat ->
  step_ok n d X W Mc lam C K eta 1 -> pull_bound n d X W Mc kappa -> / (eta * lam * r ^ 2) <= INR T ->
  let M := gd (grad n d X W Mc lam) eta ones in
  (forall t, (t < T)%nat -> gap_bound n Mc (f n d X Mc (had (M t) W)) l) ->
  exists t, (t < T)%nat /\ nF d d (grad n d X W Mc lam (M t)) <= r * lam * INR d /\
    kappa * l * nF n n (c n d X W Mc (M t)) <= (1 + r) * lam * INR d.
Proof.
  intros Hd Hr HT S Hk HN M Hg.
  destruct (checked_gradient_norm n d X W Mc lam C K eta r T Hd Hr HT S HN) as [t [Ht G]].
  exists t. split; [exact Ht|]. split; [exact G|]. fold M in G.
  destruct S as [HMc [Hlam [HC [HK [He Hs]]]]].
  assert (B : nF d d (M t) <= INR d) by (apply (confinement_ball n d X W Mc lam HMc Hlam C K eta HC HK He t); lra).
  pose proof (PL_sharp n d X W Mc (M t) kappa l HMc Hk (Hg t Ht)) as P.
  eapply Rle_trans; [exact P|].
  apply Rle_trans with (nF d d (grad n d X W Mc lam (M t)) + nF d d (fun a b => (- lam) * M t a b)).
  - eapply Rle_trans; [|apply nF_triangle]. right. unfold nF. f_equal. apply nsq_ext; intros. unfold grad. ring.
  - rewrite nF_scal, Rabs_Ropp, Rabs_pos_eq by lra.
    assert (lam * nF d d (M t) <= lam * INR d) by (apply Rmult_le_compat_l; lra). lra.
Qed.

(* ---- as Trusted.v states them ---- *)
Definition checked_ones_gradient_norm : Statement.ones_gradient_norm := ones_gradient_norm.
Definition checked_stationarity : Statement.stationarity := stationarity.
