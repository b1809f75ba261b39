(* new:best_mask: of all 0/1 masks with `zeros` zeros none has an L_attn below share
   times that of M.

   A leaf is a pattern of d^2 characters, 0 or 1 for an entry it fixes and * for one
   it leaves open; it holds the masks with the wanted number of zeros that agree
   with it. Two leaves are disjoint if some entry is 0 in one and 1 in the other. If
   all pairs are, and together they hold as many masks as there are, every mask lies
   in exactly one.

   For B in a leaf and v = W o x_i (x_k - x_j)^T, z_ik - z_ij = <v, B> lies between
   what is fixed plus the r smallest, and plus the r largest, of the open
   coefficients, r being the ones still to be placed. As F_ij = 1 / (1 + sum over
   k <> j of exp(z_ik - z_ij)) falls in each of them, l_ij <= F_ij <= u_ij, and with f
   the dense attention
     L_attn(B) = 1/2 sum_ij (F_ij - f_ij)^2 >= 1/2 sum_ij dist(f_ij, [l_ij, u_ij])^2.
   lhs = share L_attn(M) > 0, rhs = the least of these bounds, without the leaf that
   holds M alone; 1/10 <= share <= 1, as a bound of 0 says nothing. *)

open Refuse
open Questions

let most_leaves = 2_000
let most_exponentials = 40_000

type leaf = { ones : int list;  (** kept for certain *) free : int list; more : int  (** of these kept *) }

let choose n k =
  let rec go i product = if i > k then product else go (i + 1) (product * (n - k + i) / i) in
  if k < 0 || k > n then 0 else go 1 1

let places character pattern =
  List.filter (fun k -> pattern.[k] = character) (List.init (String.length pattern) Fun.id)

(* A leaf and how many masks it holds; where that is one, the mask is filled in. *)
let leaf size zeros = function
  | Json.String pattern when String.length pattern = size ->
    if not (String.for_all (function '0' | '1' | '*' -> true | _ -> false) pattern) then
      reject "a leaf consists of 0, 1 and *";
    let ones = places '1' pattern and free = places '*' pattern in
    let more = size - zeros - List.length ones and open_ = List.length free in
    let held = choose open_ more in
    if held = 0 then reject "a leaf holds no mask with that many zeros";
    let filled = if more = open_ then { ones = ones @ free; free = []; more = 0 } else { ones; free; more } in
    ((if more = 0 then { filled with free = [] } else filled), held, pattern)
  | _ -> reject "a leaf must be a string of %d characters" size

let apart one other =
  let rec from k =
    k < String.length one && ((one.[k] <> '*' && other.[k] <> '*' && one.[k] <> other.[k]) || from (k + 1))
  in
  from 0

let require_cover size zeros leaves =
  let patterns = Array.map (fun (_, _, pattern) -> pattern) leaves in
  charge (2. *. float_of_int (size * Array.length patterns * Array.length patterns));
  Array.iteri (fun i one ->
      for j = 0 to i - 1 do
        if not (apart one patterns.(j)) then reject "two leaves hold the same mask"
      done)
    patterns;
  let held = Array.fold_left (fun total (_, held, _) -> total + held) 0 leaves in
  if held <> choose size zeros then reject "the leaves hold %d of %d masks" held (choose size zeros)

(* v over one denominator, and its places from the smallest to the largest. *)
type direction = { v : Z.t array; unit_ : Z.t; ascending : int list }

let direction x w i j k =
  let d = Array.length w in
  let entry p =
    let a = p / d and b = p mod d in
    Exact.mul (Exact.mul w.(a).(b) x.(i).(a)) (Exact.sub x.(k).(b) x.(j).(b))
  in
  let numbers, unit_ = Exact.over_one_denominator [| Array.init (d * d) entry |] in
  let v = numbers.(0) in
  let ascending = List.stable_sort (fun p q -> Z.compare v.(p) v.(q)) (List.init (d * d) Fun.id) in
  { v; unit_; ascending }

let sum_of t = List.fold_left (fun total p -> Z.add total t.v.(p)) Z.zero
let first count items = List.filteri (fun k _ -> k < count) items

(* exp of the least and of the largest difference in a leaf. *)
let extremes t leaf =
  charge (20. *. float_of_int (Array.length t.v * (1 + Z.size t.unit_)));
  let fixed = sum_of t leaf.ones in
  let over total =
    charge_division total t.unit_;
    Q.make (Z.add fixed total) t.unit_
  in
  if leaf.more = 0 then (over Z.zero, over Z.zero)
  else
    let free = List.filter (fun p -> List.mem p leaf.free) t.ascending in
    (over (sum_of t (first leaf.more free)), over (sum_of t (first leaf.more (List.rev free))))

(* The entries of one row at the allowed j, every difference least (u) or largest (l). *)
let entry pick row j leaf =
  let grown =
    List.map (fun (j', k, t) ->
        if j' = j then Real.exp (Real.exact (pick (extremes t leaf)))
        else if k = j then
          let low, high = extremes t leaf in
          Real.exp (Real.exact (pick (Q.neg high, Q.neg low)))
        else Real.zero)
      row
  in
  Real.inverse (List.fold_left Real.add Real.one grown)

(* max(x, 0) *)
let positive = function
  | Real.Exact q -> Real.Exact (Exact.max q Exact.zero)
  | Real.Between (a, b) ->
    let zero = Real.of_integer Z.zero in
    Real.Between (Real.most_of a zero, Real.most_of b zero)

let bound rows f leaf =
  let row_bound (columns, row) dense =
    List.fold_left2 (fun total j f ->
        let below = positive (Real.sub (entry snd row j leaf) f)
        and above = positive (Real.sub f (entry fst row j leaf)) in
        (* at most one of them is not 0 *)
        Real.add total (Real.add (Real.square below) (Real.square above)))
      Real.zero columns dense
  in
  Real.div (List.fold_left2 (fun total row f -> Real.add total (row_bound row f)) Real.zero rows f) (Real.int 2)

let check certificate =
  require_claim certificate "confirmation" "lhs<rhs";
  let reading = require_reading certificate [ ("mask", Bounds.masks) ] in
  let get =
    Fields.closed certificate.inputs [ "n"; "d"; "X"; "W"; "mask"; "zeros"; "M"; "share"; "leaves" ] "inputs"
  in
  let n = Fields.integer (get "n") "inputs.n" 2 6 and d = Fields.integer (get "d") "inputs.d" 2 6 in
  let x = Fields.short_matrix (get "X") n d "inputs.X" in
  let square name = Fields.short_matrix (get name) d d ("inputs." ^ name) in
  let w = square "W" and m = square "M" in
  let mask = Fields.mask (get "mask") (reading "mask") n in
  let size = d * d in
  let zeros = Fields.integer (get "zeros") "inputs.zeros" 1 (size - 1) in
  let share = Fields.rational ~digits:20 (get "share") "inputs.share" in
  if Exact.less share (Exact.fraction 1 10) || Exact.less Exact.one share then
    reject "inputs.share must lie in [1/10, 1]";
  let is_one k = Exact.equal m.(k / d).(k mod d) Exact.one in
  let own = List.filter is_one (List.init size Fun.id) in
  let binary entry = Q.sign entry = 0 || Exact.equal entry Exact.one in
  if List.length own <> size - zeros || not (Array.for_all (Array.for_all binary) m) then
    reject "inputs.M must be a 0/1 mask with exactly inputs.zeros zeros";
  let listed = Fields.list (get "leaves") "inputs.leaves" in
  if Array.length listed < 2 || Array.length listed > most_leaves then
    reject "inputs.leaves must list 2 to %d patterns" most_leaves;
  let leaves = Array.map (leaf size zeros) listed in
  require_cover size zeros leaves;
  let pairs columns = List.concat_map (fun j -> List.map (fun k -> (j, k)) (List.filter (( < ) j) columns)) columns in
  let columns = List.init n (fun i -> List.filter (fun j -> mask.(i).(j)) (List.init n Fun.id)) in
  let several = List.fold_left (fun total row -> total + List.length (pairs row)) 0 columns in
  if 4 * several * Array.length leaves > most_exponentials then
    give_up "more work than is allowed: %d exponentials in all leaves" most_exponentials;
  no_hypotheses certificate;
  let claimed = enclosures certificate [ "lhs"; "rhs" ] in
  let rows = List.mapi (fun i row -> (row, List.map (fun (j, k) -> (j, k, direction x w i j k)) (pairs row))) columns in
  let all = { ones = List.init size Fun.id; free = []; more = 0 } in
  let holds_m_alone leaf = leaf.free = [] && List.sort compare leaf.ones = own in
  let others = List.filter (fun leaf -> not (holds_m_alone leaf)) (List.map (fun (l, _, _) -> l) (Array.to_list leaves)) in
  decide (fun () ->
      let c_sq = (Attention.loss x (Attention.of_mask x w mask m) (Attention.dense x w mask)).c_sq in
      let mine = Real.ends (Real.mul (Real.exact (Exact.div share (Exact.int 2))) c_sq) in
      let f = List.map (fun (columns, row) -> List.map (fun j -> entry fst row j all) columns) rows in
      let rest = Real.least (List.map (bound rows f) others) in
      [
        ("lhs encloses share L_attn(M)", holds (claimed "lhs") mine);
        ("rhs encloses the least of the leaves' bounds", holds (claimed "rhs") rest);
        ("M prunes something that moves attention", less (point Exact.zero) mine);
        ("lhs<rhs", less mine rest);
      ]);
  Printf.sprintf "instance: no mask with %d zeros of %d has less than %s times the loss of M, %d leaves" zeros size
    (Q.to_string share) (Array.length leaves)
