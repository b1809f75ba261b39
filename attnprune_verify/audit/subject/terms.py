"""The terms of an audit: a seed that may be drawn, how long it takes, and how the subject is confined."""

import math
import os
import secrets
from dataclasses import dataclass

from attnprune_verify.audit.subject.confinement import CHOICES
from attnprune_verify.audit.subject.process import SECONDS_PER_CALL, Subject
from attnprune_verify.errors import InvalidInstance

_SEEDS = 1 << 32  # chosen: as many as NumPy's old generators took, and a number that one can retype


def drawn(seed: object) -> int:
    """Return the seed, a new one for "random".

    Raises
    ------
    InvalidInstance

    Examples
    --------
    >>> drawn(7), 0 <= drawn("random") < 2**32
    (7, True)
    """
    if seed == "random" and isinstance(seed, str):
        return secrets.randbelow(_SEEDS)
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InvalidInstance(f'seed must be an integer >= 0 or "random"; got {seed!r}')
    return seed


@dataclass(frozen=True)
class Terms:
    """Seconds for the whole audit, seconds of processor time for a call, the confinement, and folders that are open.

    Raises
    ------
    InvalidInstance
        If the seconds are not positive and finite, there is no such choice, or a folder is not there.
    """

    limit: float | None = None
    call_limit: float = SECONDS_PER_CALL
    confine: str = CHOICES[0]
    path: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, value in (("limit", self.limit), ("call_limit", self.call_limit)):
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not (number and 0 < value < math.inf):
                raise InvalidInstance(f"{name} must be a positive number of seconds; got {value!r}")
        if self.confine not in CHOICES:
            raise InvalidInstance(f"confine must be one of {', '.join(CHOICES)}; got {self.confine!r}")
        for folder in self.path:
            if not os.path.isdir(folder):
                raise InvalidInstance(f"path must be a folder that is there; got {folder!r}")

    def rule(self, subject: Subject) -> None:
        """Put a subject that has not begun under these terms."""
        subject.limit, subject.seconds_per_call, subject.confine = self.limit, self.call_limit, self.confine
        subject.first = tuple(map(os.path.abspath, self.path))
