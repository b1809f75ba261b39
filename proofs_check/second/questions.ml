(* A certificate asks questions about real numbers; each is answered yes, no,
   or not at this precision, which is then doubled. *)

open Refuse

type answer = Yes | No | Unknown

let first_bits = 128
let last_bits = 16_384

(* Does the claimed enclosure hold the number? Our own bounds inside: yes. Apart: no. *)
let holds (lo, hi) (low, high) =
  if Exact.at_most lo low && Exact.at_most high hi then Yes
  else if Exact.less high lo || Exact.less hi low then No
  else Unknown

let less (a, a') (b, b') = if Exact.less a' b then Yes else if Exact.at_most b' a then No else Unknown
let opposite = function Yes -> No | No -> Yes | Unknown -> Unknown
let at_least a b = opposite (less a b)
let at_most a b = at_least b a
let is condition = if condition then Yes else No
let proved condition = if condition then Yes else Unknown
let point q : Q.t * Q.t = (q, q)
let is_point (lo, hi) q = Exact.equal lo q && Exact.equal hi q

(* Returns when every question is answered yes at some precision. *)
let decide ?(most = last_bits) ask =
  let rec at bits =
    Real.bits := bits;
    let waiting =
      match ask () with
      | exception Undecided why -> Some why
      | questions ->
        List.iter (fun (says, answer) -> if answer = No then reject "not true: %s" says) questions;
        Option.map fst (List.find_opt (fun (_, answer) -> answer = Unknown) questions)
    in
    match waiting with
    | None -> ()
    | Some why -> if 2 * bits > most then give_up "undecided at %d bits: %s" bits why else at (2 * bits)
  in
  at first_bits

(* What a certificate consists of, and what the smaller statements share. *)

type certificate = {
  reading : Json.t;
  kind : string;
  inputs : Json.t;
  hypotheses : Json.t;
  quantities : Json.t;
  relation : Json.t;
}

let require_claim certificate kind relation =
  if certificate.kind <> kind || certificate.relation <> Json.String relation then
    reject "this statement has the kind %s and the relation %s" kind relation

(* The reading has exactly these keys, each with one of the listed values. *)
let require_reading certificate allowed =
  let get = Fields.closed certificate.reading (List.map fst allowed) "reading" in
  List.iter (fun (key, values) -> ignore (Fields.choice (get key) values ("reading." ^ key))) allowed;
  fun key -> Fields.choice (get key) (List.assoc key allowed) ("reading." ^ key)

let enclosures certificate names =
  let get = Fields.closed certificate.quantities names "quantities" in
  let found = List.map (fun name -> (name, Fields.enclosure (get name) ("quantities." ^ name))) names in
  fun name -> List.assoc name found

let no_hypotheses certificate =
  let (_ : string -> Json.t) = Fields.closed certificate.hypotheses [] "hypotheses" in
  ()
