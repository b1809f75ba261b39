"""`AttentionEvaluator`: what a benchmark harness of generated kernels needs, in plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.kernel.check import check_attention
from attnprune_verify.audit.kernel.options import CPU
from attnprune_verify.audit.kernel.problem.eight_bits import EIGHT_BITS
from attnprune_verify.audit.kernel.problem.precision import precision_named
from attnprune_verify.audit.kernel.problem.regimes import regimes
from attnprune_verify.audit.kernel.problem.sample import BACKWARD, FORWARD, KernelSample, parts_of
from attnprune_verify.audit.kernel.problem.scope import KernelScope
from attnprune_verify.audit.kernel.truth.judge import judge
from attnprune_verify.audit.kernel.typing import Call, Foreign, Plain
from attnprune_verify.audit.subject.terms import drawn
from attnprune_verify.errors import InvalidInstance


@dataclass(frozen=True)
class Question:
    """One call for a harness that runs kernels itself.

    Attributes
    ----------
    function : "attention" or "attention_backward"
    inputs : dict[str, NDArray[np.float64]]
        Q, k, v (and do) as float64 arrays whose numbers are exact in the dtype.
    keywords : Plain
        Those that are not at their default.
    parts : tuple[str, ...]
        The names of the arrays that come back.
    """

    function: str
    inputs: dict[str, NDArray[np.float64]]
    keywords: Plain
    parts: tuple[str, ...]


class AttentionEvaluator:
    """Judges generated attention kernels, in one call or question by question.

    Parameters
    ----------
    dtype : "float64", "float32", "bfloat16", "float16", "float8_e4m3fn" or "float8_e5m2"
        The precision of the inputs, and what a kernel has to keep; of eight bits there are no questions.
    framework, device, sizes, capabilities, layout, scale, ignored, conventions, recipe, only, names, modes, quick
        As of `attnprune_verify.check_attention`.
    seed : int or "random"
        Of the instances. A drawn one keeps a generator from learning the answers; it stands in each verdict.

    Raises
    ------
    InvalidInstance
        If the dtype or the seed is no such value.

    Examples
    --------
    >>> def zeros(q, k, v):
    ...     return 0 * q
    >>> verdict = AttentionEvaluator(only="*:values:plain").evaluate(zeros)
    >>> verdict["correctness"], verdict["metadata"]["diagnosis"]["attention"][0]
    (False, 'zero-output')
    """

    def __init__(
        self,
        dtype: str = "float32",
        *,
        framework: str | None = None,
        device: str = CPU,
        sizes: Mapping[str, Foreign] | None = None,
        capabilities: Iterable[str] | None = None,
        layout: str | None = None,
        scale: str | None = None,
        ignored: Iterable[str] | None = None,
        conventions: Mapping[str, Foreign] | None = None,
        recipe: Mapping[str, Foreign] | None = None,
        only: str | tuple[str, ...] | None = None,
        names: str = "first",
        modes: str | tuple[str, ...] = (),
        quick: bool = False,
        seed: int | str = "random",
    ) -> None:
        self.dtype = dtype if dtype in EIGHT_BITS else precision_named(dtype).name
        self.framework, self.device = framework, device
        self.seed = drawn(seed)
        self.scope = KernelScope.declared(sizes or {}, capabilities or ())
        self.chosen: Plain = {
            "only": only, "names": names, "modes": modes, "quick": quick, "sizes": sizes, "capabilities": capabilities,
            "layout": layout, "scale": scale, "ignored": ignored, "conventions": conventions, "recipe": recipe,
        }  # fmt: skip

    def evaluate(self, fn: Call, backward: Call | None = None) -> Plain:
        """Judge a kernel whole.

        Returns
        -------
        dict
            ``compiled`` (it could be called at all), ``correctness`` (the audit passed), and ``metadata`` with
            ``outcome``, ``seed``, ``diagnosis``, ``reason`` and ``counterexample`` (None where there is none): plain
            data. A kernel that cannot be had is not compiled, and raises nothing.
        """
        try:
            result = check_attention(
                fn, backward=backward, dtype=self.dtype, framework=self.framework, device=self.device,
                seed=self.seed, **self.chosen,
            )  # fmt: skip
        except InvalidInstance as error:
            metadata = {"outcome": "incomplete", "seed": self.seed, "diagnosis": {}, "reason": str(error)}
            return {"compiled": False, "correctness": False, "metadata": {**metadata, "counterexample": None}}
        wrong = [one for one in result.checks if one.status in ("failed", "could_not_judge", "could_not_run")]
        ran = any(one.status in ("passed", "failed", "inconclusive") for one in result.checks)
        return {
            "compiled": ran,
            "correctness": result.outcome == "passed",
            "metadata": {
                "outcome": result.outcome,
                "seed": self.seed,
                "diagnosis": {name: list(ids) for name, ids in result.diagnosis.items()},
                "reason": f"{wrong[0].id}: {wrong[0].reason}" if wrong else "",
                "counterexample": result.counterexample,
            },
        }

    def questions(self, *, backward: bool = False) -> list[Question]:
        """Every instance of the regimes, for a harness that runs kernels where they belong, such as on a GPU."""
        function, names = (BACKWARD, ("q", "k", "v", "do")) if backward else (FORWARD, ("q", "k", "v"))
        return [
            Question(
                function, {name: getattr(one, name) for name in names}, one.keywords(function), parts_of(function, one)
            )
            for one in self._samples()
        ]

    def judge(self, place: int, answers: Mapping[str, Foreign], *, backward: bool = False) -> Plain:
        """Judge what came back for one question.

        Parameters
        ----------
        place : int
            Of the question in `questions`.
        answers : mapping of str to array
            By the names in the question's `parts`.

        Returns
        -------
        dict
            ``status`` ("passed", "failed" or "inconclusive"), ``reason``, ``error`` and ``bound``.

        Raises
        ------
        InvalidInstance
            If there is no such question, or an answer is missing or has another shape.
        """
        samples, function = self._samples(), BACKWARD if backward else FORWARD
        if not 0 <= place < len(samples):
            raise InvalidInstance(f"place must be in 0..{len(samples) - 1}; got {place}")
        sample = samples[place]
        right = {"o": sample.do.shape, "dq": sample.q.shape, "dk": sample.k.shape, "dv": sample.v.shape}
        parts = []
        for name in parts_of(function, sample):
            if name not in answers:
                raise InvalidInstance(f"answers must hold {', '.join(parts_of(function, sample))}; {name} is missing")
            parts.append(np.asarray(answers[name], dtype=np.float64))
            if parts[-1].shape != right[name]:
                raise InvalidInstance(f"{name} must have the shape {right[name]}; got {parts[-1].shape}")
        with np.errstate(all="ignore"):
            verdict = judge(function, sample, tuple(parts))
        return {
            "status": verdict.status, "reason": verdict.reason, "error": verdict.error, "bound": verdict.bound,
        }  # fmt: skip

    def _samples(self) -> list[KernelSample]:
        return [
            sample
            for regime in regimes(self.seed, self.dtype, self.scope).values()
            for sample in regime.samples
            if not sample.extended and self.scope.excludes(sample) is None
        ]
