(* How a certificate fails, and the one budget of work.

   Every multiplication, division, greatest common divisor and root of this
   program is charged here before it is done, exact or enclosed, so no input
   can cost more than the limit: then the certificate is not judged, whatever
   it says. The unit is about a nanosecond of one core. *)

exception Reject of string
(** The certificate is not accepted; the text says why. *)

exception Gave_up of string
(** The certificate could not be judged within the limits; the text says which. *)

exception Undecided of string
(** Not to be decided at this precision; the caller doubles it. *)

let reject format = Printf.ksprintf (fun text -> raise (Reject text)) format
let give_up format = Printf.ksprintf (fun text -> raise (Gave_up text)) format

let limit = 1.5e9
let spent = ref 0.

let charge cost =
  spent := !spent +. cost;
  if !spent > limit then
    give_up "undecided: this needs more work than the limit allows"

(* Products of numbers of that many words; above 30 words Karatsuba and faster. *)
let product_cost p q =
  let short = float_of_int (1 + min p q) and long = float_of_int (1 + max p q) in
  if short < 30. then 60. +. (0.6 *. short *. long)
  else 60. +. (2.5 *. long *. (short ** 0.6))

let charge_product a b = charge (product_cost (Z.size a) (Z.size b))

(* A division or a greatest common divisor. *)
let charge_division a b =
  charge (80. +. (4. *. product_cost (Z.size a) (Z.size b)))
