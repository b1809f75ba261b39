(* new:descent_mask_far_from_best: M, which alg:mask_gd returns, has more than seven
   times the L_attn of N, another 0/1 mask with as many zeros.

   From M_0 = 1, t >= 100 steps of eta down L = L_attn + (lambda/2) ||M||^2; then the
   floor(rho d^2) smallest entries become 0. That these are M's is certain where all
   entries it prunes are below all it keeps, and not by rounding: gap > 10^-12.
   K = ||Pi A||, 9/10 map_sq <= K^2 < map_sq and Hess L <= lambda + C_+ K^2, C_+ = (39 + 55 sqrt 33)/1152 < 3082/10^4 (new:row_hessian):
   1/2 <= eta (lambda + C_+ map_sq) < 1, a step with the guarantee that is not idle.
   lhs = 7 L_attn(N) > 0, rhs = L_attn(M). *)

open Refuse
open Questions

let times = 7
let least_gap = Q.make Z.one (Z.pow (Z.of_int 10) 12)
let c_plus = Exact.fraction 3082 10_000

let check certificate =
  require_claim certificate "confirmation" "lhs<rhs";
  let reading = require_reading certificate [ ("mask", [ "full"; "causal" ]); ("start", [ "ones" ]) ] in
  let get =
    Fields.closed certificate.inputs
      [ "n"; "d"; "X"; "W"; "lambda"; "rho"; "map_sq"; "eta"; "t"; "M"; "N" ]
      "inputs"
  in
  let n = Fields.integer (get "n") "inputs.n" 2 8 and d = Fields.integer (get "d") "inputs.d" 2 4 in
  let x = Fields.short_matrix (get "X") n d "inputs.X" in
  let square name = Fields.short_matrix (get name) d d ("inputs." ^ name) in
  let w = square "W" and m = square "M" and other = square "N" in
  let number name = Fields.rational ~digits:20 (get name) ("inputs." ^ name) in
  let lambda = number "lambda" and rho = number "rho" and map_sq = number "map_sq" and eta = number "eta" in
  let t = Fields.integer (get "t") "inputs.t" 100 1_000 in
  let s = Setting.plain x w lambda (Fields.named (reading "mask") n) in
  Setting.require_affordable s t;
  let inside q = Q.sign q > 0 && Exact.less q Exact.one in
  if Q.sign lambda <= 0 || Exact.less Exact.one lambda || (not (inside rho)) || Q.sign map_sq <= 0 then
    reject "inputs.lambda must lie in (0, 1], inputs.rho in (0, 1), inputs.map_sq must be > 0";
  let length = Exact.mul eta (Exact.add lambda (Exact.mul c_plus map_sq)) in
  if Exact.less length (Exact.fraction 1 2) || not (Exact.less length Exact.one) then
    reject "inputs.eta must be below the reciprocal of lambda + C_+ map_sq, and at least half of it";
  let zeros = Z.to_int (Exact.floor (Exact.mul rho (Exact.int (d * d)))) in
  let binary entry = Q.sign entry = 0 || Exact.equal entry Exact.one in
  let is_mask mask =
    let entries = Attention.entries mask in
    List.for_all binary entries && List.length (List.filter (fun e -> Q.sign e = 0) entries) = zeros
  in
  if zeros = 0 || not (is_mask m && is_mask other) then
    reject "inputs.M and inputs.N must be 0/1 masks with floor(rho d^2) > 0 zeros";
  no_hypotheses certificate;
  let claimed = enclosures certificate [ "gap"; "lhs"; "rhs" ] in
  let z_dense = Attention.dense x w s.mask in
  let loss mask = Real.div (Attention.loss x (Attention.of_mask x w s.mask mask) z_dense).c_sq (Real.int 2) in
  decide (fun () ->
      let point = ref (Setting.constant s Real.one) in
      for _ = 1 to t do
        point := Setting.step !point eta (Setting.state s !point).gradient
      done;
      let pairs = List.combine (Attention.entries m) (Attention.entries !point) in
      let kept, pruned = List.partition (fun (mark, _) -> Q.sign mark > 0) pairs in
      let low, low' = Real.least (List.map snd kept) and high, high' = Real.largest (List.map snd pruned) in
      let gap = (Exact.sub low high', Exact.sub low' high) in
      let directions = Array.map Stationary.enclosed (Stationary.basis x w s.mask "whole") in
      let metric = Stationary.table (d * d) (fun k l -> if k = l then Real.one else Real.zero) in
      let forms = List.mapi (fun i allowed -> Stationary.row_form x w directions i allowed) (Array.to_list s.mask) in
      let whole = List.fold_left (Array.map2 (Array.map2 Real.add)) (Attention.constant (d * d) Real.zero) forms in
      let best = Real.ends (Real.mul (Real.int times) (loss other)) and own = Real.ends (loss m) in
      [
        ("||Pi A||^2 < map_sq", Stationary.above whole metric map_sq);
        ("||Pi A||^2 is at least nine tenths of map_sq",
          opposite (Stationary.above whole metric (Exact.mul (Exact.fraction 9 10) map_sq)));
        ("gap encloses the distance of what is kept from what is pruned", holds (claimed "gap") gap);
        ("M is what the descent returns: gap > 10^-12", less (Questions.point least_gap) gap);
        ("lhs encloses seven times L_attn(N)", holds (claimed "lhs") best);
        ("rhs encloses L_attn(M)", holds (claimed "rhs") own);
        ("N prunes something that moves attention", less (Questions.point Exact.zero) best);
        ("lhs<rhs", less best own);
      ]);
  Printf.sprintf "instance: the mask after %d steps has more than %d times the loss of another with %d zeros" t times zeros
