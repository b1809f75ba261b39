(* second FILE ...      one line a file, ACCEPT, REJECT or UNDECIDED and why; exit 0 if
                        every file is accepted, 1 if one is rejected, else 3.
   second --stream      certificates from standard input, each behind a line with
                        its number of bytes; one line of answer each. *)

open Refuse

let schema = "attnprune-cert/1"
let paper_sha256 = "21d7f352cf0adbb5d7ec519f6cb72429e634623521a1d29561a73dc05ad80973"

let checks =
  [
    ("lem:PL_ineq", Pl.check);
    ("thm:our_convergence", Convergence.check_refutation);
    ("fix:our_convergence", Convergence.check_repaired);
    ("exp:mask_stays_in_box", Convergence.check_box_exit);
    ("new:spurious_minima", Spurious.check);
    ("thm:our_convergence:informal", Remark.check_informal);
    ("rem:practical", Remark.check_remark);
    ("fix:new_loss", Remark.check_regulariser);
    ("fix:practical", Bounds.check_floor);
    ("fix:attn_prun", Bounds.check_best_mask);
    ("new:best_mask", Leaves.check);
    ("new:certified_mask_gap", Gap.check);
    ("new:descent_mask_far_from_best", Returned.check);
    ("new:certified_stationary_point", Stationary.check);
    ("alg:mask_gd", Thresholds.check_printed);
    ("fix:mask_gd", Thresholds.check_repaired);
  ]
  @ Bounds.checks @ Prose.checks

let check text =
  let get =
    Fields.closed (Json.parse text)
      [
        "schema"; "statement"; "reading"; "kind"; "paper_sha256"; "inputs"; "hypotheses"; "quantities";
        "claim"; "producer";
      ]
      "the certificate"
  in
  if get "schema" <> Json.String schema then reject "schema must be %s" schema;
  let statement = Fields.choice (get "statement") (List.map fst checks) "statement" in
  let kind = Fields.choice (get "kind") [ "refutation"; "confirmation" ] "kind" in
  if get "paper_sha256" <> Json.String paper_sha256 then
    reject "paper_sha256 is not the hash of the paper these statements are taken from";
  let producer = Fields.closed (get "producer") [ "tool"; "prec_bits" ] "producer" in
  Fields.text (producer "tool") "producer.tool";
  ignore (Fields.integer (producer "prec_bits") "producer.prec_bits" 0 1_000_000_000);
  let relation = Fields.closed (get "claim") [ "relation" ] "claim" "relation" in
  let certificate : Questions.certificate =
    {
      reading = get "reading";
      kind;
      inputs = get "inputs";
      hypotheses = get "hypotheses";
      quantities = get "quantities";
      relation;
    }
  in
  statement ^ ": " ^ (List.assoc statement checks) certificate

(* A fault of this program must never pass as an acceptance. *)
let judge read =
  Refuse.spent := 0.;
  match check (read ()) with
  | reason -> ("ACCEPT", reason)
  | exception Reject reason -> ("REJECT", reason)
  | exception Gave_up reason -> ("UNDECIDED", reason)
  | exception Undecided reason -> ("UNDECIDED", "undecided: " ^ reason)
  | exception Stack_overflow -> ("UNDECIDED", "the check broke down (stack)")
  | exception Out_of_memory -> ("UNDECIDED", "the check broke down (memory)")
  | exception error -> ("UNDECIDED", "the check broke down (" ^ Printexc.to_string error ^ ")")

let line (word, reason) name = Printf.sprintf "%s %s%s" word name (String.escaped reason)

let stream () =
  set_binary_mode_in stdin true;
  try
    while true do
      let long =
        match int_of_string_opt (input_line stdin) with
        | Some long when long >= 0 && long <= 100_000_000 -> long
        | _ ->
          prerr_endline "error: each certificate stands behind a line with its number of bytes";
          exit 2
      in
      let text = really_input_string stdin long in
      print_endline (line (judge (fun () -> text)) "")
    done
  with End_of_file -> exit 0

let files names =
  let words =
    List.map
      (fun name ->
        let verdict = judge (fun () -> Json.read name) in
        print_endline (line verdict (String.escaped (Filename.basename name) ^ ": "));
        fst verdict)
      names
  in
  let accepted = List.length (List.filter (String.equal "ACCEPT") words) in
  Printf.printf "%d of %d certificates accepted\n" accepted (List.length names);
  exit (if List.mem "REJECT" words then 1 else if accepted = List.length names then 0 else 3)

let () =
  match List.tl (Array.to_list Sys.argv) with
  | [ "--stream" ] -> stream ()
  | [] | [ "-h" ] | [ "--help" ] ->
    print_endline "usage: second FILE ... | second --stream";
    exit 2
  | names when List.exists (fun name -> List.mem name [ "-h"; "--help"; "--stream" ]) names ->
    prerr_endline "error: -h, --help and --stream stand alone; a file of that name is ./NAME";
    exit 2
  | names -> (
    match List.find_opt (fun name -> String.starts_with ~prefix:"-" name && not (Sys.file_exists name)) names with
    | Some name ->
      prerr_endline ("error: no option " ^ String.escaped name ^ ", and no file of that name");
      exit 2
    | None -> files names)
