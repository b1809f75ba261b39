(* Repaired bounds and repaired statements on exact instances. n_e is the number
   of rows with at least two allowed positions; Pi A maps M to the logits, each
   row centred over its allowed positions. *)

open Refuse
open Questions

let masks = [ "full"; "causal"; "given" ]

type instance = {
  n : int;
  d : int;
  x : Q.t array array;
  w : Q.t array array;
  mask : bool array array;
  named : string;
  square : string -> Q.t array array;  (** the other d x d inputs *)
  get : string -> Json.t;
}

let read ?(most_d = 6) certificate names extra =
  let reading = require_reading certificate [ ("mask", masks) ] in
  let get = Fields.closed certificate.inputs ([ "n"; "d"; "X"; "W"; "mask" ] @ names @ extra) "inputs" in
  let n = Fields.integer (get "n") "inputs.n" 1 6 and d = Fields.integer (get "d") "inputs.d" 1 most_d in
  let x = Fields.short_matrix (get "X") n d "inputs.X" in
  let square name = Fields.short_matrix (get name) d d ("inputs." ^ name) in
  let read = List.map (fun name -> (name, square name)) ("W" :: names) in
  let mask = Fields.mask (get "mask") (reading "mask") n in
  no_hypotheses certificate;
  let square name = List.assoc name read in
  { n; d; x; w = square "W"; mask; named = reading "mask"; square; get }

let attention i name = Attention.softmax (Attention.of_mask i.x i.w i.mask (i.square name))
let dense i = Attention.softmax (Attention.dense i.x i.w i.mask)
let allowed i row = List.filter (fun j -> i.mask.(row).(j)) (List.init i.n Fun.id)

let choices i =
  let rows = Array.to_list i.mask in
  let several row = List.length (List.filter Fun.id (Array.to_list row)) >= 2 in
  List.length (List.filter several rows)

let minus = Array.map2 (Array.map2 Real.sub)
let times = Array.map2 (Array.map2 Real.mul)
let residual i = Attention.norm_sq (minus (attention i "M") (dense i))

let basic i =
  let f = attention i "M" in
  let c = minus f (dense i) in
  let products = times c f in
  [
    Real.div (Attention.norm_sq c) (Real.int 2);
    Attention.norm_sq products;
    Real.sum_of (fun row -> Real.square (Real.sum row)) products;
  ]

(* sum_a (X_ia W_ab)^2 *)
let pull i row b = Exact.sum (Array.mapi (fun a x -> Exact.square (Exact.mul x i.w.(a).(b))) i.x.(row))

(* ||dF/dM||^2: with z_ij = sum_ab X_ia W_ab M_ab X_jb,
   dF_ij/dM_ab = X_ia W_ab F_ij (X_jb - sum_k F_ik X_kb). *)
let jacobian i =
  let total = ref Real.zero in
  Array.iteri (fun row f ->
      for b = 0 to i.d - 1 do
        let column = Array.map (fun x -> Real.exact x.(b)) i.x in
        let mean = Real.dot f column in
        let slopes = Array.map2 (fun weight x -> Real.mul weight (Real.sub x mean)) f column in
        let length = Real.sum_of Real.square slopes in
        total := Real.add !total (Real.mul (Real.exact (pull i row b)) length)
      done)
    (attention i "M");
  !total

let centred_sq values =
  let count = Exact.int (List.length values) in
  let mean = Exact.div (List.fold_left Exact.add Exact.zero values) count in
  List.fold_left (fun total v -> Exact.add total (Exact.square (Exact.sub v mean))) Exact.zero values

(* ||Pi A||_F^2 / 4 *)
let quarter_of_the_map i =
  let total = ref Exact.zero in
  for row = 0 to i.n - 1 do
    for b = 0 to i.d - 1 do
      let kept = List.map (fun j -> i.x.(j).(b)) (allowed i row) in
      total := Exact.add !total (Exact.mul (pull i row b) (centred_sq kept))
    done
  done;
  Exact.div !total (Exact.int 4)

let product_change i =
  let f = dense i in
  let product name =
    let attention = attention i name in
    times (minus attention f) attention
  in
  Attention.norm_sq (minus (product "M") (product "N"))

(* (||Pi A V|| / (2 ||V||))^2 ||M - N||^2 <= (K/2)^2 ||M - N||^2, as K = ||Pi A|| *)
let along i =
  let v = i.square "V" in
  let length = Exact.frobenius_sq v in
  if Q.sign length = 0 then reject "inputs.V must not be 0";
  let z = Exact.sandwich i.x (Exact.hadamard v i.w) in
  let row k = centred_sq (List.map (fun j -> z.(k).(j)) (allowed i k)) in
  let moved = List.fold_left (fun total k -> Exact.add total (row k)) Exact.zero (List.init i.n Fun.id) in
  let step = Exact.frobenius_sq (Array.map2 (Array.map2 Exact.sub) (i.square "M") (i.square "N")) in
  Exact.div (Exact.mul moved step) (Exact.mul (Exact.int 4) length)

(* Every number of `left` is at most `right`; lhs encloses the largest of them. An
   instance far below its bound, or with 0 on both sides, shows nothing of it. *)
let bound names left right says certificate =
  require_claim certificate "confirmation" "lhs<=rhs";
  let i = read certificate names [] in
  let claimed = enclosures certificate [ "lhs"; "rhs" ] in
  let right = point (right i) in
  decide (fun () ->
      let lhs = Real.largest (left i) in
      [
        ("lhs encloses the left side", holds (claimed "lhs") lhs);
        ("rhs encloses the right side", holds (claimed "rhs") right);
        ("lhs<=rhs", at_most lhs right);
        ("lhs > 0", less (point Exact.zero) lhs);
        ("lhs is at least half of rhs", at_least lhs (point (Exact.div (fst right) (Exact.int 2))));
      ]);
  Printf.sprintf "instance: %s (%s mask)" says i.named

let checks =
  [
    ("fix:bound_c",
      bound [ "M" ] (fun i -> [ residual i ]) (fun i -> Exact.int (2 * choices i)) "||c||^2 <= 2 n_e");
    ("fix:bound_basic_func",
      bound [ "M" ] basic
        (fun i -> Exact.int (choices i))
        "||c||^2/2, ||c o F||^2 and ||diag((c o F) 1)||^2 are at most n_e");
    ("fix:bound_grad_f",
      bound [ "M" ] (fun i -> [ jacobian i ]) quarter_of_the_map "||dF/dM||_F <= ||Pi A||_F / 2");
    ("fix:lip_f_circ_c",
      bound [ "M"; "N"; "V" ]
        (fun i -> [ product_change i ])
        along "c o F moves by at most ||Pi A V||/(2 ||V||) ||M - N||, so (K/2) ||M - N||");
  ]

(* fix:practical: for ||M||_F <= d, F(M)_ij >= 1 / sum_k exp(d ||W o x_i (x_k - x_j)^T||_F)
   over allowed j and k, as F_ij = 1 / sum_k exp(z_ik - z_ij). *)
let check_floor certificate =
  require_claim certificate "confirmation" "lhs>=rhs";
  let i = read certificate [ "M" ] [] in
  if Exact.less (Exact.int (i.d * i.d)) (Exact.frobenius_sq (i.square "M")) then
    reject "||M||_F must be at most d";
  let claimed = enclosures certificate [ "lhs"; "rhs" ] in
  let reach row j k =
    let total = ref Exact.zero in
    for a = 0 to i.d - 1 do
      for b = 0 to i.d - 1 do
        let pull = Exact.mul i.w.(a).(b) (Exact.mul i.x.(row).(a) (Exact.sub i.x.(k).(b) i.x.(j).(b))) in
        total := Exact.add !total (Exact.square pull)
      done
    done;
    Real.mul (Real.int i.d) (Real.sqrt (Real.exact !total))
  in
  decide (fun () ->
      let least = Real.least (Attention.allowed_entries i.mask (attention i "M")) in
      let floor_of row j =
        let masses = List.map (fun k -> Real.exp (reach row j k)) (allowed i row) in
        Real.inverse (List.fold_left Real.add Real.zero masses)
      in
      let floors row = List.map (floor_of row) (allowed i row) in
      let lowest = Real.least (List.concat_map floors (List.init i.n Fun.id)) in
      [
        ("lhs encloses min F(M)", holds (claimed "lhs") least);
        ("rhs encloses the floor", holds (claimed "rhs") lowest);
        ("the floor is positive", less (point Exact.zero) lowest);
        ("lhs>rhs: where both are equal no logit depends on M", less lowest least);
      ]);
  Printf.sprintf "instance: min F(M) is above the explicit floor (%s mask)" i.named

(* fix:attn_prun: of all 0/1 masks with exactly floor(rho d^2) zeros M has the least
   L_attn: lhs = L_attn(M) < rhs = the next best. *)
let most_masks = 300

let check_best_mask certificate =
  require_claim certificate "confirmation" "lhs<rhs";
  let i = read ~most_d:4 certificate [ "M" ] [ "rho" ] in
  let m = i.square "M" in
  let size = i.d * i.d in
  let rho = Fields.rational ~digits:20 (i.get "rho") "inputs.rho" in
  if Q.sign rho < 0 || Exact.less Exact.one rho then reject "inputs.rho must lie in [0, 1]";
  let zeros = Z.to_int (Exact.floor (Exact.mul rho (Exact.int size))) in
  (* all subsets of `zeros` of the indices from k on *)
  let rec subsets k count =
    if count = 0 then [ [] ]
    else if k + count > size then []
    else List.map (fun rest -> k :: rest) (subsets (k + 1) (count - 1)) @ subsets (k + 1) count
  in
  let rec choose n k = if k = 0 || k = n then 1 else choose (n - 1) (k - 1) + choose (n - 1) k in
  let several = choose size zeros in
  if several < 2 || several > most_masks then reject "2 to %d masks can be compared" most_masks;
  let is_zero k = Q.sign m.(k / i.d).(k mod i.d) = 0 in
  let own = List.filter is_zero (List.init size Fun.id) in
  let binary entry = Q.sign entry = 0 || Exact.equal entry Exact.one in
  if List.length own <> zeros || not (Array.for_all (Array.for_all binary) m) then
    reject "inputs.M must be a 0/1 mask with exactly floor(rho d^2) zeros";
  let claimed = enclosures certificate [ "lhs"; "rhs" ] in
  let z_dense = Attention.dense i.x i.w i.mask in
  let loss pruned =
    let kept a b = if List.mem ((a * i.d) + b) pruned then Exact.zero else Exact.one in
    let chosen = Array.init i.d (fun a -> Array.init i.d (kept a)) in
    Real.div (Attention.loss i.x (Attention.of_mask i.x i.w i.mask chosen) z_dense).c_sq (Real.int 2)
  in
  let others = List.filter (fun pruned -> pruned <> own) (subsets 0 zeros) in
  decide (fun () ->
      let mine = Real.ends (loss own) and rest = Real.least (List.map loss others) in
      [
        ("lhs encloses L_attn(M)", holds (claimed "lhs") mine);
        ("rhs encloses the least L_attn of the other masks", holds (claimed "rhs") rest);
        ("M prunes something that moves attention", less (point Exact.zero) mine);
        ("lhs<rhs", less mine rest);
      ]);
  Printf.sprintf "instance: the best of all %d masks with %d zeros" several zeros
