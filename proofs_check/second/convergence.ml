(* thm:our_convergence refuted, and fix:our_convergence on the same instances.

   With mu = 2 min|W| beta delta, xi = 12 n^-1.5 max|W| ||X||_F^2 lambda d / mu,
   eta < 1/L, L = lambda + 30 d n^3.5 R^6 and T = 4 L(M_0) / (eta mu eps n^2),
   gradient descent is said to have
     (1/n^2) min_{t<T} L_attn(M_t) + lambda^2/(mu n^2) ||M_t||_F^2 <= (xi + eps)/2.

   (a) K of `Setting.proven_lipschitz` is a Lipschitz constant of grad L; it is
       checked to be at most L, so a step eta < 1/L never increases L(M).
   (b) ||grad L_attn||_F <= max|W| ||X||_2^2 ||c||_F / 2, as the softmax Jacobian
       has norm at most 1/2, and ||c||_F^2 <= 2 L(M_0) along the descent. *)

open Refuse
open Questions

type theorem = { s : Setting.t; delta : Q.t; epsilon : Q.t; r : Q.t; mu : Q.t }

(* (xi + eps) / 2 *)
let threshold t =
  let scale =
    Exact.div
      (List.fold_left Exact.mul (Exact.int 12)
         [ Attention.largest_weight t.s.w; Setting.norm_x_sq t.s; t.s.lambda; Exact.int t.s.d ])
      (Exact.mul t.mu (Exact.int t.s.n))
  in
  let xi = Real.div (Real.exact scale) (Real.sqrt (Real.int t.s.n)) in
  Real.div (Real.add xi (Real.exact t.epsilon)) (Real.int 2)

let read certificate extra ~repaired =
  let reading =
    require_reading certificate
      [
        ("mask", [ "full"; "causal" ]);
        ("start", [ "zeros"; "ones" ]);
        ("mu", [ Pl.over_all; Pl.over_allowed; Pl.squared ]);
      ]
  in
  (* with a causal mask no delta > 0 exists over all positions *)
  let mu_read =
    if repaired then Pl.squared else if reading "mask" = "full" then Pl.over_all else Pl.over_allowed
  in
  if reading "mu" <> mu_read then reject "reading.mu must be %s here" mu_read;
  let keys = [ "n"; "d"; "sizes"; "X"; "W"; "lambda"; "beta"; "delta"; "epsilon"; "R" ] in
  let get = Fields.closed certificate.inputs (keys @ extra) "inputs" in
  let n = Fields.integer (get "n") "inputs.n" 2 8 and d = Fields.integer (get "d") "inputs.d" 1 1_000_000_000 in
  let sizes =
    Array.map (fun size -> Fields.integer size "a class size" 1 1_000_000_000) (Fields.list (get "sizes") "inputs.sizes")
  in
  let classes = Array.length sizes in
  if classes < 1 || classes > 8 then reject "inputs.sizes must list 1 to 8 class sizes";
  if Array.fold_left ( + ) 0 sizes <> d then reject "inputs.sizes must add up to d";
  let b = Fields.short_matrix ~digits:30 (get "X") n classes "inputs.X" in
  let w = Fields.short_matrix ~digits:30 (get "W") classes classes "inputs.W" in
  let number name = Fields.rational ~digits:60 (get name) ("inputs." ^ name) in
  let lambda = number "lambda" and beta = number "beta" and delta = number "delta" in
  let epsilon = number "epsilon" and r = number "R" in
  if Q.sign lambda < 0 || Exact.less Exact.one lambda then reject "inputs.lambda must lie in [0, 1]";
  if List.exists (fun q -> Q.sign q <= 0) [ beta; delta; epsilon ] then
    reject "inputs.beta, inputs.delta and inputs.epsilon must be > 0";
  if Exact.at_most r Exact.one then reject "inputs.R must be > 1";
  let smallest = Attention.smallest_weight w in
  if Q.sign smallest = 0 then reject "inputs.W must have no zero: mu would be 0";
  let s = { (Setting.plain b w lambda (Fields.named (reading "mask") n)) with d; sizes } in
  let norm_w = Real.lower (Setting.norm_sq s (Attention.real_matrix w)) in
  if Exact.less (Exact.square r) (Exact.max (Setting.norm_x_sq s) norm_w) then
    reject "inputs.R must bound ||X||_F and ||W||_F";
  let product = Exact.mul (Exact.mul smallest beta) delta in
  let mu = Exact.mul (Exact.int 2) (if repaired then Exact.square product else product) in
  let hypotheses = Fields.closed certificate.hypotheses [ "psd_pivots"; "delta_le_min_f" ] "hypotheses" in
  Setting.require_pivots (hypotheses "psd_pivots") (Setting.weighted_gram sizes b) beta;
  let claimed_min = Fields.enclosure (hypotheses "delta_le_min_f") "hypotheses.delta_le_min_f" in
  ({ s; delta; epsilon; r; mu }, get, reading, claimed_min)

let paper_constant_is_larger t =
  let paper = Real.ends (Setting.paper_lipschitz t.s.n t.s.d t.r t.s.lambda) in
  ("the proven Lipschitz constant is at most the paper's", at_least paper (point (Setting.proven_lipschitz t.s)))

(* One step has L(M - eta g) >= L(M) - eta ||g||^2 - (K/2) eta^2 ||g||^2
   >= L(M) - 1.5 eta ||g||^2, so L(M_t) >= L(M_0) - 1.5 eta T G^2 for t < T with G
   above ||grad L|| along the descent; eta T = 4 L(M_0) / (mu eps n^2) whatever
   eta is. And ||M_t||_F <= eta T G. *)
let refute_from_zeros certificate =
  let t, _, reading, claimed_min = read certificate [] ~repaired:false in
  let claimed = enclosures certificate [ "loss"; "eta_T"; "G"; "lhs"; "rhs" ] in
  let s = t.s in
  let slope =
    Exact.div (Exact.mul (Attention.largest_weight s.w) (Setting.spectral_bound s)) (Exact.int 2)
  in
  let n_sq = Real.int (s.n * s.n) in
  decide (fun () ->
      let start = Setting.state s (Setting.constant s Real.zero) in
      let loss = Real.div start.c_sq (Real.int 2) in
      let eta_t =
        Real.div (Real.mul (Real.int 4) loss)
          (Real.mul (Real.exact (Exact.mul t.mu t.epsilon)) n_sq)
      in
      let root = Real.sqrt (Real.mul (Real.int 2) loss) in
      (* lambda ||M|| <= sqrt(2 lambda L(M_0)) *)
      let g =
        Real.add (Real.mul (Real.exact slope) root)
          (Real.sqrt (Real.mul (Real.exact (Exact.mul (Exact.int 2) s.lambda)) loss))
      in
      let radius = Real.mul eta_t g in
      let descent = Real.mul (Real.exact (Exact.fraction 3 2)) (Real.mul eta_t (Real.square g)) in
      let mask_part = Real.mul (Real.exact (Exact.div s.lambda (Exact.int 2))) (Real.square radius) in
      let left = Real.ends (Real.div (Real.sub (Real.sub loss descent) mask_part) n_sq) in
      let right = Real.ends (threshold t) in
      let min_f = Setting.smallest_attention s radius in
      [
        paper_constant_is_larger t;
        ("delta <= F(M) on the box and at every iterate", at_least min_f (point t.delta));
        ("delta_le_min_f", holds claimed_min min_f);
        ("loss encloses L(M_0)", holds (claimed "loss") (Real.ends loss));
        ("eta_T encloses 4 L(M_0) / (mu eps n^2)", holds (claimed "eta_T") (Real.ends eta_t));
        ("G", holds (claimed "G") (Real.ends g));
        ("lhs", holds (claimed "lhs") left);
        ("rhs encloses (xi + eps)/2", holds (claimed "rhs") right);
        ("lhs>rhs", less right left);
      ]);
  Printf.sprintf "refutation: from M_0 = 0 no eta < 1/L reaches (xi + eps)/2 within T steps (%s mask)"
    (reading "mask")

(* The least value over all real tau of
     h(tau) = (sigma(tau) - sigma(tau_0))^2 + weight tau^2, sigma(t) = 1/(1 + exp(-t)),
   is at least `least` (on every cell, sigma being increasing) and at most `most`
   (at the given tau). *)
let require_valley tau_0 weight tau (least, most) =
  Real.bits := 128;
  let thousand = Exact.int 1000 in
  if
    Exact.less thousand (Exact.max (Exact.abs tau_0) (Exact.abs tau))
    || Q.sign weight <= 0 || Q.sign least <= 0
  then reject "the valley needs |tau| <= 1000, a positive weight and a positive lower end of lhs";
  (* h(0) <= 1/4: so large a number would also take long to surround *)
  if Exact.less (Exact.fraction 1 4) least then
    reject "not true: lhs is below the least value of h, which is at most h(0) <= 1/4";
  let sigma t = Real.inverse (Real.add Real.one (Real.exp (Real.exact (Exact.neg t)))) in
  let target = sigma tau_0 in
  let parabola t = Exact.mul weight (Exact.square t) in
  let value = Real.add (Real.square (Real.sub (sigma tau) target)) (Real.exact (parabola tau)) in
  if Exact.less most (Real.upper value) then reject "not true: h(tau) is below the upper end of lhs";
  let rec reach_from r = if Exact.less (parabola r) least then reach_from (Exact.mul r (Exact.int 2)) else r in
  let reach = reach_from Exact.one in
  (* outside [-reach, reach] the parabola alone is enough *)
  let below low high =
    let left = Real.lower (Real.sub (sigma low) target) and right = Real.upper (Real.sub (sigma high) target) in
    let gap = if Q.sign left > 0 then left else if Q.sign right < 0 then right else Exact.zero in
    let nearest = if Q.sign low > 0 then low else if Q.sign high < 0 then high else Exact.zero in
    Exact.add (Exact.square gap) (parabola nearest)
  in
  let cells = ref 0 in
  let rec cover low high =
    incr cells;
    if !cells > 2_000 then give_up "undecided: lhs is too close to the least value of h, or above it";
    if Exact.less (below low high) least then begin
      let middle = Exact.div (Exact.add low high) (Exact.int 2) in
      cover low middle;
      cover middle high
    end
  in
  cover (Exact.neg reach) reach

(* n = 2: for EVERY M, (L_attn(M) + lambda^2/mu ||M||^2) / n^2 >= lhs > (xi + eps)/2,
   so no iterate of any descent satisfies the guarantee. With tau = z_i1 - z_i2 =
   <V, M>, V = W o x_i (x_1 - x_2)^T, one row gives L_attn >= (sigma(tau) -
   sigma(tau_dense))^2, and ||M||_F >= |tau| / ||V||_F. The iterates from M_0 = 1
   have ||M_t||_F <= d, as L(M_0) = lambda d^2 / 2. *)
let refute_from_ones certificate =
  let t, get, reading, claimed_min = read certificate [ "row"; "tau" ] ~repaired:false in
  let s = t.s in
  if s.n <> 2 then reject "this refutation is for n = 2";
  let i = Fields.integer (get "row") "inputs.row" 0 1 in
  let tau = Fields.rational ~digits:30 (get "tau") "inputs.tau" in
  let claimed = enclosures certificate [ "lhs"; "rhs" ] in
  let v =
    Array.mapi (fun q row ->
        Array.mapi (fun r w ->
            Exact.mul (Exact.mul w s.b.(i).(q)) (Exact.sub s.b.(0).(r) s.b.(1).(r)))
          row)
      s.w
  in
  let norm_v = Real.lower (Setting.norm_sq s (Attention.real_matrix v)) in
  if Q.sign norm_v = 0 || not (Array.for_all Fun.id s.mask.(i)) then
    reject "row inputs.row of F must depend on M";
  let weight = Exact.div (Exact.square s.lambda) (Exact.mul t.mu norm_v) in
  let dense = Setting.logits s (Setting.constant s Real.one) in
  let tau_0 = Real.lower (Real.sub dense.(i).(0) dense.(i).(1)) in
  let low, high = claimed "lhs" in
  decide (fun () ->
      let min_f = Setting.smallest_attention s (Real.int s.d) in
      let right = Real.ends (threshold t) in
      [
        paper_constant_is_larger t;
        ("delta <= F(M) on the box and for ||M||_F <= d", at_least min_f (point t.delta));
        ("delta_le_min_f", holds claimed_min min_f);
        ("rhs encloses (xi + eps)/2", holds (claimed "rhs") right);
        ("lhs>rhs", less right (point low));
      ]);
  let n_sq = Exact.int (s.n * s.n) in
  require_valley tau_0 weight tau (Exact.mul low n_sq, Exact.mul high n_sq);
  Printf.sprintf "refutation: no M at all satisfies the guarantee (%s mask, d = %d)" (reading "mask") s.d

let check_refutation certificate =
  require_claim certificate "refutation" "lhs>rhs";
  match certificate.reading with
  | Object pairs when List.assoc_opt "start" pairs = Some (Json.String "ones") -> refute_from_ones certificate
  | _ -> refute_from_zeros certificate

(* With mu = 2 (min|W| beta delta)^2 and eta < 1/K an explicit iterate t < T
   satisfies the guarantee; delta is below F at every iterate up to it. *)
let check_repaired certificate =
  require_claim certificate "confirmation" "lhs<=rhs";
  let t, get, reading, claimed_min = read certificate [ "eta"; "t" ] ~repaired:true in
  let s = t.s in
  let eta = Fields.rational ~digits:60 (get "eta") "inputs.eta" in
  let last = Fields.integer (get "t") "inputs.t" 0 400 in
  Setting.require_affordable s last;
  if Q.sign eta <= 0 || not (Exact.less (Exact.mul eta (Setting.proven_lipschitz s)) Exact.one) then
    reject "inputs.eta must lie in (0, 1/K)";
  let claimed = enclosures certificate [ "T"; "lhs"; "rhs" ] in
  let start = if reading "start" = "ones" then Real.one else Real.zero in
  let n_sq = Real.int (s.n * s.n) in
  decide (fun () ->
      let m = ref (Setting.constant s start) in
      let now = ref (Setting.state s !m) in
      let half_lambda = Real.exact (Exact.div s.lambda (Exact.int 2)) in
      let loss =
        Real.add (Real.div !now.c_sq (Real.int 2)) (Real.mul half_lambda (Setting.norm_sq s !m))
      in
      (* (L_attn(M) + lambda^2/mu ||M||^2) / n^2 *)
      let reached (state : Setting.state) m =
        let scale = Exact.div (Exact.square s.lambda) t.mu in
        let mask_part = Real.mul (Real.exact scale) (Setting.norm_sq s m) in
        Real.ends (Real.div (Real.add (Real.div state.c_sq (Real.int 2)) mask_part) n_sq)
      in
      let first = reached !now !m in
      let smallest = ref (Attention.allowed_entries s.mask !now.f) in
      for _ = 1 to last do
        m := Setting.step !m eta !now.gradient;
        now := Setting.state s !m;
        smallest := Attention.allowed_entries s.mask !now.f @ !smallest
      done;
      let min_f = Real.least !smallest in
      let steps =
        Real.div (Real.mul (Real.int 4) loss)
          (Real.mul (Real.exact (List.fold_left Exact.mul eta [ t.mu; t.epsilon ])) n_sq)
      in
      let left = reached !now !m in
      let right = Real.ends (threshold t) in
      [
        ("delta <= F(M_s) for every s <= t", at_least min_f (point t.delta));
        ("delta_le_min_f encloses the least F(M_s)", holds claimed_min min_f);
        ("T encloses 4 L(M_0) / (eta mu eps n^2)", holds (claimed "T") (Real.ends steps));
        ("t < T", less (point (Exact.int last)) (Real.ends steps));
        ("lhs", holds (claimed "lhs") left);
        ("rhs encloses (xi + eps)/2", holds (claimed "rhs") right);
        ("lhs<=rhs", at_most left right);
        ("M_0 does not satisfy the guarantee: else no descent is needed", less right first);
      ]);
  Printf.sprintf "instance: M_%d satisfies the guarantee with the corrected mu (%s mask, d = %d, start %s)"
    last (reading "mask") s.d (reading "start")

(* exp:mask_stays_in_box refuted: descent from M_0 = 1 with eta < 1/K makes an
   entry negative, and ||M_s||_F <= d all along. *)
let check_box_exit certificate =
  require_claim certificate "refutation" "lhs<rhs";
  let (_ : string -> string) = require_reading certificate [ ("mask", [ "full" ]); ("start", [ "ones" ]) ] in
  let get = Fields.closed certificate.inputs [ "n"; "d"; "X"; "W"; "lambda"; "eta"; "t" ] "inputs" in
  let n = Fields.integer (get "n") "inputs.n" 1 4 and d = Fields.integer (get "d") "inputs.d" 1 4 in
  let x = Fields.short_matrix ~digits:30 (get "X") n d "inputs.X" in
  let w = Fields.short_matrix ~digits:30 (get "W") d d "inputs.W" in
  let lambda = Fields.positive (get "lambda") "inputs.lambda" and eta = Fields.positive (get "eta") "inputs.eta" in
  let t = Fields.integer (get "t") "inputs.t" 1 2_000 in
  let s = Setting.plain x w lambda (Fields.full n) in
  Setting.require_affordable s t;
  if
    Exact.less Exact.one lambda
    || not (Exact.less (Exact.mul eta (Setting.proven_lipschitz s)) Exact.one)
  then reject "inputs.lambda must lie in (0, 1] and inputs.eta in (0, 1/K)";
  no_hypotheses certificate;
  let claimed = enclosures certificate [ "norm_sq"; "lhs"; "rhs" ] in
  let rhs_is_zero = is (is_point (claimed "rhs") Exact.zero) in
  decide (fun () ->
      let m = ref (Setting.constant s Real.one) and inside = ref [] in
      for _ = 1 to t do
        m := Setting.step !m eta (Setting.state s !m).gradient;
        let norm = Real.ends (Setting.norm_sq s !m) in
        inside := ("||M_s||_F <= d for every s <= t", at_most norm (point (Exact.int (d * d)))) :: !inside
      done;
      let least = Real.least (Attention.entries !m) in
      [
        ("norm_sq encloses ||M_t||_F^2", holds (claimed "norm_sq") (Real.ends (Setting.norm_sq s !m)));
        ("lhs encloses the smallest entry of M_t", holds (claimed "lhs") least);
        ("rhs is 0", rhs_is_zero);
        ("lhs<rhs", less least (point Exact.zero));
      ]
      @ !inside);
  Printf.sprintf "refutation: an entry of M_%d is negative, and ||M_s||_F <= d for every s <= %d" t t
