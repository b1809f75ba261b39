(* rem:practical, thm:our_convergence:informal and fix:new_loss. *)

open Refuse
open Questions

(* lhs = min F(M) over all positions is below rhs = delta, the smallest positive double;
   a larger one, above 1/n at the latest, would refute nothing. *)
let smallest_double = Q.make Z.one (Z.shift_left Z.one 1074)

let no_delta certificate =
  let reading =
    require_reading certificate
      [ ("assumption", [ "delta" ]); ("mask", [ "full"; "causal" ]); ("domain", [ "box"; "all M" ]) ]
  in
  let get = Fields.closed certificate.inputs [ "n"; "d"; "X"; "W"; "M"; "delta" ] "inputs" in
  let n = Fields.integer (get "n") "inputs.n" 1 8 and d = Fields.integer (get "d") "inputs.d" 1 8 in
  let read name rows = Fields.short_matrix (get name) rows d ("inputs." ^ name) in
  let x = read "X" n and w = read "W" d and m = read "M" d in
  let delta = Fields.rational (get "delta") "inputs.delta" in
  if not (Exact.equal delta smallest_double) then
    reject "inputs.delta must be 2^-1074, the smallest positive double";
  let within entry = Q.sign entry >= 0 && Exact.at_most entry Exact.one in
  if reading "domain" = "box" && not (Array.for_all (Array.for_all within) m) then
    reject "entries of inputs.M must lie in [0, 1]";
  Prose.require_movable x w;
  let claimed = enclosures certificate [ "lhs"; "rhs" ] in
  let z = Attention.of_mask x w (Fields.named (reading "mask") n) m in
  decide (fun () ->
      let least = Real.least (Attention.entries (Attention.softmax z)) in
      [
        ("lhs encloses min F(M)", holds (claimed "lhs") least);
        ("rhs is delta", is (is_point (claimed "rhs") delta));
        ("lhs<rhs", less least (point delta));
      ]);
  Printf.sprintf "refutation: min F(M) is below delta = 2^-1074 (%s mask, %s)" (reading "mask")
    (if reading "domain" = "box" then "M in the box" else "any real M")

(* Columns of x that are not combinations of those before, counted modulo the prime
   2^107 - 1 (above 10^30, so denominators have inverses): each is one over the
   rationals, too. Columns are reduced by those found before; a column that is not 0
   then is kept, scaled to 1 at its leading place. *)
let prime = Z.pred (Z.shift_left Z.one 107)

let independent_columns x =
  let modulo (q : Q.t) = Z.erem (Z.mul q.num (Z.invert q.den prime)) prime in
  let times p q = charge_product p q; Z.erem (Z.mul p q) prime in
  let reduce column (place, unit) =
    let factor = column.(place) in
    if Z.sign factor = 0 then column
    else Array.map2 (fun p q -> Z.erem (Z.sub p (times factor q)) prime) column unit
  in
  let add found b =
    let column = List.fold_left reduce (Array.map (fun row -> modulo row.(b)) x) (List.rev found) in
    match List.find_opt (fun i -> Z.sign column.(i) <> 0) (List.init (Array.length column) Fun.id) with
    | None -> found
    | Some place ->
      let inverse = Z.invert column.(place) prime in
      (place, Array.map (times inverse) column) :: found
  in
  List.length (List.fold_left add [] (List.init (Array.length x.(0)) Fun.id))

(* n > d: v != 0 with X^T v = 0, so v^T (X X^T - beta I) v = -beta |v|^2 < 0 for
   every beta > 0. lhs = |X^T v|^2 = 0, rhs = |v|^2. *)
let no_beta certificate =
  let (_ : string -> string) = require_reading certificate [ ("assumption", [ "beta" ]) ] in
  let get = Fields.closed certificate.inputs [ "n"; "d"; "X"; "v" ] "inputs" in
  let n = Fields.integer (get "n") "inputs.n" 2 64 and d = Fields.integer (get "d") "inputs.d" 1 63 in
  let x = Fields.short_matrix ~digits:30 (get "X") n d "inputs.X" in
  let v = Fields.rationals (get "v") n "inputs.v" in
  Fields.require_short 30 [ [| v |] ] "inputs.v";
  let claimed = enclosures certificate [ "lhs"; "rhs" ] in
  if n <= d then reject "this reading needs n > d";
  let distinct i j = Array.exists Fun.id (Array.mapi (fun b p -> not (Exact.equal p x.(j).(b))) x.(i)) in
  let all = List.init n Fun.id in
  if not (List.for_all (fun i -> List.for_all (fun j -> i = j || distinct i j) all) all) then
    reject "the tokens of inputs.X must differ";
  if independent_columns x < d then reject "inputs.X must have rank d";
  let vanishes b = Q.sign (Exact.sum (Array.mapi (fun i p -> Exact.mul p x.(i).(b)) v)) = 0 in
  let norm = Exact.sum (Array.map Exact.square v) in
  if
    not (List.for_all vanishes (List.init d Fun.id))
    || Q.sign norm = 0
    || (not (is_point (claimed "lhs") Exact.zero))
    || not (is_point (claimed "rhs") norm)
  then reject "inputs.v must be a nonzero vector with X^T v = 0, lhs = 0 and rhs = |v|^2";
  Printf.sprintf "refutation: X X^T >= beta I fails for every beta > 0, as n = %d > d = %d" n d

let check_remark certificate =
  require_claim certificate "refutation" "lhs<rhs";
  no_hypotheses certificate;
  match certificate.reading with
  | Object pairs when List.assoc_opt "assumption" pairs = Some (Json.String "beta") -> no_beta certificate
  | _ -> no_delta certificate

(* The formal T is a quartic in d on a family with everything else fixed, so it is
   not O(d poly(n)/eps). For every d >= 2: n = 2, X = [e_1; e_2], W_ij = 1/d, M_0 = 1.
   X X^T = I, ||X||_F^2 = 2, ||W||_F = 1, L(M_0) = lambda d^2 / 2, and z_i1 - z_i2 =
   (M_i1 - M_i2)/d is at most 1 on the box and sqrt 2 for ||M||_F <= d, so
   delta = 1/(1 + e^sqrt 2) at most. As eta < 1/L,
     T = 4 L(M_0) / (eta mu eps n^2)
       > lambda/(delta eps n^2) d^3 (lambda + 30 n^3.5 R^6 d) = cubic d^3 + lhs d^4. *)
let check_informal certificate =
  require_claim certificate "refutation" "lhs>rhs";
  let (_ : string -> string) = require_reading certificate [ ("start", [ "ones" ]); ("time", [ "iterations" ]) ] in
  let get = Fields.closed certificate.inputs [ "n"; "lambda"; "epsilon"; "delta"; "R" ] "inputs" in
  let n = Fields.integer (get "n") "inputs.n" 2 2 in
  let number name = Fields.rational ~digits:30 (get name) ("inputs." ^ name) in
  let lambda = number "lambda" and epsilon = number "epsilon" and delta = number "delta" and r = number "R" in
  if Q.sign lambda <= 0 || Exact.less Exact.one lambda || Q.sign epsilon <= 0 || Q.sign delta <= 0 then
    reject "inputs.lambda must lie in (0, 1], inputs.epsilon and inputs.delta must be > 0";
  if Exact.less (Exact.square r) (Exact.int 2) || Q.sign r < 0 then reject "inputs.R must be at least sqrt(2)";
  no_hypotheses certificate;
  let claimed = enclosures certificate [ "cubic"; "lhs"; "rhs" ] in
  let front = Exact.div lambda (List.fold_left Exact.mul delta [ epsilon; Exact.int (n * n) ]) in
  let scale = List.fold_left Exact.mul front [ Exact.int (30 * n * n * n); Exact.power r 6 ] in
  decide (fun () ->
      let floor = Real.inverse (Real.add Real.one (Real.exp (Real.sqrt (Real.int 2)))) in
      let quartic = Real.ends (Real.mul (Real.exact scale) (Real.sqrt (Real.int n))) in
      [
        ("delta <= 1/(1 + e^sqrt(2))", at_least (Real.ends floor) (point delta));
        ("cubic", holds (claimed "cubic") (point (Exact.mul front lambda)));
        ("lhs encloses the quartic coefficient", holds (claimed "lhs") quartic);
        ("rhs is 0", is (is_point (claimed "rhs") Exact.zero));
        ("lhs>rhs", less (point Exact.zero) quartic);
      ]);
  "refutation: T grows like d^4 on a family with everything else fixed"

(* (lambda/2)(||M_Q||^2 + ||M_K||^2) is def:reg_term's (1/2) lambda ||M||^2 once for each mask. *)
let check_regulariser certificate =
  require_claim certificate "confirmation" "lhs==rhs";
  let (_ : string -> string) = require_reading certificate [ ("of", [ "the regulariser" ]) ] in
  let get = Fields.closed certificate.inputs [ "d"; "m"; "M_Q"; "M_K"; "lambda" ] "inputs" in
  no_hypotheses certificate;
  let claimed = enclosures certificate [ "lhs"; "rhs" ] in
  let value, _ = Prose.regulariser get in
  (* Prose.regulariser has read them *)
  let vanishes name =
    match get name with
    | Json.List rows ->
      let is_zero entry = Q.sign (Fields.rational entry name) = 0 in
      Array.for_all (function Json.List row -> Array.for_all is_zero row | _ -> false) rows
    | _ -> false
  in
  if Exact.at_most Exact.one (Fields.positive (get "lambda") "inputs.lambda") || vanishes "M_Q" || vanishes "M_K" then
    reject "inputs.lambda must be below 1, where the misprint shows, and M_Q and M_K must not be 0";
  if not (is_point (claimed "lhs") value && is_point (claimed "rhs") value) then
    reject "lhs and rhs must both be the exact value (lambda/2)(||M_Q||^2 + ||M_K||^2)";
  "instance: with lambda the regulariser is def:reg_term's, once for each mask"
