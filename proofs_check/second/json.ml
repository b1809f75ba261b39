(* A strict reader of JSON: UTF-8, no byte order mark, bounded size, depth and
   integers, no fractions or exponents, no key twice, no half of a surrogate
   pair, nothing after the value. *)

open Refuse

type t =
  | Null
  | Bool of bool
  | Int of int
  | String of string
  | List of t array
  | Object of (string * t) list

(* A tree, not a table: keys that all hash to one number must cost no more than others. *)
module Names = Set.Make (String)

let most_bytes = 300_000
let most_levels = 12
let most_digits = 12

let check_utf8 text =
  let n = String.length text in
  let byte i = if i < n then Char.code text.[i] else 0 in
  let continues i = byte i land 0xC0 = 0x80 in
  let rec go i =
    if i < n then
      let b = byte i in
      if b < 0x80 then go (i + 1)
      else if b >= 0xC2 && b <= 0xDF && continues (i + 1) then go (i + 2)
      else if
        (b = 0xE0 && byte (i + 1) >= 0xA0 && byte (i + 1) <= 0xBF
        || (b >= 0xE1 && b <= 0xEC && continues (i + 1))
        || (b = 0xED && byte (i + 1) >= 0x80 && byte (i + 1) <= 0x9F)
        || (b >= 0xEE && b <= 0xEF && continues (i + 1)))
        && continues (i + 2)
      then go (i + 3)
      else if
        (b = 0xF0 && byte (i + 1) >= 0x90 && byte (i + 1) <= 0xBF
        || (b >= 0xF1 && b <= 0xF3 && continues (i + 1))
        || (b = 0xF4 && byte (i + 1) >= 0x80 && byte (i + 1) <= 0x8F))
        && continues (i + 2) && continues (i + 3)
      then go (i + 4)
      else reject "not UTF-8 text"
  in
  go 0

let parse text =
  if String.length text > most_bytes then reject "a certificate is at most %d bytes" most_bytes;
  check_utf8 text;
  let n = String.length text and at = ref 0 in
  let fail () = reject "not JSON: at byte %d" !at in
  let peek () = if !at < n then text.[!at] else '\000' in
  let skip () = while !at < n && String.contains " \t\r\n" text.[!at] do incr at done in
  let expect c = if !at < n && text.[!at] = c then incr at else fail () in
  let word name value =
    let long = String.length name in
    if !at + long <= n && String.sub text !at long = name then (at := !at + long; value) else fail ()
  in
  let digits () =
    let from = !at in
    while (match peek () with '0' .. '9' -> true | _ -> false) do incr at done;
    String.sub text from (!at - from)
  in
  let integer () =
    let negative = peek () = '-' in
    if negative then incr at;
    let found = digits () in
    let long = String.length found in
    if long = 0 || (long > 1 && found.[0] = '0') then fail ();
    (match peek () with
    | '.' | 'e' | 'E' -> reject "numbers are integers or 'p/q' strings"
    | _ -> ());
    if long > most_digits then reject "a JSON integer has at most %d digits" most_digits;
    Int (if negative then -int_of_string found else int_of_string found)
  in
  let hexadecimal () =
    let digit c =
      match c with
      | '0' .. '9' -> Char.code c - 48
      | 'a' .. 'f' -> Char.code c - 87
      | 'A' .. 'F' -> Char.code c - 55
      | _ -> fail ()
    in
    let value = ref 0 in
    for _ = 1 to 4 do
      value := (16 * !value) + digit (peek ());
      incr at
    done;
    !value
  in
  let escaped into =
    match peek () with
    | ('"' | '\\' | '/') as c -> incr at; Buffer.add_char into c
    | 'b' -> incr at; Buffer.add_char into '\b'
    | 'f' -> incr at; Buffer.add_char into '\012'
    | 'n' -> incr at; Buffer.add_char into '\n'
    | 'r' -> incr at; Buffer.add_char into '\r'
    | 't' -> incr at; Buffer.add_char into '\t'
    | 'u' ->
      incr at;
      let unit_ = hexadecimal () in
      let code =
        if unit_ < 0xD800 || unit_ > 0xDFFF then unit_
        else if unit_ > 0xDBFF then reject "half of a surrogate pair"
        else if !at + 1 < n && text.[!at] = '\\' && text.[!at + 1] = 'u' then begin
          at := !at + 2;
          let second = hexadecimal () in
          if second < 0xDC00 || second > 0xDFFF then reject "half of a surrogate pair";
          0x10000 + ((unit_ - 0xD800) * 0x400) + (second - 0xDC00)
        end
        else reject "half of a surrogate pair"
      in
      Buffer.add_utf_8_uchar into (Uchar.of_int code)
    | _ -> fail ()
  in
  let string () =
    expect '"';
    let into = Buffer.create 16 in
    let rec go () =
      if !at >= n then fail ();
      match text.[!at] with
      | '"' -> incr at
      | '\\' -> incr at; escaped into; go ()
      | c when Char.code c < 0x20 -> fail ()
      | c -> incr at; Buffer.add_char into c; go ()
    in
    go ();
    Buffer.contents into
  in
  (* The items between brackets, in their order. *)
  let rec items close item found =
    skip ();
    let found = item () :: found in
    skip ();
    if peek () = ',' then (incr at; items close item found) else (expect close; List.rev found)
  in
  let rec value level =
    skip ();
    match peek () with
    | '{' ->
      enter level;
      let seen = ref Names.empty in
      let pair () =
        let key = string () in
        if Names.mem key !seen then reject "duplicate key %S" key;
        seen := Names.add key !seen;
        skip ();
        expect ':';
        (key, value (level + 1))
      in
      Object (between '}' pair)
    | '[' ->
      enter level;
      List (Array.of_list (between ']' (fun () -> value (level + 1))))
    | '"' -> String (string ())
    | '-' | '0' .. '9' -> integer ()
    | 't' -> word "true" (Bool true)
    | 'f' -> word "false" (Bool false)
    | 'n' -> word "null" Null
    | _ -> fail ()
  and enter level =
    if level > most_levels then reject "nested deeper than %d levels" most_levels;
    incr at
  and between : 'a. char -> (unit -> 'a) -> 'a list = fun close item ->
    skip ();
    if peek () = close && !at < n then (incr at; []) else items close item []
  in
  let whole = value 1 in
  skip ();
  if !at < n then fail ();
  whole

let read path =
  match Unix.stat path with
  | exception Unix.Unix_error (error, _, _) -> reject "cannot be read: %s" (Unix.error_message error)
  | { st_kind = S_REG; _ } -> (
    try
      let channel = open_in_bin path in
      Fun.protect
        ~finally:(fun () -> close_in_noerr channel)
        (fun () ->
          let chunk = Bytes.create (most_bytes + 1) in
          let rec fill from =
            let room = Bytes.length chunk - from in
            let got = if room = 0 then 0 else input channel chunk from room in
            if got = 0 then from else fill (from + got)
          in
          Bytes.sub_string chunk 0 (fill 0))
    with Sys_error error -> reject "cannot be read: %s" error)
  | _ -> reject "not a regular file"
