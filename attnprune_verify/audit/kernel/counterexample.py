"""One failing instance as plain data: what went in, what came out, and the two ends of what is right."""

from __future__ import annotations

import numpy as np

from attnprune_verify.audit.kernel.problem.integers import PagedSample
from attnprune_verify.audit.kernel.problem.sample import BACKWARD, KernelSample, parts_of
from attnprune_verify.audit.kernel.process.context import KernelContext, poisoned
from attnprune_verify.audit.kernel.truth.intervals import interval
from attnprune_verify.audit.kernel.typing import Numbers, Plain
from attnprune_verify.audit.subject.answers import NoAnswer
from attnprune_verify.files import plain


def counterexample(check: str, function: str, sample: KernelSample, context: KernelContext) -> Plain:
    """Describe a failure for a program.

    Returns
    -------
    dict
        ``check``, ``function``, ``dtype``, ``inputs`` and ``keywords`` (arrays as ``{"shape", "data"}``, numbers exact
        in the dtype), ``returned`` (absent where nothing came back), and ``lowest`` and ``highest``: an answer is right
        where it lies between them, entry by entry. Numbers that are not finite are texts.
    """
    inputs = ("q", "k", "v", "do") if function == BACKWARD else ("q", "k", "v")
    given = sample.keywords(function)
    arrays = poisoned(sample) if isinstance(sample, PagedSample) else (sample.q, sample.k, sample.v, sample.do)
    ends = {name: interval(name, sample) for name in parts_of(function, sample)}
    found: Plain = {
        "check": check,
        "function": function,
        "instance": sample.describe(),
        "dtype": sample.precision.name,
        "inputs": {name: as_data(array) for name, array in zip(inputs, arrays, strict=False)},
        "keywords": {name: as_data(v) if isinstance(v, np.ndarray) else v for name, v in given.items()},
        "lowest": {name: as_data(low) for name, (low, _) in ends.items()},
        "highest": {name: as_data(high) for name, (_, high) in ends.items()},
    }
    try:
        returned = context.ask(function, sample).parts
    except NoAnswer:
        return found
    found["returned"] = {name: as_data(part) for name, part in zip(parts_of(function, sample), returned, strict=True)}
    return found


def as_data(array: Numbers) -> Plain:
    """An array as its shape and its numbers, the last index fastest.

    Examples
    --------
    >>> as_data(np.array([[1.0, np.inf]]))
    {'shape': [1, 2], 'data': [1.0, 'inf']}
    """
    return {"shape": list(array.shape), "data": plain(array.reshape(-1).tolist())}
