(* Statements that a comparison of two computed numbers refutes, always lhs < rhs;
   rem:practical, thm:our_convergence:informal and fix:new_loss.

   Numbers that the paper reports are constants here: a certificate may repeat
   them, not choose them. *)

open Refuse
open Questions

type comparison = {
  reading : string;
  keys : string list;
  reported : (string * Q.t list) list;
  sides : (string -> Json.t) -> unit -> Real.t * Real.t;
      (** reads the inputs; then the two sides at the present precision *)
  says : string;
}

let q = Exact.fraction
let size get name = Fields.integer (get name) ("inputs." ^ name) 1 1_000_000
let small get name most = Fields.integer (get name) ("inputs." ^ name) 1 most
let positive get name = Fields.positive (get name) ("inputs." ^ name)
let exact_sides left right () = (Real.exact left, Real.exact right)
let product = List.fold_left Exact.mul Exact.one

let constant get =
  let r = positive get "R" in
  if Exact.at_most r Exact.one then reject "inputs.R must be > 1";
  r

let instance get most names =
  let n = small get "n" most and d = small get "d" most in
  let x = Fields.short_matrix (get "X") n d "inputs.X" in
  (n, d, x, List.map (fun name -> Fields.short_matrix (get name) d d ("inputs." ^ name)) names)

(* Some row of the attention depends on M: W is not 0 where a row of X is not, nor
   are all tokens equal there. *)
let require_movable x w =
  let several b = Array.exists (fun row -> not (Exact.equal row.(b) x.(0).(b))) x in
  let weighs a weights = Array.exists Fun.id (Array.mapi (fun b w -> Q.sign w <> 0 && several b) weights)
    && Array.exists (fun row -> Q.sign row.(a) <> 0) x in
  if not (Array.exists Fun.id (Array.mapi weighs w)) then
    reject "the attention must depend on M: one token, equal tokens or W = 0 say nothing"

let require_reported get (name, values) =
  let found =
    match get name with
    | Json.Int k -> Exact.int k
    | value -> Fields.rational value ("inputs." ^ name)
  in
  if not (List.exists (Exact.equal found) values) then
    reject "inputs.%s must be what the paper reports, %s" name
      (String.concat " or " (List.map Q.to_string values))

let check_among comparisons certificate =
  require_claim certificate "refutation" "lhs<rhs";
  let reading = require_reading certificate [ ("of", List.map (fun c -> c.reading) comparisons) ] in
  let comparison = List.find (fun c -> c.reading = reading "of") comparisons in
  let get = Fields.closed certificate.inputs comparison.keys "inputs" in
  List.iter (require_reported get) comparison.reported;
  no_hypotheses certificate;
  let claimed = enclosures certificate [ "lhs"; "rhs" ] in
  let sides = comparison.sides get in
  decide (fun () ->
      let left, right = sides () in
      let lhs = Real.ends left and rhs = Real.ends right in
      [ ("lhs", holds (claimed "lhs") lhs); ("rhs", holds (claimed "rhs") rhs); ("lhs<rhs", less lhs rhs) ]);
  "refutation: " ^ comparison.says

(* T at M_0 = 1 and eta -> 1/L is 2 lambda d^2 L / (mu eps n^2): at the smaller and
   at the larger lambda. *)
let running_time get =
  let n = size get "n" and d = size get "d" and r = constant get in
  let mu = positive get "mu" and epsilon = positive get "epsilon" in
  let small = positive get "lambda_small" and large = positive get "lambda_large" in
  if not (Exact.less small large && Exact.at_most large Exact.one) then
    reject "lambda_small must be below lambda_large, at most 1";
  let time lambda =
    let front = Exact.div (product [ Exact.int (2 * d * d); lambda ]) (product [ mu; epsilon; Exact.int (n * n) ]) in
    Real.mul (Real.exact front) (Setting.paper_lipschitz n d r lambda)
  in
  fun () -> (time small, time large)

(* L(large)/L(small) against large/small: equal if eta = const/lambda followed from const/L. *)
let step_size get =
  let n = size get "n" and d = size get "d" and r = constant get in
  let small = positive get "lambda_small" and large = positive get "lambda_large" in
  let l = Setting.paper_lipschitz n d r in
  fun () -> (Real.div (l large) (l small), Real.exact (Exact.div large small))

(* L^2, which does not depend on M, against ||grad L(M)||_F^2. *)
let unbounded_gradient get =
  let n, d, x, squares = instance get 4 [ "W"; "M" ] in
  let w = List.hd squares and m = List.nth squares 1 in
  require_movable x w;
  let lambda = positive get "lambda" and r = constant get in
  if Exact.less Exact.one lambda then reject "inputs.lambda must be at most 1";
  if Exact.less (Exact.square r) (Exact.max (Exact.frobenius_sq x) (Exact.frobenius_sq w)) then
    reject "inputs.R must bound ||X||_F and ||W||_F";
  let mask = Fields.full n in
  let z = Attention.of_mask x w mask m and dense = Attention.dense x w mask in
  fun () ->
    let slope = (Attention.loss x z dense).slope in
    let gradient = Attention.gradient slope w (Attention.real_matrix m) lambda in
    (Real.square (Setting.paper_lipschitz n d r lambda), Attention.norm_sq gradient)

(* L(M_t) and L(M_{t+1}) for M_{t+1} = M_t - eta grad L(M_t) + momentum (M_t - M_{t-1}),
   M_0 = 1, although eta < 1/K: without momentum the loss never rises. *)
let momentum get =
  let n, _, x, squares = instance get 4 [ "W" ] in
  require_movable x (List.hd squares);
  let lambda = positive get "lambda" and eta = positive get "eta" and momentum = positive get "momentum" in
  let t = Fields.integer (get "t") "inputs.t" 0 50 in
  let s = Setting.plain x (List.hd squares) lambda (Fields.full n) in
  if
    not
      (Exact.less (Exact.mul eta (Setting.proven_lipschitz s)) Exact.one
      && Exact.at_most lambda Exact.one && Exact.less momentum Exact.one)
  then reject "inputs.eta must be below 1/K, lambda at most 1, momentum below 1";
  let half_lambda = Real.exact (Exact.div lambda (Exact.int 2)) in
  fun () ->
    let loss m (now : Setting.state) =
      Real.add (Real.div now.c_sq (Real.int 2)) (Real.mul half_lambda (Setting.norm_sq s m))
    in
    let rec from k before m =
      let now = Setting.state s m in
      let moved = Bounds.minus before m in
      let next = Setting.step (Setting.step m eta now.gradient) momentum moved in
      if k = t then (loss m now, loss next (Setting.state s next)) else from (k + 1) m next
    in
    let ones = Setting.constant s Real.one in
    from 0 ones ones

(* A row of F sums to 1: its least entry is at most 1/n. *)
let reported_delta get = exact_sides (q 1 (size get "n")) (positive get "delta")

(* The experiments set lambda = lambda~ / n; the definition's lambda~ must be in [0, 1]. *)
let lambda_range get = exact_sides Exact.one (Exact.mul (Exact.int (size get "n")) (positive get "lambda"))

(* A step multiplies the regulariser's part of M by 1 - eta n lambda. *)
let contraction get =
  let shrink = product [ positive get "eta"; Exact.int (size get "n"); positive get "lambda" ] in
  exact_sides Exact.one (Exact.abs (Exact.sub Exact.one shrink))

(* xi/2 >= 3 lambda d / (sqrt(n) delta), as max|W| >= min|W| and ||X||_F^2 >= n beta;
   L_attn / n^2 <= 1/n always. *)
let vacuous get =
  let n = size get "n" and d = size get "d" in
  let front = Exact.div (product [ Exact.int (3 * d); positive get "lambda" ]) (positive get "delta") in
  fun () -> (Real.exact (q 1 n), Real.div (Real.exact front) (Real.sqrt (Real.int n)))

let largest_double = Q.of_bigint (Z.sub (Z.shift_left Z.one 1024) (Z.shift_left Z.one 971))

(* The largest double against exp of the largest logit, computed without a shift. *)
let overflow get =
  let _, _, x, squares = instance get 8 [ "W" ] in
  require_movable x (List.hd squares);
  let logits = Attention.entries (Exact.sandwich x (List.hd squares)) in
  let top = List.fold_left Exact.max (List.hd logits) logits in
  fun () -> (Real.exact largest_double, Real.exp (Real.exact top))

(* lambda / k, the regulariser's strength beside a mean loss over k inputs. *)
let batch get =
  let few = size get "k_small" and many = size get "k_large" and lambda = positive get "lambda" in
  exact_sides (Exact.div lambda (Exact.int many)) (Exact.div lambda (Exact.int few))

(* Columns of W_K and of W_Q: (M_Q o W_Q)(M_K o W_K)^T needs them equal. *)
let head_columns get =
  let width = size get "head_width" in
  exact_sides (Exact.int (size get "key_heads" * width)) (Exact.int (size get "query_heads" * width))

(* Half of every MLP and of the last layer's W_Q and W_K over all parameters (tied embeddings). *)
let pruned_share get =
  let number name = Exact.int (size get name) in
  let d = number "d" and key = number "key_columns" in
  let inner = number "inner" and layers = number "layers" and words = number "vocabulary" in
  let mlp = product [ Exact.int 3; d; inner; layers ] in
  let keys = Exact.mul d key and square = Exact.square d in
  let attention = product [ Exact.int 2; Exact.add square keys; layers ] in
  let total = Exact.add (Exact.add mlp attention) (Exact.mul words d) in
  let pruned = Exact.add mlp (Exact.add square keys) in
  exact_sides (Exact.div pruned (Exact.mul (Exact.int 2) total)) (q 1 2)

(* lambda/2 (||M_Q||^2 + ||M_K||^2), and the same as printed, without lambda. *)
let regulariser get =
  let d = small get "d" 16 and m = small get "m" 16 in
  let lambda = positive get "lambda" in
  let norm name = Exact.frobenius_sq (Fields.short_matrix (get name) d m ("inputs." ^ name)) in
  let half = Exact.div (Exact.add (norm "M_Q") (norm "M_K")) (Exact.int 2) in
  (Exact.mul lambda half, half)

let printed_regulariser get =
  let repaired, printed = regulariser get in
  exact_sides repaired printed

(* v with A v = 1, by elimination; reject if A is singular. *)
let solution_for_ones a =
  let n = Array.length a in
  let rows = Array.map (fun row -> Array.append row [| Exact.one |]) a in
  for k = 0 to n - 1 do
    let pivot = ref k in
    while !pivot < n && Q.sign rows.(!pivot).(k) = 0 do incr pivot done;
    if !pivot = n then reject "X is singular";
    let chosen = rows.(!pivot) in
    rows.(!pivot) <- rows.(k);
    rows.(k) <- Array.map (fun entry -> Exact.div entry chosen.(k)) chosen;
    for i = 0 to n - 1 do
      if i <> k then begin
        let factor = rows.(i).(k) in
        rows.(i) <- Array.map2 (fun p r -> Exact.sub p (Exact.mul factor r)) rows.(i) rows.(k)
      end
    done
  done;
  Array.map (fun row -> row.(n)) rows

(* lem:grad_rec's line without its double sum: the sum over (i_0, j_0) of the term
   against its largest or smallest single term. F and f are free positive rows
   summing to 1: with X invertible and X v = 1 solved by a v without zeros they are
   those of W = X^-1 (log f + k) X^-T and M o W = X^-1 (log F + k/2) X^-T, M near
   1/2 for a large constant k. *)
let dropped_sum get =
  let n = Fields.integer (get "n") "inputs.n" 2 6 and d = Fields.integer (get "d") "inputs.d" 1 6 in
  let x = Fields.short_matrix (get "X") n d "inputs.X" in
  let square name = Fields.short_matrix (get name) n n ("inputs." ^ name) in
  let pruned = square "F" and dense = square "f" in
  let stochastic row =
    Array.for_all (fun e -> Q.sign e > 0) row && Exact.equal (Exact.sum row) Exact.one
  in
  if not (Array.for_all stochastic pruned && Array.for_all stochastic dense) then
    reject "rows of F and f must be positive and sum to 1";
  if n <> d || Array.exists (fun e -> Q.sign e = 0) (solution_for_ones x) then
    reject "X must be square and invertible, and X v = 1 must have a solution without zeros";
  let weight = positive get "W_entry" in
  let a = Fields.integer (get "i_1") "inputs.i_1" 0 (d - 1) in
  let b = Fields.integer (get "j_1") "inputs.j_1" 0 (d - 1) in
  let terms =
    List.concat
      (List.init n (fun i ->
           let mean = Exact.sum (Array.mapi (fun k f -> Exact.mul f x.(k).(b)) pruned.(i)) in
           List.init n (fun j ->
               let f = pruned.(i).(j) in
               product [ Exact.sub f dense.(i).(j); f; weight; x.(i).(a); Exact.sub x.(j).(b) mean ])))
  in
  let first = List.hd terms in
  let low = List.fold_left Exact.min first terms and high = List.fold_left Exact.max first terms in
  let total = List.fold_left Exact.add Exact.zero terms in
  if Exact.less high total then exact_sides high total
  else if Exact.less total low then exact_sides total low
  else reject "the sum lies between the single terms here: take another instance"

(* Z X^T with Z (m x d) and X (n x m) needs d = m. *)
let not_conformable get =
  let m = size get "m" and d = size get "d" in
  exact_sides (Exact.int d) (Exact.int m)

(* Zeros of M = 1, where L_attn = 0 is least over the box, against floor(rho d^2). *)
let nothing_pruned get =
  let _, d, x, squares = instance get 6 [ "W" ] in
  require_movable x (List.hd squares);
  let rho = Fields.rational ~digits:20 (get "rho") "inputs.rho" in
  let wanted = Exact.floor (Exact.mul rho (Exact.int (d * d))) in
  if Z.sign wanted <= 0 || Z.geq wanted (Z.of_int (d * d)) then
    reject "inputs.rho must prune something and keep something";
  exact_sides Exact.zero (Q.of_bigint wanted)

let comparisons =
  let one = Exact.int in
  let case statement reading keys sides says reported =
    (statement, { reading; keys; reported; sides; says })
  in
  let synthetic = [ ("n", [ one 128 ]); ("lambda", [ q 1 25 ]) ] in
  let sweep =
    [ ("n", [ one 128 ]); ("d", [ one 64 ]); ("lambda_small", [ q 1 1000 ]); ("lambda_large", [ q 1 10 ]) ]
  in
  [
    case "exp:smaller_lam_takes_longer" "T at two lambdas"
      [ "n"; "d"; "R"; "mu"; "epsilon"; "lambda_small"; "lambda_large" ]
      running_time "T increases with lambda: a small lambda does not make the run longer" sweep;
    case "exp:step_size" "1/L against 1/lambda"
      [ "n"; "d"; "R"; "lambda_small"; "lambda_large" ]
      step_size "1/L is not inversely proportional to lambda" sweep;
    case "exp:gradient_bounded" "one M"
      [ "n"; "d"; "X"; "W"; "M"; "lambda"; "R" ]
      unbounded_gradient "||grad L(M)|| exceeds the Lipschitz constant: it is not bounded" [];
    case "exp:momentum" "heavy ball"
      [ "n"; "d"; "X"; "W"; "lambda"; "eta"; "momentum"; "t" ]
      momentum "with momentum the loss rises although eta < 1/K"
      [ ("momentum", [ q 9 10 ]) ];
    case "exp:reported_delta" "rho sweep" [ "n"; "delta" ] reported_delta "the reported delta exceeds 1/n"
      [ ("n", [ one 512 ]); ("delta", [ q 1 400 ]) ];
    case "exp:lam_in_unit_interval" "synthetic" [ "n"; "lambda" ] lambda_range
      "the lambda of the definition exceeds 1" synthetic;
    case "exp:lam_in_unit_interval" "step with it" [ "n"; "lambda"; "eta" ] contraction
      "|1 - eta lambda| > 1: a step expands what it should shrink"
      (("eta", [ q 5 2 ]) :: synthetic);
    case "exp:supports_theory" "size of the bound" [ "n"; "d"; "lambda"; "delta" ] vacuous
      "xi/2 exceeds the largest possible L_attn/n^2"
      [
        ("n", List.map one [ 128; 256; 400; 512 ]); ("d", [ one 2048 ]);
        ("lambda", [ q 1 20 ]); ("delta", [ q 1 400 ]);
      ];
    case "exp:exp_is_computable" "one instance" [ "n"; "d"; "X"; "W" ] overflow
      "exp of a logit exceeds the largest double" [];
    case "exp:batch_regulariser" "two batches" [ "lambda"; "k_small"; "k_large" ] batch
      "equal lambda regularises larger batches less"
      [ ("lambda", [ q 1 25 ]) ];
    case "exp:square_weights" "Llama-3.2-1B" [ "key_heads"; "query_heads"; "head_width" ] head_columns
      "W_Q and W_K have different numbers of columns"
      [ ("key_heads", [ one 8 ]); ("query_heads", [ one 32 ]); ("head_width", [ one 64 ]) ];
    case "exp:whole_model_ratio" "Llama-3.2-1B" [ "d"; "key_columns"; "inner"; "layers"; "vocabulary" ]
      pruned_share "under half of the model is pruned"
      [
        ("d", [ one 2048 ]); ("key_columns", [ one 512 ]); ("inner", [ one 8192 ]);
        ("layers", [ one 16 ]); ("vocabulary", [ one 128256 ]);
      ];
    case "def:attn_prun" "minimum over the box" [ "n"; "d"; "X"; "W"; "rho" ] nothing_pruned
      "without a sparsity constraint M = 1, which prunes nothing, is optimal at lambda = 0" [];
    case "eq:new_loss" "literal" [ "d"; "m"; "M_Q"; "M_K"; "lambda" ] printed_regulariser
      "the printed regulariser lacks lambda" [];
    case "lem:grad_rec" "a line of the proof"
      [ "n"; "d"; "X"; "F"; "f"; "W_entry"; "i_1"; "j_1" ]
      dropped_sum "the proof's third line drops the double sum" [];
    case "fac:calculus" "part 3, line 4" [ "m"; "d" ] not_conformable "Z X^T is not conformable" [];
  ]

let checks =
  let names = List.sort_uniq compare (List.map fst comparisons) in
  let of_statement name = List.filter_map (fun (id, c) -> if id = name then Some c else None) comparisons in
  List.map (fun name -> (name, check_among (of_statement name))) names
