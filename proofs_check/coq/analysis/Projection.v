(* The part of M that moves no row of f~, for new:heavy_ball_diverges: it exists for every M.

   That N moves no row is that the logits of its allowed positions are equal, row by row: finitely many linear equations
   <A_k, N> = 0.  The orthogonal projection on their solutions is made one equation after the other.                  *)
Require Import Reals Lra Lia.
From AttnPrune.analysis Require Import Sums MatrixNorm Model.
Open Scope R_scope.

Definition solves d (A : nat -> mat) q (N : mat) := forall k, (k < q)%nat -> ip d d (A k) N = 0.

Lemma ip_mline_l d M t D N : ip d d (mline M t D) N = ip d d M N + t * ip d d D N.
Proof.
  unfold ip. rewrite <- rsum_scal, <- rsum_plus. apply rsum_ext; intros i _.
  rewrite <- rsum_scal, <- rsum_plus. apply rsum_ext; intros j _. unfold mline. ring.
Qed.

Lemma projection d A q : forall M, exists N, solves d A q N /\ forall N', solves d A q N' -> ip d d (msub M N) N' = 0.
Proof.
  induction q as [|q IH]; intro M.
  - exists M. split; [intros k Hk; lia|]. intros N' _. rewrite ip_sub_l. ring.
  - destruct (IH M) as [N [HN ON]]. destruct (IH (A q)) as [B [HB OB]].
    (* B is what the last equation adds to the others *)
    assert (S : forall N', solves d A (S q) N' -> solves d A q N' /\ ip d d B N' = 0).
    { intros N' H. assert (H' : solves d A q N') by (intros k Hk; apply H; lia). split; [exact H'|].
      specialize (OB N' H'). rewrite ip_sub_l, (H q) in OB by lia. lra. }
    assert (T : forall N', solves d A q N' -> ip d d (A q) N' = ip d d B N').
    { intros N' H. specialize (OB N' H). rewrite ip_sub_l in OB. lra. }
    destruct (Req_dec (nsq d d B) 0) as [Z | Z].
    + exists N. split.
      * intros k Hk. destruct (Nat.eq_dec k q) as [-> |]; [|apply HN; lia]. rewrite (T N HN).
        pose proof (ip_cauchy_schwarz_sq d d B N) as Q. rewrite Z in Q. nra.
      * intros N' H. apply ON, S, H.
    + set (t := - (ip d d B N / nsq d d B)). exists (mline N t B). split.
      * intros k Hk. rewrite ip_sym, ip_mline_l, (ip_sym d d N), (ip_sym d d B).
        destruct (Nat.eq_dec k q) as [-> |]; [|rewrite (HN k), (HB k) by lia; ring].
        rewrite (T N HN), (T B HB), ip_self. unfold t. field. exact Z.
      * intros N' H. destruct (S N' H) as [H' E]. specialize (ON N' H'). rewrite ip_sub_l in ON |- *.
        rewrite ip_mline_l, E. lra.
Qed.

(* the equation of row i and the positions j, j': their logits are equal, where both are allowed *)
Definition equation n (X W Mc : mat) k : mat := fun a b => let i := (k / (n * n))%nat in
  let j := ((k / n) mod n)%nat in let l := (k mod n)%nat in Mc i j * Mc i l * (W a b * X i a * (X j b - X l b)).

Lemma equation_logits n d X W Mc i j l N : (j < n)%nat -> (l < n)%nat ->
  ip d d (equation n X W Mc (i * (n * n) + j * n + l)%nat) N
  = Mc i j * Mc i l * (logit d X (had N W) i j - logit d X (had N W) i l).
Proof.
  intros Hj Hl. assert (n0 : (n <> 0)%nat) by lia.
  assert (E1 : ((i * (n * n) + j * n + l) / n = i * n + j)%nat).
  { replace (i * (n * n) + j * n + l)%nat with (l + (i * n + j) * n)%nat by ring.
    rewrite Nat.div_add, Nat.div_small by lia. reflexivity. }
  assert (E2 : ((i * (n * n) + j * n + l) mod n = l)%nat).
  { replace (i * (n * n) + j * n + l)%nat with (l + (i * n + j) * n)%nat by ring.
    rewrite Nat.mod_add, Nat.mod_small by lia. reflexivity. }
  assert (E3 : ((i * (n * n) + j * n + l) / (n * n) = i)%nat).
  { rewrite <- Nat.div_div, E1 by lia. rewrite (Nat.add_comm (i * n)), Nat.div_add, Nat.div_small by lia. reflexivity. }
  assert (E4 : ((i * n + j) mod n = j)%nat).
  { rewrite (Nat.add_comm (i * n)), Nat.mod_add, Nat.mod_small by lia. reflexivity. }
  unfold ip, equation. rewrite E1, E2, E3, E4. unfold logit. rewrite <- rsum_minus, <- rsum_scal.
  apply rsum_ext; intros a _. rewrite <- rsum_minus, <- rsum_scal. apply rsum_ext; intros b _. unfold had. ring.
Qed.

Lemma unseen_solves n d X W Mc N : valid_mask n Mc ->
  (unseen n d X W Mc N <-> solves d (equation n X W Mc) (n * (n * n)) N).
Proof.
  intro HMc. split.
  - intros H k Hk. assert (n0 : (n <> 0)%nat) by (intros ->; lia).
    set (i := (k / (n * n))%nat). set (j := ((k / n) mod n)%nat). set (l := (k mod n)%nat).
    assert (Hj : (j < n)%nat) by (apply Nat.mod_upper_bound, n0).
    assert (Hl : (l < n)%nat) by (apply Nat.mod_upper_bound, n0).
    assert (Hi : (i < n)%nat) by (apply Nat.div_lt_upper_bound; nia).
    assert (E : k = (i * (n * n) + j * n + l)%nat).
    { unfold i, j, l. rewrite <- Nat.div_div by exact n0. pose proof (Nat.div_mod k n n0).
      pose proof (Nat.div_mod (k / n) n n0). nia. }
    rewrite E, equation_logits by assumption. destruct (H i Hi) as [a Ha].
    destruct (proj1 (HMc i Hi) j) as [-> | Ej]; [ring|]. destruct (proj1 (HMc i Hi) l) as [-> | El]; [ring|].
    rewrite (Ha j Hj Ej), (Ha l Hl El). ring.
  - intros H i Hi. destruct (HMc i Hi) as [_ [l [Hl El]]]. exists (logit d X (had N W) i l). intros j Hj Ej.
    specialize (H (i * (n * n) + j * n + l)%nat ltac:(nia)). rewrite equation_logits, Ej, El in H by assumption. lra.
Qed.

Lemma unseen_part_exists n d X W Mc : valid_mask n Mc -> forall M, exists N, unseen_part n d X W Mc M N.
Proof.
  intros HMc M. destruct (projection d (equation n X W Mc) (n * (n * n)) M) as [N [H O]]. exists N.
  split; [apply unseen_solves; assumption|]. intros N' H'. apply O, unseen_solves; assumption.
Qed.
