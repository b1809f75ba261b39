(* Gradient descent on a function with L-Lipschitz gradient: the descent lemma and
   thm:convergence (Theorem 3.1 of Frei and Gu 2021), re-proved.

   The variable is an m x n matrix; R^p is the case n = 1.  "G is the gradient of F"
   means: along every line, d/dt F(w + t v) = <G(w + t v), v>.                      *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums MatrixNorm.
Open Scope R_scope.

Section Descent.
Variables (m n : nat) (F : mat -> R) (G : mat -> mat) (Lip : R).

Notation is_gradient := (Analysis.is_gradient m n F G).
Notation gradient_lipschitz := (Analysis.gradient_lipschitz m n G Lip).
Notation extensional := (Analysis.extensional m n F).
Notation gd_step := (Analysis.gd_step G).
Notation gd := (Analysis.gd G).

Hypothesis HG : is_gradient.
Hypothesis HL : gradient_lipschitz.
Hypothesis HE : extensional.
Hypothesis HL0 : 0 <= Lip.

(* F(w - eta G(w)) <= F(w) - eta (1 - eta L/2) ||G(w)||^2 *)
Theorem descent_lemma eta w : 0 <= eta ->
  F (gd_step eta w) <= F w - eta * (1 - eta * Lip / 2) * nsq m n (G w).
Proof.
  intro He. set (g := G w). set (v := fun i j => - g i j). set (S := nsq m n g).
  set (phi := fun t => F (mline w t v) + t * S - Lip * t * t / 2 * S).
  set (dphi := fun t => ip m n (G (mline w t v)) v + S - Lip * t * S).
  destruct (mean_value phi dphi 0 eta He) as [t [Ht E]].
  { intro t. unfold phi, dphi. evar_last.
    - apply (is_derive_plus (fun t => F (mline w t v) + t * S) (fun t => - (Lip * t * t / 2 * S))).
      + apply (is_derive_plus (fun t => F (mline w t v)) (fun t => t * S)).
        * apply HG.
        * instantiate (1 := S). auto_derive; [trivial | ring].
      + instantiate (1 := - (Lip * t * S)). auto_derive; [trivial | field].
    - unfold plus; simpl. ring. }
  assert (D : dphi t <= 0).
  { unfold dphi. set (gt := G (mline w t v)).
    assert (E1 : ip m n gt v + S = ip m n (msub gt g) v).
    { rewrite ip_sub_l. assert (ip m n g v = - S); [|lra].
      unfold v. rewrite (ip_ext m n g _ g (fun i j => -1 * g i j)) by (intros; ring).
      rewrite ip_scal_r, ip_self. fold S. ring. }
    rewrite E1.
    pose proof (ip_cauchy_schwarz m n (msub gt g) v) as C.
    pose proof (Rle_abs (ip m n (msub gt g) v)).
    assert (Nv : nF m n v = nF m n g).
    { unfold v. unfold nF. f_equal. rewrite (nsq_ext m n _ (fun i j => -1 * g i j)) by (intros; ring).
      rewrite nsq_scal. ring. }
    assert (B : nF m n (msub gt g) <= Lip * (t * nF m n g)).
    { eapply Rle_trans; [apply HL|]. apply Rmult_le_compat_l; [exact HL0|]. right.
      rewrite <- (Rabs_pos_eq t) at 2 by lra. rewrite <- Nv, <- nF_scal. unfold nF. f_equal.
      apply nsq_ext; intros. unfold msub, mline. ring. }
    rewrite Nv in C. pose proof (nF_nonneg m n g) as N.
    assert (nF m n (msub gt g) * nF m n g <= Lip * (t * nF m n g) * nF m n g)
      by (apply Rmult_le_compat_r; assumption).
    assert (Lip * (t * nF m n g) * nF m n g = Lip * t * S) by (unfold S; rewrite <- nF_sq; ring).
    lra. }
  assert (P : phi eta <= phi 0) by (assert (dphi t * (eta - 0) <= 0) by nra; lra).
  unfold phi in P.
  assert (E0 : F (mline w 0 v) = F w) by (apply HE; intros; unfold mline; ring).
  assert (E1 : F (mline w eta v) = F (gd_step eta w))
    by (apply HE; intros; unfold mline, Analysis.gd_step, v, g; ring).
  rewrite E0, E1 in P. lra.
Qed.

(* For eta <= 1/L each step gains at least eta/2 ||G||^2. *)
Lemma sufficient_decrease eta w : 0 <= eta -> eta * Lip <= 1 ->
  F (gd_step eta w) <= F w - eta / 2 * nsq m n (G w).
Proof.
  intros He H. pose proof (descent_lemma eta w He). pose proof (nsq_nonneg m n (G w)).
  assert (0 <= eta * nsq m n (G w)) by (apply Rmult_le_pos; assumption). nra.
Qed.

(* Steps up to 2/L do not increase F. *)
Lemma gd_monotone eta w0 t : 0 <= eta -> eta * Lip <= 2 -> F (gd eta w0 t) <= F w0.
Proof.
  intros He H. induction t as [|t IH]; simpl; [lra|].
  pose proof (descent_lemma eta (gd eta w0 t) He) as D.
  pose proof (nsq_nonneg m n (G (gd eta w0 t))).
  assert (0 <= eta * (1 - eta * Lip / 2) * nsq m n (G (gd eta w0 t))).
  { apply Rmult_le_pos; [apply Rmult_le_pos; lra | assumption]. }
  lra.
Qed.

Lemma telescope eta w0 T : 0 <= eta -> eta * Lip <= 1 ->
  eta / 2 * rsum T (fun t => nsq m n (G (gd eta w0 t))) <= F w0 - F (gd eta w0 T).
Proof.
  intros He H. induction T as [|T IH]; simpl; [lra|].
  pose proof (sufficient_decrease eta (gd eta w0 T) He H). lra.
Qed.

Hypothesis F_nonneg : forall w, 0 <= F w.

(* If ||G||^2 > q at each of the first T >= 1 iterates then T < 2 F(w0) / (eta q). *)
Lemma small_gradient_exists eta w0 T q : 0 < eta -> eta * Lip <= 1 -> 0 < q -> (1 <= T)%nat ->
  2 * F w0 / (eta * q) <= INR T ->
  exists t, (t < T)%nat /\ nsq m n (G (gd eta w0 t)) <= q.
Proof.
  intros He H Hq HT HN.
  assert (D : (exists t, (t < T)%nat /\ nsq m n (G (gd eta w0 t)) <= q)
            \/ forall t, (t < T)%nat -> q < nsq m n (G (gd eta w0 t))).
  { clear HT HN. induction T as [|T IH]; [right; intros; lia|].
    destruct IH as [[t [Ht E]] | IH]; [left; exists t; split; [lia | exact E]|].
    destruct (Rle_lt_dec (nsq m n (G (gd eta w0 T))) q) as [E | E].
    - left; exists T; split; [lia | exact E].
    - right; intros t Ht. destruct (Nat.eq_dec t T) as [-> | Hn]; [exact E | apply IH; lia]. }
  destruct D as [D | D]; [exact D|]. exfalso.
  pose proof (telescope eta w0 T (Rlt_le _ _ He) H) as S. pose proof (F_nonneg (gd eta w0 T)).
  assert (B : INR T * q < rsum T (fun t => nsq m n (G (gd eta w0 t)))).
  { destruct T as [|T]; [lia|]. rewrite S_INR. simpl.
    assert (INR T * q <= rsum T (fun t => nsq m n (G (gd eta w0 t)))).
    { rewrite <- rsum_const. apply rsum_le; intros t Ht. left. apply D; lia. }
    specialize (D T ltac:(lia)). lra. }
  assert (2 * F w0 <= INR T * (eta * q)).
  { replace (2 * F w0) with (2 * F w0 / (eta * q) * (eta * q)) by (field; lra).
    apply Rmult_le_compat_r; [nra | exact HN]. }
  assert (eta * (INR T * q) < eta * rsum T (fun t => nsq m n (G (gd eta w0 t))))
    by (apply Rmult_lt_compat_l; assumption).
  lra.
Qed.

(* ---- thm:convergence ----
   If ||G(w)||^a >= mu/2 (g(w) - xi) at the iterates and T >= 2 eta^{-1} (mu eps/2)^{-2/a} F(w0),
   T >= 1, then min_{t<T} g(w_t) <= xi + eps.  (For T = 0, allowed by the printed
   statement when F(w0) = 0, the minimum is over nothing.)  x^a with a > 0 is 0 at x = 0;
   Rpower is exp(a ln x), so that 0 is treated apart. *)


Theorem convergence (g : mat -> R) (xi a mu eps eta : R) (w0 : mat) (T : nat) :
  0 < a -> 0 < mu -> 0 < eps -> 0 < eta -> eta * Lip <= 1 -> (1 <= T)%nat ->
  (forall t, (t < T)%nat ->
     power (nF m n (G (gd eta w0 t))) a >= / 2 * mu * (g (gd eta w0 t) - xi)) ->
  2 * / eta * Rpower (mu * eps / 2) (- 2 / a) * F w0 <= INR T ->
  exists t, (t < T)%nat /\ g (gd eta w0 t) <= xi + eps.
Proof.
  intros Ha Hmu Heps He HeL HT HPL HN.
  set (z := mu * eps / 2) in *. assert (z0 : 0 < z) by (unfold z; nra).
  set (q := Rpower z (2 / a)). assert (q0 : 0 < q) by apply exp_pos.
  destruct (small_gradient_exists eta w0 T q He HeL q0 HT) as [t [Ht Hg]].
  { eapply Rle_trans; [|exact HN]. right.
    replace (- 2 / a) with (- (2 / a)) by (field; lra). rewrite Rpower_Ropp. fold q.
    field. split; lra. }
  exists t. split; [exact Ht|]. specialize (HPL t Ht).
  assert (B : power (nF m n (G (gd eta w0 t))) a <= z).
  { unfold power. destruct (Rlt_dec 0 (nF m n (G (gd eta w0 t)))) as [P | _]; [|lra].
    set (x := nF m n (G (gd eta w0 t))) in *.
    assert (x * x <= q) by (unfold x; rewrite nF_sq; exact Hg).
    assert (Ex : x * x = Rpower x 2).
    { replace 2 with (1 + 1) by ring. rewrite Rpower_plus, Rpower_1 by exact P. reflexivity. }
    replace (Rpower x a) with (Rpower (x * x) (a / 2)).
    2:{ rewrite Ex, Rpower_mult. f_equal. field. }
    replace z with (Rpower q (a / 2)).
    2:{ unfold q. rewrite Rpower_mult. replace (2 / a * (a / 2)) with 1 by (field; lra).
        apply Rpower_1, z0. }
    destruct (Req_dec (x * x) q) as [-> | Ne]; [right; reflexivity|].
    left. unfold Rpower. apply exp_increasing. apply Rmult_lt_compat_l; [lra|].
    apply ln_increasing; [nra | lra]. }
  assert (/ 2 * mu * (g (gd eta w0 t) - xi) <= / 2 * mu * eps) by (unfold z in B; lra).
  assert (g (gd eta w0 t) - xi <= eps); [|lra].
  apply Rmult_le_reg_l with (/ 2 * mu); lra.
Qed.
End Descent.

(* ---- as Trusted.v states them ---- *)
Definition checked_descent_lemma : Statement.descent_lemma.
Proof. intros m n F G Lip [HG [HL [HE H0]]]. exact (descent_lemma m n F G Lip HG HL HE H0). Qed.
Definition checked_convergence : Statement.convergence.
Proof. intros m n F G Lip [HG [HL [HE H0]]]. exact (convergence m n F G Lip HG HL HE H0). Qed.
