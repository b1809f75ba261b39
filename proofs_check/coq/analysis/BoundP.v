(* new:bound_p_sharp: a row of p has norm at most 8 sqrt 2/27, and neither that nor ||p|| <= ||c||/2 can be improved.

   p_i = J (sigma - f) is a mean of J (sigma - e_k) with the weights f_k, so f = e_k is the worst.  There, with x = sigma_k,
   u = 1 - x, y the other entries of sigma (of sum u) and T = sum y^2 = u^2 q, the entry k is -x (u^2 + T) and the others
   are y_j (y_j + a), a = x u - T.  For a >= 0 these are not negative and add up to x (u^2 + T) <= 2 x u^2 <= 8/27.  For
   a < 0, sum y^4 <= T^2 and sum y^3 >= T^2/u leave u^4 (x^2 (1 + q)^3 + q^2 (1 - q)), again at most 2 (8/27)^2.       *)
Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From AttnPrune.analysis Require Import Sums MatrixNorm SoftmaxRow Model LipschitzGradient PLTrueGradient ModelBounds Converses.
Open Scope R_scope.

(* ---- the polynomial ---- *)
Lemma xuu_increases x b : 0 <= x <= b -> b <= / 3 -> x * ((1 - x) * (1 - x)) <= b * ((1 - b) * (1 - b)).
Proof. intros H Hb. assert (0 <= (b - x) * ((1 - b - x) * (1 - b - x) - b * x)) by (apply Rmult_le_pos; nra). nra. Qed.

Lemma xuu_largest x : 0 <= x <= 1 -> 0 <= x * ((1 - x) * (1 - x)) <= 4 / 27.
Proof.
  intro H. split; [apply Rmult_le_pos; [lra | apply sq_nonneg]|].
  assert (0 <= (x - / 3) * (x - / 3) * (4 / 3 - x)) by (apply Rmult_le_pos; [apply sq_nonneg | lra]). lra.
Qed.

(* a piece of [0, 1/3], on which x (1 - x)^2 <= s and (1 - x)^4 <= t *)
Lemma on_piece a b s t : 0 <= a -> b <= / 3 -> b * ((1 - b) * (1 - b)) <= s ->
  (1 - a) * (1 - a) * ((1 - a) * (1 - a)) <= t ->
  (forall q, 0 <= q <= 1 -> s * s * ((1 + q) * (1 + q) * (1 + q)) + t * (q * q * (1 - q)) <= 128 / 729) ->
  forall x q, a <= x <= b -> 0 <= q <= 1 ->
  (1 - x) ^ 4 * (x ^ 2 * (1 + q) ^ 3 + q ^ 2 * (1 - q)) <= 128 / 729.
Proof.
  intros Ha Hb Hs Ht H x q Hx Hq. eapply Rle_trans; [|apply (H q Hq)].
  set (z := x * ((1 - x) * (1 - x))). set (w := (1 - x) * (1 - x) * ((1 - x) * (1 - x))).
  replace ((1 - x) ^ 4 * (x ^ 2 * (1 + q) ^ 3 + q ^ 2 * (1 - q)))
    with (z * z * ((1 + q) * (1 + q) * (1 + q)) + w * (q * q * (1 - q))) by (unfold z, w; ring).
  assert (z0 : 0 <= z) by (apply xuu_largest; lra).
  assert (zs : z <= s) by (eapply Rle_trans; [apply (xuu_increases x b); lra | exact Hs]).
  assert (wt : w <= t).
  { eapply Rle_trans; [|exact Ht]. unfold w. assert ((1 - x) * (1 - x) <= (1 - a) * (1 - a)) by nra.
    apply Rmult_le_compat; try assumption; apply sq_nonneg. }
  apply Rplus_le_compat; apply Rmult_le_compat_r; try assumption.
  - repeat apply Rmult_le_pos; lra.
  - apply Rmult_le_compat; assumption.
  - repeat apply Rmult_le_pos; lra.
Qed.

(* a cubic in q, less its part with the double zero r, is a line *)
Lemma cubic r s t q : let A := s * s in let g := 2 * r * (t - A) - 3 * A - t in let k := 128 / 729 - A - r * r * g in
  0 <= t - A -> 0 <= g -> 0 <= k -> 0 <= k - 3 * A - r * r * (t - A) + 2 * r * g -> 0 <= q <= 1 ->
  s * s * ((1 + q) * (1 + q) * (1 + q)) + t * (q * q * (1 - q)) <= 128 / 729.
Proof.
  intros A g k H1 H2 H3 H4 Hq. fold A.
  assert (0 <= (q - r) * (q - r) * ((t - A) * q + g))
    by (apply Rmult_le_pos; [apply sq_nonneg | assert (0 <= (t - A) * q) by (apply Rmult_le_pos; lra); lra]).
  assert (0 <= (1 - q) * k + q * (k - 3 * A - r * r * (t - A) + 2 * r * g))
    by (assert (0 <= (1 - q) * k) by (apply Rmult_le_pos; lra); assert (0 <= q * (k - 3 * A - r * r * (t - A) + 2 * r * g))
        by (apply Rmult_le_pos; lra); lra).
  unfold k, g in *. lra.
Qed.

Lemma vertex_polynomial x q : 0 <= x <= 1 -> 0 <= q <= 1 ->
  (1 - x) ^ 4 * (x ^ 2 * (1 + q) ^ 3 + q ^ 2 * (1 - q)) <= 128 / 729.
Proof.
  intros Hx Hq. destruct (Rle_dec x (71 / 250)) as [S | S]; [destruct (Rle_dec x (23 / 100)) as [S1 | S1];
    [destruct (Rle_dec x (4 / 25)) as [S2 | S2]; [destruct (Rle_dec x (7 / 100)) as [S3 | S3]|]|]|].
  - apply (on_piece 0 (7 / 100) (61 / 1000) 1); try lra. intro r; apply (cubic (67 / 100)); lra.
  - apply (on_piece (7 / 100) (4 / 25) (113 / 1000) (3 / 4)); try lra. intro r; apply (cubic (147 / 200)); lra.
  - apply (on_piece (4 / 25) (23 / 100) (1364 / 10000) (1 / 2)); try lra. intro r; apply (cubic (81 / 100)); lra.
  - apply (on_piece (23 / 100) (71 / 250) (1456 / 10000) (352 / 1000)); try lra. intro r; apply (cubic (9 / 10)); lra.
  - set (z := x * ((1 - x) * (1 - x))). set (w := (1 - x) * (1 - x) * ((1 - x) * (1 - x))).
    replace ((1 - x) ^ 4 * (x ^ 2 * (1 + q) ^ 3 + q ^ 2 * (1 - q)))
      with (z * z * ((1 + q) * (1 + q) * (1 + q)) + w * (q * q * (1 - q))) by (unfold z, w; ring).
    assert (z0 : 0 <= z <= 4 / 27) by (apply xuu_largest; lra).
    assert (w0 : w <= 192 / 729).
    { unfold w. assert (0 <= (1 - x) * (1 - x) <= 51266 / 100000) by nra. nra. }
    assert (Z : z * z <= 16 / 729) by nra.
    assert (P : 0 <= (1 + q) * (1 + q) * (1 + q)) by (repeat apply Rmult_le_pos; lra).
    assert (Q : 0 <= q * q * (1 - q)) by (repeat apply Rmult_le_pos; lra).
    pose proof (Rmult_le_compat_r _ _ _ P Z). pose proof (Rmult_le_compat_r _ _ _ Q w0).
    assert (0 <= 16 / 729 * ((1 - q) * (1 - q) * (7 + 11 * q))) by (repeat apply Rmult_le_pos; nra). nra.
Qed.

(* ---- one row at f = e_k ---- *)
Section Vertex.
Variables (n k : nat) (sigma : vec).
Hypothesis Hs : probability n sigma.
Hypothesis Hk : (k < n)%nat.
Definition at_k : vec := fun j => if Nat.eqb j k then 1 else 0.
Let x := sigma k.
Let u := 1 - x.
Let y : vec := fun j => if Nat.eqb j k then 0 else sigma j.
Let T := sqnorm n y.
Let a := x * u - T.

Lemma with_k (g : vec) : rsum n g = rsum n (fun j => if Nat.eqb j k then 0 else g j) + g k.
Proof.
  rewrite <- (rsum_delta n k g Hk), <- rsum_plus. apply rsum_ext; intros j _. destruct (Nat.eqb j k); ring.
Qed.

Lemma sum_y : rsum n y = u.
Proof. pose proof (proj2 Hs) as S. rewrite with_k in S. fold y x in S. unfold u. lra. Qed.

Lemma y_in j : (j < n)%nat -> 0 <= y j <= u.
Proof.
  assert (P : forall i, (i < n)%nat -> 0 <= y i).
  { intros i Hi. unfold y. destruct (Nat.eqb i k); [lra | apply (proj1 Hs), Hi]. }
  intro Hj. split; [apply P, Hj|]. rewrite <- sum_y. apply rsum_ge_term; assumption.
Qed.

Lemma x_in : 0 <= x <= 1.
Proof. split; [apply (proj1 Hs), Hk | apply (probability_le1 n sigma Hs), Hk]. Qed.

Lemma T_in : 0 <= T <= u * u.
Proof.
  split; [apply sqnorm_nonneg|]. rewrite <- sum_y at 2. rewrite <- rsum_scal. apply rsum_le; intros j Hj.
  apply Rmult_le_compat_r; apply y_in, Hj.
Qed.

Lemma at_vertex j : jacobian n sigma (fun j => sigma j - at_k j) j
  = y j * (y j + a) + (if Nat.eqb j k then - (x * (u * u + T)) else 0).
Proof.
  assert (S : mean n sigma (fun j => sigma j - at_k j) = T + x * x - x).
  { unfold mean. rewrite with_k. unfold at_k at 2. rewrite Nat.eqb_refl. fold x.
    rewrite (rsum_ext n _ (fun j => y j * y j)); [unfold T, sqnorm; ring|]. intros i _. unfold y, at_k.
    destruct (Nat.eqb i k); ring. }
  unfold jacobian. rewrite S. unfold at_k, y, a, u. destruct (Nat.eqb_spec j k) as [-> |]; fold x; ring.
Qed.

Lemma sqnorm_at_vertex : sqnorm n (jacobian n sigma (fun j => sigma j - at_k j))
  = rsum n (fun j => y j * (y j + a) * (y j * (y j + a))) + x * (u * u + T) * (x * (u * u + T)).
Proof.
  rewrite <- (rsum_delta n k (fun _ => x * (u * u + T) * (x * (u * u + T))) Hk), <- rsum_plus.
  apply rsum_ext; intros j _. rewrite at_vertex. unfold y. destruct (Nat.eqb j k); ring.
Qed.

(* the other entries are not negative *)
Lemma vertex_one_sign : 0 <= a -> sqnorm n (jacobian n sigma (fun j => sigma j - at_k j)) <= 128 / 729.
Proof.
  intro a0. rewrite sqnorm_at_vertex. set (z := fun j => y j * (y j + a)). pose proof x_in. pose proof T_in.
  assert (P : forall j, (j < n)%nat -> 0 <= z j).
  { intros j Hj. pose proof (y_in j Hj). apply Rmult_le_pos; lra. }
  assert (Z : rsum n z = x * (u * u + T)).
  { unfold z. rewrite (rsum_ext n _ (fun j => y j * y j + a * y j)) by (intros; ring).
    rewrite rsum_plus, rsum_scal, sum_y. fold (sqnorm n y). fold T. unfold a, u. ring. }
  assert (Q : rsum n (fun j => z j * z j) <= rsum n z * rsum n z).
  { rewrite <- rsum_scal. apply rsum_le; intros j Hj. apply Rmult_le_compat_r; [apply P, Hj|].
    apply rsum_ge_term; assumption. }
  rewrite Z in Q. unfold z in Q. pose proof (xuu_largest x x_in) as B.
  assert (V : 0 <= x * (u * u + T) <= 8 / 27).
  { split; [apply Rmult_le_pos; nra|]. apply Rle_trans with (x * (u * u + u * u)); [apply Rmult_le_compat_l; lra|].
    unfold u. lra. }
  assert (x * (u * u + T) * (x * (u * u + T)) <= 8 / 27 * (8 / 27)) by (apply Rmult_le_compat; lra). lra.
Qed.

Lemma vertex_both_signs : a < 0 -> sqnorm n (jacobian n sigma (fun j => sigma j - at_k j)) <= 128 / 729.
Proof.
  intro a0. rewrite sqnorm_at_vertex. pose proof x_in as X. pose proof T_in as TT. set (b := - a).
  assert (b0 : 0 < b) by (unfold b; lra).
  assert (u0 : 0 < u).
  { destruct (Req_dec u 0) as [Z | Z]; [|unfold u in *; lra]. unfold a in a0. rewrite Z in a0, TT. lra. }
  set (Q3 := rsum n (fun j => y j * (y j * y j))). set (Q4 := rsum n (fun j => y j * y j * (y j * y j))).
  assert (E : rsum n (fun j => y j * (y j + a) * (y j * (y j + a))) = Q4 - 2 * b * Q3 + b * b * T).
  { unfold Q4, Q3, T, sqnorm. rewrite <- !rsum_scal, <- rsum_minus, <- rsum_plus. apply rsum_ext; intros j _.
    unfold b. ring. }
  assert (L4 : Q4 <= T * T).
  { unfold Q4. unfold T at 2, sqnorm. rewrite <- rsum_scal. apply rsum_le; intros j Hj.
    apply Rmult_le_compat_r; [apply sq_nonneg|].
    apply (rsum_ge_term n (fun j => y j * y j)); [intros; apply sq_nonneg | exact Hj]. }
  assert (L3 : T * T <= u * Q3).
  { pose proof (rsum_cauchy_schwarz_weighted n y (fun _ => 1) y (fun j Hj => proj1 (y_in j Hj))) as C. cbv beta in C.
    rewrite (rsum_ext n (fun i => y i * (1 * y i)) (fun i => y i * y i)) in C by (intros; ring).
    rewrite (rsum_ext n (fun i => y i * (1 * 1)) y) in C by (intros; ring). rewrite sum_y in C. exact C. }
  set (q := T / (u * u)). assert (uu : 0 < u * u) by (apply Rmult_lt_0_compat; exact u0).
  assert (Et : T = u * u * q) by (unfold q; field; lra).
  assert (Hq : 0 <= q <= 1).
  { split; apply Rmult_le_reg_l with (u * u); try exact uu; rewrite <- Et; lra. }
  pose proof (vertex_polynomial x q X Hq) as V. change (1 - x) with u in V.
  assert (R3 : u * (u * u * (q * q)) <= Q3).
  { apply Rmult_le_reg_l with u; [exact u0|]. eapply Rle_trans; [|exact L3]. rewrite Et. right. ring. }
  assert (Eb : b = u * (u * q - x)) by (unfold b, a; rewrite Et; ring).
  pose proof (Rmult_le_compat_l b _ _ (Rlt_le _ _ b0) R3) as B3. rewrite E. rewrite Et in L4 |- *.
  eapply Rle_trans; [|exact V].
  apply Rle_trans with (u * u * q * (u * u * q) - 2 * (b * (u * (u * u * (q * q)))) + b * b * (u * u * q)
    + x * (u * u + u * u * q) * (x * (u * u + u * u * q))); [lra|].
  right. rewrite Eb. unfold u. ring.
Qed.

Lemma vertex : sqnorm n (jacobian n sigma (fun j => sigma j - at_k j)) <= 128 / 729.
Proof. destruct (Rle_lt_dec 0 a); [apply vertex_one_sign | apply vertex_both_signs]; assumption. Qed.
End Vertex.

(* f is a mean of the vertices *)
Lemma row_bound n sigma f : probability n sigma -> probability n f -> sqnorm n (p_row n sigma f) <= 128 / 729.
Proof.
  intros Hs Hf. set (v := fun k => jacobian n sigma (fun j => sigma j - at_k k j)).
  assert (E : forall j, (j < n)%nat -> p_row n sigma f j = rsum n (fun k => f k * v k j)).
  { intros j Hj. unfold p_row, v, jacobian.
    set (s := mean n sigma sigma).
    assert (M : forall g, mean n sigma (fun j => sigma j - g j) = s - mean n sigma g).
    { intro g. unfold s, mean. rewrite <- rsum_minus. apply rsum_ext; intros; ring. }
    assert (Mk : forall k, (k < n)%nat -> mean n sigma (at_k k) = sigma k).
    { intros k Hk. unfold mean, at_k. rewrite <- (rsum_delta n k sigma Hk). apply rsum_ext; intros i _.
      destruct (Nat.eqb i k); ring. }
    rewrite M.
    rewrite (rsum_ext n _ (fun k => sigma j * (sigma j - s) * f k + (- sigma j * (if Nat.eqb k j then f k else 0)
      + sigma j * (sigma k * f k)))).
    - rewrite !rsum_plus, !rsum_scal, (proj2 Hf), (rsum_delta n j f Hj). unfold mean at 1. ring.
    - intros k Hk. rewrite M, Mk by exact Hk. unfold at_k. rewrite Nat.eqb_sym. destruct (Nat.eqb k j); ring. }
  apply Rle_trans with (rsum n (fun k => f k * sqnorm n (v k))).
  - unfold sqnorm. rewrite (rsum_ext n (fun k => f k * _) (fun k => rsum n (fun j => f k * (v k j * v k j))))
      by (intros; rewrite <- rsum_scal; reflexivity).
    rewrite rsum_exchange. apply rsum_le; intros j Hj. rewrite E by exact Hj.
    pose proof (rsum_cauchy_schwarz_weighted n f (fun _ => 1) (fun k => v k j) (proj1 Hf)) as C. cbv beta in C.
    rewrite (rsum_ext n (fun i => f i * (1 * v i j)) (fun k => f k * v k j)) in C by (intros; ring).
    rewrite (rsum_ext n (fun i => f i * (1 * 1)) f) in C by (intros; ring). rewrite (proj2 Hf) in C. lra.
  - apply Rle_trans with (rsum n (fun k => 128 / 729 * f k)); [|rewrite rsum_scal, (proj2 Hf); lra].
    apply rsum_le; intros k Hk. rewrite (Rmult_comm (128 / 729)). apply Rmult_le_compat_l; [apply (proj1 Hf), Hk|].
    apply vertex; assumption.
Qed.

Lemma p_absolute n d X W Mc M : valid_mask n Mc -> nsq n n (p n d X W Mc M) <= 128 / 729 * choices n Mc.
Proof.
  intro HMc. apply (rows n Mc); [lra | |].
  - intros i Hi. change (sqnorm n (p n d X W Mc M i) <= 128 / 729).
    eapply Rle_trans; [|apply (row_bound n (f n d X Mc (had M W) i) (f n d X Mc W i)); apply f_probability; assumption].
    right. apply rsum_ext; intros j _. rewrite p_is_p_row. reflexivity.
  - intros i Hi S. apply rsum_zero; intros j Hj.
    assert (Z : forall l, (l < n)%nat -> c n d X W Mc M i l = 0) by (intros; apply c_no_choice; assumption).
    unfold p. rewrite Z by exact Hj. rewrite rsum_zero; [ring|]. intros l Hl. rewrite Z by exact Hl. ring.
Qed.

(* both halves, and the same for G = W o (X^T p X), whose norm is at most K times that of p *)
Theorem bound_p_sharp n d X W Mc M : valid_mask n Mc -> let P := nsq n n (p n d X W Mc M) in
  P <= 128 / 729 * choices n Mc /\ P <= / 4 * nsq n n (c n d X W Mc M).
Proof.
  intros HMc P. split; [apply p_absolute, HMc|]. unfold P. rewrite <- !nF_sq.
  pose proof (p_norm_half_c n d X W Mc M HMc) as H.
  pose proof (nF_nonneg n n (p n d X W Mc M)) as N. pose proof (Rmult_le_compat _ _ _ _ N N H H). lra.
Qed.

Theorem attention_gradient_sharp n d X W Mc M K : valid_mask n Mc -> logit_bound n d X W Mc K ->
  let G := nsq d d (adjoint n X W (p n d X W Mc M)) in
  G <= 128 / 729 * (K * K) * choices n Mc /\ G <= / 4 * (K * K) * nsq n n (c n d X W Mc M).
Proof.
  intros HMc HK G. destruct (bound_p_sharp n d X W Mc M HMc) as [A R].
  assert (B : G <= K * K * nsq n n (p n d X W Mc M)).
  { unfold G. rewrite <- (nF_sq n n). pose proof (nF_nonneg d d (adjoint n X W (p n d X W Mc M))) as N.
    replace (K * K * (nF n n (p n d X W Mc M) * nF n n (p n d X W Mc M)))
      with (K * nF n n (p n d X W Mc M) * (K * nF n n (p n d X W Mc M))) by ring.
    apply nsq_le_of_nF, (adjoint_bound n d X W Mc K HMc HK).
    - intros i j _ E. apply p_masked, E.
    - intros i Hi. apply p_sum; assumption. }
  assert (K2 : 0 <= K * K) by apply sq_nonneg.
  pose proof (Rmult_le_compat_l _ _ _ K2 A). pose proof (Rmult_le_compat_l _ _ _ K2 R). split; lra.
Qed.

(* ---- the constants cannot be lowered: two tokens, f near (1, 0), sigma = (1/3, 2/3); and sigma = (1/2, 1/2) ---- *)
Lemma choices_of_two : choices 2 full = 2.
Proof. unfold choices, rsum, full. destruct (Rlt_dec 1 (0 + 1 + 1)); lra. Qed.

Lemma p_of_two_sq w m : 0 <= w -> nsq 2 2 (p 2 1 tokens (weight w) full (entry m)) = 16 * (h w (w * m) * h w (w * m)).
Proof. intro Hw. unfold nsq, rsum. rewrite !p_of_two by (assumption || lia). simpl Nat.eqb; cbv iota. ring. Qed.

Lemma G_of_two_sq w m : 0 <= w -> nsq 1 1 (adjoint 2 tokens (weight w) (p 2 1 tokens (weight w) full (entry m)))
  = 64 * (w * w) * (h w (w * m) * h w (w * m)).
Proof.
  intro Hw. pose proof (grad_of_two w m) as E. unfold grad in E. unfold nsq, rsum.
  replace (adjoint 2 tokens (weight w) (p 2 1 tokens (weight w) full (entry m)) 0%nat 0%nat) with (8 * (w * h w (w * m)))
    by lra. ring.
Qed.

(* what bounds 8 h^2 for every f bounds 128/729 *)
Lemma h_largest k : (forall w m, 0 < w -> 8 * (h w (w * m) * h w (w * m)) <= k) -> 128 / 729 <= k.
Proof.
  intro H. apply le_epsilon. intros eps He. set (e := Rmin (1 / 4) eps).
  assert (B : 0 < e <= 1 / 4 /\ e <= eps).
  { unfold e. pose proof (Rmin_l (1 / 4) eps). pose proof (Rmin_r (1 / 4) eps).
    assert (0 < Rmin (1 / 4) eps) by (apply Rmin_pos; lra). lra. }
  set (w := ln ((1 - e) / (1 - (1 - e))) / 2). set (s := ln (/ 3 / (1 - / 3)) / 2).
  assert (Pw : phi w = 1 - e) by (apply phi_onto; lra). assert (Ps : phi s = / 3) by (apply phi_onto; lra).
  assert (w0 : 0 < w).
  { unfold w. apply Rdiv_lt_0_compat; [|lra]. rewrite <- ln_1. apply ln_increasing; [lra|].
    apply Rmult_lt_reg_r with e; [lra|]. replace ((1 - e) / (1 - (1 - e)) * e) with (1 - e) by (field; lra). lra. }
  specialize (H w (s / w) w0). replace (w * (s / w)) with s in H by (field; lra).
  unfold h in H. rewrite Pw, Ps in H. nra.
Qed.

Lemma phi_above s : 0 < s -> / 2 < phi s.
Proof.
  intro Hs. assert (exp (- s) < exp s) by (apply exp_increasing; lra). pose proof (exp_pos (- s)).
  unfold phi. apply Rmult_lt_reg_r with (exp s + exp (- s)); [lra|].
  replace (exp s / (exp s + exp (- s)) * (exp s + exp (- s))) with (exp s) by (field; lra). lra.
Qed.

Lemma relative_to_c : 0 < nsq 2 2 (c 2 1 tokens (weight 1) full (entry 0)) /\
  4 * (h 1 (1 * 0) * h 1 (1 * 0)) * 16 = nsq 2 2 (c 2 1 tokens (weight 1) full (entry 0)).
Proof.
  assert (E : nsq 2 2 (c 2 1 tokens (weight 1) full (entry 0)) = 4 * ((/ 2 - phi 1) * (/ 2 - phi 1))).
  { unfold nsq, rsum. rewrite !c_of_two by (lra || lia). simpl Nat.eqb; cbv iota.
    replace (phi (1 * 0)) with (/ 2); [ring|]. unfold phi. rewrite Rmult_0_r, Ropp_0, exp_0. lra. }
  rewrite E. split.
  - pose proof (phi_above 1 Rlt_0_1).
    nra.
  - unfold h. replace (phi (1 * 0)) with (/ 2); [field|]. unfold phi. rewrite Rmult_0_r, Ropp_0, exp_0. lra.
Qed.

Theorem bound_p_least k :
  ((forall n d X W Mc M, valid_mask n Mc -> nsq n n (p n d X W Mc M) <= k * choices n Mc) -> 128 / 729 <= k) /\
  ((forall n d X W Mc M, valid_mask n Mc -> nsq n n (p n d X W Mc M) <= k * nsq n n (c n d X W Mc M)) -> / 4 <= k).
Proof.
  split; intro H.
  - apply h_largest. intros w m Hw. specialize (H 2%nat 1%nat tokens (weight w) full (entry m) (full_valid 2)).
    rewrite p_of_two_sq, choices_of_two in H by lra. lra.
  - specialize (H 2%nat 1%nat tokens (weight 1) full (entry 0) (full_valid 2)). rewrite p_of_two_sq in H by lra.
    destruct relative_to_c as [P E]. apply Rmult_le_reg_r with (1 := P). lra.
Qed.

Theorem attention_gradient_least k :
  ((forall n d X W Mc M K, valid_mask n Mc -> logit_bound n d X W Mc K ->
    nsq d d (adjoint n X W (p n d X W Mc M)) <= k * (K * K) * choices n Mc) -> 128 / 729 <= k) /\
  ((forall n d X W Mc M K, valid_mask n Mc -> logit_bound n d X W Mc K ->
    nsq d d (adjoint n X W (p n d X W Mc M)) <= k * (K * K) * nsq n n (c n d X W Mc M)) -> / 4 <= k).
Proof.
  split; intro H.
  - apply h_largest. intros w m Hw.
    specialize (H 2%nat 1%nat tokens (weight w) full (entry m) (2 * w) (full_valid 2) (K_of_two w (Rlt_le _ _ Hw))).
    rewrite G_of_two_sq, choices_of_two in H by lra. apply Rmult_le_reg_l with (8 * (w * w)); [nra | lra].
  - specialize (H 2%nat 1%nat tokens (weight 1) full (entry 0) (2 * 1) (full_valid 2) (K_of_two 1 Rle_0_1)).
    rewrite G_of_two_sq in H by lra.
    destruct relative_to_c as [P E]. apply Rmult_le_reg_r with (1 := P). lra.
Qed.

(* ---- as Trusted.v states them ---- *)
Definition checked_bound_p_sharp : Statement.bound_p_sharp := bound_p_sharp.
Definition checked_bound_p_least : Statement.bound_p_least := bound_p_least.
Definition checked_attention_gradient_sharp : Statement.attention_gradient_sharp := attention_gradient_sharp.
Definition checked_attention_gradient_least : Statement.attention_gradient_least := attention_gradient_least.
