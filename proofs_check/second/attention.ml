(* The paper's definitions, enclosed: logits, masked row softmax F, the residual
   c = F - f against the dense attention f, and the gradient.

   With E = M o W and z = X E X^T, row i of F is the softmax over the allowed
   positions of row i of z. For L_i = 1/2 sum_j (F_j - f_j)^2 and
   dF_k/dz_j = F_k (delta_kj - F_j),
       dL_i/dz_j = sum_k c_k F_k (delta_kj - F_j) = F_j (c_j - <c, F>),
   and as z_ij = sum_ab X_ia E_ab X_jb,
       dL_attn/dE_ab = sum_i X_ia sum_j (dL_i/dz_ij) X_jb,
       dL/dM_ab = W_ab dL_attn/dE_ab + lambda M_ab. *)

let real_matrix rows = Array.map (Array.map Real.exact) rows
let constant d value = Array.init d (fun _ -> Array.make d value)

let rational_matrix rows =
  let entry = function Real.Exact q -> q | Real.Between _ -> raise Exit in
  match Array.map (Array.map entry) rows with exception Exit -> None | found -> Some found

(* X E X^T, exact where E is. *)
let logits x e =
  match rational_matrix e with
  | Some e -> real_matrix (Exact.sandwich x e)
  | None ->
    let x = real_matrix x in
    let e = Exact.columns e in
    let queries = Array.map (fun row -> Array.map (Real.dot row) e) x in
    Array.map (fun y -> Array.map (Real.dot y) x) queries

(* Allowed logits minus (about) the largest of their row, so that exp cannot
   overflow; softmax does not change. None where the mask forbids. *)
let relative mask z =
  let row allowed z =
    let top = ref None in
    Array.iteri
      (fun j keep ->
        if keep then
          let low = Real.lower z.(j) in
          match !top with Some best when Exact.at_most low best -> () | _ -> top := Some low)
      allowed;
    let top = Real.exact (Option.get !top) in
    Array.map2 (fun keep entry -> if keep then Some (Real.sub entry top) else None) allowed z
  in
  Array.map2 row mask z

(* One row of F: 0 off the mask, exact where all allowed logits are equal. *)
let softmax_row row =
  let weights = Array.map (function None -> Real.zero | Some z -> Real.exp z) row in
  let share = Real.inverse (Real.sum weights) in
  Array.map (fun weight -> Real.mul weight share) weights

let softmax z = Array.map softmax_row z

let same_row z z' =
  let same a b =
    match (a, b) with
    | None, None -> true
    | Some (Real.Exact p), Some (Real.Exact q) -> Exact.equal p q
    | _ -> false
  in
  Array.for_all2 same z z'

type loss = { c_sq : Real.t; slope : Real.t array array  (** dL_attn/dE *) }

(* Rows whose logits are exactly the dense ones have c = 0 and contribute nothing. *)
let loss x z z_dense =
  let d = Array.length x.(0) in
  let c_sq = ref Real.zero and slope = constant d Real.zero in
  let xs = real_matrix x in
  let columns = Exact.columns xs in
  Array.iteri
    (fun i row ->
      if not (same_row row z_dense.(i)) then begin
        let attention = softmax_row row and dense = softmax_row z_dense.(i) in
        let c = Array.map2 Real.sub attention dense in
        c_sq := Real.add !c_sq (Real.sum_of Real.square c);
        let mean = Real.dot c attention in
        let pull = Array.map2 (fun weight c -> Real.mul weight (Real.sub c mean)) attention c in
        let along = Array.map (Real.dot pull) columns in
        Array.iteri
          (fun a entry ->
            if not (Real.is_zero entry) then
              slope.(a) <- Array.map2 (fun kept more -> Real.add kept (Real.mul entry more)) slope.(a) along)
          xs.(i)
      end)
    z;
  { c_sq = !c_sq; slope }

let gradient slope w m lambda =
  let entry w s m = Real.add (Real.mul (Real.exact w) s) (Real.mul (Real.exact lambda) m) in
  Array.init (Array.length w) (fun a ->
      Array.init (Array.length w) (fun b -> entry w.(a).(b) slope.(a).(b) m.(a).(b)))

let norm_sq rows = Real.sum_of (Real.sum_of Real.square) rows

(* The entries of F at allowed positions. *)
let allowed_entries mask f =
  List.concat
    (Array.to_list
       (Array.map2
          (fun allowed row ->
            List.filteri (fun j _ -> allowed.(j)) (Array.to_list row))
          mask f))

(* Relative logits of M o W, and of W itself. *)
let of_mask x w mask m = relative mask (logits x (real_matrix (Exact.hadamard m w)))
let dense x w mask = relative mask (logits x (real_matrix w))
let entries rows = List.concat_map Array.to_list (Array.to_list rows)
let extreme pick rows = List.fold_left pick (Exact.abs rows.(0).(0)) (List.map Exact.abs (entries rows))
let smallest_weight rows = extreme Exact.min rows
let largest_weight rows = extreme Exact.max rows
