(* Lipschitz constants of the products that make up p (lem:lip_f_circ_c, lem:lip_diag,
   lem:lip_diag_f), with the paper's constants.

   Row by row, with D = f~(M') - f~(M) and ||.|| the norm of a row:
     c' o f~' - c o f~         = D o (f~' + c)                    <= 2 ||D||
     <c', f~'> - <c, f~>       = <D, f~' + c>                     <= 3 ||D||
     <c', f~'> f~' - <c, f~> f~ = (...) f~' + <c, f~> D           <= 4 ||D||
   and ||D||_F <= (K/2) ||M' - M||_F, K <= R^3.                                        *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model LipschitzGradient.
Open Scope R_scope.

Lemma sqnorm_triangle2 n v w k l D : 0 <= k -> 0 <= l -> 0 <= D ->
  sqnorm n v <= k * k * D -> sqnorm n w <= l * l * D ->
  sqnorm n (fun j => v j + w j) <= (k + l) * (k + l) * D.
Proof.
  intros Hk Hl HD Hv Hw.
  assert (E : sqnorm n (fun j => v j + w j) = sqnorm n v + sqnorm n w + 2 * rsum n (fun j => v j * w j)).
  { unfold sqnorm. rewrite <- rsum_scal, <- !rsum_plus. apply rsum_ext; intros; ring. }
  assert (B : rsum n (fun j => v j * w j) <= k * l * D).
  { eapply Rle_trans; [apply Rle_abs|]. apply Rabs_le_of_sqr.
    - repeat apply Rmult_le_pos; assumption.
    - eapply Rle_trans; [apply rsum_cauchy_schwarz|].
      replace (k * l * D * (k * l * D)) with ((k * k * D) * (l * l * D)) by ring.
      apply Rmult_le_compat; try apply sqnorm_nonneg; assumption. }
  rewrite E. lra.
Qed.

Section Products.
Variables (n d : nat) (X W Mc : mat) (R0 : R).
Hypothesis HMc : valid_mask n Mc.
Hypothesis Hn : (0 < n)%nat.
Hypothesis Hd : (0 < d)%nat.
Hypothesis HR : 1 < R0.
Hypothesis HX : nF n d X <= R0.
Hypothesis HW : nF d d W <= R0.
Notation f := (f n d X Mc).
Notation c := (c n d X W Mc).

(* ---- products ---- *)
Section Row.
Variables (M M' : mat) (i : nat).
Hypothesis Hi : (i < n)%nat.
Let s := f (had M W) i.
Let s' := f (had M' W) i.
Let D := sqnorm n (fun j => s' j - s j).

Lemma row_product : sqnorm n (fun j => s' j * c M' i j - s j * c M i j) <= 2 * 2 * D.
Proof.
  unfold D, sqnorm. rewrite <- rsum_scal. apply rsum_le; intros j Hj.
  assert (E : s' j * c M' i j - s j * c M i j = (s' j - s j) * (s' j + c M i j)).
  { unfold s, s', Analysis.c. ring. }
  rewrite E. set (t := s' j - s j).
  pose proof (c_abs_le1 n d X W Mc HMc M i j Hi Hj).
  pose proof (f_nonneg n d X Mc HMc (had M' W) i j Hi). pose proof (f_le1 n d X Mc HMc (had M' W) i j Hi Hj).
  fold s' in H0, H1. change (f (had M' W) i j) with (s' j) in *.
  set (e := s' j + c M i j). assert (-2 <= e <= 2) by (unfold e; lra).
  replace (t * e * (t * e)) with (e * e * (t * t)) by ring.
  apply Rmult_le_compat_r; [apply sq_nonneg | nra].
Qed.

Let m := rsum n (fun j => s j * c M i j).
Let m' := rsum n (fun j => s' j * c M' i j).

Lemma sqnorm_c : sqnorm n (c M i) <= 2 * 2.
Proof.
  apply Rle_trans with (rsum n (fun j => 2 * s j + 2 * f W i j)).
  - apply rsum_le; intros j Hj. unfold Analysis.c. change (f (had M W) i j) with (s j).
    pose proof (f_nonneg n d X Mc HMc (had M W) i j Hi). pose proof (f_nonneg n d X Mc HMc W i j Hi).
    pose proof (f_le1 n d X Mc HMc (had M W) i j Hi Hj). pose proof (f_le1 n d X Mc HMc W i j Hi Hj).
    change (f (had M W) i j) with (s j) in *. nra.
  - assert (E1 : rsum n s = 1) by (apply f_sum; assumption).
    assert (E2 : rsum n (f W i) = 1) by (apply f_sum; assumption).
    rewrite rsum_plus, !rsum_scal. change (2 * rsum n s + 2 * rsum n (f W i) <= 2 * 2). lra.
Qed.

Lemma row_mean : (m' - m) * (m' - m) <= 3 * 3 * D.
Proof.
  assert (E : m' - m = rsum n (fun j => (s' j - s j) * (s' j + c M i j))).
  { unfold m, m'. rewrite <- rsum_minus. apply rsum_ext; intros j _. unfold s, s', Analysis.c. ring. }
  rewrite E. eapply Rle_trans; [apply rsum_cauchy_schwarz|].
  change (D * sqnorm n (fun j => s' j + c M i j) <= 3 * 3 * D).
  assert (sqnorm n (fun j => s' j + c M i j) <= (1 + 2) * (1 + 2) * 1).
  { apply sqnorm_triangle2; try lra.
    - pose proof (sqnorm_probability_le1 n s' (f_probability n d X Mc HMc (had M' W) i Hi)). lra.
    - pose proof sqnorm_c. lra. }
  pose proof (sqnorm_nonneg n (fun j => s' j - s j)) as D0. fold D in D0. nra.
Qed.

Lemma row_mean_product : sqnorm n (fun j => m' * s' j - m * s j) <= 4 * 4 * D.
Proof.
  pose proof (sqnorm_nonneg n (fun j => s' j - s j)) as D0. fold D in D0.
  assert (B1 : sqnorm n (fun j => (m' - m) * s' j) <= 3 * 3 * D).
  { replace (sqnorm n (fun j => (m' - m) * s' j)) with ((m' - m) * (m' - m) * sqnorm n s').
    - pose proof (sqnorm_probability_le1 n s' (f_probability n d X Mc HMc (had M' W) i Hi)).
      pose proof row_mean. pose proof (sqnorm_nonneg n s'). pose proof (sq_nonneg (m' - m)). nra.
    - unfold sqnorm. rewrite <- rsum_scal. apply rsum_ext; intros; ring. }
  assert (M1 : -1 <= m <= 1).
  { assert (Rabs m <= 1); [|apply Rabs_le_between; assumption].
    eapply Rle_trans; [apply rsum_abs_le|].
    rewrite <- (f_sum n d X Mc HMc (had M W) i Hi). apply rsum_le; intros j Hj.
    rewrite Rabs_mult. change (f (had M W) i j) with (s j).
    pose proof (c_abs_le1 n d X W Mc HMc M i j Hi Hj) as B. apply Rabs_le in B.
    pose proof (f_nonneg n d X Mc HMc (had M W) i j Hi). change (f (had M W) i j) with (s j) in *.
    rewrite (Rabs_pos_eq (s j)) by assumption. pose proof (Rabs_pos (c M i j)). nra. }
  assert (B2 : sqnorm n (fun j => m * (s' j - s j)) <= 1 * 1 * D).
  { replace (sqnorm n (fun j => m * (s' j - s j))) with (m * m * D).
    - assert (m * m <= 1) by nra. nra.
    - unfold D, sqnorm. rewrite <- rsum_scal. apply rsum_ext; intros; ring. }
  replace (4 * 4) with ((3 + 1) * (3 + 1)) by ring.
  apply Rle_trans with (sqnorm n (fun j => (m' - m) * s' j + m * (s' j - s j))).
  - right. apply rsum_ext; intros j _. ring.
  - apply sqnorm_triangle2; try lra; assumption.
Qed.
End Row.

(* from rows to matrices *)
Lemma product_lipschitz (g : mat -> mat) k M M' : 0 <= k ->
  (forall i, (i < n)%nat -> sqnorm n (fun j => g M' i j - g M i j)
     <= k * k * sqnorm n (fun j => f (had M' W) i j - f (had M W) i j)) ->
  nF n n (msub (g M') (g M)) <= k * (/ 2 * (R0 * R0 * R0)) * nF d d (msub M' M).
Proof.
  intros Hk H.
  assert (HK : logit_bound n d X W Mc (R0 * R0 * R0)) by (apply logit_bound_R3; assumption).
  eapply Rle_trans; [apply (rows_to_matrix n d X W Mc (R0 * R0 * R0) HK (k * / 2) g M M')|].
  - lra.
  - intros i a Hi. eapply Rle_trans; [apply H, Hi|].
    replace (k * / 2 * (k * / 2)) with (k * k * / 4) by field. rewrite (Rmult_assoc (k * k)).
    apply Rmult_le_compat_l; [nra|]. apply softmax_lipschitz, HMc, Hi.
  - right. ring.
Qed.

Notation c_times_f := (Analysis.c_times_f n d X W Mc).
Notation row_means := (Analysis.row_means n d X W Mc).

Lemma constants k : k <= 4 ->
  k * (/ 2 * (R0 * R0 * R0)) <= 2 * INR d * R0 ^ 3 /\
  forall q, 1 <= q -> k * (/ 2 * (R0 * R0 * R0)) <= 2 * INR d * q * R0 ^ 3.
Proof.
  intro Hk. pose proof (INR_ge1 d Hd) as D1.
  assert (P : 0 <= R0 * R0 * R0) by (repeat apply Rmult_le_pos; lra).
  assert (H : forall q, 1 <= q -> k * (/ 2 * (R0 * R0 * R0)) <= 2 * INR d * q * R0 ^ 3).
  { intros q Hq. replace (2 * INR d * q * R0 ^ 3) with (2 * (INR d * q) * (R0 * R0 * R0)) by ring.
    rewrite <- Rmult_assoc. apply Rmult_le_compat_r; [exact P|]. nra. }
  split; [|exact H]. specialize (H 1 (Rle_refl 1)). lra.
Qed.

Lemma powers_of_n : 1 <= INR n * sqrt (INR n) /\ 1 <= INR n * INR n /\ 1 <= INR n ^ 3 * sqrt (INR n).
Proof.
  pose proof (INR_ge1 n Hn) as N1.
  assert (S1 : 1 <= sqrt (INR n)) by (rewrite <- sqrt_1; apply sqrt_le_1_alt; exact N1).
  assert (1 <= INR n ^ 3) by (apply pow_R1_Rle; exact N1). repeat split; nra.
Qed.

(* lem:lip_f_circ_c:  ||f~ o c - f~' o c'|| <= 6 d n^{3/2} R^3 ||M - M'|| *)
Theorem lip_f_circ_c M M' :
  nF n n (msub (c_times_f M') (c_times_f M))
  <= 6 * INR d * (INR n * sqrt (INR n)) * R0 ^ 3 * nF d d (msub M' M).
Proof.
  eapply Rle_trans; [apply (product_lipschitz c_times_f 2 M M'); [lra|]|].
  - intros i Hi. apply row_product, Hi.
  - apply Rmult_le_compat_r; [apply nF_nonneg|].
    destruct powers_of_n as [P _]. destruct (constants 2) as [_ H]; [lra|]. specialize (H _ P).
    pose proof (INR_ge1 d Hd). assert (0 <= R0 ^ 3) by (apply pow_le; lra).
    assert (0 <= INR d * (INR n * sqrt (INR n)) * R0 ^ 3) by (apply Rmult_le_pos; [apply Rmult_le_pos; lra | assumption]). lra.
Qed.

(* lem:lip_diag:  the diagonal matrices diag((f~ o c) 1);  6 d n^2 R^3 *)


Lemma sqnorm_diagonal v i : (i < n)%nat -> sqnorm n (diagonal v i) = v i * v i.
Proof.
  intro Hi. unfold sqnorm, diagonal.
  rewrite (rsum_ext n _ (fun j => if Nat.eqb j i then v i * v i else 0)).
  - apply (rsum_delta n i (fun _ => v i * v i) Hi).
  - intros j _. destruct (Nat.eqb j i); ring.
Qed.

Theorem lip_diag M M' :
  nF n n (msub (diagonal (row_means M')) (diagonal (row_means M)))
  <= 6 * INR d * (INR n * INR n) * R0 ^ 3 * nF d d (msub M' M).
Proof.
  eapply Rle_trans; [apply (product_lipschitz (fun M => diagonal (row_means M)) 3 M M'); [lra|]|].
  - intros i Hi.
    apply Rle_trans with (sqnorm n (diagonal (fun i => row_means M' i - row_means M i) i)).
    + right. apply rsum_ext; intros j _. unfold diagonal. destruct (Nat.eqb j i); ring.
    + rewrite sqnorm_diagonal by exact Hi. apply row_mean, Hi.
  - apply Rmult_le_compat_r; [apply nF_nonneg|].
    destruct powers_of_n as [_ [P _]]. destruct (constants 3) as [_ H]; [lra|]. specialize (H _ P).
    pose proof (INR_ge1 d Hd). assert (0 <= R0 ^ 3) by (apply pow_le; lra).
    assert (0 <= INR d * (INR n * INR n) * R0 ^ 3) by (apply Rmult_le_pos; [apply Rmult_le_pos; lra | assumption]). lra.
Qed.

(* lem:lip_diag_f:  diag((f~ o c) 1) f~;  24 d n^{7/2} R^3 *)
Theorem lip_diag_f M M' :
  nF n n (msub (fun i j => row_means M' i * f (had M' W) i j) (fun i j => row_means M i * f (had M W) i j))
  <= 24 * INR d * (INR n ^ 3 * sqrt (INR n)) * R0 ^ 3 * nF d d (msub M' M).
Proof.
  eapply Rle_trans;
    [apply (product_lipschitz (fun M i j => row_means M i * f (had M W) i j) 4 M M'); [lra|]|].
  - intros i Hi. apply row_mean_product, Hi.
  - apply Rmult_le_compat_r; [apply nF_nonneg|].
    destruct powers_of_n as [_ [_ P]]. destruct (constants 4) as [_ H]; [lra|]. specialize (H _ P).
    pose proof (INR_ge1 d Hd). assert (0 <= R0 ^ 3) by (apply pow_le; lra).
    assert (0 <= INR d * (INR n ^ 3 * sqrt (INR n)) * R0 ^ 3) by (apply Rmult_le_pos; [apply Rmult_le_pos; lra | assumption]). lra.
Qed.
End Products.

(* ---- as Trusted.v states them ---- *)
Definition checked_lip_f_circ_c : Statement.lip_f_circ_c.
Proof. intros n d X W Mc R0 HMc [Hn [Hd [HR [HX HW]]]] M M'. apply lip_f_circ_c; assumption. Qed.
Definition checked_lip_diag : Statement.lip_diag.
Proof. intros n d X W Mc R0 HMc [Hn [Hd [HR [HX HW]]]] M M'. apply lip_diag; assumption. Qed.
Definition checked_lip_diag_f : Statement.lip_diag_f.
Proof. intros n d X W Mc R0 HMc [Hn [Hd [HR [HX HW]]]] M M'. apply lip_diag_f; assumption. Qed.
