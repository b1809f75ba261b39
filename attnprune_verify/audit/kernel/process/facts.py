"""The facts about a kernel: what it declares, what one call gave, and what the calls of a function have shown."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.kernel.problem.conventions import Conventions
from attnprune_verify.audit.kernel.problem.sample import KernelSample
from attnprune_verify.audit.kernel.problem.scope import ANYTHING, AXES, Extent, KernelScope
from attnprune_verify.audit.kernel.process.bridge import FACTS
from attnprune_verify.audit.kernel.process.parameters import Parameters
from attnprune_verify.audit.subject.answers import NoAnswer
from attnprune_verify.audit.subject.process import Subject


@dataclass(frozen=True, eq=False)
class Reply:
    """Results of one call, with their types and what the call changed.

    Attributes
    ----------
    parts : tuple[NDArray[np.float64], ...]
        The arrays, as float64.
    types : their dtypes' names
    changed : tuple[str, ...]
        The inputs that were changed by the call.
    made, other : int
        How many equal calls were made, and how many of them differ from the first in a bit.
    """

    parts: tuple[NDArray[np.float64], ...]
    types: tuple[str, ...]
    changed: tuple[str, ...]
    made: int = 1
    other: int = 0


class Refused(NoAnswer):
    """The kernel raised on something that it may refuse."""


class TooSlow(NoAnswer):
    """A large sample that would take too long."""


@dataclass(frozen=True)
class Declared:
    """Statements of a kernel about itself, as the bridge reads them in the kernel's process.

    Attributes
    ----------
    framework : str
        "numpy", "torch" or "jax".
    own_backward : bool
        Whether the backward pass is the kernel's own, not the framework's automatic differentiation.
    capabilities : tuple of str
        The words of CAPABILITIES.
    conventions : Conventions
        Those of CONVENTIONS, the defaults where it names none.
    anything : bool
        Whether CAPABILITIES, beyond the case that is plain, or CONVENTIONS is there.
    scope : KernelScope
        Of SIZES, LAYOUT and CAPABILITIES.
    layout, scale : str
        LAYOUT and SCALE.
    ignored : tuple of str
        IGNORED: parameters that no check has to pass.
    parameters : dict
        Those of each function that has a signature.
    """

    framework: str = "numpy"
    own_backward: bool = False
    capabilities: tuple[str, ...] = ()
    conventions: Conventions = field(default_factory=Conventions)
    anything: bool = False
    scope: KernelScope = ANYTHING
    layout: str = "bhnm"
    scale: str = "optional"
    ignored: tuple[str, ...] = ()
    parameters: dict[str, Parameters] = field(default_factory=dict)

    @property
    def integers_alone(self) -> tuple[str, ...]:
        """Keywords of integers without which no call is possible, as they have no default."""
        needed = {name for mine in self.parameters.values() for name in mine.always}
        return tuple(name for name in ("indices", "block_table") if name in needed)

    @property
    def sequences_alone(self) -> bool:
        """Report whether no call is possible without cu_seqlens_q, as it has no default."""
        return any("cu_seqlens_q" in mine.always for mine in self.parameters.values())

    @classmethod
    def by(cls, subject: Subject) -> Declared:
        """Read the statements of a kernel that runs."""
        if FACTS not in subject.functions:
            return cls()
        facts = json.loads(bytes(subject.call(FACTS, []).parts[0].astype(np.uint8)))
        conventions = Conventions.declared(facts.get("conventions") or {})
        capabilities = tuple(facts["capabilities"])
        scope = KernelScope.declared(facts["sizes"], capabilities)
        missing = AXES[: 4 - len(facts["layout"])]  # of samples, or of samples and heads
        scope = scope.with_extents(**{axis: Extent((1,)) for axis in missing})
        return cls(
            facts["framework"], bool(facts["own"]), capabilities, conventions, facts["declares"], scope,
            facts["layout"], facts["scale"], tuple(facts["ignored"]),
            {name: Parameters.read(found) for name, found in facts["parameters"].items() if found},
        )  # fmt: skip


@dataclass
class CallFacts:
    """Facts about one function of the kernel, from the calls made so far.

    Attributes
    ----------
    note : str
        A remark for the report.
    largest : int
        The largest size that it was called on.
    replies : dict
        Samples and what came back, by the sample's id; the sample is kept so that no other gets its id.
    refused : dict
        The reason by set of features that it raised on.
    accepted : set
        The sets of features that it took.
    passed : set of str
        The contract's keywords that a call had.
    shapes : set of tuple
        The sizes of all samples that it answered on.
    sizes : dict
        Whether sizes (batch, heads, kv_heads, n, l, m, mv) were taken in the plain case.
    refuses_all : str
        Why no call of it can succeed.
    given_up : str
        Why it is not called any more.
    seconds : float
        Seconds of a unit of work at best; infinite before the first call that is long enough.
    skipped : set of int
        Sizes that would have taken too long.
    writes : bool
        Whether it was seen to change its inputs.
    reads : dict
        Whether it was seen to read masks of a kind rightly, by the word of CAPABILITIES.
    accepts_lse_cotangent : bool or None
        Whether gradients come through log sum exp; None before the probe.
    zero_empty_rows : bool or None
        Whether rows with nothing allowed are 0; None before the probe.
    combined : object
        The combinations of features that it accepts, see checks/combined_features.py.
    tiny : dict
        The smallest samples with given features.
    """

    note: str = ""
    calls: int = 0
    largest: int = 0
    replies: dict[int, tuple[KernelSample, Reply | NoAnswer]] = field(default_factory=dict)
    refused: dict[frozenset[str], str] = field(default_factory=dict)
    accepted: set[frozenset[str]] = field(default_factory=set)
    passed: set[str] = field(default_factory=set)
    shapes: set[tuple[int, ...]] = field(default_factory=set)
    sizes: dict[tuple[int, ...], bool] = field(default_factory=dict)
    refuses_all: str = ""
    given_up: str = ""
    deaths: int = 0
    seconds: float = np.inf
    skipped: set[int] = field(default_factory=set)
    writes: bool = False
    reads: dict[str, bool] = field(default_factory=dict)
    accepts_lse_cotangent: bool | None = None
    zero_empty_rows: bool | None = None
    counts_sinks: bool | None = None
    combined: Any = None
    tiny: dict[tuple[str, ...], KernelSample] = field(default_factory=dict)
