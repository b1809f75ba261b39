"""The bound that judges is never below what proofs_check/coq/rounding proves, nor far above it."""

import ast
import copy
import importlib.util
import sys
from fractions import Fraction
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest
from flint import arb, ctx

from attnprune_verify.audit.kernel.problem.precision import PRECISIONS
from attnprune_verify.audit.kernel.problem.sample import KernelSample
from attnprune_verify.audit.kernel.truth import bounds, forward_errors
from attnprune_verify.audit.kernel.truth.bounds import _Propagation, attention_errors
from attnprune_verify.audit.kernel.truth.calculus import Worst
from attnprune_verify.audit.kernel.truth.forward_errors import larger_logits, maximum_changes


def beside(name):
    spec = importlib.util.spec_from_file_location(f"kernel_{name}", Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


proved, programs = beside("proved"), beside("programs")

FACTOR = 30.0
"""By how much the program may exceed a theorem on a few logits of ordinary size: logits have 6 u |s|, a row's largest
3 u and shifts that lag 32 u, which no theorem covers.
In float16, whose subnormal weights are lost in part, which no theorem covers either, it may exceed it by any factor."""


ROUNDED = 1 - 2**-40
"""The least quotient of a line and its theorem: a line is a float, whose rounding the 1.01 of bounds.py covers."""


def lines(sample, propagation=_Propagation):
    """The program's lines of a sample, in the order in which each follows from those before."""
    precision = sample.precision
    with np.errstate(all="ignore"):
        made = propagation(sample, precision, Worst(precision.sums))
        a = made.logits()
        E = made.exponents(a)
        rho, o = made.probabilities(a, E), made.output(a, E)
        eps = made.value_products()
        independent, mean, _ = made.logit_gradient(E, rho, a, o)
        found = {"a": a, "E": E, "o": o, "lse": made.log_sum_exp(a, E)[..., None], "rho": rho, "eps": eps}
        found |= {"eta": made.mean_error(E, a, o, eps), "ds": independent + made.steps.p * mean}
        found["dq"] = made.query_gradient(independent, mean)
        for name, factor, terms in (
            ("dk", max(sample.factor, 1.0), made.key_gradient(independent, mean)),
            ("dv", 1.0, made.value_gradient(rho)),
        ):
            found[name] = made.over_queries(*terms[0], *terms[1]) + factor * made.floor()
        return {name: np.asarray(x[0, 0]) for name, x in found.items()}


def theorems(sample, given=None):
    """What the theorems allow, line by line; of `given` lines if there are such, else of one another.

    A row of which nothing is certain has no bound on what follows from its weights: 0 stands there.
    """
    precision = sample.precision
    with ctx.workprec(128):
        u, w, h = (arb(float(x)) for x in (precision.sums, precision.stored, precision.tiny_sums))
        q, k, v, do = (
            [[arb(float(x)) for x in row] for row in part[0, 0]] for part in (sample.q, sample.k, sample.v, sample.do)
        )
        scale, n = arb(sample.factor), len(q)
        own = [
            {name: x[i] for name, x in (given or {}).items() if len(x) == n and name not in "dqdkdv"} for i in range(n)
        ]
        rows = [
            proved.Row(*row, scale, u, int(precision.exp), w, h, one)
            for *row, one in zip(q, [k] * n, [v] * n, do, own, strict=True)
        ]
        found = {name: [row.lines[name] for row in rows] for name in ("a", "E")}
        if all(row.certain for row in rows):
            slopes = [row.logit_gradients() for row in rows]
            found = {name: [row.lines[name] for row in rows] for name in rows[0].lines}

            def product(x, eps, z, c):
                return proved.gradient_error(len(x), u, h, w, 4, 3, c, x, eps, z)

            turned = [list(zip(*x, strict=True)) for x in (q, k, do)]
            found["dq"] = [[product(*row, column, scale) for column in turned[1]] for row in slopes]
            by_key = [[list(zip(*x, strict=True)) for x in zip(*slopes, strict=True)][i] for i in (0, 1)]
            found["dk"] = [[product(*row, x, scale) for x in turned[0]] for row in zip(*by_key, strict=True)]
            weights = [[(r.p[j], r.p[j] * r.rho[j]) for r in rows] for j in range(len(k))]
            found["dv"] = [[product(*zip(*row, strict=True), x, arb(1)) for x in turned[2]] for row in weights]
        return {name: np.array([[float(x.upper()) for x in row] for row in part]) for name, part in found.items()}


def smallest(program, bounds):
    """The least quotient of a program's lines and the theorems' bounds, and the largest, by line."""
    with np.errstate(divide="ignore", invalid="ignore"):
        quotients = {name: np.where(bound > 0, program[name] / bound, np.inf) for name, bound in bounds.items()}
    return {name: (float(np.min(x)), float(np.max(np.where(np.isinf(x), 0.0, x)))) for name, x in quotients.items()}


def compare(seed, count, kinds=programs.KINDS):
    """Quotients of the program and the theorems: line by line of the program's own, and of the theorems' composed.

    The largest is taken of a few ordinary logits, not in float16, and not of lse, which no theorem stores in 16 bits.
    """
    rng, quotients = np.random.default_rng(seed), {}
    for place in range(count):
        kind = kinds[place % len(kinds)]
        sample = programs.drawn(rng, str(rng.choice(list(PRECISIONS))), kind)
        program = lines(sample)
        judged = {name: attention_errors(sample).worst[name][0, 0] for name in ("o", "dq", "dk", "dv")}
        for given, values in ((program, program), (None, judged)):
            bounds = {name: x for name, x in theorems(sample, given).items() if name in values}
            for name, (least, most) in smallest(values, bounds).items():
                key = name if given else f"composed {name}"
                counted = most if kind == "few" and sample.precision.name != "float16" and name != "lse" else 0.0
                before = quotients.get(key, (np.inf, 0.0))
                quotients[key] = min(before[0], least), max(before[1], counted)
    return quotients


QUICK = [kind for kind in programs.KINDS if kind not in ("keys ahead", "many keys", "many queries")]


@pytest.mark.parametrize(("count", "kinds"), [(20, QUICK), (1, ["many keys"])], ids=["quick", "many keys"])
def test_the_program_is_never_below_a_theorem(count, kinds):
    for name, (least, most) in compare(0, count, kinds).items():
        assert ROUNDED <= least and most <= FACTOR, (name, least, most)


@pytest.mark.thorough
def test_nor_on_two_hundred_samples():
    for name, (least, most) in compare(1, 200).items():
        assert ROUNDED <= least and most <= FACTOR, (name, least, most)


BEFORE = {"a": "", "E": "a", "o": "a E", "lse": "a E", "rho": "a E", "eps": "", "eta": "a E o eps", "ds": "rho eps eta",
          "dq": "ds", "dk": "ds", "dv": "rho"}  # fmt: skip
"""The lines that each line follows from."""


class Smaller(ast.NodeTransformer):
    """Makes the term at one place of a method 10 % smaller: an error that is added to others, or what is returned."""

    def __init__(self, place=-1):
        self.place, self.terms = place, []

    def term(self, node):
        if isinstance(node, ast.Starred) or ast.unparse(node).startswith(
            ("add(", "calculus.add(", "self.calculus.add(")
        ):
            return node  # its own terms are made smaller
        self.terms.append(ast.unparse(node))
        smaller = ast.Call(ast.Name("smaller", ast.Load()), [node], [])
        return smaller if self.place == len(self.terms) - 1 else node

    def visit_Call(self, node):
        self.generic_visit(node)
        if getattr(node.func, "attr", getattr(node.func, "id", "")) == "add":
            node.args = [self.term(x) for x in node.args]
        return node

    def visit_Return(self, node):
        self.generic_visit(node)
        if isinstance(node.value, ast.Tuple):
            node.value.elts = [self.term(x) if isinstance(x, ast.BinOp) else x for x in node.value.elts]
        else:
            node.value = self.term(node.value)
        return node


def smaller_programs():
    """Every program of which a term is 10 % smaller: its name, and the class."""
    for module, name in ((forward_errors, "ForwardErrors"), (bounds, "_Propagation")):
        tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
        (found,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
        for method in [node for node in found.body if isinstance(node, ast.FunctionDef)]:
            if method.name in ("__init__", "steps", "count", "terms", "outputs"):
                continue
            (every := Smaller()).visit(copy.deepcopy(method))
            for place, term in enumerate(every.terms):
                body = ast.Module([Smaller(place).visit(copy.deepcopy(method))], [])
                made = vars(module) | {"smaller": lambda x: x if np.asarray(x).dtype == bool else 0.9 * x}
                exec(compile(ast.fix_missing_locations(body), module.__file__, "exec"), made)
                yield f"{method.name}: {term}", type("Smaller", (_Propagation,), {method.name: made[method.name]})


def unseen_if_smaller(samples, wanted=()):
    """The terms that no theorem sees 10 % smaller; those that start with what is wanted, if anything is."""
    whole = [(sample, program := lines(sample), theorems(sample, program)) for sample in samples]
    unseen, tried = set(), set()
    for name, propagation in smaller_programs():
        if wanted and not name.startswith(wanted):
            continue
        tried.add(name)
        for sample, program, allowed in whole:
            made = lines(sample, propagation)
            moved = {line for line in made if not np.array_equal(made[line], program[line], equal_nan=True)}
            first = {line for line in moved if not moved & set(BEFORE[line].split())} & set(allowed)
            found = smallest(made, {line: allowed[line] for line in first})
            if any(least < 1 for least, _ in found.values()):
                break
        else:
            unseen.add(name)
    return tried, unseen


LINES = (
    "logits: self.calculus.chain(roundings)", "exponential: ", "changes: larger_logits", "exponents: np.where",
    "probabilities: np.where", "log_sum_exp: total", "log_sum_exp: self.calculus.chain(2 * self.count)",
    "output: way.chain", "output: shared", "value_products: (1 + self.stored(2)) * calculus.chain",
    "mean_error: product", "mean_error: calculus.along(np.abs(do) * o", "mean_error: np.maximum",
    "logit_gradient: (1 + rounded) * grown * centred", "logit_gradient: weights * ds",
    "logit_gradient: (1 + rounded) * (1 + weights) * mean",
    "query_gradient: (1 + rounded) * scale * chain", "over_queries: grown * chain * size",
)  # fmt: skip
"""a, 64 units, R, e, rho, lse and b, o, dP, D, dS, dQ, dK and dV."""

SLACK = {
    "no theorem has it: 3 u |max|, and what is larger for it":
        ("exponents: 3 *", "averaged: turned", "logits: 3 *", "log_sum_exp: 4 *", "log_sum_exp: _LOG", "path: 2 *",
         "furthest: ", "logarithm: ", "probabilities: turned", "probabilities: rounded", "probabilities: total"),
    "no theorem has it: shifts that lag": ("lag: ",),
    "no theorem has it: underflow of weights and dS, exp that ends above 0":
        ("logit_gradient: lost", "lost_weights: ", "underflow: ", "lost: ", "floor: ", "lost_products: ",
         "output: lost"),
    "no theorem has it: the gradient through the maximum":
        ("logit_gradient: calculus.", "logit_gradient: (1 + rounded) * grown.sum", "logit_gradient: np.where",
         "logit_gradient: row"),
    "no theorem has it: lse stored in 16 bits, heads joined after rounding, dO / row sum stored":
        ("log_sum_exp: self.w", "over_queries: (1 + rounded) * joined", "value_gradient: divided"),
    "counted twice: the 3 u + 3 w of dS hold the difference's own": ("logit_gradient: 2 *",),
    "the larger of two ways is taken: exp(s - L), P stored in it, is below the other on these samples":
        ("averaged: ", "output: calculus.through(grown * own", "probabilities: self.stored", "output: 2 *",
         "probabilities: self.exponential_of"),
    "the larger of two ways is taken: D from its terms is below dO O^T": ("mean_error: ",),
    "of higher order where the result is small": ("over_queries: rounded",),
    "a larger bound, as it is what is left": ("kept: ",),
    "typically, or a row of which nothing is certain": ("per_key_head: ", "largest_weight: ", "changes: np.asarray",
         "changes: np.zeros_like"),
    "a mask": ("several: ",),
    "eight bits, whose lines test_eight_bits.py leaves out, each alone":
        ("logits: error", "logits: scale * self.recipe", "output: self.recipe"),
    "an optional part":
        ("bias_gradient: ", "bias: ", "spread: ", "sink_gradient: ", "sinks: ", "biased: ", "cotangent: ",
         "logit_gradient: capped", "logit_gradient: error", "logit_gradient: plain", "logits: self.exp *",
         "logits: steps.slope *", "value_products: self.dropping"),
}  # fmt: skip
"""Terms that may be 10 % smaller without a theorem that notices, by the reason."""


def sampled(*kinds, dtypes=("float32",), seed=0):
    rng = np.random.default_rng(seed)
    return [programs.drawn(rng, dtype, kind) for kind in kinds for dtype in dtypes]


def test_every_line_is_seen_to_be_ten_percent_smaller():
    tried, unseen = unseen_if_smaller(
        sampled("many features", "many values", "permuted", "few", "keys ahead", "many queries"), LINES
    )
    assert unseen == set() and all(any(name.startswith(line) for name in tried) for line in LINES)


@pytest.mark.thorough
def test_every_term_is_or_has_a_reason():
    samples = sampled(*programs.KINDS, dtypes=("float32", "bfloat16", "float64"))
    _, unseen = unseen_if_smaller(samples)
    reasons = tuple(start for some in SLACK.values() for start in some)
    assert {name for name in unseen if not name.startswith(reasons) or name.startswith(LINES)} == set()


def test_random_honest_programs_stay_inside():
    worst = programs.run_programs(0, 300)
    assert max(worst.values()) <= 1 and min(worst.values()) >= 0.01, worst  # and they do err


@pytest.mark.thorough
def test_a_hundred_thousand_do():
    worst = programs.run_programs(1, 100_000)
    assert max(worst.values()) <= 1, worst


def plans(low, high):
    """Every tree over neighbouring keys, as the ranges it joins."""
    if high - low == 1:
        yield (low, high, None, None)
    for middle in range(low + 1, high):
        for left in plans(low, middle):
            for right in plans(middle, high):
                yield (low, high, left, right)


def changes(plan, s, key):
    """How often the running maximum changes after a key's own block."""
    low, high, left, right = plan
    if left is None:
        return 0
    side = left if key < left[1] else right
    return changes(side, s, key) + (max(s[side[0] : side[1]]) != max(s[low:high]))


@pytest.mark.parametrize(
    "values", [(3, 1, 2, 0, 4), (0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (1, 1, 0, 2, 2), (2, 0, 1, 0, 3)]
)
def test_no_order_of_joining_changes_the_maximum_more_often(values):
    s = np.array(values, dtype=float)
    most = [max(changes(plan, s, key) for plan in plans(0, 5)) for key in range(5)]
    assert maximum_changes(s).tolist() == most


def test_changes_of_the_maximum_are_counted_on_both_sides_of_ties():
    rows = np.random.default_rng(0).integers(0, 4, (3, 20, 9)).astype(float)
    rows[rows == 0] = -np.inf

    def records(walk):
        return sum(later > max(walk[:place]) for place, later in enumerate(walk) if place)

    counted = [[records(row[key:]) + records(row[: key + 1][::-1]) for key in range(9)] for row in rows.reshape(-1, 9)]
    assert np.array_equal(maximum_changes(rows).reshape(-1, 9), counted)


def test_nor_does_any_order_of_any_keys_raise_it_more_often():
    """Of all logits between two ends, on a grid; the program and the retelling count alike."""
    s, a = np.array([0.0, 0.5, 2.0, 0.5]), np.array([0.25, 0.75, 0.25, 0.0])
    counted = larger_logits(s - a, s + a)
    most = np.zeros(4)
    for logits in product(*((x - y, x, x + y) for x, y in zip(s, a, strict=True))):
        for order in permutations(range(4)):
            moved = [logits[i] for i in order]
            found = [max(changes(plan, moved, place) for plan in plans(0, 4)) for place in range(4)]
            most[list(order)] = np.maximum(most[list(order)], found)
    assert counted.tolist() == most.tolist() == proved.larger([*map(arb, s)], [*map(arb, a)])


def test_additions_of_both_sums_count():
    """gamma_{L+8} once is too little: one float32 sum rounded up at every key, the other down."""
    u = np.float32(2.0**-24)
    length = 3000
    logits = np.full(length, np.log(1.02 * 2.0**-24), np.float32)
    logits[0] = 0
    g = np.exp(logits)
    v = np.full(length, 0.97, np.float32)
    v[0] = 1
    total, out = np.float32(0), np.float32(0)
    for weight, value in zip(g, v, strict=True):
        total, out = total + weight, out + weight * value
    s = logits.astype(float)
    p = np.exp(s) / np.exp(s).sum()
    true = float(p @ v.astype(float))
    off = abs(float(out / total) - true)
    one = np.zeros((1, 1, 1, 1)) + 1
    sample = KernelSample(
        "drift",
        PRECISIONS["float32"],
        one,
        s[None, None, :, None],
        v.astype(float)[None, None, :, None],
        one,
        scale=1.0,
    )
    k = length + 8
    assert off > k * u / (1 - k * u) * float(p @ np.abs(v)) + 2 * u + 64 * u  # with 64 units of exp on top
    assert off <= attention_errors(sample).worst["o"].item()


def test_a_maximum_of_a_later_block_counts():
    """Records seen from the ends are too few: 10 | 1 2 3 4, where key 1 meets four further exponentials."""
    s = np.array([10.0, 1, 2, 3, 4])
    seen = [int((np.diff(np.maximum.accumulate(way)) > 0).sum()) for way in (s, s[::-1])]
    steps = [(0, 1), *((1, stop) for stop in range(2, 6)), (0, 5)]
    tops = [max(s[low:high]) for low, high in steps if low <= 1 < high]
    met = sum(a != b for a, b in zip(tops, tops[1:], strict=False))
    assert met == 4 == maximum_changes(s)[1]
    assert max(seen) < met or 1 + 1 < met


UNIT = Fraction(1, 64)


def chained(x, signs, u):
    """A sum from the left, every addition off by a whole u, up or down."""
    total = x[0]
    for term, sign in zip(x[1:], signs, strict=True):
        total = (total + term) * (1 + sign * u)
    return total


def refuted(bound, sizes=(1, 2, 3)):
    """Search a program of products and sums whose error exceeds bound(n, x, z, eps)."""
    for n in sizes:
        for signs in product((-1, 1), repeat=2 * n - 1):
            for eps in (Fraction(0), Fraction(1, 8)):
                x, z = [Fraction(1)] * n, [Fraction(1, 2)] * n
                made = [(a + eps) * b * (1 + s * UNIT) for a, b, s in zip(x, z, signs, strict=False)]
                off = abs(chained(made, signs[n:], UNIT) - sum(a * b for a, b in zip(x, z, strict=True)))
                if off > bound(n, UNIT, x, [eps] * n, z):
                    return True
    return False


def test_the_theorem_on_products_and_statements_a_little_stronger():
    def theorem(n, u, x, eps, z):
        return proved.product_error(n, u, 0, x, eps, z)

    assert not refuted(theorem)
    assert refuted(lambda n, u, x, eps, z: theorem(n, u / 2, x, eps, z))
    assert refuted(lambda n, u, x, eps, z: theorem(n, u, x, [0] * n, z))
    assert refuted(lambda n, u, x, eps, z: theorem(n, u, x, eps, z) - (proved.grow(u, 1) - 1) * sum(map(abs, z)))
    assert refuted(lambda n, u, x, eps, z: n * u * sum((a + e) * b for a, e, b in zip(x, eps, z, strict=True)))


def row_refuted(bound):
    """Search a row of two keys whose computed output is off by more than bound(p, E, v, c, G, o)."""
    u, w, e = arb(2) ** -6, arb(2) ** -4, 2
    s, v = [arb(0), arb(-1)], None
    for v in ([arb(1), arb(1)], [arb(1), arb(-1)], [arb(1), arb(0)]):
        for exp0, exp1, *rest in product((-1, 1), repeat=9):
            p = proved.prob(s)
            o = p[0] * v[0] + p[1] * v[1]
            g = [s[0].exp(), s[1].exp() * (1 + exp1 * e * u)]
            own = [x * (1 + t * w) * y * (1 + t * u) for x, y, t in zip(g, v, rest[:2], strict=True)]
            A, total = (own[0] + own[1]) * (1 + rest[2] * u), (g[0] + g[1]) * (1 + rest[3] * u)
            y = A / total * (1 + rest[4] * u) * (1 + rest[5] * w) * (1 + exp0 * w)
            E = proved.exponent(u, e, arb(0), arb(0), s, [arb(0)] * 2, [0, 0])
            c = [proved.grow(u, 3) * proved.grow(w, 1) - 1] * 2
            if abs(y - o) > bound(p, E, v, c, proved.grow(u, 4) * proved.grow(w, 2), o):
                return True
    return False


def test_the_theorem_on_outputs_and_statements_a_little_stronger():
    theorem = proved.output_bound
    assert not row_refuted(theorem)
    none = [arb(0)] * 2
    assert row_refuted(lambda p, E, v, c, G, o: theorem(p, E, v, none, G, o))
    assert row_refuted(lambda p, E, v, c, G, o: theorem(p, E, v, c, arb(1), o))
    assert row_refuted(lambda p, E, v, c, G, o: theorem(p, E, v, [x / 2 for x in c], 1 + (G - 1) / 2, o))


def test_the_theorem_on_the_logits_gradient_and_statements_a_little_stronger():
    u, w = Fraction(1, 64), Fraction(1, 16)
    p, rho, dp, eps, mean, eta = (Fraction(x) for x in ("1/2", "1/8", "1", "1/8", "-1", "1/8"))

    def off(sign):
        x = (dp + sign * eps - (mean - sign * eta)) * (1 + sign * u) * (1 + sign * w)
        return abs(p * (1 + sign * rho) * x * (1 + sign * u) * (1 + sign * w) ** 2 - p * (dp - mean))

    def theorem(u=u, w=w, rho=rho, eps=eps, eta=eta):
        return proved.logit_gradient_error(u, w, p, rho, eps, eta, p * (dp - mean))

    most = max(off(1), off(-1))
    assert most <= theorem()
    for weaker in (theorem(u=0), theorem(w=w / 2), theorem(rho=rho / 2), theorem(eps=0), theorem(eta=eta / 2)):
        assert most > weaker


def test_the_theorem_on_weights_of_log_sum_exp_and_statements_a_little_stronger():
    u, e, w, a, b, above = arb(2) ** -8, 4, arb(2) ** -4, arb(1) / 8, arb(1) / 8, arb(2)

    def off(sign):
        difference = (-above + sign * a + sign * b) * (1 - 2 * sign * u)
        return abs((difference + above).exp() * (1 + sign * e * u) * (1 + sign * w) - 1)

    most = max(off(1), off(-1))
    assert most <= proved.weight_of_lse(u, e, w, a, b, above)
    for weaker in (
        (u, e, w, 0 * a, b, above),
        (u, e, w, a, 0 * b, above),
        (u, e, 0 * w, a, b, above),
        (u / 4, e, w / 2, a, b, above),
    ):
        assert most > proved.weight_of_lse(*weaker)


def test_a_last_bit_between_equal_keys_moves_no_bound():
    """Rounding decides which of two logits is the larger: the bound of both holds what it decides."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        tied = programs.drawn(rng, "float32")
        k = np.repeat(tied.k[:, :, :1], 3, axis=2)
        tied = tied.changed(k=k, v=tied.precision.exact(rng.standard_normal((1, 1, 3, tied.v.shape[3]))))
        k = k.copy()
        k[..., 1, 0] = np.nextafter(k[..., 1, 0].astype(np.float32), np.float32(np.inf))
        apart = tied.changed(k=k)
        for name, worst in attention_errors(tied).worst.items():
            assert attention_errors(apart).worst[name] == pytest.approx(worst, rel=1e-3), name
