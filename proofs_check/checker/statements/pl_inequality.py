"""lem:PL_ineq on one instance: ||grad L||_F^2 against (mu/2) ||c||_F^2 + lam^2 ||M||_F^2 - 6 sqrt(n) max|W|
||X||_F^2 lam d.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any

from proofs_check.checker import fields
from proofs_check.checker.attention import (
    Mask,
    attention_loss,
    exact_logits,
    gradient,
    hadamard,
    norm_sq,
    relative,
    softmax,
)
from proofs_check.checker.exact_ties import difference_vanishes
from proofs_check.checker.fields import Document
from proofs_check.checker.interval import Number, bounds, hull, square_root
from proofs_check.checker.pivots import gram_pivots
from proofs_check.checker.questions import Question, at_least, contains, decide, exact, less, precisions
from proofs_check.checker.reject import GaveUp, Reject

MU_ALL, MU_ALLOWED, MU_SQUARED = "2*wmin*beta*delta", "2*wmin*beta*delta_allowed", "2*(wmin*beta*delta)^2"
RELATIONS = {"refutation": "lhs<rhs", "confirmation": "lhs>=rhs"}
_LOGIT_WORK = 2 * 10**9  # in products of 64-bit words
_SUM_WORK = 2 * 10**8  # the same, with the divisions that bring a sum of fractions to lowest terms
_PRECISIONS = 8  # 128 to 2^14 bits, doubled each time
_LONG = 100_000  # bits; chosen: a longer common denominator is bounded instead of computed


@dataclass(frozen=True)
class ExactInstance:
    n: int
    d: int
    X: fields.Matrix
    W: fields.Matrix
    M: fields.Matrix
    mask: Mask
    lam: Fraction
    beta: Fraction
    delta: Fraction


def check(certificate: Document) -> str:
    reading = fields.closed(certificate["reading"], ("mask", "mu"), "reading")
    named = fields.choice(reading["mask"], ("full", "causal", "given"), "reading.mask")
    mu = fields.choice(reading["mu"], (MU_ALL, MU_ALLOWED, MU_SQUARED), "reading.mu")
    relation = RELATIONS[certificate["kind"]]
    claim = fields.closed(certificate["claim"], ("relation",), "claim")
    if fields.choice(claim["relation"], tuple(RELATIONS.values()), "claim.relation") != relation:
        raise Reject(f"a {certificate['kind']} claims {relation!r}; got {claim['relation']!r}")
    instance = read_instance(certificate["inputs"], named)
    hypotheses = fields.closed(certificate["hypotheses"], ("psd_pivots", "delta_le_min_f"), "hypotheses")
    quantities = fields.closed(certificate["quantities"], ("c_sq", "lhs", "rhs"), "quantities")
    claimed = {name: fields.enclosure(quantities[name], f"quantities.{name}") for name in ("c_sq", "lhs", "rhs")}
    claimed["min_f"] = fields.enclosure(hypotheses["delta_le_min_f"], "hypotheses.delta_le_min_f")
    if claimed["min_f"][0] < instance.delta:
        raise Reject("the lower end of delta_le_min_f is below delta")
    check_pivots(hypotheses["psd_pivots"], instance)
    trivial = _verify(instance, mu, relation, claimed)
    word = "refutation" if certificate["kind"] == "refutation" else "trivial instance" if trivial else "instance"
    return f"{word}: {relation} with mu = {mu}, {named} mask, n = {instance.n}, d = {instance.d}"


def read_instance(inputs: Any, named: str) -> ExactInstance:
    """The inputs, inside the domain of the lemma."""
    keys = ("n", "d", "X", "W", "M", "mask", "lambda", "beta", "delta")
    inputs = fields.closed(inputs, keys, "inputs")
    n = fields.integer(inputs["n"], "inputs.n", 1, fields.MAX_SIZE)
    d = fields.integer(inputs["d"], "inputs.d", 1, fields.MAX_SIZE)
    X = fields.matrix(inputs["X"], n, d, "inputs.X")
    W = fields.matrix(inputs["W"], d, d, "inputs.W")
    M = fields.matrix(inputs["M"], d, d, "inputs.M")
    mask = fields.attention_mask(inputs["mask"], n, "inputs.mask")
    require_named_mask(named, mask, given=isinstance(inputs["mask"], list))
    fields.require_in(M, 0, 1, "inputs.M")
    if not all(entry for row in W for entry in row):
        raise Reject("inputs.W must have no zero entry: xi divides by min|W|")
    lam = fields.rational(inputs["lambda"], "inputs.lambda")
    beta = fields.rational(inputs["beta"], "inputs.beta")
    delta = fields.rational(inputs["delta"], "inputs.delta")
    if not 0 <= lam <= 1:
        raise Reject("inputs.lambda must lie in [0, 1]")
    if beta <= 0 or delta <= 0:
        raise Reject("inputs.beta and inputs.delta must be > 0")
    return ExactInstance(n, d, X, W, M, mask, lam, beta, delta)


def require_named_mask(named: str, mask: Mask, given: bool) -> None:
    """The reading and the inputs name the same mask."""
    n = len(mask)
    if named == "given":
        if not given:
            raise Reject("reading.mask is 'given' but inputs.mask is not an n x n list")
    elif mask != fields.attention_mask(named, n, "reading.mask"):
        raise Reject(f"reading.mask is {named!r} but inputs.mask is another mask")


def check_pivots(listed: Any, instance: ExactInstance) -> None:
    pivots = fields.rationals(listed, "hypotheses.psd_pivots", instance.n, fields.RESULT_DIGITS)
    if gram_pivots(instance.X, instance.beta) != pivots:
        raise Reject("psd_pivots are not the pivots of LDL^T of X X^T - beta I")


def _verify(instance: ExactInstance, mu: str, relation: str, claimed: dict[str, fields.Bounds]) -> bool:
    """Reject unless everything is true; report whether the inequality is trivial: c = 0, or a right side not > 0."""
    n, d = instance.n, instance.d
    require_bounded_logits(instance)
    z = relative(exact_logits(instance.X, hadamard(instance.M, instance.W)), instance.mask)
    z_dense = relative(exact_logits(instance.X, instance.W), instance.mask)
    all_positions = mu == MU_ALL and not all(map(all, instance.mask))

    trivial = z == z_dense

    def ask(bits: int) -> list[Question]:
        nonlocal trivial
        F = softmax(z, bits)
        allowed = [F[i][j] for i in range(n) for j in range(n) if instance.mask[i][j]]
        min_f = exact(0) if all_positions else hull(allowed, largest=False)
        loss = attention_loss(instance.X, z, z_dense, bits)
        left = norm_sq(gradient(loss.slope, instance.W, instance.M, instance.lam))
        right = right_side(instance, mu, loss.c_sq, bits)
        lhs, rhs = bounds(left), bounds(right)
        trivial = trivial or rhs[1] <= 0
        answer = less(lhs, rhs) if relation == "lhs<rhs" else at_least(lhs, rhs)
        if answer is None and difference_vanishes(instance, z, half_mu(instance, mu)):
            answer = relation == "lhs>=rhs"
        return [
            ("min f >= delta", at_least(min_f, exact(instance.delta))),
            ("delta_le_min_f encloses min f", contains(claimed["min_f"], min_f)),
            ("c_sq encloses ||c||_F^2", contains(claimed["c_sq"], bounds(loss.c_sq))),
            ("lhs encloses ||grad L||_F^2", contains(claimed["lhs"], lhs)),
            ("rhs encloses the right side", contains(claimed["rhs"], rhs)),
            (relation, answer),
        ]

    decide(precisions(claimed.values(), 6 * n * n * d + d * d, 3 * n * n), ask)
    return trivial


def half_mu(instance: ExactInstance, mu: str) -> Fraction:
    smallest = min(abs(entry) for row in instance.W for entry in row)
    product = smallest * instance.beta * instance.delta
    return product * product if mu == MU_SQUARED else product


def right_side(instance: ExactInstance, mu: str, c_sq: Number, bits: int) -> Number:
    """(mu/2) ||c||^2 + lam^2 ||M||^2 - 6 sqrt(n) max|W| ||X||_F^2 lam d."""
    largest = max(abs(entry) for row in instance.W for entry in row)
    slack = 6 * largest * norm_sq(instance.X) * instance.lam * instance.d
    mask_part = instance.lam**2 * norm_sq(instance.M)
    return half_mu(instance, mu) * c_sq + mask_part - slack * square_root(Fraction(instance.n), bits)


def require_bounded_logits(instance: ExactInstance) -> None:
    """Exact logits are affordable: bound the length of their entries before computing them."""
    n, d = instance.n, instance.d
    x = 1 + _common_length(instance.X) // 64
    e = 1 + (_common_length(instance.W) + _common_length(instance.M)) // 64
    if n * d * d * e * x + n * n * d * (e + x) * x + 10 * n * n * (e + 2 * x) ** 2 > _LOGIT_WORK:
        raise GaveUp("the entries of X, W and M are too long for exact logits of this size")
    m, w = (1 + _common_length(A) // 64 for A in (instance.M, instance.W))
    if (n * d * x**2 + d * d * (m**2 + w)) * _PRECISIONS > _SUM_WORK:  # a sum of squares, anew at every precision
        raise GaveUp("the entries of X, W and M are too long for exact sums of this size")


def _common_length(values: fields.Matrix) -> int:
    """Bits of the largest numerator, and of the least common denominator, of a matrix.

    Where that gets too long to be worth computing, the lengths of the distinct denominators added up.
    """
    denominators = {entry.denominator for row in values for entry in row}
    common = 1
    for denominator in denominators:
        common = lcm(common, denominator)
        if common.bit_length() > _LONG:
            common = 1 << sum(q.bit_length() for q in denominators)
            break
    return max(abs(e.numerator).bit_length() for row in values for e in row) + common.bit_length()
