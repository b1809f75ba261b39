(* Exact rational arithmetic, charged to the budget. *)

open Refuse

type t = Q.t

let zero = Q.zero
let one = Q.one
let int = Q.of_int
let fraction p q = Q.of_ints p q

let charge_parts (a : t) (b : t) =
  charge_division a.num b.den;
  charge_division b.num a.den

let add a b = charge_parts a b; Q.add a b
let sub a b = charge_parts a b; Q.sub a b
let mul a b = charge_parts a b; Q.mul a b

let div a b =
  if Q.sign b = 0 then reject "a division by 0 is needed";
  charge_parts a b;
  Q.div a b

let neg = Q.neg
let abs = Q.abs
let sign = Q.sign

let compare (a : t) (b : t) =
  charge_product a.num b.den;
  charge_product b.num a.den;
  Q.compare a b

let equal a b = Q.equal a b (* both in lowest terms *)
let less a b = compare a b < 0
let at_most a b = compare a b <= 0
let min a b = if less b a then b else a
let max a b = if less a b then b else a
let square a = mul a a
let sum = Array.fold_left add zero

let rec power a k = if k = 0 then one else mul a (power a (k - 1))

(* floor(a) *)
let floor (a : t) =
  charge_division a.num a.den;
  Z.fdiv a.num a.den

(* The square root, where it is rational. *)
let perfect_root (a : t) =
  charge_division a.num a.num;
  charge_division a.den a.den;
  if Q.sign a >= 0 && Z.perfect_square a.num && Z.perfect_square a.den then
    Some (Q.make (Z.sqrt a.num) (Z.sqrt a.den))
  else None

(* Integers N and D > 0 with A = N / D. *)
let over_one_denominator (rows : t array array) =
  let common = ref Z.one in
  let widen (entry : t) =
    if not (Z.equal !common entry.den) && not (Z.equal Z.one entry.den) then begin
      charge_division !common entry.den;
      common := Z.lcm !common entry.den
    end
  in
  Array.iter (Array.iter widen) rows;
  let scaled (entry : t) =
    charge_division !common entry.den;
    charge_product entry.num !common;
    Z.mul entry.num (Z.divexact !common entry.den)
  in
  (Array.map (Array.map scaled) rows, !common)

let integer_product p q =
  charge_product p q;
  Z.mul p q

let dot p q =
  let total = ref Z.zero in
  Array.iteri (fun k entry -> total := Z.add !total (integer_product entry q.(k))) p;
  !total

let columns rows =
  if rows = [||] then [||]
  else Array.init (Array.length rows.(0)) (fun b -> Array.map (fun row -> row.(b)) rows)

(* X E X^T of rational X and E. *)
let sandwich x e =
  let xs, unit_x = over_one_denominator x and es, unit_e = over_one_denominator e in
  let es = columns es in
  let bottom = integer_product (integer_product unit_x unit_x) unit_e in
  let queries = Array.map (fun row -> Array.map (dot row) es) xs in
  let entry y row =
    let top = dot y row in
    charge_division top bottom;
    Q.make top bottom
  in
  Array.map (fun y -> Array.map (entry y) xs) queries

let frobenius_sq rows =
  let numbers, unit_ = over_one_denominator rows in
  let top = Array.fold_left (fun total row -> Z.add total (dot row row)) Z.zero numbers in
  let bottom = integer_product unit_ unit_ in
  charge_division top bottom;
  Q.make top bottom

let hadamard = Array.map2 (Array.map2 mul)

(* The pivots of LDL^T of a symmetric rational matrix, rows in their order, or
   None if it is not positive semidefinite: a pivot is negative, or it is 0 and
   the column below it is not.

   Fraction-free: over the integers, after eliminating the indices S, entry
   (i, j) is the minor of the rows S+i and columns S+j, and a pivot is the
   quotient of two consecutive principal minors. *)
let pivots matrix =
  let a, unit_ = over_one_denominator matrix in
  let n = Array.length a in
  let minor = ref Z.one in
  let rec eliminate k found =
    if k = n then Some (List.rev found)
    else
      let pivot = a.(k).(k) in
      let column_is_zero = ref true in
      for i = k + 1 to n - 1 do
        if Z.sign a.(i).(k) <> 0 then column_is_zero := false
      done;
      if Z.sign pivot < 0 || (Z.sign pivot = 0 && not !column_is_zero) then None
      else begin
        charge_division pivot !minor;
        let listed = div (Q.make pivot !minor) (Q.of_bigint unit_) in
        if Z.sign pivot > 0 then begin
          for i = k + 1 to n - 1 do
            for j = i to n - 1 do
              let kept = integer_product a.(i).(j) pivot
              and gone = integer_product a.(i).(k) a.(k).(j) in
              charge_division kept !minor;
              let entry = Z.divexact (Z.sub kept gone) !minor in
              a.(i).(j) <- entry;
              a.(j).(i) <- entry
            done;
          done;
          minor := pivot
        end;
        eliminate (k + 1) (listed :: found)
      end
  in
  eliminate 0 []
