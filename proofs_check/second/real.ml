(* A real number that is known exactly, or to lie between two dyadic numbers.

   [Between (a, b)] encloses every real x with a <= x <= b. End points are
   m 2^e with at most [!bits] bits in m, rounded outwards: floating point, so
   the relative error is what is bounded. What is rational stays exact. *)

open Refuse

type dyadic = { m : Z.t; e : int }
type t = Exact of Q.t | Between of dyadic * dyadic

let bits = ref 128

(* End points *)

let farthest_apart = 1 lsl 22

let down_to p x =
  let k = Z.numbits x.m - p in
  if k <= 0 then x else { m = Z.shift_right x.m k; e = x.e + k } (* rounds to -infinity *)

let up_to p x =
  let k = Z.numbits x.m - p in
  if k <= 0 then x else { m = Z.neg (Z.shift_right (Z.neg x.m) k); e = x.e + k }

let down x = down_to !bits x
let up x = up_to !bits x
let minus x = { x with m = Z.neg x.m }

let plus x y =
  if Z.sign x.m = 0 then y
  else if Z.sign y.m = 0 then x
  else begin
    let e = min x.e y.e in
    let apart = max x.e y.e - e in
    if apart > farthest_apart then raise (Undecided "numbers of very different sizes are added");
    charge (40. +. (float_of_int apart /. 64.));
    { m = Z.add (Z.shift_left x.m (x.e - e)) (Z.shift_left y.m (y.e - e)); e }
  end

let times x y =
  charge_product x.m y.m;
  { m = Z.mul x.m y.m; e = x.e + y.e }

let order x y = if Z.sign x.m <> Z.sign y.m then compare (Z.sign x.m) (Z.sign y.m) else Z.sign (plus x (minus y)).m
let least_of x y = if order x y <= 0 then x else y
let most_of x y = if order x y >= 0 then x else y

(* x / y rounded down to p bits, y > 0. *)
let over_down p x y =
  let s = max 0 (p + 2 + Z.numbits y.m - Z.numbits x.m) in
  let top = Z.shift_left x.m s in
  charge_division top y.m;
  down_to p { m = Z.fdiv top y.m; e = x.e - s - y.e }

let over_up p x y = minus (over_down p (minus x) y)

(* sqrt x rounded down or up, x >= 0. *)
let root ~upwards x =
  let s = max 0 ((2 * !bits) + 4 - Z.numbits x.m) in
  let s = if (x.e - s) land 1 = 0 then s else s + 1 in
  let wide = Z.shift_left x.m s in
  charge_division wide wide;
  let below = Z.sqrt wide in
  let e = (x.e - s) / 2 in
  if upwards then up { m = (if Z.equal (Z.mul below below) wide then below else Z.succ below); e }
  else down { m = below; e }

let of_integer k = { m = k; e = 0 }
let below (q : Q.t) = over_down !bits (of_integer q.num) (of_integer q.den)
let above (q : Q.t) = over_up !bits (of_integer q.num) (of_integer q.den)

let rational x =
  if x.e >= 0 then Q.of_bigint (Z.shift_left x.m x.e)
  else Q.make x.m (Z.shift_left Z.one (-x.e))

(* Numbers *)

let exact q = Exact q
let int k = Exact (Q.of_int k)
let zero = int 0
let one = int 1
let lower = function Exact q -> q | Between (a, _) -> rational a
let upper = function Exact q -> q | Between (_, b) -> rational b
let ends x = (lower x, upper x)
let low_end = function Exact q -> below q | Between (a, _) -> a
let high_end = function Exact q -> above q | Between (_, b) -> b
let widened x = Between (low_end x, high_end x)
let is_zero = function Exact q -> Q.sign q = 0 | Between _ -> false

let neg = function Exact q -> Exact (Q.neg q) | Between (a, b) -> Between (minus b, minus a)

let add x y =
  match (x, y) with
  | Exact p, Exact q -> Exact (Exact.add p q)
  | _ when is_zero x -> y
  | _ when is_zero y -> x
  | _ -> Between (down (plus (low_end x) (low_end y)), up (plus (high_end x) (high_end y)))

let sub x y = add x (neg y)

(* A rational times an interval: one rounding. *)
let scaled (q : Q.t) a b =
  let a, b = if Q.sign q > 0 then (a, b) else (b, a) in
  let by x = times x (of_integer q.num) in
  if Z.equal q.den Z.one then Between (down (by a), up (by b))
  else
    let bottom = of_integer q.den in
    Between (over_down !bits (by a) bottom, over_up !bits (by b) bottom)

let mul x y =
  match (x, y) with
  | Exact p, Exact q -> Exact (Exact.mul p q)
  | Exact q, Between (a, b) | Between (a, b), Exact q ->
    if Q.sign q = 0 then zero else scaled q a b
  | Between (a, b), Between (c, d) ->
    if Z.sign a.m >= 0 && Z.sign c.m >= 0 then Between (down (times a c), up (times b d))
    else
      let p = times a c and q = times a d and r = times b c and s = times b d in
      Between
        ( down (least_of (least_of p q) (least_of r s)),
          up (most_of (most_of p q) (most_of r s)) )

let inverse = function
  | Exact q -> Exact (Exact.div Q.one q)
  | Between (a, b) ->
    if Z.sign a.m <= 0 then raise (Undecided "a divisor is not certainly positive");
    let unit_ = of_integer Z.one in
    Between (over_down !bits unit_ b, over_up !bits unit_ a)

let div x y = mul x (inverse y)

let square = function
  | Exact q -> Exact (Exact.square q)
  | Between (a, b) ->
    if Z.sign a.m >= 0 then Between (down (times a a), up (times b b))
    else if Z.sign b.m <= 0 then Between (down (times b b), up (times a a))
    else Between (of_integer Z.zero, up (most_of (times a a) (times b b)))

let sqrt x =
  if Q.sign (upper x) < 0 then reject "the square root of a negative number is needed";
  let enclosed a b =
    let a = if Z.sign a.m < 0 then of_integer Z.zero else a in
    Between (root ~upwards:false a, root ~upwards:true b)
  in
  match x with
  | Exact q -> (
    match Exact.perfect_root q with Some r -> Exact r | None -> enclosed (below q) (above q))
  | Between (a, b) -> enclosed a b

let sum = Array.fold_left add zero
let sum_of f items = Array.fold_left (fun total item -> add total (f item)) zero items
let dot x y = sum (Array.map2 mul x y)

(* Bounds of the least, and of the largest, of some numbers. *)
let extreme pick numbers =
  match List.map ends numbers with
  | [] -> reject "nothing to compare"
  | first :: rest -> List.fold_left (fun (a, b) (c, d) -> (pick a c, pick b d)) first rest

let least = extreme Exact.min
let largest = extreme Exact.max

(* exp

   For t = |a|, y = t / 2^r < 2^-8 is enclosed by two integers over 2^q. The
   Taylor terms of the lower one, rounded down, add up to less than exp y; of
   the upper one, rounded up, with the last term twice, to more: as y < 1/2
   the tail is below the last term. exp t is that squared r times; for a < 0
   its inverse. *)

let largest_argument = Q.of_int 20_000
let smallest_argument = of_integer (Z.of_int (-12_000)) (* exp of it is below 2^-16384 *)

let taylor ~upwards q y =
  let round x = if upwards then Z.neg (Z.shift_right (Z.neg x) q) else Z.shift_right x q in
  let divide x k = if upwards then Z.cdiv x k else Z.fdiv x k in
  let smallest = if upwards then Z.one else Z.zero in
  let rec go k term total =
    charge_product term y;
    charge_division term y;
    let term = divide (round (Z.mul term y)) (Z.of_int k) in
    let total = Z.add total term in
    if Z.leq term smallest then if upwards then Z.add total term else total else go (k + 1) term total
  in
  let unit_ = Z.shift_left Z.one q in
  go 1 unit_ unit_

let exp_of_end ~upwards a =
  let t = { a with m = Z.abs a.m } in
  let deep = max 8 (Z.to_int (Z.sqrt (Z.of_int !bits))) in
  let r = max 0 (Z.numbits t.m + t.e + deep) in
  let q = !bits + r + 24 in
  (* y = t 2^(q - r), rounded *)
  let shift = t.e + q - r in
  let outwards = if Z.sign a.m < 0 then not upwards else upwards in
  let y =
    if shift >= 0 then Z.shift_left t.m shift
    else if outwards then Z.neg (Z.shift_right (Z.neg t.m) (-shift))
    else Z.shift_right t.m (-shift)
  in
  let x = ref { m = taylor ~upwards:outwards q y; e = -q } in
  for _ = 1 to r do
    let squared = times !x !x in
    x := if outwards then up_to q squared else down_to q squared
  done;
  let unit_ = of_integer Z.one in
  if Z.sign a.m >= 0 then if upwards then up !x else down !x
  else if upwards then over_up !bits unit_ !x
  else over_down !bits unit_ !x

let tiny = { m = Z.one; e = -16_384 }

let exp x =
  let from_end ~upwards a =
    if Z.sign a.m = 0 then of_integer Z.one
    else if order a smallest_argument < 0 then if upwards then tiny else of_integer Z.zero
    else exp_of_end ~upwards a
  in
  match x with
  | Exact q when Q.sign q = 0 -> one
  | Exact q when Exact.less largest_argument q -> give_up "an exponential of more than 20000 is needed"
  | _ ->
    if Exact.less largest_argument (upper x) then raise (Undecided "an argument of exp is enclosed too widely");
    Between (from_end ~upwards:false (low_end x), from_end ~upwards:true (high_end x))
