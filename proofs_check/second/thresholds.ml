(* alg:mask_gd, its last lines: tau = m_sorted[floor(rho d^2)], an entry becomes 1
   if it is > tau, else 0. Wanted: floor(rho d^2) zeros, the smallest entries.
   Four readings of "sort" and of indexing, and the repaired rule. *)

open Refuse
open Questions

type found = Count of int | Out_of_range

let read certificate =
  let get = Fields.closed certificate.inputs [ "d"; "M"; "rho" ] "inputs" in
  let d = Fields.integer (get "d") "inputs.d" 1 16 in
  let entries = Array.concat (Array.to_list (Fields.matrix (get "M") d d "inputs.M")) in
  let rho = Fields.list (get "rho") "inputs.rho" in
  let rho = Fields.rationals (get "rho") (Array.length rho) "inputs.rho" in
  let ratio q = Q.sign q >= 0 && Exact.at_most q Exact.one in
  if Array.length rho < 1 || Array.length rho > 20 || not (Array.for_all ratio rho) then
    reject "inputs.rho must list 1 to 20 ratios in [0, 1]";
  no_hypotheses certificate;
  let quantities = Fields.closed certificate.quantities [ "zeros"; "wanted" ] "quantities" in
  let count = function
    | Json.Int k -> Count k
    | String "out of range" -> Out_of_range
    | _ -> reject "quantities.zeros and quantities.wanted list counts, or \"out of range\""
  in
  let counts name = Array.map count (Fields.list (quantities name) ("quantities." ^ name)) in
  let wanted = Array.map (fun q -> Z.to_int (Exact.floor (Exact.mul q (Exact.int (d * d))))) rho in
  (entries, wanted, counts "zeros", counts "wanted")

let check_printed certificate =
  require_claim certificate "refutation" "zeros!=wanted";
  let reading =
    require_reading certificate [ ("order", [ "ascending"; "descending" ]); ("base", [ "0"; "1" ]) ]
  in
  let entries, wanted, zeros, claimed_wanted = read certificate in
  let ordered = Array.copy entries in
  Array.sort (if reading "order" = "ascending" then Exact.compare else fun a b -> Exact.compare b a) ordered;
  let pruned count =
    let index = if reading "base" = "1" then count - 1 else count in
    if index < 0 || index >= Array.length ordered then Out_of_range
    else
      let below = List.filter (fun e -> Exact.at_most e ordered.(index)) (Array.to_list entries) in
      Count (List.length below)
  in
  let expected = Array.map (fun count -> Count count) wanted in
  let found = Array.map pruned wanted in
  if zeros <> found || claimed_wanted <> expected then
    reject "quantities.zeros and quantities.wanted are not what the pseudocode gives";
  let fails i count = count > 0 && count < Array.length entries && found.(i) <> expected.(i) in
  if not (Array.exists Fun.id (Array.mapi fails wanted)) then
    reject "not true at a ratio that prunes something and keeps something";
  Printf.sprintf "refutation: %s, indices from %s: not floor(rho d^2) zeros" (reading "order") (reading "base")

(* fix:mask_gd: a stable ascending sort, the first floor(rho d^2) set to 0, the rest
   to 1. An index is pruned if fewer than that many come before it. *)
let check_repaired certificate =
  require_claim certificate "confirmation" "zeros==wanted";
  let (_ : string -> string) = require_reading certificate [ ("order", [ "ascending, ties by index" ]) ] in
  let entries, wanted, zeros, claimed_wanted = read certificate in
  if not (Array.exists (fun count -> count > 0 && count < Array.length entries) wanted) then
    reject "at one ratio of inputs.rho at least something must be pruned and something kept";
  let before i j =
    let order = Exact.compare entries.(i) entries.(j) in
    order < 0 || (order = 0 && i < j)
  in
  let all = List.init (Array.length entries) Fun.id in
  let rank = Array.init (Array.length entries) (fun j -> List.length (List.filter (fun i -> before i j) all)) in
  let holds count =
    let pruned, kept = List.partition (fun j -> rank.(j) < count) all in
    List.length pruned = count
    && List.for_all (fun i -> List.for_all (fun j -> Exact.at_most entries.(i) entries.(j)) kept) pruned
  in
  if not (Array.for_all holds wanted) then reject "not true at some ratio";
  let expected = Array.map (fun count -> Count count) wanted in
  if zeros <> expected || claimed_wanted <> expected then
    reject "quantities.zeros and quantities.wanted must both be floor(rho d^2)";
  Printf.sprintf "instance: exactly floor(rho d^2) zeros, the smallest entries, at %d ratios" (Array.length wanted)
