(* new:certified_stationary_point: one evaluation at the centre proves a stationary
   point of L = L_attn + (lambda/2) ||M||^2.

   The space is all M, or the range of (Pi A)^*, spanned by the D_k: the matrices
   W o x_i (x_j - x_first)^T, as <D_k, M> are the differences z_ij - z_i,first. The
   gradient of L_attn lies in it, so a stationary point of L in the range is one of L.
   M = sum_k y_k D_k; ||M||^2 = <y, P y>, P_kl = <D_k, D_l>.

   With g, H gradient and Hessian of L in y at the centre, H >= m P, m > 0,
   N = <g, H^-1 g>, K >= ||Pi A||, k >= ||(Pi A)_i|| for every row and s the largest
   ||c_i|| at the centre:
     a = (51/200) k^2 K^2, b = (3/5 + (51/100) s) k K^2, R = m/(b + sqrt(b^2 + 2 a m)).
   By new:row_third_bound the third derivative along w is at most
   (3/5 + (51/100) ||c_i||) k K^2 |w|^3, and ||c_i|| <= s + k r/2 at distance r: within
   R the Hessian moves by at most (b + a R) R = m/2, so it stays above H/2. If
   4 N < m R^2 then on the sphere of radius R
     <grad, x> >= <g, x> + |x|_H^2/2 >= |x|_H (|x|_H/2 - sqrt N) > 0,
   so the ball holds exactly one stationary point, with |x|_H <= 2 sqrt N and so at most
   2 sqrt(N/m) away. Hess <= L = lambda + C_+ K^2 everywhere, C_+ = (39 + 55 sqrt 33)/1152
   (new:row_hessian): a step eta = 2/(m/2 + L) multiplies the distance to it by at most
   (L - m/2)/(L + m/2). m is the lower end of `modulus`, K^2 and k^2 the upper ends of
   `map_sq` and `row_sq`. lhs = 4 N, rhs = m R^2.

   It says nothing for lambda <= 0 (M = 1 is stationary for 0), where attention's share
   (m - lambda)/m is below a tenth, and where L is convex everywhere: it has to be that
   lambda < C_- K^2, C_- = (55 sqrt 33 - 39)/1152. *)

open Refuse
open Questions

let most_coordinates = 10
let names = [ "modulus"; "map_sq"; "row_sq"; "radius"; "distance"; "eta"; "factor"; "lhs"; "rhs" ]

(* W o x_i y^T, row by row *)
let direction x w i y =
  let d = Array.length w in
  Array.init (d * d) (fun p -> Exact.mul (Exact.mul x.(i).(p / d) w.(p / d).(p mod d)) y.(p mod d))

let basis x w mask = function
  | "whole" ->
    let size = Array.length w * Array.length w in
    Array.init size (fun k -> Array.init size (fun p -> if k = p then Exact.one else Exact.zero))
  | _ ->
    let row i allowed =
      let columns = List.filter (fun j -> allowed.(j)) (List.init (Array.length x) Fun.id) in
      let from = x.(List.hd columns) in
      List.map (fun j -> direction x w i (Array.map2 Exact.sub x.(j) from)) (List.tl columns)
    in
    Array.of_list (List.concat (Array.to_list (Array.mapi row mask)))

let enclosed = Array.map (fun entry -> Real.widened (Real.exact entry))
let table size entry = Array.init size (fun k -> Array.init size (fun l -> entry k l))

(* D A D^T for a symmetric A of which the upper triangle is given. *)
let projected directions upper =
  let entry p q = upper.(min p q).(max p q) in
  let size = Array.length upper in
  let moved = Array.map (fun v -> Array.init size (fun q -> Real.sum (Array.mapi (fun p x -> Real.mul x (entry p q)) v))) directions in
  table (Array.length directions) (fun k l -> Real.dot moved.(k) directions.(l))

(* (Pi A)_i^* (Pi A)_i: with C the covariance of the allowed tokens (not divided by their
   number) and u_k = D_k's logits as a function of x_j, z_ij = <u_k, x_j>, it is u_k^T C u_l. *)
let row_form x w directions i allowed =
  let d = Array.length w in
  let kept = List.filteri (fun j _ -> allowed.(j)) (Array.to_list x) in
  let count = Exact.int (List.length kept) in
  let sum_of f = List.fold_left (fun total y -> Exact.add total (f y)) Exact.zero kept in
  let mean = Array.init d (fun b -> Exact.div (sum_of (fun y -> y.(b))) count) in
  let covariance =
    table d (fun b e ->
        Real.widened
          (Real.exact (sum_of (fun y -> Exact.mul (Exact.sub y.(b) mean.(b)) (Exact.sub y.(e) mean.(e))))))
  in
  let u =
    Array.map (fun v ->
        Array.init d (fun b ->
            Real.sum (Array.init d (fun a -> Real.mul (Real.exact (Exact.mul x.(i).(a) w.(a).(b))) v.((a * d) + b)))))
      directions
  in
  projected u covariance

(* LDL^T: the unit lower triangle by columns and the pivots, as far as they are certainly positive. *)
let decompose a =
  let n = Array.length a in
  let a = Array.map Array.copy a in
  let rec go k found =
    if k = n then (List.rev found, None)
    else if Q.sign (Real.lower a.(k).(k)) <= 0 then (List.rev found, Some a.(k).(k))
    else begin
      let pivot = a.(k).(k) in
      let column = Array.init n (fun i -> if i > k then Real.div a.(i).(k) pivot else Real.zero) in
      for i = k + 1 to n - 1 do
        for j = k + 1 to i do
          a.(i).(j) <- Real.sub a.(i).(j) (Real.mul (Real.mul column.(i) column.(j)) pivot);
          a.(j).(i) <- a.(i).(j)
        done
      done;
      go (k + 1) ((pivot, column) :: found)
    end
  in
  go 0 []

let definite a =
  match decompose a with
  | _, None -> Yes
  | _, Some pivot -> if Q.sign (Real.upper pivot) <= 0 then No else Unknown

(* g^T A^-1 g = sum y_k^2 / p_k with L y = g. *)
let inverse_form a g =
  match decompose a with
  | _, Some _ -> raise (Undecided "a matrix is not certainly positive definite")
  | steps, None ->
    let left = Array.copy g in
    List.fold_left
      (fun (k, total) (pivot, column) ->
        let y = left.(k) in
        Array.iteri (fun i l -> if i > k then left.(i) <- Real.sub left.(i) (Real.mul l y)) column;
        (k + 1, Real.add total (Real.div (Real.square y) pivot)))
      (0, Real.zero) steps
    |> snd

let shifted a p t = Array.map2 (Array.map2 (fun x y -> Real.sub x (Real.mul (Real.exact t) y))) a p
let above a p t = definite (Array.map (Array.map Real.neg) (shifted a p t))
let all answers = if List.mem No answers then No else if List.mem Unknown answers then Unknown else Yes

let check certificate =
  require_claim certificate "confirmation" "lhs<rhs";
  let reading = require_reading certificate [ ("mask", Bounds.masks); ("space", [ "whole"; "range" ]) ] in
  let get = Fields.closed certificate.inputs [ "n"; "d"; "X"; "W"; "mask"; "lambda"; "centre" ] "inputs" in
  let n = Fields.integer (get "n") "inputs.n" 2 12 and d = Fields.integer (get "d") "inputs.d" 1 6 in
  let x = Fields.short_matrix (get "X") n d "inputs.X" and w = Fields.short_matrix (get "W") d d "inputs.W" in
  let mask = Fields.mask (get "mask") (reading "mask") n in
  let lambda = Fields.rational ~digits:20 (get "lambda") "inputs.lambda" in
  if Q.sign lambda <= 0 then reject "inputs.lambda must be > 0: for 0 M = 1 is stationary";
  let basis = basis x w mask (reading "space") in
  let size = Array.length basis in
  if size < 1 || size > most_coordinates then reject "the space must have 1 to %d coordinates" most_coordinates;
  let centre =
    Array.map (fun entry -> Fields.rational ~digits:60 entry "an entry of inputs.centre")
      (Fields.list_of (get "centre") size "inputs.centre")
  in
  no_hypotheses certificate;
  let claimed = enclosures certificate names in
  let quantity = Fields.closed certificate.quantities names "quantities" in
  List.iter (fun name -> ignore (Fields.rationals ~digits:60 (quantity name) 2 ("quantities." ^ name)))
    [ "modulus"; "map_sq"; "row_sq" ];
  let m, m_top = claimed "modulus" and k_low, k_sq = claimed "row_sq" and map_low, map_sq = claimed "map_sq" in
  if Q.sign m <= 0 || Exact.less (Exact.mul (Exact.int 10) (Exact.sub m lambda)) m then
    reject "attention's share of the modulus must be at least a tenth";
  if Q.sign map_low <= 0 || Q.sign k_low <= 0 then reject "map_sq and row_sq must be > 0";
  let point_m =
    Array.init d (fun a ->
        Array.init d (fun b ->
            Exact.sum (Array.mapi (fun k y -> Exact.mul y basis.(k).((a * d) + b)) centre)))
  in
  decide ~most:1024 (fun () ->
      let directions = Array.map enclosed basis in
      let metric = table size (fun k l -> Real.dot directions.(k) directions.(l)) in
      let forms = List.mapi (fun i allowed -> row_form x w directions i allowed) (Array.to_list mask) in
      let whole = List.fold_left (Array.map2 (Array.map2 Real.add)) (Attention.constant size Real.zero) forms in
      let _, slope, bend = Spurious.second_order x w mask (Attention.real_matrix point_m) in
      let hessian = Array.map2 (Array.map2 (fun h p -> Real.add h (Real.mul (Real.exact lambda) p))) (projected directions bend) metric in
      let flat = Array.concat (Array.to_list (Attention.real_matrix point_m)) in
      let full = Array.map2 (fun g y -> Real.add g (Real.mul (Real.exact lambda) y)) slope flat in
      let gradient = Array.map (Real.dot full) directions in
      let c =
        Array.map2 (Array.map2 Real.sub)
          (Attention.softmax (Attention.of_mask x w mask point_m))
          (Attention.softmax (Attention.dense x w mask))
      in
      let s_low, s_high = Real.largest (List.map (fun row -> Real.sqrt (Real.sum_of Real.square row)) (Array.to_list c)) in
      let number = Real.exact in
      let fraction p q = number (Exact.fraction p q) in
      let root33 = Real.mul (Real.int 55) (Real.sqrt (Real.int 33)) in
      let c_plus = Real.div (Real.add root33 (Real.int 39)) (Real.int 1152)
      and c_minus = Real.div (Real.sub root33 (Real.int 39)) (Real.int 1152) in
      let a = Exact.mul (Exact.fraction 51 200) (Exact.mul k_sq map_sq) in
      let radius s =
        let slope = Real.add (fraction 3 5) (Real.mul (fraction 51 100) (number s)) in
        let b = Real.mul slope (Real.mul (Real.sqrt (number k_sq)) (number map_sq)) in
        let root = Real.sqrt (Real.add (Real.square b) (number (Exact.mul (Exact.int 2) (Exact.mul a m)))) in
        Real.div (number m) (Real.add b root)
      in
      let r_low = Real.lower (radius s_high) and r_high = Real.upper (radius s_low) in
      let form = inverse_form hessian gradient in
      let lhs = Real.ends (Real.mul (Real.int 4) form) in
      let rhs = (Exact.mul m (Exact.square r_low), Exact.mul m (Exact.square r_high)) in
      let away = Real.mul (Real.int 2) (Real.sqrt (Real.div form (number m))) in
      let top = Real.add (number lambda) (Real.mul c_plus (number map_sq)) in
      let half = number (Exact.div m (Exact.int 2)) in
      [
        ("K^2 is below the upper end of map_sq", above whole metric map_sq);
        ("K^2 is not below the lower end of map_sq", opposite (above whole metric map_low));
        ("k^2 is below the upper end of row_sq", all (List.map (fun form -> above form metric k_sq) forms));
        ("k^2 is not below the lower end of row_sq",
          opposite (all (List.map (fun form -> above form metric k_low) forms)));
        ("L need not be convex: lambda < C_- K^2",
          less (point lambda) (Real.ends (Real.mul c_minus (number map_low))));
        ("H >= m on the space", definite (shifted hessian metric m));
        ("the upper end of modulus is above the least eigenvalue", opposite (definite (shifted hessian metric m_top)));
        ("radius encloses R", holds (claimed "radius") (r_low, r_high));
        ("distance encloses 2 sqrt(N/m)", holds (claimed "distance") (Real.ends away));
        ("eta encloses 2/(m/2 + L)", holds (claimed "eta") (Real.ends (Real.div (Real.int 2) (Real.add half top))));
        ("factor", holds (claimed "factor") (Real.ends (Real.div (Real.sub top half) (Real.add half top))));
        ("lhs encloses 4 N", holds (claimed "lhs") lhs);
        ("rhs encloses m R^2", holds (claimed "rhs") rhs);
        ("lhs<rhs", less lhs rhs);
      ]);
  Printf.sprintf "instance: one stationary point near the centre in %s, n = %d, d = %d, %s mask"
    (if reading "space" = "whole" then "the whole space" else "the range of Pi A")
    n d (reading "mask")
