(* Typed access to a certificate's fields: closed lists of keys, exact rationals. *)

open Refuse

let input_digits = 2_000
let result_digits = 100_000

let shown = function
  | Json.String text -> if String.length text > 60 then "a long string" else Printf.sprintf "%S" text
  | Int k -> string_of_int k
  | Bool b -> string_of_bool b
  | Null -> "null"
  | List _ -> "a list"
  | Object _ -> "an object"

(* The values of an object that has exactly these keys. *)
let closed value keys where =
  match value with
  | Json.Object pairs ->
    List.iter
      (fun (key, _) ->
        if not (List.mem key keys) then
          reject "unknown key %S in %s" (if String.length key > 60 then "..." else key) where)
      pairs;
    List.iter (fun key -> if not (List.mem_assoc key pairs) then reject "missing key %S in %s" key where) keys;
    fun key -> List.assoc key pairs
  | _ -> reject "%s must be an object" where

let choice value allowed where =
  match value with
  | Json.String text when List.mem text allowed -> text
  | _ -> reject "%s must be one of %s; got %s" where (String.concat ", " allowed) (shown value)

(* At most 200 characters, which are the bytes that do not continue one. *)
let text value where =
  match value with
  | Json.String found ->
    let count = ref 0 in
    String.iter (fun c -> if Char.code c land 0xC0 <> 0x80 then incr count) found;
    if !count > 200 then reject "%s must be a string of at most 200 characters" where
  | _ -> reject "%s must be a string" where

let all_digits = String.for_all (function '0' .. '9' -> true | _ -> false)

(* A JSON integer, or one to twelve digits in a string. *)
let integer value where low high =
  let number =
    match value with
    | Json.Int k -> k
    | String text when text <> "" && String.length text <= 12 && all_digits text ->
      List.fold_left (fun total c -> (10 * total) + Char.code c - 48) 0 (List.of_seq (String.to_seq text))
    | _ -> reject "%s must be an integer; got %s" where (shown value)
  in
  if number < low || number > high then reject "%s must lie in [%d, %d]; got %d" where low high number;
  number

(* "p/q" or "p": ASCII digits, a minus sign in front of p only. *)
let rational ?(digits = input_digits) value where : Q.t =
  let wrong () = reject "%s must be a rational 'p/q' in a string; got %s" where (shown value) in
  match value with
  | Json.String text ->
    let negative = text <> "" && text.[0] = '-' in
    let body = if negative then String.sub text 1 (String.length text - 1) else text in
    let number part =
      if part = "" || not (all_digits part) then wrong ();
      let long = String.length part in
      if long > digits then reject "%s has more than %d digits" where digits;
      charge (product_cost (long / 16) (long / 16));
      Z.of_string part
    in
    let top, bottom =
      match String.split_on_char '/' body with
      | [ p ] -> (number p, Z.one)
      | [ p; q ] ->
        let p = number p in
        (p, number q)
      | _ -> wrong ()
    in
    if Z.sign bottom = 0 then reject "%s has denominator 0" where;
    charge_division top bottom;
    Q.make (if negative then Z.neg top else top) bottom
  | _ -> wrong ()

let list value where =
  match value with Json.List items -> items | _ -> reject "%s must be a list" where

let list_of value length where =
  let items = list value where in
  if Array.length items <> length then reject "%s must be a list of %d" where length;
  items

let rationals ?digits value length where =
  Array.map (fun entry -> rational ?digits entry ("an entry of " ^ where)) (list_of value length where)

let matrix value rows columns where =
  Array.map (fun row -> rationals row columns ("a row of " ^ where)) (list_of value rows where)

(* Numerators and denominators, in lowest terms, are at most 10^digits. *)
let require_short digits matrices where =
  let most = Z.pow (Z.of_int 10) digits in
  let short (entry : Q.t) = Z.leq (Z.abs entry.num) most && Z.leq entry.den most in
  if not (List.for_all (Array.for_all (Array.for_all short)) matrices) then
    reject "entries of %s are at most 10^%d over 10^%d here" where digits digits

let short_matrix ?(digits = 20) value rows columns where =
  let found = matrix value rows columns where in
  require_short digits [ found ] where;
  found

(* [lo, hi] with lo <= hi. *)
let enclosure value where =
  let found = rationals ~digits:result_digits value 2 where in
  if Exact.less found.(1) found.(0) then reject "%s is empty" where;
  (found.(0), found.(1))

let positive value where =
  let found = rational ~digits:60 value where in
  if Q.sign found <= 0 then reject "%s must be > 0" where;
  found

(* Attention masks: which positions (i, j) are allowed; no row is empty. *)

let full n = Array.make_matrix n n true
let causal n = Array.init n (fun i -> Array.init n (fun j -> j <= i))
let named name n = if name = "causal" then causal n else full n

(* The mask of `inputs`, which has to be the one that the reading names. *)
let mask value reading n =
  let found, given =
    match value with
    | Json.Null | String "full" -> (full n, false)
    | String "causal" -> (causal n, false)
    | List _ ->
      let entry e =
        if Exact.equal e Exact.one then true
        else if Q.sign e = 0 then false
        else reject "entries of inputs.mask must be 0 or 1"
      in
      (Array.map (Array.map entry) (matrix value n n "inputs.mask"), true)
    | _ -> reject "inputs.mask must be null, \"full\", \"causal\" or a list"
  in
  if not (Array.for_all (Array.mem true) found) then
    reject "inputs.mask has a row without an allowed position";
  if reading = "given" then begin
    if not given then reject "reading.mask is given but inputs.mask is not a list"
  end
  else if found <> named reading n then reject "reading.mask is %s but inputs.mask is another mask" reading;
  found
