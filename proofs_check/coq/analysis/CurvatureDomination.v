(* new:curvature_domination: with e = sigma - f, a row's Hessian is
     v^T H v = ||J v||^2 + sum_j sigma_j (e_j - <e, sigma>) (v_j - <v, sigma>)^2.
   If J >= l on vectors that sum to 0 then ||J v||^2 >= l v^T J v, and with <e, sigma> - e_j <= r the sum is at least
   -r v^T J v.  The largest such l is the second least eigenvalue of J, as J 1 = 0.                                 *)
Require Import Reals Lra Lia.
From AttnPrune.analysis Require Import Sums SoftmaxRow.
Open Scope R_scope.

Section Domination.
Variables (n : nat) (sigma f : vec) (l r : R).
Hypothesis Hs : probability n sigma.
Hypothesis Hl : forall v, rsum n v = 0 -> l * sqnorm n v <= covariance n sigma v v.
Let e : vec := fun j => sigma j - f j.
Hypothesis Hr : forall j, (j < n)%nat -> mean n sigma e - e j <= r.

(* J^2 >= l J *)
Lemma jacobian_square v : l * covariance n sigma v v <= sqnorm n (jacobian n sigma v).
Proof.
  assert (N : 0 < INR n).
  { apply lt_0_INR. destruct n as [|k]; [|lia]. destruct Hs as [_ S]. simpl in S. lra. }
  set (a := / INR n * rsum n v). set (w := fun j => v j - a). set (g := jacobian n sigma v).
  assert (W0 : rsum n w = 0).
  { unfold w. rewrite rsum_minus, rsum_const. unfold a. field. lra. }
  assert (E : forall j, w j - mean n sigma w = v j - mean n sigma v).
  { intro j. unfold w. assert (mean n sigma (fun j => v j - a) = mean n sigma v - a); [|lra].
    unfold mean. rewrite (rsum_ext n _ (fun j => sigma j * v j - a * sigma j)) by (intros; ring).
    rewrite rsum_minus, rsum_scal, (proj2 Hs). ring. }
  assert (Cw : covariance n sigma w w = covariance n sigma v v).
  { apply rsum_ext; intros j _. rewrite !E. reflexivity. }
  assert (Cv : rsum n (fun j => w j * g j) = covariance n sigma v v).
  { unfold g. rewrite (ip_jacobian n sigma Hs). apply rsum_ext; intros j _. rewrite E. reflexivity. }
  pose proof (Hl w W0) as B. rewrite Cw in B. pose proof (rsum_cauchy_schwarz n w g) as CS. rewrite Cv in CS.
  change (rsum n (fun i => w i * w i)) with (sqnorm n w) in CS.
  change (rsum n (fun i => g i * g i)) with (sqnorm n g) in CS.
  pose proof (variance_nonneg n sigma Hs v) as P. pose proof (sqnorm_nonneg n g) as G0.
  set (x := covariance n sigma v v) in *.
  destruct (Rle_lt_dec l 0) as [Z | Z]; [nra|].
  destruct (Req_dec x 0) as [-> | Nx]; [lra|].
  apply Rmult_le_reg_l with x; [lra|]. apply Rle_trans with (l * (sqnorm n w * sqnorm n g)).
  - replace (x * (l * x)) with (l * (x * x)) by ring. apply Rmult_le_compat_l; [lra | exact CS].
  - rewrite <- Rmult_assoc. apply Rmult_le_compat_r; assumption.
Qed.

Theorem curvature_domination v : (l - r) * covariance n sigma v v <= bil n sigma f v v.
Proof.
  pose proof (jacobian_square v) as Q.
  assert (T : - r * covariance n sigma v v <= third n sigma f v v).
  { unfold third, covariance. cbv zeta. fold e. rewrite <- rsum_scal. apply rsum_le; intros j Hj.
    pose proof (Hr j Hj) as H. change (e j) with (sigma j - f j) in H.
    pose proof (proj1 Hs j Hj). set (y := v j - mean n sigma v). pose proof (sq_nonneg y).
    replace (- r * (sigma j * (y * y))) with (sigma j * (- r * (y * y))) by ring.
    apply Rmult_le_compat_l; [assumption|]. rewrite Rmult_assoc. apply Rmult_le_compat_r; lra. }
  unfold bil. fold (sqnorm n (jacobian n sigma v)). lra.
Qed.
End Domination.

(* ---- as Trusted.v states it ---- *)
Definition checked_curvature_domination : Statement.curvature_domination.
Proof. intros n sigma f l r Hs e Hl Hr v. exact (curvature_domination n sigma f l r Hs Hl Hr v). Qed.
