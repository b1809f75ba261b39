"""thm:our_convergence refuted, and the same instances under the corrected mu (fix:our_convergence).

The theorem: with mu = 2 min|W| beta delta, xi = 12 n^-1.5 max|W| ||X||_F^2 lam d / mu, eta < 1/L,
L = lam + 30 d n^3.5 R^6 and T = 4 L(M_0) / (eta mu eps n^2), gradient descent has
    (1/n^2) min_{t<T} L_attn(M_t) + lam^2/(mu n^2) ||M_t||_F^2 <= (xi + eps)/2.
Whatever iterate the free t of the second term means, its least value is 0, or the minimum over t of the sum.

With a causal mask delta is read over the allowed positions (over all of them no delta > 0 exists for n >= 2).

Facts used, with their short proofs, for any mask:
 (a) grad L is K-Lipschitz on all of R^(d x d) with K = lam + (5/4) max|W|^2 ||X||_2^4 (softmax Jacobian J,
     ||J||_2 <= 1/2, row Hessian at most 1/4 + 1). Checked: K <= L, so eta < 1/L is eta < 1/K and gradient
     descent never increases L.
 (b) ||grad L_attn||_F <= max|W| ||X||_2^2 ||J c||_F <= max|W| ||X||_2^2 ||c||_F / 2, and ||c||_F^2 <= 2 L(M_0)
     along descent.
"""

from dataclasses import dataclass
from fractions import Fraction

from proofs_check.checker import blocks as b
from proofs_check.checker import fields
from proofs_check.checker.fields import Document
from proofs_check.checker.interval import Number, bounds, enclose, lower, square_root
from proofs_check.checker.questions import Question, at_least, contains, decide, exact, less, precisions
from proofs_check.checker.reject import Reject
from proofs_check.checker.statements.common import require_claim
from proofs_check.checker.statements.sigmoid_valley import require_valley

INPUTS = ("n", "d", "sizes", "X", "W", "lambda", "beta", "delta", "epsilon", "R")
HYPOTHESES = ("psd_pivots", "delta_le_min_f")
LAST_STEP = 400  # chosen: the committed certificates end after 1 or 2 steps


@dataclass(frozen=True)
class DescentSetting:
    """The data of the theorem."""

    blocks: b.Blocks
    epsilon: Fraction
    R: Fraction
    mu: Fraction

    def threshold(self, bits: int) -> Number:
        """(xi + eps) / 2 with xi = 12 n^-1.5 max|W| ||X||_F^2 lam d / mu."""
        data = self.blocks
        scale = 12 * data.largest_weight() * data.norm_x_sq() * data.lam * data.d / (self.mu * data.n)
        return (scale / square_root(Fraction(data.n), bits) + self.epsilon) / 2

    def reached(self, now: b.State) -> Number:
        """(L_attn(M) + lam^2/mu ||M||^2) / n^2 at an iterate."""
        data = self.blocks
        return (now.c_sq / 2 + data.lam**2 / self.mu * data.norm_sq(now.M)) / data.n**2

    def paper_lipschitz(self, bits: int) -> Number:
        """lam + 30 d n^3.5 R^6."""
        data = self.blocks
        return data.lam + 30 * data.d * data.n**3 * self.R**6 * square_root(Fraction(data.n), bits)

    def proven_lipschitz(self) -> Fraction:
        """Fact (a)."""
        data = self.blocks
        return data.lam + Fraction(5, 4) * data.largest_weight() ** 2 * data.spectral_bound() ** 2


def _setting(certificate: Document, extra: tuple[str, ...], squared: bool) -> tuple[DescentSetting, str, Document]:
    reading = fields.closed(certificate["reading"], ("mask", "start", "mu"), "reading")
    mask = fields.choice(reading["mask"], ("full", "causal"), "reading.mask")
    start = fields.choice(reading["start"], ("zeros", "ones"), "reading.start")
    printed = "2*wmin*beta*delta" if mask == "full" else "2*wmin*beta*delta_allowed"
    fields.choice(reading["mu"], ("2*(wmin*beta*delta)^2" if squared else printed,), "reading.mu")
    inputs = fields.closed(certificate["inputs"], INPUTS + extra, "inputs")
    data = b.read_blocks(inputs, mask)
    epsilon = fields.rational(inputs["epsilon"], "inputs.epsilon", 60)
    R = fields.rational(inputs["R"], "inputs.R", 60)
    if epsilon <= 0 or R <= 1:
        raise Reject("inputs.epsilon must be > 0 and inputs.R > 1")
    norm_w = sum(
        s * t * w * w for s, row in zip(data.sizes, data.W, strict=True) for t, w in zip(data.sizes, row, strict=True)
    )
    if data.norm_x_sq() > R**2 or norm_w > R**2:
        raise Reject("inputs.R must bound ||X||_F and ||W||_F")
    product = data.smallest_weight() * data.beta * data.delta
    return DescentSetting(data, epsilon, R, 2 * product**2 if squared else 2 * product), start, inputs


def check_refutation(certificate: Document) -> str:
    require_claim(certificate, "refutation", "lhs>rhs")
    reading = certificate["reading"]
    if isinstance(reading, dict) and reading.get("start") == "ones":
        return _refute_from_ones(certificate)
    return _refute_from_zeros(certificate)


def _claimed(certificate: Document, names: tuple[str, ...]) -> dict[str, fields.Bounds]:
    hypotheses = fields.closed(certificate["hypotheses"], HYPOTHESES, "hypotheses")
    quantities = fields.closed(certificate["quantities"], names, "quantities")
    claimed = {name: fields.enclosure(quantities[name], f"quantities.{name}") for name in names}
    claimed["min_f"] = fields.enclosure(hypotheses["delta_le_min_f"], "hypotheses.delta_le_min_f")
    return claimed


def _refute_from_zeros(certificate: Document) -> str:
    """L(M_t) >= L(M_0) - 1.5 eta T G^2 for t < T, with G above ||grad L|| on the sublevel set:
    too slow a descent for the guarantee.

    One step: L(M - eta g) >= L(M) - eta ||g||^2 - (K/2) eta^2 ||g||^2 >= L(M) - 1.5 eta ||g||^2 as eta K <= 1; and
    eta T = 4 L(M_0) / (mu eps n^2) does not depend on eta. lhs is (L(M_0) - 1.5 eta T G^2 - (lam/2) ||M_t||^2) /
    n^2 with ||M_t||_F <= eta T G.
    """
    setting, _, _ = _setting(certificate, (), squared=False)
    data = setting.blocks
    claimed = _claimed(certificate, ("loss", "eta_T", "G", "lhs", "rhs"))
    b.require_pivots(certificate["hypotheses"]["psd_pivots"], data)
    slope = data.largest_weight() * data.spectral_bound() / 2
    zeros: list[list[Number]] = [[Fraction(0)] * len(data.sizes) for _ in data.sizes]

    def ask(bits: int) -> list[Question]:
        loss = b.state(data, zeros, bits).c_sq / 2
        eta_t = 4 * loss / (setting.mu * setting.epsilon * data.n**2)
        root = square_root(2 * loss, bits)
        G = slope * root + square_root(2 * data.lam * loss, bits)  # lam ||M|| <= sqrt(2 lam L(M_0))
        radius = eta_t * G
        left = (loss - Fraction(3, 2) * eta_t * G * G - data.lam / 2 * radius * radius) / data.n**2
        min_f = b.smallest_attention(data, radius, bits)
        right = setting.threshold(bits)
        return [
            (
                "the proven Lipschitz constant is below the paper's",
                at_least(bounds(setting.paper_lipschitz(bits)), exact(setting.proven_lipschitz())),
            ),
            ("delta <= F(M) on the box and at every iterate", at_least(min_f, exact(data.delta))),
            ("delta_le_min_f", contains(claimed["min_f"], min_f)),
            ("loss encloses L(M_0)", contains(claimed["loss"], bounds(loss))),
            ("eta_T encloses 4 L(M_0) / (mu eps n^2)", contains(claimed["eta_T"], bounds(eta_t))),
            ("G", contains(claimed["G"], bounds(G))),
            ("lhs", contains(claimed["lhs"], bounds(left))),
            ("rhs encloses (xi + eps)/2", contains(claimed["rhs"], bounds(right))),
            ("lhs>rhs", less(bounds(right), bounds(left))),
        ]

    decide(precisions(claimed.values(), 2000, 100), ask)
    return f"refutation: from M_0 = 0 no eta < 1/L reaches (xi + eps)/2 within T steps ({data.mask} mask)"


def _refute_from_ones(certificate: Document) -> str:
    """For EVERY M in R^(d x d): (L_attn(M) + lam^2/mu ||M||^2) / n^2 >= lhs > (xi + eps)/2, so no trajectory,
    step or T can help.

    n = 2. With tau = z_i1 - z_i2 = <V, M>, V = W o x_i (x_1 - x_2)^T: L_attn >= (sigma(tau) - sigma(tau_dense))^2
    and ||M||_F >= |tau| / ||V||_F. lhs encloses the infimum over tau, divided by n^2. Iterates satisfy ||M_t||_F <=
    d by (a), since L(M_0) = lam d^2 / 2.
    """
    setting, _, inputs = _setting(certificate, ("row", "tau"), squared=False)
    data = setting.blocks
    if data.n != 2:
        raise Reject("this refutation is for n = 2")
    row = fields.integer(inputs["row"], "inputs.row", 0, 1)
    tau = fields.rational(inputs["tau"], "inputs.tau", 30)
    claimed = _claimed(certificate, ("lhs", "rhs"))
    b.require_pivots(certificate["hypotheses"]["psd_pivots"], data)
    V = [
        [w * x * (p - q) for w, p, q in zip(ws, *data.B, strict=True)]
        for ws, x in zip(data.W, data.B[row], strict=True)
    ]
    norm_v = lower(data.norm_sq(V))  # exact: V is
    if norm_v == 0 or not all(data.allowed[row]):
        raise Reject("row inputs.row of F must depend on M")
    dense = data.dense_logits()[row]
    weight = data.lam**2 / (setting.mu * norm_v)

    def ask(bits: int) -> list[Question]:
        min_f = b.smallest_attention(data, enclose(data.d, bits), bits)
        right = setting.threshold(bits)
        return [
            (
                "the proven Lipschitz constant is below the paper's",
                at_least(bounds(setting.paper_lipschitz(bits)), exact(setting.proven_lipschitz())),
            ),
            ("delta <= F(M) on the box and for ||M||_F <= d", at_least(min_f, exact(data.delta))),
            ("delta_le_min_f", contains(claimed["min_f"], min_f)),
            ("rhs encloses (xi + eps)/2", contains(claimed["rhs"], bounds(right))),
            ("lhs>rhs", less(bounds(right), (claimed["lhs"][0], claimed["lhs"][0]))),
        ]

    decide(precisions([claimed["rhs"], claimed["min_f"]], 2000, 100), ask)
    scaled = (claimed["lhs"][0] * data.n**2, claimed["lhs"][1] * data.n**2)
    require_valley(dense[0] - dense[1], weight, tau, scaled)
    where = f"{data.mask} mask, d = {data.d}"
    return f"refutation: no M at all satisfies the guarantee ({where}), so no trajectory from M_0 = 1 does"


def check_repaired(certificate: Document) -> str:
    """With mu = 2 (min|W| beta delta)^2 and eta < 1/K of fact (a): an explicit iterate t < T satisfies the
    guarantee.
    """
    require_claim(certificate, "confirmation", "lhs<=rhs")
    setting, start, inputs = _setting(certificate, ("eta", "t"), squared=True)
    data = setting.blocks
    eta = fields.rational(inputs["eta"], "inputs.eta", 60)
    last = fields.integer(inputs["t"], "inputs.t", 0, LAST_STEP)
    b.require_affordable(last, data.n, len(data.sizes))
    if not 0 < eta * setting.proven_lipschitz() < 1:
        raise Reject("inputs.eta must lie in (0, 1/K), K = lam + (5/4) max|W|^2 ||X||_2^4")
    claimed = _claimed(certificate, ("T", "lhs", "rhs"))
    b.require_pivots(certificate["hypotheses"]["psd_pivots"], data)
    entry = Fraction(int(start == "ones"))

    def ask(bits: int) -> list[Question]:
        M: list[list[Number]] = [[entry] * len(data.sizes) for _ in data.sizes]
        now = b.state(data, M, bits)
        loss = now.c_sq / 2 + data.lam / 2 * data.norm_sq(M)
        first = setting.reached(now)
        smallest = [b.least_allowed(data, now.F)]
        for _ in range(last):
            now = b.state(data, b.as_intervals(b.descend(now.M, now.gradient, eta), bits), bits)
            smallest.append(b.least_allowed(data, now.F))
        min_f = min(low for low, _ in smallest), min(high for _, high in smallest)
        T = 4 * loss / (eta * setting.mu * setting.epsilon * data.n**2)
        left = setting.reached(now)
        right = setting.threshold(bits)
        return [
            ("delta <= F(M_s) for every s <= t", at_least(min_f, exact(data.delta))),
            ("delta_le_min_f encloses the least F(M_s)", contains(claimed["min_f"], min_f)),
            ("T encloses 4 L(M_0) / (eta mu eps n^2)", contains(claimed["T"], bounds(T))),
            ("t < T", less(exact(last), bounds(T))),
            ("lhs", contains(claimed["lhs"], bounds(left))),
            ("rhs encloses (xi + eps)/2", contains(claimed["rhs"], bounds(right))),
            ("lhs<=rhs", less(bounds(left), bounds(right))),
            ("M_0 does not satisfy the guarantee: else no descent is needed", less(bounds(right), bounds(first))),
        ]

    decide(precisions(claimed.values(), 500 * (last + 1), 4 * data.n**2 * (last + 1)), ask)
    where = f"{data.mask} mask, d = {data.d}, start {start}"
    return f"instance: M_{last} satisfies the guarantee with the corrected mu ({where})"
