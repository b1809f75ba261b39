"""Assumptions and constants of a real layer: those of its worst head, with every head's beside them.

The theory is about a mask M on one fused weight, so each head is judged as that problem (`heads`), at M = 1; delta is
taken at the instance's own masks. A quantity that a head does not have is None, with the reason.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from flint import arb

from attnprune_verify.instance.problem import Instance, LayerInstance
from attnprune_verify.theory.assumptions import Assumption, assumptions, show
from attnprune_verify.theory.constants import NAMES, constant_balls, leave, logarithms
from attnprune_verify.theory.formulas import conditions, sharp
from attnprune_verify.theory.heads import fused_heads, head_floors, head_norms, no_constant, obstacle, tokens_of
from attnprune_verify.theory.numbers.arithmetic import BALL
from attnprune_verify.theory.numbers.balls import frobenius, log10, nearest, precise
from attnprune_verify.theory.quantities.attention_floor import AttentionFloor
from attnprune_verify.theory.quantities.gram import gram_floor
from attnprune_verify.values import as_number, as_positive

_SMALLER_IS_WORSE = frozenset(
    """mu_paper mu_corrected mu_operator kappa_T row_eigenvalue eta_paper eta_corrected beta delta delta_allowed
    dense_floor min_abs_W curvature_lower linear_rate_threshold inner_product_floor""".split()
)


@dataclass(frozen=True)
class LayerConstants:
    """Constants of a layer by name; None where no head has that constant.

    Attributes
    ----------
    values : Mapping
        The worst head's.
    per_head : Mapping
        Every head's, in the order of the heads.
    log10 : Mapping
        Decimal logarithms of the positive ones among `values`.
    reasons : Mapping
        Why a constant is None.
    """

    values: Mapping[str, float | None]
    per_head: Mapping[str, tuple[float, ...] | None]
    log10: Mapping[str, float]
    reasons: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> float | None:
        return self.values[name]

    def document(self) -> dict[str, object]:
        """Return values, logarithms, numbers of every head and reasons as plain data."""
        per_head = {name: None if values is None else list(values) for name, values in self.per_head.items()}
        return {**self.values, "log10": dict(self.log10), "per_head": per_head, "reasons": dict(self.reasons)}


@precise
def layer_constants(
    instance: LayerInstance,
    eps: float | None = None,
    eta: float | None = None,
    *,
    beta: float | None = None,
    delta: float | None = None,
) -> LayerConstants:
    """Evaluate all constants of the theory on each head; parameters as `constants.constants`.

    Examples
    --------
    >>> from attnprune_verify.instance.layer import AttentionLayer
    >>> from attnprune_verify.instance.rope import RoPE
    >>> W = np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> found = layer_constants(LayerInstance(AttentionLayer(W, np.eye(2), scale=1.0), np.eye(2)))
    >>> round(found["K"], 9), found.per_head["min_abs_W"]
    (1.0, (1.0,))
    >>> found = layer_constants(LayerInstance(AttentionLayer(W, np.eye(2), scale=1.0, rope=RoPE()), np.eye(2)))
    >>> found["mu_paper"], found["K"] > 0
    (None, True)
    """
    heads = _head_balls(instance, eps, eta, beta, delta)
    known = [name for name in NAMES if name in heads[0]]
    worst = {name: _worst(name, [head[name] for head in heads]) for name in known}
    return LayerConstants(
        values={name: leave(name, worst[name]) if name in worst else None for name in NAMES},
        per_head={name: tuple(leave(name, head[name]) for head in heads) if name in worst else None for name in NAMES},
        log10=logarithms(worst),
        reasons={name: _why_not(instance, name) for name in NAMES if name not in worst},
    )


def _worst(name: str, balls: Sequence[arb]) -> arb:
    key = [nearest(ball) for ball in balls]
    finite = [place for place, value in enumerate(key) if not math.isnan(value)] or [0]
    choose = min if name in _SMALLER_IS_WORSE else max
    return balls[choose(finite, key=lambda place: key[place])]


def _why_not(instance: LayerInstance, name: str) -> str:
    return no_constant(instance.layer) if name in _BY_NORM and no_constant(instance.layer) else obstacle(instance.layer)


def _head_balls(
    instance: LayerInstance, eps: float | None, eta: float | None, beta: float | None, delta: float | None
) -> list[dict[str, arb]]:
    floors = head_floors(instance)
    fused = fused_heads(instance)
    if fused:
        given = [floor if instance.M_Q is not None else None for floor in floors]
        return [
            constant_balls(head, eps, eta, beta=beta, delta=delta, floor=floor)
            for head, floor in zip(fused, given, strict=True)
        ]
    shared = {
        "eps": arb(2) / (100 * instance.n) if eps is None else arb(as_positive("eps", eps)),
        "lam": arb(instance.lam),
        "beta": _gram(instance) if beta is None else arb(as_number("beta", beta)),
        "C_plus": sharp.C_plus(),
        "C_minus": sharp.C_minus(),
        "P_star": sharp.P_star(),
        "inner_product_floor": sharp.inner_product_floor(
            instance.layer.visible.allowed(instance.n).sum(axis=1).tolist()
        ),
    }
    norms = head_norms(instance) or (None,) * len(floors)
    found = []
    for floor, norm in zip(floors, norms, strict=True):
        head = shared | _floors(floor, delta)
        if norm is not None:
            head |= _by_norm(arb(norm.upper.upper()), arb(norm.lower.lower()), instance.lam, eta)
        found.append(head)
    return found


def _gram(instance: LayerInstance) -> arb:
    values = [gram_floor(sample).value for sample in tokens_of(instance)]
    return min(values, key=nearest)


def _floors(floor: AttentionFloor, delta: float | None) -> dict[str, arb]:
    if delta is None:
        return {"delta": floor.everywhere, "delta_allowed": floor.allowed}
    return dict.fromkeys(("delta", "delta_allowed"), arb(as_number("delta", delta)))


def _by_norm(K: arb, lower: arb, lam: float, eta: float | None) -> dict[str, arb]:
    """Return the constants that depend on K and lam alone: no rotation and no added term changes them."""
    L = sharp.lipschitz(K, lam)
    return {
        "K": K,
        "K_lower": lower,
        "L_sharp": L,
        "eta_corrected": BALL.over(arb(1), L) if eta is None else arb(as_positive("eta", eta)),
        "lipschitz_F": sharp.lipschitz_attention(K),
        "curvature_lower": sharp.lower_curvature(K, lam),
        "convexity_threshold": sharp.convexity_threshold(K),
    }


_BY_NORM = ("K", "K_lower", "L_sharp", "eta_corrected", "lipschitz_F", "curvature_lower", "convexity_threshold")


@dataclass(frozen=True)
class LayerAssumption(Assumption):
    """One assumption on a layer: the worst head's number, and every head's beside it.

    Attributes
    ----------
    per_head : tuple of float, or None
        One number a head; None where the assumption is about the tokens, the masks or lam, or has no number.
    known : bool
        False where no head has the number (`value` and `log10` are then nan), for the reason given.
    """

    per_head: tuple[float, ...] | None = None
    known: bool = True

    def as_dict(self) -> dict[str, object]:
        """Return the attributes as plain data; a number that no head has is None."""
        found = super().as_dict() | {"per_head": None if self.per_head is None else list(self.per_head)}
        return found | ({} if found.pop("known") else {"value": None, "log10": None})


@precise
def layer_assumptions(
    instance: LayerInstance, beta: float | None = None, delta: float | None = None
) -> tuple[LayerAssumption, ...]:
    """The assumptions of the theorem on each head, as `assumptions.assumptions` on one fused weight.

    Examples
    --------
    >>> from attnprune_verify.instance.layer import AttentionLayer
    >>> layer = AttentionLayer(np.eye(2), np.eye(2), mask="causal")
    >>> [(item.id, item.holds) for item in layer_assumptions(LayerInstance(layer, np.eye(2)))[:4]]
    [('beta', True), ('delta', False), ('delta-allowed', True), ('W-nonzero', False)]
    """
    floors, fused = head_floors(instance), fused_heads(instance)
    shared = {item.id: item for item in assumptions(fused[0] if fused else _stand_in(instance), beta, delta)}
    deltas = None if delta is None else as_number("delta", delta)
    weights = [{item.id: item for item in assumptions(head)} for head in fused]
    return (
        LayerAssumption(**vars(shared["beta"])),
        _floor_assumption("delta", floors, deltas),
        _floor_assumption("delta-allowed", floors, deltas),
        _of_weights("W-nonzero", instance, weights, min),
        _masks_in_box(instance),
        _masks_in_ball(instance),
        LayerAssumption(**vars(shared["lam-in-unit-interval"])),
        _of_weights("R", instance, weights, max),
    )


def _stand_in(instance: LayerInstance) -> Instance:
    """Return an instance with an arbitrary fused weight: only quantities that do not depend on it are read."""
    X = tokens_of(instance)
    return Instance(X if instance.k is not None else X[0], np.ones((X.shape[2], X.shape[2])), lam=instance.lam)


def _floor_assumption(identity: str, floors: Sequence[AttentionFloor], given: float | None) -> LayerAssumption:
    everywhere = identity == "delta"
    balls = [floor.everywhere if everywhere else floor.allowed for floor in floors]
    worst = int(np.argmin([nearest(ball) for ball in balls]))
    lowest = balls[worst]
    where = "" if everywhere else " over the allowed positions"
    if everywhere and floors[0].masked:
        reason = "the mask forbids positions, where F is exactly 0: no delta > 0 exists."
    else:
        reason = f"min F{where} = {show(lowest)} in head {worst}, the smallest of {len(floors)}."
    holds, ball = conditions.delta_positive(lowest), lowest
    if given is not None:
        ball = arb(given)
        holds = holds and given > 0 and math.log(given) <= floors[worst].log_allowed + floors[worst].radius
        reason = f"delta = {given!r} is {'at most' if holds else 'not a positive number up to'} that: {reason}"
    per_head = tuple(nearest(one) for one in balls)
    return LayerAssumption(identity, holds, nearest(ball), _log(ball), reason, per_head)


def _log(ball: arb) -> float:
    return -math.inf if ball == 0 else log10(ball)


def _of_weights(
    identity: str, instance: LayerInstance, heads: Sequence[Mapping[str, Assumption]], worst: Callable[..., Assumption]
) -> LayerAssumption:
    """Return the assumptions of the worst head, if the heads have a fused weight."""
    if not heads:
        return LayerAssumption(identity, False, math.nan, math.nan, f"{obstacle(instance.layer)}.", None, False)
    found = [head[identity] for head in heads]
    chosen = worst(found, key=lambda item: item.value)
    reason = f"head {found.index(chosen)}: {chosen.reason}" if len(found) > 1 else chosen.reason
    return LayerAssumption(
        identity,
        all(item.holds for item in found),
        chosen.value,
        chosen.log10,
        reason,
        tuple(item.value for item in found),
    )


def _masks_in_box(instance: LayerInstance) -> LayerAssumption:
    masks = instance.masks_or_ones
    low, high = min(float(mask.min()) for mask in masks), max(float(mask.max()) for mask in masks)
    holds = conditions.in_box(low) and conditions.in_box(high)
    reason = f"the entries of M_Q and M_K lie in [{low:.6g}, {high:.6g}]."
    outside = arb(max(-low, high - 1, 0.0))
    return LayerAssumption("M-in-box", holds, nearest(outside), _log(outside), reason)


def _masks_in_ball(instance: LayerInstance) -> LayerAssumption:
    """Assumption that ||M_Q||^2 + ||M_K||^2 is at most its value at M_Q = M_K = 1, where nothing is pruned."""
    flat = np.concatenate([mask.ravel() for mask in instance.masks_or_ones])
    norm, limit = frobenius(flat), BALL.sqrt(arb(flat.size))
    holds = not norm > limit
    reason = f"(||M_Q||_F^2 + ||M_K||_F^2)^(1/2) = {show(norm)}, and {show(limit)} where nothing is pruned."
    return LayerAssumption("M-norm", holds, nearest(norm), log10(norm), reason)
