(* new:spurious_minima: n > d, lambda = 0, a strict local minimum of L_attn with
   L_attn > 0 = L_attn(1).

   Let m be the centre and B the box of entries m_ab +- radius. If Hess L_attn >=
   curvature I on B and ||grad L_attn(m)||_F < curvature radius / 2, then where
   ||M - m||_F = radius (inside B)
     L_attn(M) >= L_attn(m) - ||grad|| radius + (curvature/2) radius^2 > L_attn(m),
   so the ball holds a minimiser P in its interior, strict by convexity there,
   and L_attn(P) lies in [L_attn(m) - ||grad|| radius, L_attn(m)] = lhs. *)

open Refuse
open Questions

(* Value, gradient and Hessian of L_attn in the d^2 entries of M. For one row with
   softmax F, dF_j/dz_l = F_j (delta_jl - F_l), c = F - f, s = <c, F> and
   u_j = c_j - s + F_j, L_i = |c|^2 / 2 has dL_i/dz_j = F_j (c_j - s). As
   ds/dz_l = sum_k F_k (delta_kl - F_l) (F_k + c_k) = F_l (u_l - |F|^2),
     d2L_i/dz_j dz_l = F_j (delta_jl - F_l) (c_j - s + F_j) - F_j F_l (u_l - |F|^2)
                     = F_j ((delta_jl - F_l) u_j - F_l (u_l - |F|^2)),
   and z_j = sum_ab X_ia W_ab X_jb M_ab. F_j is taken as 1 / (1 + o_j) with o_j the
   sum over the other k of exp(z_k - z_j), and 1 - F_j as o_j F_j: on a box of M these
   are enclosed tightly, as M enters each difference once. *)
let second_order x w mask m =
  let n = Array.length x and d = Array.length w in
  let size = d * d in
  let value = ref Real.zero in
  let first = Array.make size Real.zero and second = Attention.constant size Real.zero in
  let dense = Attention.dense x w mask in
  for i = 0 to n - 1 do
    let columns = List.filter (fun j -> mask.(i).(j)) (List.init n Fun.id) in
    let exact_slopes =
      Array.init n (fun j ->
          Array.init size (fun k -> Exact.mul (Exact.mul x.(i).(k / d) w.(k / d).(k mod d)) x.(j).(k mod d)))
    in
    let slopes = Attention.real_matrix exact_slopes in
    let above k j =
      let direction = Array.map2 Exact.sub exact_slopes.(k) exact_slopes.(j) in
      Real.exp (Real.sum (Array.mapi (fun p slope -> Real.mul (Real.exact slope) m.(p / d).(p mod d)) direction))
    in
    let others j =
      let rest = List.filter (fun k -> k <> j) columns in
      List.fold_left (fun total k -> Real.add total (above k j)) Real.zero rest
    in
    let o = Array.init n (fun j -> if mask.(i).(j) then others j else Real.zero) in
    let f = Array.mapi (fun j o -> if mask.(i).(j) then Real.inverse (Real.add Real.one o) else Real.zero) o in
    let c = Array.map2 Real.sub f (Attention.softmax_row dense.(i)) in
    let s = Real.dot c f in
    value := Real.add !value (Real.sum_of Real.square c);
    let g = Array.mapi (fun j weight -> Real.mul weight (Real.sub c.(j) s)) f in
    List.iter (fun j ->
        Array.iteri (fun k slope -> first.(k) <- Real.add first.(k) (Real.mul g.(j) slope)) slopes.(j))
      columns;
    let u = Array.map2 (fun c f -> Real.add (Real.sub c s) f) c f in
    let norm = Real.sum_of Real.square f in
    let bend j l =
      let step = if j = l then Real.mul o.(j) f.(j) else Real.neg f.(l) in
      Real.mul f.(j) (Real.sub (Real.mul step u.(j)) (Real.mul f.(l) (Real.sub u.(l) norm)))
    in
    List.iter (fun j ->
        List.iter (fun l ->
            let h = bend j l in
            for p = 0 to size - 1 do
              for q = p to size - 1 do
                let weight = Real.mul slopes.(j).(p) slopes.(l).(q) in
                second.(p).(q) <- Real.add second.(p).(q) (Real.mul weight h)
              done
            done)
          columns)
      columns
  done;
  (Real.div !value (Real.int 2), first, second)

(* Whether every symmetric matrix in the enclosure exceeds floor I: all pivots of
   LDL^T are positive. `upper` is the upper triangle. *)
let certainly_above upper floor =
  let n = Array.length upper in
  let a =
    Array.init n (fun i ->
        Array.init n (fun j ->
            let entry = upper.(min i j).(max i j) in
            if i = j then Real.sub entry (Real.exact floor) else entry))
  in
  let rec positive k =
    k = n
    || Q.sign (Real.lower a.(k).(k)) > 0
       && begin
         let share = Real.inverse a.(k).(k) in
         for i = k + 1 to n - 1 do
           for j = i to n - 1 do
             let product = if i = j then Real.square a.(k).(i) else Real.mul a.(k).(i) a.(k).(j) in
             a.(i).(j) <- Real.sub a.(i).(j) (Real.mul product share)
           done
         done;
         positive (k + 1)
       end
  in
  positive 0

let check certificate =
  require_claim certificate "confirmation" "lhs>rhs";
  let reading =
    require_reading certificate [ ("mask", [ "full"; "causal"; "given" ]); ("domain", [ "ball"; "box" ]) ]
  in
  let get = Fields.closed certificate.inputs [ "n"; "d"; "X"; "W"; "mask"; "M"; "radius" ] "inputs" in
  let n = Fields.integer (get "n") "inputs.n" 2 12 and d = Fields.integer (get "d") "inputs.d" 1 3 in
  let read name rows = Fields.short_matrix ~digits:60 (get name) rows d ("inputs." ^ name) in
  let x = read "X" n and w = read "W" d and m = read "M" d in
  let mask = Fields.mask (get "mask") (reading "mask") n in
  let radius = Fields.positive (get "radius") "inputs.radius" in
  if n <= d || Q.sign (Attention.smallest_weight w) = 0 then
    reject "this statement needs n > d and no zero in W";
  if Exact.less Exact.one radius then reject "inputs.radius must lie in (0, 1]";
  (* X^T X > 0: it is n > d, not a degenerate X, that lets the minimum exist *)
  let hypotheses = Fields.closed certificate.hypotheses [ "gram_pivots" ] "hypotheses" in
  let listed =
    Fields.rationals ~digits:Fields.result_digits (hypotheses "gram_pivots") d "hypotheses.gram_pivots"
  in
  (match Exact.pivots (Setting.gram (Exact.columns x)) with
  | Some found when List.for_all2 Exact.equal found (Array.to_list listed) ->
    if List.exists (fun pivot -> Q.sign pivot <= 0) found then reject "X^T X is not positive definite"
  | _ -> reject "gram_pivots are not the pivots of LDL^T of X^T X");
  if reading "domain" = "box" then begin
    let inside entry = Exact.less radius entry && Exact.less (Exact.add entry radius) Exact.one in
    if not (Array.for_all (Array.for_all inside) m) then
      reject "the ball around M must lie inside the open box (0, 1)^(d x d)"
  end
  else if Exact.at_most (Exact.square (Exact.sub (Exact.int d) radius)) (Exact.frobenius_sq m) then
    reject "the ball around M must lie inside ||M||_F < d";
  let claimed = enclosures certificate [ "curvature"; "gradient_norm"; "lhs"; "rhs" ] in
  let curvature, claimed_top = claimed "curvature" in
  if not (is_point (claimed "rhs") Exact.zero) then reject "rhs is L_attn(1) = 0";
  if Q.sign curvature <= 0 then reject "not true: curvature is positive";
  decide ~most:1024 (fun () ->
      let value, slope, at_centre = second_order x w mask (Attention.real_matrix m) in
      let norm = Real.sqrt (Real.sum_of Real.square slope) in
      let around entry =
        Real.Between
          (Real.below (Exact.sub entry radius), Real.above (Exact.add entry radius))
      in
      let _, _, on_the_box = second_order x w mask (Array.map (Array.map around) m) in
      let least = Exact.sub (Real.lower value) (Exact.mul (Real.upper norm) radius) in
      let diagonal = List.init (d * d) (fun k -> Real.upper at_centre.(k).(k)) in
      let eigenvalue_is_below = List.fold_left Exact.min (List.hd diagonal) diagonal in
      [
        ("Hess L_attn >= curvature I on the box", proved (certainly_above on_the_box curvature));
        ("the upper end of curvature is above the least eigenvalue",
          proved (Exact.at_most eigenvalue_is_below claimed_top));
        ("||grad L_attn(m)|| < curvature radius / 2",
          less (Real.ends norm) (point (Exact.div (Exact.mul curvature radius) (Exact.int 2))));
        ("gradient_norm", holds (claimed "gradient_norm") (Real.ends norm));
        ("lhs encloses L_attn at the minimum", holds (claimed "lhs") (least, Real.upper value));
        ("lhs>rhs", proved (Q.sign least > 0));
      ]);
  Printf.sprintf "instance: a spurious strict local minimum in the %s, n = %d > d = %d, %s mask"
    (reading "domain") n d (reading "mask")
