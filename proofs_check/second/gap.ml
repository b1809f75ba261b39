(* new:certified_mask_gap: no 0/1 mask with `ones` ones has a divergence below share
   times that of M.

   KL(M) = sum_i KL(f_i || F_i(M)), f the dense attention. For a row with logits z
     KL = ln sum_j exp z_j - <f, z> + <f, ln f>
   is convex in z, with derivative softmax(z) - f, and z is linear in M. So at any
   real Y, with c = F(Y) - f and G_ab = W_ab sum_ij X_ia c_ij X_jb,
     KL(B) >= KL(Y) - <G, Y> + <G, B>
   and over the 0/1 masks <G, B> is at least the sum of the `ones` smallest G_ab.
   lhs = share KL(M) > 0, 1/10 <= share <= 1; rhs = that bound.

   Here KL is the difference of two entropies' sums: with s the dense logits,
     KL = ln sum exp z - ln sum exp s - <f, z - s>,
   all logits less one of the row's own, the first. *)

open Refuse
open Questions

let most = 8

(* ln x for x > 0, an end of an interval at a time: y near ln x, t = x exp(-y) near 1,
   and (t - 1)/t <= ln t <= t - 1. Each round of y + (t - 1) squares what is missing. *)
let ln_of_end ~upwards x =
  let size = Z.numbits x.Real.m + x.Real.e in
  let first = Exact.mul (Exact.int size) (Exact.fraction 693_147_180_559 1_000_000_000_000) in
  let away y =
    let exp = Real.exp (Real.exact (Q.neg y)) in
    Real.sub (Real.mul (Real.Between (x, x)) exp) Real.one
  in
  (* of a rational only the bits that matter *)
  let short q = Real.rational (Real.below q) in
  let rec go rounds y =
    let t = away y in
    if rounds = 0 then
      let step = if upwards then t else Real.div t (Real.add t Real.one) in
      let found = Real.add (Real.exact y) step in
      if upwards then Real.high_end found else Real.low_end found
    else go (rounds - 1) (short (Exact.add y (Real.lower t)))
  in
  (* |first - ln x| <= 0.7: 12 rounds of squaring from below 1/2 suffice at every precision *)
  go 16 (short first)

let ln x =
  if Q.sign (Real.upper x) <= 0 then reject "the logarithm of a number that is not positive is needed";
  if Q.sign (Real.lower x) <= 0 then raise (Undecided "an argument of ln is not certainly positive");
  Real.Between (ln_of_end ~upwards:false (Real.low_end x), ln_of_end ~upwards:true (Real.high_end x))

(* The allowed logits of every row, the first of them taken off. *)
let rows mask z =
  Array.map2 (fun allowed row ->
      let kept = List.filteri (fun j _ -> allowed.(j)) (Array.to_list row) in
      Array.of_list (List.map (fun entry -> Exact.sub entry (List.hd kept)) kept))
    mask z

let log_sum row = ln (Real.sum_of (fun z -> Real.exp (Real.exact z)) row)

let divergence f dense changed =
  let row f s z =
    if Array.for_all2 Exact.equal s z then Real.zero
    else
      let moved = Array.map2 (fun z s -> Real.exact (Exact.sub z s)) z s in
      Real.sub (Real.sub (log_sum z) (log_sum s)) (Real.dot f moved)
  in
  let total = ref Real.zero in
  Array.iteri (fun i s -> total := Real.add !total (row f.(i) s changed.(i))) dense;
  !total

let softmax row =
  let grown = Array.map (fun z -> Real.exp (Real.exact z)) row in
  let share = Real.inverse (Real.sum grown) in
  Array.map (fun e -> Real.mul e share) grown

let gradient x w mask c =
  let n = Array.length x and d = Array.length w in
  let entry a b =
    let total = ref Real.zero in
    for i = 0 to n - 1 do
      let place = ref 0 in
      for j = 0 to n - 1 do
        if mask.(i).(j) then begin
          let weight = Exact.mul x.(i).(a) x.(j).(b) in
          total := Real.add !total (Real.mul (Real.exact weight) c.(i).(!place));
          incr place
        end
      done
    done;
    Real.mul (Real.exact w.(a).(b)) !total
  in
  Array.init d (fun a -> Array.init d (entry a))

let smallest count ends = Exact.sum (Array.of_list (List.filteri (fun k _ -> k < count) (List.sort Q.compare ends)))

let check certificate =
  require_claim certificate "confirmation" "lhs<rhs";
  let reading = require_reading certificate [ ("mask", Bounds.masks) ] in
  let get =
    Fields.closed certificate.inputs [ "n"; "d"; "X"; "W"; "mask"; "ones"; "M"; "Y"; "share" ] "inputs"
  in
  let n = Fields.integer (get "n") "inputs.n" 2 most and d = Fields.integer (get "d") "inputs.d" 2 most in
  let x = Fields.short_matrix (get "X") n d "inputs.X" in
  let square name = Fields.short_matrix (get name) d d ("inputs." ^ name) in
  let w = square "W" and m = square "M" and y = square "Y" in
  let mask = Fields.mask (get "mask") (reading "mask") n in
  let ones = Fields.integer (get "ones") "inputs.ones" 1 ((d * d) - 1) in
  let share = Fields.rational ~digits:20 (get "share") "inputs.share" in
  if Exact.less share (Exact.fraction 1 10) || Exact.less Exact.one share then
    reject "inputs.share must lie in [1/10, 1]";
  let binary entry = Q.sign entry = 0 || Exact.equal entry Exact.one in
  let kept = Array.fold_left (fun total row -> Exact.add total (Exact.sum row)) Exact.zero m in
  if (not (Array.for_all (Array.for_all binary) m)) || not (Exact.equal kept (Exact.int ones)) then
    reject "inputs.M must be a 0/1 mask with exactly inputs.ones ones";
  no_hypotheses certificate;
  let claimed = enclosures certificate [ "lhs"; "rhs" ] in
  let product e = Array.map2 (Array.map2 Exact.mul) e w in
  let logits e = rows mask (Exact.sandwich x e) in
  let dense = logits w and changed = logits (product m) and tangent = logits (product y) in
  decide (fun () ->
      let f = Array.map softmax dense in
      let own = Real.ends (Real.mul (Real.exact share) (divergence f dense changed)) in
      let c = Array.map2 (Array.map2 Real.sub) (Array.map softmax tangent) f in
      let g = gradient x w mask c in
      let along = ref Real.zero in
      Array.iteri (fun a row ->
          Array.iteri (fun b g -> along := Real.add !along (Real.mul (Real.exact y.(a).(b)) g)) row) g;
      let low, high = Real.ends (Real.sub (divergence f dense tangent) !along) in
      let entries = List.concat_map Array.to_list (Array.to_list g) in
      let floor =
        ( Exact.add low (smallest ones (List.map Real.lower entries)),
          Exact.add high (smallest ones (List.map Real.upper entries)) )
      in
      [
        ("lhs encloses share KL(M)", holds (claimed "lhs") own);
        ("rhs encloses the least value of the tangent at Y", holds (claimed "rhs") floor);
        ("M prunes something that moves attention", less (point Exact.zero) own);
        ("lhs<rhs", less own floor);
      ]);
  Printf.sprintf "instance: no mask with %d ones of %d has less than %s times the divergence of M" ones (d * d)
    (Q.to_string share)
