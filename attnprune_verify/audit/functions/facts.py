"""The facts about a subject's functions, from the calls made so far."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from attnprune_verify.audit.contract import Binding
from attnprune_verify.audit.functions.truth.precision import Precision
from attnprune_verify.audit.subject.answers import Answer, NoAnswer


@dataclass
class FunctionFacts:
    """The facts about one function of the subject.

    Attributes
    ----------
    coarser : Precision or None
        The precision it is right in, where that is not the declared one.
    smooth : bool or None
        Whether its error follows the inputs.
    boolean_masks : str
        What it does with masks of 0 and 1, where it takes bool alone.
    order : tuple[str, ...]
        Its parameters, where they come in another order than the contract's.
    changed : tuple[str, str] or None
        An input that a call changed, and the instance.
    overwritten : str or None
        The instance whose call changed an earlier result.
    tensors : bool
        Whether it returns tensors with a graph, or that may have one.
    refused : set[str]
        The features of layers, or the kinds of pruning, that it refuses.
    meant : str or None
        The declaration that makes all its masks right; "" where there is none, None where it was not looked for.
    wrong : set[str]
        The regimes on which it was found wrong.
    largest, matrix : tuple[int, int]
        The largest n and d, the largest shape of a matrix, that it was judged on.
    spared : str
        Why it is not called on the largest instances any more, though right so far.
    given_up : str
        Why it is not called at all any more.
    rate, timed : float, list[tuple[float, float]]
        Seconds for a unit of work at best, and (work, seconds) of its calls.
    batches : str or None
        Why it takes no batch; "" where it does.
    """

    binding: Binding
    coarser: Precision | None = None
    smooth: bool | None = None
    boolean_masks: str = ""
    order: tuple[str, ...] = ()
    note: str = ""
    changed: tuple[str, str] | None = None
    overwritten: str | None = None
    tensors: bool = False
    returned: int = 1  # things in its last result
    refused: set[str] = field(default_factory=set)
    meant: str | None = None
    wrong: set[str] = field(default_factory=set)
    largest: tuple[int, int] = (0, 0)
    matrix: tuple[int, int] = (0, 0)
    spared: str = ""
    calls: int = 0
    answered: bool = False
    given_up: str = ""
    deaths: int = 0
    nonsense: int = 0
    rate: float = np.inf
    timed: list[tuple[float, float]] = field(default_factory=list)
    batches: str | None = None
    answers: dict[int, Answer | NoAnswer] = field(default_factory=dict)
    results: dict[tuple[object, ...], Answer] = field(default_factory=dict)

    def say(self, words: str) -> None:
        """Note something that the report lists once."""
        if words not in self.note:
            self.note = f"{self.note}; {words}" if self.note else words
