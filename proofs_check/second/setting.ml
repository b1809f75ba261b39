(* What the theorem's hypotheses and constants are, for features that fall into
   classes of equal ones: class sizes s_1 ... s_r, X = B with column q repeated
   s_q times, W and M constant on blocks. Then X (M o W) X^T = B E B^T with
   E_qr = s_q s_r M_qr W_qr, and dL/dM_ab = W_qr dL/dE_qr + lambda M_qr for
   every entry of the block, so a descent from a constant M stays constant on
   blocks. Sizes 1 ... 1 are the plain form. *)

open Refuse

type t = {
  n : int;
  d : int;
  sizes : int array;
  b : Q.t array array;
  w : Q.t array array;
  lambda : Q.t;
  mask : bool array array;
}

let plain x w lambda mask =
  let d = Array.length w in
  { n = Array.length x; d; sizes = Array.make d 1; b = x; w; lambda; mask }

(* Facts on X X^T *)

let weighted_gram sizes b =
  let weight = Array.map Exact.int sizes in
  let product x y = Exact.sum (Array.mapi (fun q s -> Exact.mul s (Exact.mul x.(q) y.(q))) weight) in
  Array.map (fun x -> Array.map (product x) b) b

let gram x =
  (* X X^T over one denominator: long sums of fractions are slow *)
  let numbers, unit_ = Exact.over_one_denominator x in
  let bottom = Exact.integer_product unit_ unit_ in
  let entry p q =
    let top = Exact.dot p q in
    charge_division top bottom;
    Q.make top bottom
  in
  Array.map (fun p -> Array.map (entry p) numbers) numbers

(* X X^T - beta I >= 0, and these are its exact pivots. *)
let require_pivots listed gram beta =
  let n = Array.length gram in
  let listed = Fields.rationals ~digits:Fields.result_digits listed n "hypotheses.psd_pivots" in
  let shifted = Array.mapi (fun i row -> Array.mapi (fun j g -> if i = j then Exact.sub g beta else g) row) gram in
  match Exact.pivots shifted with
  | None -> reject "X X^T - beta I is not positive semidefinite"
  | Some found ->
    if not (List.for_all2 Exact.equal found (Array.to_list listed)) then
      reject "psd_pivots are not the pivots of LDL^T of X X^T - beta I"

(* ||X||_2^2 is at most the largest absolute row sum of X X^T. *)
let spectral_bound s =
  let rows = Array.map (fun row -> Exact.sum (Array.map Exact.abs row)) (weighted_gram s.sizes s.b) in
  Array.fold_left Exact.max Exact.zero rows

(* grad L is K-Lipschitz on all of R^(d x d), K = lambda + (5/4) max|W|^2 ||X||_2^4:
   the softmax Jacobian has norm at most 1/2, a row's Hessian at most 1/4 + 1. *)
let proven_lipschitz s =
  let reach = Exact.mul (Attention.largest_weight s.w) (spectral_bound s) in
  Exact.add s.lambda (Exact.mul (Exact.fraction 5 4) (Exact.square reach))

(* The paper's lambda + 30 d n^3.5 R^6. *)
let paper_lipschitz n d r lambda =
  let size = Exact.mul (Exact.int (30 * d)) (Exact.power (Exact.int n) 3) in
  let scale = Exact.mul size (Exact.power r 6) in
  Real.add (Real.exact lambda) (Real.mul (Real.exact scale) (Real.sqrt (Real.int n)))

let pairs s = Array.map (fun p -> Array.map (fun q -> Exact.int (p * q)) s.sizes) s.sizes

(* ||.||_F^2 of the d x d matrix that is constant on blocks. *)
let norm_sq s values =
  let counts = pairs s in
  Real.sum (Array.mapi (fun q row ->
      Real.sum (Array.mapi (fun r entry -> Real.mul (Real.exact counts.(q).(r)) (Real.square entry)) row))
    values)

let norm_x_sq s =
  Exact.sum (Array.map (fun row ->
      Exact.sum (Array.mapi (fun q entry -> Exact.mul (Exact.int s.sizes.(q)) (Exact.square entry)) row))
    s.b)

let constant s value = Array.map (fun _ -> Array.map (fun _ -> value) s.sizes) s.sizes

let fused s m =
  let counts = pairs s in
  Array.mapi (fun q row ->
      Array.mapi (fun r entry -> Real.mul (Real.exact (Exact.mul counts.(q).(r) s.w.(q).(r))) entry) row)
    m

(* A descent is bounded by its steps times n^2 times the classes of features. *)
let most_work = 40_000

let require_affordable s steps =
  if steps * s.n * s.n * Array.length s.sizes > most_work then
    give_up "more work than is allowed: t n^2 times the classes of features is at most %d" most_work

let logits s m = Attention.logits s.b (fused s m)

type state = { c_sq : Real.t; gradient : Real.t array array; f : Real.t array array }

let state s m =
  let z = Attention.relative s.mask (logits s m) in
  let dense = Attention.relative s.mask (logits s (constant s Real.one)) in
  let loss = Attention.loss s.b z dense in
  { c_sq = loss.c_sq; gradient = Attention.gradient loss.slope s.w m s.lambda; f = Attention.softmax z }

(* M - eta G. Entries become intervals: exact ones would double in length with every step. *)
let step m eta g =
  Array.map2 (Array.map2 (fun m g -> Real.widened (Real.sub m (Real.mul (Real.exact eta) g)))) m g

(* The least allowed F(M)_ij that M in the box [0, 1]^(d x d) or ||M||_F <= radius
   could have by this bound: F_ij = 1 / sum_k exp(z_ik - z_ij), and
   z_ik - z_ij = <V, M> with V = W o x_i (x_k - x_j)^T, which is at most the sum
   of the positive entries of V in the box, radius ||V||_F in the ball. *)
let smallest_attention s radius =
  let counts = pairs s in
  let reach i k j =
    let box = ref Exact.zero and norm = ref Exact.zero in
    Array.iteri (fun q row ->
        Array.iteri (fun r w ->
            let v = Exact.mul (Exact.mul w s.b.(i).(q)) (Exact.sub s.b.(k).(r) s.b.(j).(r)) in
            if Q.sign v > 0 then box := Exact.add !box (Exact.mul counts.(q).(r) v);
            norm := Exact.add !norm (Exact.mul counts.(q).(r) (Exact.square v)))
          row)
      s.w;
    let ball = Real.mul radius (Real.sqrt (Real.exact !norm)) in
    if Exact.less !box (Real.lower ball) then ball
    else if Exact.at_most (Real.upper ball) !box then Real.exact !box
    else Real.Between (Real.low_end (Real.exact !box), Real.high_end ball)
  in
  let found = ref [] in
  Array.iteri (fun i allowed ->
      let columns = List.filter (fun j -> allowed.(j)) (List.init s.n Fun.id) in
      let entry j =
        let masses = List.map (fun k -> if k = j then Real.one else Real.exp (reach i k j)) columns in
        Real.inverse (List.fold_left Real.add Real.zero masses)
      in
      found := List.map entry columns @ !found)
    s.mask;
  Real.least !found
