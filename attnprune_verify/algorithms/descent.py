"""Gradient descent on the pruning mask: alg:mask_gd and its readings."""

import math
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from attnprune_verify.algorithms.readings import DescentReading, MomentumForm, as_reading
from attnprune_verify.algorithms.rounding import binary_mask
from attnprune_verify.algorithms.steps import safe_step, sharp_step
from attnprune_verify.algorithms.trace import Descent, Settings, Trace
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.mask import MaskLike
from attnprune_verify.instance.validate import Array, as_real, as_reals, check_shapes
from attnprune_verify.model.objective import Objective
from attnprune_verify.values import as_choice, as_count, as_lam, as_momentum, as_positive, as_ratio

__all__ = ["Descent", "Run", "prune_mask_gd"]

_FAR = 1e8  # a descent that converges keeps ||M||_F <= ||M_0||_F; this many times that is divergence


def prune_mask_gd(
    X: ArrayLike,
    W: ArrayLike,
    rho: float,
    lam: float,
    *,
    mask: MaskLike = None,
    eta: float | None = None,
    steps: int = 100,
    momentum: float = 0.0,
    reading: str | DescentReading = "theorem",
    momentum_form: MomentumForm = "heavy-ball",
    project: bool = False,
    initial: ArrayLike | None = None,
    resume: Descent | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Descent:
    """Find a pruning mask for `W` by gradient descent on the attention error, then round it (alg:mask_gd).

    From M_0 = 1, with g the gradient of the averaged loss of the reading (see `readings`)::

        heavy-ball   v <- momentum v + g,                  M <- M - eta v
        ema          v <- momentum v + (1 - momentum) g,   M <- M - eta v
        nesterov     v <- momentum v + g,                  M <- M - eta (g + momentum v)

    and at the end the floor(rho d^2) smallest entries of M become 0, the others 1 (`binary_mask`).

    Parameters
    ----------
    X : (n, d) or (k, n, d) array
        Calibration samples.
    W : (d, d) array
        Fused weight W_Q W_K^T.
    rho : float
        Pruning ratio in [0, 1].
    lam : float
        Regularisation strength as the reading counts it, >= 0.
    mask : None, "causal" or (n, n) array of 0 and 1
        Attention mask.
    eta : float, optional
        Fixed step. None takes the reading's own: in the default reading "theorem" the step with a guarantee, the loss
        never rises. With momentum the guaranteed step is taken along v, and v falls back to g where it is no descent
        direction.
    steps : int
        Steps to take (in addition to those of `resume`).
    momentum : float
        In [0, 1); Section 6.1 says 0.9.
    reading : str or DescentReading
        The place of lam and the choice of eta.
    momentum_form : "heavy-ball", "ema" or "nesterov"
    project : bool
        Clip M to [0, 1] after every step. (The guarantee is for steps without clipping.)
    initial : (d, d) array, optional
        Another M_0.
    resume : Descent, optional
        Go on where an earlier run with the same data and settings stopped; the result is that of one longer run.
    progress : callable, optional
        Called as ``progress(steps done, steps)`` after every step.

    Returns
    -------
    Descent

    Raises
    ------
    InvalidInstance
        Before any work, if an argument breaks a rule: as `Objective`; rho outside [0, 1]; lam = 0 where eta = 0.1/lam;
        eta <= 0; steps < 0; momentum outside [0, 1); an unknown reading; a `resume` from other settings or data.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, W = rng.normal(size=(6, 4)), 0.3 * rng.normal(size=(4, 4))
    >>> result = prune_mask_gd(X, W, 0.5, 0.01, mask="causal", steps=20)
    >>> int(result.mask.sum()), result.trace.ascents, result.status
    (8, 0, 'completed')
    >>> again = prune_mask_gd(X, W, 0.5, 0.01, mask="causal", steps=5, resume=result)
    >>> again.steps
    25
    """
    settings = _settings(rho, lam, reading, eta, momentum, momentum_form, project)
    steps = as_count("steps", steps)
    chosen = settings.reading
    samples, weight = as_reals(X=X, W=W)
    sizes = check_shapes({"X": ("n", "d"), "W": ("d", "d")}, {"X": samples, "W": weight})
    n, k = sizes["n"], sizes.get("k", 1)
    fixed = settings.eta if settings.eta is not None else chosen.fixed_step(settings.lam, n)
    if fixed is None and chosen.step == "directional" and momentum_form == "nesterov" and settings.momentum > 0:
        raise InvalidInstance("nesterov momentum needs a fixed eta or another reading; got the directional step")
    begin = np.ones_like(weight) if initial is None else as_real("initial", initial).astype(weight.dtype)
    check_shapes({"W": ("d", "d"), "initial": ("d", "d")}, {"W": weight, "initial": begin})
    objective = Objective(samples, weight, chosen.strength(settings.lam, n, k), mask)
    if fixed is None and chosen.step == "sharp":
        fixed = sharp_step(objective)

    run = Run(objective, settings, fixed, [begin])
    if resume is not None:
        run.go_on(resume)
    run.descend(steps, progress)
    return run.result()


class Run:
    """The state of a descent on one mask (a fused weight) or several (a layer)."""

    def __init__(
        self, objective: Objective, settings: Settings, fixed_step: float | None, begin: Sequence[Array]
    ) -> None:
        self.objective, self.settings, self.fixed_step = objective, settings, fixed_step
        self.masks = list(begin)
        self.velocity = [np.zeros_like(mask) for mask in begin]
        self.visited: list[tuple[float, ...]] = []
        self.taken: list[float] = []
        self.message = ""
        self.status: Literal["completed", "stationary", "diverged"] = "completed"

    def go_on(self, earlier: Descent) -> None:
        """Take up the state in which an earlier run on one mask ended."""
        if not isinstance(earlier, Descent):
            raise InvalidInstance(f"resume must be the result of an earlier run; got {type(earlier).__name__}")
        if earlier.settings != self.settings:
            names = [field.name for field in fields(Settings)]
            other = [name for name in names if getattr(earlier.settings, name) != getattr(self.settings, name)]
            raise InvalidInstance(f"a resumed run must keep its settings; got others for {', '.join(other)}")
        (begin,) = self.masks
        if earlier.M.shape != begin.shape or earlier.M.dtype != begin.dtype:
            raise InvalidInstance(
                f"a resumed run must keep its data; its M is {earlier.M.dtype} {earlier.M.shape}, here "
                f"{begin.dtype} {begin.shape}"
            )
        if earlier.status == "diverged":
            raise InvalidInstance(f"a resumed run must not have diverged; this one did: {earlier.message}")
        here = self.objective.loss(earlier.M)
        if not np.isclose(here, earlier.trace.loss[-1], rtol=1e-6 if begin.dtype == np.float32 else 1e-9, atol=0):
            raise InvalidInstance(
                f"a resumed run must keep its data; its last loss was {earlier.trace.loss[-1]}, here it is {here}"
            )
        self.masks, self.velocity = [earlier.M.copy()], [earlier.velocity.copy()]
        trace = earlier.trace
        columns = (trace.loss, trace.gradient_norm, trace.mask_norm, trace.least, trace.greatest, trace.outside)
        self.visited = [tuple(float(x) for x in row) for row in zip(*columns, strict=True)][:-1]
        self.taken = [float(x) for x in trace.step]

    def descend(self, steps: int, progress: Callable[[int, int], object] | None = None) -> None:
        """Take `steps` steps, or fewer if the descent converges or diverges."""
        limit = _FAR * max(1.0, _norm(self.masks))
        gradient = self._evaluate()
        for done in range(1, steps + 1):
            if not any(part.any() for part in (*gradient, *self.velocity)):
                self.status = "stationary"
                self.message = f"stationary after {len(self.taken)} steps: the gradient is exactly 0"
                return
            before = self.masks, self.velocity
            eta = self._move(gradient)
            size = _norm(self.masks)
            following = self._visit() if size <= limit else None
            if following is None:
                self.masks, self.velocity = before
                self.status = "diverged"
                self.message = (
                    f"diverged in step {len(self.taken) + 1} (eta = {eta:.3g}): ||M||_F went from "
                    f"{self.visited[-1][2]:.3g} to {size:.3g}, or the loss left the floating-point range"
                )
                return
            self.taken.append(eta)
            gradient = following
            if progress is not None:
                progress(done, steps)
        self.message = f"completed {len(self.taken)} steps: loss {self.visited[0][0]:.6g} -> {self.visited[-1][0]:.6g}"

    def _visit(self) -> list[Array] | None:
        """`_evaluate`, or None when loss or gradient leave the floating-point range."""
        try:
            return self._evaluate()
        except InvalidInstance:
            return None

    def _evaluate(self) -> list[Array]:
        """Loss and gradient at M, written down."""
        loss, gradient = self.objective.loss_and_gradient_at(self.masks)
        outside = sum(np.count_nonzero((M < 0) | (M > 1)) for M in self.masks)
        norms = _norm(gradient), _norm(self.masks)
        if not np.isfinite([loss, *norms]).all():
            raise InvalidInstance(f"the loss and its gradient must be finite; got {loss} and norm {norms[0]}")
        extremes = min(float(M.min()) for M in self.masks), max(float(M.max()) for M in self.masks)
        self.visited.append((loss, *norms, *extremes, float(outside)))
        return gradient

    def _move(self, gradient: list[Array]) -> float:
        beta, form = self.settings.momentum, self.settings.momentum_form
        with np.errstate(over="ignore", invalid="ignore"):  # divergence is looked for afterwards
            share = 1 - beta if form == "ema" else 1
            self.velocity = [beta * v + share * g for v, g in zip(self.velocity, gradient, strict=True)]
            direction = self.velocity
            if form == "nesterov":
                direction = [g + beta * v for v, g in zip(self.velocity, gradient, strict=True)]
            eta = self.fixed_step
            if eta is None:
                direction, eta = self._guaranteed(gradient, direction)
            self.masks = [M - M.dtype.type(eta) * part for M, part in zip(self.masks, direction, strict=True)]
            if self.settings.project:
                self.masks = [np.clip(M, 0, 1) for M in self.masks]
        return eta

    def _guaranteed(self, gradient: list[Array], direction: list[Array]) -> tuple[list[Array], float]:
        """The directional step of one mask; where momentum leads uphill, it is forgotten."""
        slope = float(np.vdot(gradient[0], direction[0]))
        if slope <= 0:
            self.velocity = direction = gradient
            slope = float(np.vdot(gradient[0], gradient[0]))
        return direction, safe_step(self.objective, slope, direction[0])

    def result(self) -> Descent:
        """Return the result of a descent on one mask."""
        (M,), (velocity,) = self.masks, self.velocity
        loss, gradient, size, least, greatest, outside = np.array(self.visited, dtype=np.float64).T
        precision = float(np.finfo(M.dtype).eps)
        trace = Trace(loss, gradient, size, least, greatest, outside, np.array(self.taken), precision)
        mask = binary_mask(M, self.settings.rho)
        return Descent(mask, M, velocity, trace, self.status, self.message, self.settings)


def _norm(matrices: Sequence[Array]) -> float:
    """||.||_F of all together in float64; inf where even that overflows, nan where entries are."""
    with np.errstate(over="ignore", invalid="ignore"):
        return math.hypot(*(float(np.linalg.norm(matrix.astype(np.float64))) for matrix in matrices))


def _settings(
    rho: float,
    lam: float,
    reading: str | DescentReading,
    eta: float | None,
    momentum: float,
    momentum_form: MomentumForm,
    project: bool,
) -> Settings:
    as_choice("momentum_form", momentum_form, get_args(MomentumForm))
    step = None if eta is None else as_positive("eta", eta)
    return Settings(
        as_ratio(rho), as_lam(lam), as_reading(reading), step, as_momentum(momentum), momentum_form, bool(project)
    )
