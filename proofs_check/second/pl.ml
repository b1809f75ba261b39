(* lem:PL_ineq on one instance: with f the pruned attention,

     ||grad L(M)||_F^2  against
     (mu/2) ||c||_F^2 + lambda^2 ||M||_F^2 - 6 sqrt(n) max|W| ||X||_F^2 lambda d,

   for M in [0, 1]^(d x d), lambda in [0, 1], X X^T >= beta I, beta > 0,
   min f >= delta > 0 and no zero in W. *)

open Refuse
open Questions

let over_all = "2*wmin*beta*delta" (* delta over all positions *)
let over_allowed = "2*wmin*beta*delta_allowed"
let squared = "2*(wmin*beta*delta)^2" (* over allowed ones *)

(* Are both sides equal as formulas in c? Where lambda = 0 and every row of F
   is uniform on its m allowed positions, dL_i/dz_ij = c_ij / m (as c_i sums to
   0), so the gradient is linear in c and both sides are quadratic forms in c
   with rational coefficients. They agree on the plane "every c_i sums to 0" if
   they do on its basis e_ij - e_il, l being the last allowed position. *)
let sides_agree x w mask z half_mu =
  let n = Array.length x and d = Array.length w in
  let uniform = function None -> true | Some (Real.Exact q) -> Q.sign q = 0 | Some (Real.Between _) -> false in
  if n > 8 || d > 8 || not (Array.for_all (Array.for_all uniform) z) then false
  else begin
    let basis = ref [] in
    Array.iteri
      (fun i allowed ->
        let columns = List.filter (fun j -> allowed.(j)) (List.init n Fun.id) in
        let m = List.length columns in
        let last = List.nth columns (m - 1) in
        let add j =
          let slope a b =
            Exact.div
              (Exact.mul (Exact.mul w.(a).(b) x.(i).(a)) (Exact.sub x.(j).(b) x.(last).(b)))
              (Exact.int m)
          in
          let gradient = List.concat (List.init d (fun a -> List.init d (slope a))) in
          basis := (i, j, gradient) :: !basis
        in
        List.iter (fun j -> if j <> last then add j) columns)
      mask;
    let product p q = List.fold_left2 (fun total a b -> Exact.add total (Exact.mul a b)) Exact.zero p q in
    let agree (i, j, gradient) (k, l, other) =
      (* <e_ij - e_i,last, e_kl - e_k,last> *)
      let c = if i <> k then 0 else if j = l then 2 else 1 in
      Exact.equal (product gradient other) (Exact.mul half_mu (Exact.int c))
    in
    List.for_all (fun one -> List.for_all (agree one) !basis) !basis
  end

let check certificate =
  let reading =
    require_reading certificate
      [ ("mask", [ "full"; "causal"; "given" ]); ("mu", [ over_all; over_allowed; squared ]) ]
  in
  let refutes = certificate.kind = "refutation" in
  let relation = if refutes then "lhs<rhs" else "lhs>=rhs" in
  require_claim certificate certificate.kind relation;
  let get =
    Fields.closed certificate.inputs [ "n"; "d"; "X"; "W"; "M"; "mask"; "lambda"; "beta"; "delta" ] "inputs"
  in
  let n = Fields.integer (get "n") "inputs.n" 1 64 and d = Fields.integer (get "d") "inputs.d" 1 64 in
  let x = Fields.matrix (get "X") n d "inputs.X" in
  let w = Fields.matrix (get "W") d d "inputs.W" and m = Fields.matrix (get "M") d d "inputs.M" in
  let mask = Fields.mask (get "mask") (reading "mask") n in
  let within entry = Q.sign entry >= 0 && Exact.at_most entry Exact.one in
  if not (Array.for_all (Array.for_all within) m) then reject "entries of inputs.M must lie in [0, 1]";
  if Array.exists (Array.exists (fun entry -> Q.sign entry = 0)) w then
    reject "inputs.W must have no zero: the statement divides by min|W|";
  let number name = Fields.rational (get name) ("inputs." ^ name) in
  let lambda = number "lambda" and beta = number "beta" and delta = number "delta" in
  if not (within lambda) then reject "inputs.lambda must lie in [0, 1]";
  if Q.sign beta <= 0 || Q.sign delta <= 0 then reject "inputs.beta and inputs.delta must be > 0";
  let hypotheses = Fields.closed certificate.hypotheses [ "psd_pivots"; "delta_le_min_f" ] "hypotheses" in
  let claimed = enclosures certificate [ "c_sq"; "lhs"; "rhs" ] in
  let claimed_min = Fields.enclosure (hypotheses "delta_le_min_f") "hypotheses.delta_le_min_f" in
  if Exact.less (fst claimed_min) delta then reject "the lower end of delta_le_min_f is below delta";
  Setting.require_pivots (hypotheses "psd_pivots") (Setting.gram x) beta;
  (* everything that is exact *)
  let z = Attention.of_mask x w mask m and z_dense = Attention.dense x w mask in
  let product = Exact.mul (Exact.mul (Attention.smallest_weight w) beta) delta in
  let half_mu = if reading "mu" = squared then Exact.square product else product in
  let slack =
    List.fold_left Exact.mul (Exact.int 6)
      [ Attention.largest_weight w; Exact.frobenius_sq x; lambda; Exact.int d ]
  in
  let mask_part = Exact.mul (Exact.square lambda) (Exact.frobenius_sq m) in
  let delta_counts_zeros = reading "mu" = over_all && not (Array.for_all (Array.for_all Fun.id) mask) in
  let real_m = Attention.real_matrix m in
  (* whether the inequality says nothing here: c = 0, or no square is below the right side *)
  let trivial = ref (Array.for_all2 Attention.same_row z z_dense) in
  decide (fun () ->
      let f = Attention.softmax z in
      let min_f =
        if delta_counts_zeros then point Exact.zero else Real.least (Attention.allowed_entries mask f)
      in
      let loss = Attention.loss x z z_dense in
      let left = Attention.norm_sq (Attention.gradient loss.slope w real_m lambda) in
      let right =
        Real.sub
          (Real.add (Real.mul (Real.exact half_mu) loss.c_sq) (Real.exact mask_part))
          (Real.mul (Real.exact slack) (Real.sqrt (Real.int n)))
      in
      let lhs = Real.ends left and rhs = Real.ends right in
      if Q.sign (snd rhs) <= 0 then trivial := true;
      let answer =
        match if refutes then less lhs rhs else at_least lhs rhs with
        | Unknown when Q.sign lambda = 0 && sides_agree x w mask z half_mu -> is (not refutes)
        | answer -> answer
      in
      [
        ("min f >= delta", at_least min_f (point delta));
        ("delta_le_min_f encloses min f", holds claimed_min min_f);
        ("c_sq encloses ||c||_F^2", holds (claimed "c_sq") (Real.ends loss.c_sq));
        ("lhs encloses ||grad L||_F^2", holds (claimed "lhs") lhs);
        ("rhs encloses the right side", holds (claimed "rhs") rhs);
        (relation, answer);
      ]);
  Printf.sprintf "%s: %s with mu = %s, %s mask, n = %d, d = %d"
    (if refutes then "refutation" else if !trivial then "trivial instance" else "instance")
    relation (reading "mu") (reading "mask") n d
