(* Steps longer than 1/L.

   new:directional_step: along -G, G = grad L(M), the logits move by -t Delta with Delta = X (G o W) X^T, and a row of p is
   C-Lipschitz in its logits; so d/dt L(M - t G) <= -||G||^2 + t (lam ||G||^2 + C ||Pi Delta||^2).
   new:stopping_rule: what such steps take off adds up to at most L(1) = lam d^2/2.
   new:armijo_step: backtracking accepts every step up to 2 (1 - alpha)/L, so that what it accepts is not far below.     *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model Gradient LipschitzGradient Descent OnesWitness Confinement.
Open Scope R_scope.

Section Directional.
Variables (n d : nat) (X W Mc : mat) (lam C : R) (M : mat) (a : vec).
Hypothesis HMc : valid_mask n Mc.
Hypothesis HC : row_constant C.
Notation p := (p n d X W Mc).
Notation grad := (grad n d X W Mc lam).
Notation L := (L n d X W Mc lam).
Let G := grad M.
Let V : mat := fun i j => - G i j.
Let v := logit d X (had G W).
Let D i := masked_sqnorm n (Mc i) (v i) (a i).

Lemma logit_V i j : logit d X (had V W) i j = - v i j.
Proof.
  transitivity (-1 * v i j); [|ring]. unfold v, logit. rewrite <- rsum_scal. apply rsum_ext; intros k _.
  rewrite <- rsum_scal. apply rsum_ext; intros l _. unfold had, V. ring.
Qed.

Lemma row_change i t : (i < n)%nat ->
  sqnorm n (fun j => p (mline M t V) i j - p M i j) <= C * C * (t * t * D i).
Proof.
  intro Hi. destruct HC as [_ H].
  eapply Rle_trans; [|eapply Rle_trans; [apply (H n (Mc i) (f n d X Mc W i) (logit d X (had M W) i)
    (logit d X (had (mline M t V) W) i) (- t * a i)); [apply HMc, Hi | apply f_probability; assumption]|]].
  - right. apply rsum_ext; intros j _. rewrite !p_is_p_row. reflexivity.
  - right. f_equal. unfold D, masked_sqnorm. rewrite <- rsum_scal. apply rsum_ext; intros j _.
    rewrite logit_line, logit_V. ring.
Qed.

Lemma inner_change t : 0 <= t -> Rabs (ip n n (msub (p (mline M t V)) (p M)) v) <= t * (C * rsum n D).
Proof.
  intro Ht. rewrite <- !rsum_scal. eapply Rle_trans; [apply rsum_abs_le|]. apply rsum_le; intros i Hi.
  set (q := fun j => p (mline M t V) i j - p M i j). set (y := fun j => Mc i j * (v i j - a i)).
  assert (D0 : 0 <= D i).
  { unfold D. rewrite masked_sqnormE by apply (proj1 (HMc i Hi)). apply sqnorm_nonneg. }
  assert (E : rsum n (fun j => msub (p (mline M t V)) (p M) i j * v i j) = rsum n (fun j => q j * y j)).
  { rewrite (rsum_ext n (fun j => q j * y j) (fun j => q j * v i j - a i * q j)).
    - rewrite rsum_minus, rsum_scal. assert (Z : rsum n q = 0); [|rewrite Z; unfold q, msub; ring].
      unfold q. rewrite rsum_minus, !(p_sum n d X W Mc HMc) by exact Hi. ring.
    - intros j _. unfold y. destruct (proj1 (HMc i Hi) j) as [Z | Z]; rewrite Z; [|ring].
      unfold q. rewrite !(p_masked n d X W Mc) by exact Z. ring. }
  rewrite E. apply Rabs_le_of_sqr; [destruct HC; repeat apply Rmult_le_pos; assumption|].
  eapply Rle_trans; [apply rsum_cauchy_schwarz|].
  assert (Y : rsum n (fun j => y j * y j) = D i).
  { unfold D. rewrite masked_sqnormE by apply (proj1 (HMc i Hi)). reflexivity. }
  rewrite Y. replace (t * (C * D i) * (t * (C * D i))) with (C * C * (t * t * D i) * D i) by ring.
  apply Rmult_le_compat_r; [exact D0 | apply row_change, Hi].
Qed.

Theorem directional_step eta : 0 <= eta -> eta * (lam * nsq d d G + C * rsum n D) <= nsq d d G ->
  L (gd_step grad eta M) <= L M - eta / 2 * nsq d d G.
Proof.
  intros He H. set (S := nsq d d G) in *. set (B := lam * S + C * rsum n D) in *.
  set (phi := fun t => L (mline M t V) + t * S - B * t * t / 2).
  set (dphi := fun t => ip d d (grad (mline M t V)) V + S - B * t).
  destruct (mean_value phi dphi 0 eta He) as [t [Ht E]].
  { intro t. unfold phi, dphi. evar_last.
    - apply (is_derive_plus (fun t => L (mline M t V) + t * S) (fun t => - (B * t * t / 2))).
      + apply (is_derive_plus (fun t => L (mline M t V)) (fun t => t * S)).
        * apply mat_view_l_directional, HMc.
        * instantiate (1 := S). auto_derive; [trivial | ring].
      + instantiate (1 := - (B * t)). auto_derive; [trivial | field].
    - unfold plus; simpl. ring. }
  assert (Dp : dphi t <= 0).
  { unfold dphi. set (Mt := mline M t V).
    assert (E1 : ip d d (grad Mt) V = - ip n n (msub (p Mt) (p M)) v + lam * t * S - S).
    { assert (I : forall q, ip d d (adjoint n X W q) V = - ip n n q v).
      { intro q. rewrite adjoint_ip. unfold ip. rewrite <- (Rmult_1_l (rsum n (fun i => rsum n (fun j => q i j * v i j)))).
        rewrite Ropp_mult_distr_l, <- rsum_scal. apply rsum_ext; intros i _. rewrite <- rsum_scal.
        apply rsum_ext; intros j _. rewrite logit_V. ring. }
      assert (G0 : ip d d G V = - S).
      { unfold S, nsq, ip. rewrite <- (Rmult_1_l (rsum d (fun i => rsum d (fun j => G i j * G i j)))).
        rewrite Ropp_mult_distr_l, <- rsum_scal. apply rsum_ext; intros i _. rewrite <- rsum_scal.
        apply rsum_ext; intros j _. unfold V. ring. }
      rewrite ip_sub_l, <- (Ropp_involutive (ip n n (p Mt) v)), <- (Ropp_involutive (ip n n (p M) v)), <- !I.
      assert (T : ip d d (grad Mt) V = ip d d (adjoint n X W (p Mt)) V + lam * ip d d M V + lam * t * ip d d V V).
      { unfold ip. rewrite <- !rsum_scal, <- !rsum_plus. apply rsum_ext; intros i _.
        rewrite <- !rsum_scal, <- !rsum_plus. apply rsum_ext; intros j _. unfold Analysis.grad, Mt, mline. ring. }
      assert (T0 : ip d d G V = ip d d (adjoint n X W (p M)) V + lam * ip d d M V).
      { unfold ip. rewrite <- !rsum_scal, <- !rsum_plus. apply rsum_ext; intros i _.
        rewrite <- !rsum_scal, <- !rsum_plus. apply rsum_ext; intros j _. unfold G, Analysis.grad. ring. }
      assert (VV : ip d d V V = S).
      { apply rsum_ext; intros i _. apply rsum_ext; intros j _. unfold V. ring. }
      rewrite T, VV. lra. }
    rewrite E1. pose proof (inner_change t (proj1 Ht)) as I. fold Mt in I. apply Rabs_le_between in I. unfold B. lra. }
  assert (P : phi eta <= phi 0) by (assert (dphi t * (eta - 0) <= 0) by nra; lra).
  unfold phi in P.
  assert (X0 : forall A A', (forall i j, A i j = A' i j) -> L A = L A').
  { intros A A' HA. unfold Analysis.L, Lattn, Lreg. f_equal; f_equal; apply nsq_ext; intros; [apply c_ext|]; auto. }
  rewrite (X0 (mline M 0 V) M) in P by (intros; unfold mline; ring).
  rewrite (X0 (mline M eta V) (gd_step grad eta M)) in P by (intros; unfold mline, gd_step, V, G; ring).
  assert (eta * (eta * B) <= eta * S) by (apply Rmult_le_compat_l; assumption). lra.
Qed.
End Directional.

(* eta is tried from eta0 downwards by a factor of at most b; the last trial that failed was above 2 (1 - alpha)/L *)
Theorem armijo_step m n F G Lip alpha b eta w : smooth m n F G Lip -> 0 < Lip -> 0 < alpha < 1 -> 0 < b -> 0 < eta ->
  F (gd_step G (eta / b) w) > F w - alpha * (eta / b) * nsq m n (G w) -> 2 * (1 - alpha) * b / Lip < eta.
Proof.
  intros [HG [HL [HE H0]]] L0 Ha Hb He Hf.
  set (t := eta / b) in *. assert (t0 : 0 < t) by (apply Rdiv_lt_0_compat; assumption).
  pose proof (descent_lemma m n F G Lip HG HL HE H0 t w (Rlt_le _ _ t0)) as D.
  pose proof (nsq_nonneg m n (G w)) as N. set (g := nsq m n (G w)) in *.
  assert (K : 2 * (1 - alpha) < t * Lip).
  { apply Rnot_le_lt. intro Q. assert (0 <= t * g) by (apply Rmult_le_pos; lra).
    assert (0 <= t * g * (1 - t * Lip / 2 - alpha)) by (apply Rmult_le_pos; lra). lra. }
  apply Rmult_lt_reg_r with (Lip / b); [apply Rdiv_lt_0_compat; assumption|].
  replace (2 * (1 - alpha) * b / Lip * (Lip / b)) with (2 * (1 - alpha)) by (field; lra).
  replace (eta * (Lip / b)) with (t * Lip) by (unfold t; field; lra). exact K.
Qed.

(* some gradient among the first T is at most lam d^2 over the sum of the steps *)
Theorem stopping_rule n d X W Mc lam (M : nat -> mat) eta T : M 0%nat = ones ->
  (forall t, (t < T)%nat -> 0 <= eta t /\
     L n d X W Mc lam (M (S t)) <= L n d X W Mc lam (M t) - eta t / 2 * nsq d d (grad n d X W Mc lam (M t))) ->
  0 <= lam -> (1 <= T)%nat ->
  exists t, (t < T)%nat /\ nsq d d (grad n d X W Mc lam (M t)) * rsum T eta <= lam * (INR d * INR d).
Proof.
  intros H0 H Hl HT. set (g := fun t => nsq d d (grad n d X W Mc lam (M t))).
  assert (A : rsum T (fun t => eta t / 2 * g t) <= L n d X W Mc lam (M 0%nat) - L n d X W Mc lam (M T)).
  { clear HT. induction T as [|T IH]; simpl; [lra|].
    specialize (IH ltac:(intros t Ht; apply H; lia)). destruct (H T ltac:(lia)) as [_ D]. fold (g T) in D. lra. }
  rewrite H0, ones_loss in A.
  assert (N : 0 <= L n d X W Mc lam (M T)).
  { unfold L, Lattn, Lreg. pose proof (nsq_nonneg n n (c n d X W Mc (M T))). pose proof (nsq_nonneg d d (M T)).
    assert (0 <= lam * nsq d d (M T)) by (apply Rmult_le_pos; assumption). lra. }
  (* the least of the first T values *)
  assert (Least : exists t, (t < T)%nat /\ forall s, (s < T)%nat -> g t <= g s).
  { clear A N H. induction T as [|T IH]; [lia|]. destruct T as [|T].
    - exists 0%nat. split; [lia|]. intros s Hs. replace s with 0%nat by lia. lra.
    - destruct IH as [t [Ht B]]; [lia|]. destruct (Rle_lt_dec (g t) (g (S T))) as [E | E].
      + exists t. split; [lia|]. intros s Hs. destruct (Nat.eq_dec s (S T)) as [-> | Ne]; [exact E | apply B; lia].
      + exists (S T). split; [lia|]. intros s Hs. destruct (Nat.eq_dec s (S T)) as [-> | Ne]; [lra|].
        specialize (B s ltac:(lia)). lra. }
  destruct Least as [t [Ht B]]. exists t. split; [exact Ht|]. fold (g t).
  assert (S : g t * rsum T eta <= rsum T (fun s => eta s * g s)).
  { rewrite <- rsum_scal. apply rsum_le; intros s Hs. rewrite Rmult_comm. destruct (H s Hs) as [E _].
    apply Rmult_le_compat_l; [exact E | apply B, Hs]. }
  assert (E : rsum T (fun s => eta s / 2 * g s) = / 2 * rsum T (fun s => eta s * g s)).
  { rewrite <- rsum_scal. apply rsum_ext; intros; field. }
  lra.
Qed.

(* ---- as Trusted.v states them ---- *)
Definition checked_stopping_rule : Statement.stopping_rule := stopping_rule.
Definition checked_directional_step : Statement.directional_step.
Proof. intros n d X W Mc lam C M a HMc HC G moved eta. exact (directional_step n d X W Mc lam C M a HMc HC eta). Qed.
Definition checked_armijo_step : Statement.armijo_step := armijo_step.
