"""Test vectors of attention for every language: inputs, and for every answer the two ends of what is right."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count as _count
from itertools import islice, zip_longest
from pathlib import Path

import numpy as np

from attnprune_verify.audit.kernel.problem.conventions import Conventions
from attnprune_verify.audit.kernel.problem.features import FEATURES
from attnprune_verify.audit.kernel.problem.interactions import interaction, rows
from attnprune_verify.audit.kernel.problem.regimes import regimes
from attnprune_verify.audit.kernel.problem.sample import BACKWARD, FORWARD, KernelSample, parts_of
from attnprune_verify.audit.kernel.problem.tensors import Stored, of_dtype, packed
from attnprune_verify.audit.kernel.process.context import poisoned
from attnprune_verify.audit.kernel.truth.intervals import interval
from attnprune_verify.audit.kernel.typing import Foreign, Plain
from attnprune_verify.audit.result import Outcome
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.files import dumps
from attnprune_verify.state.outputs import LIST, outputs_in, write_output
from attnprune_verify.values import as_count

__all__ = ["INDEX", "MOST", "PROMISES", "SCHEMA", "TENSORS", "VectorsResult", "vector_samples", "write_vectors"]

SCHEMA = "attnprune-verify/vectors/1"
INDEX, TENSORS = "index.json", "vectors.safetensors"
RULE = "An answer passes where lowest <= answer <= highest holds for every entry; nan passes nowhere."
PROMISES = {feature.name: feature.promise for feature in FEATURES if feature.promise}
"""Keywords of what not every kernel promises: one that does not know the keyword refuses it, and is not wrong."""
MOST = 256 * 2**20  # bytes of a file of arrays, chosen: six times what 256 vectors have
_LONGEST = 130  # chosen: sizes up to here keep 256 vectors below 40 MB


@dataclass(frozen=True)
class VectorsResult:
    """Verdict on a file of answers.

    Attributes
    ----------
    passed, failed, missing : names of answers, such as "17.dq"
    reasons : dict[str, str]
        Why each of `failed` did.
    left_out : tuple[str, ...]
        What was declared not to be answered.
    """

    passed: tuple[str, ...]
    failed: tuple[str, ...]
    missing: tuple[str, ...]
    reasons: dict[str, str]
    left_out: tuple[str, ...]

    @property
    def outcome(self) -> Outcome:
        """Failed if an answer is wrong, incomplete if one is missing that was not declared, or there is none."""
        if self.failed:
            return "failed"
        return "passed" if self.passed and not self.missing else "incomplete"

    def as_dict(self) -> Plain:
        """Plain data."""
        return {
            "schema": f"{SCHEMA}/answers",
            "outcome": self.outcome,
            "passed": len(self.passed),
            "failed": self.reasons,
            "missing": list(self.missing),
            "left_out": list(self.left_out),
        }


def vector_samples(dtype: str, count: int, seed: int = 0) -> list[KernelSample]:
    """The instances: of every regime one, then another one of each, then all triples of features.

    Examples
    --------
    >>> [sample.name for sample in vector_samples("float32", 3)]
    ['n4', '1x1', 'c5']
    """
    return list(islice(_instances(dtype, seed), count))


def _instances(dtype: str, seed: int) -> Iterator[KernelSample]:
    """Instances without end; those of later seeds come last."""
    for later in _count(seed):
        by_regime = [regime.samples for regime in regimes(later, dtype).values()]
        for turn in zip_longest(*by_regime):
            yield from (one for one in turn if one is not None and _storable(one))
        for place, row in enumerate(rows(frozenset(), 3, largest=False)):
            sample = interaction(row, later, dtype, place, gradients=True)
            if _storable(sample):
                yield sample


def _storable(sample: KernelSample) -> bool:
    """Return True where a sample is small and has one right result: no log sum exp with sinks, no poisoned queries."""
    left_open = (sample.lse and sample.sinks is not None) or (sample.poison is not None and sample.empty)
    return sample.longest <= _LONGEST and not left_open


def write_vectors(folder: Path, dtype: str = "float32", count: int = 256, seed: int = 0) -> Plain:
    """Write the vectors into a folder, which is made if it is not there; return the index.

    Raises
    ------
    InvalidInstance
        If the folder holds anything else, or the count is no positive integer.
    """
    samples = vector_samples(dtype, as_count("count", count, least=1), seed)
    if folder.exists() and (not folder.is_dir() or {one.name for one in folder.iterdir()} - {INDEX, LIST, TENSORS}):
        raise InvalidInstance(f"--out must be a folder that is new, empty or of vectors; got {str(folder)!r}")
    with outputs_in(folder, "|".join(map(re.escape, (INDEX, TENSORS)))):
        tensors: dict[str, Stored] = {}
        vectors = [_vector(str(place), sample, tensors) for place, sample in enumerate(samples)]
        content = packed(tensors)
        if len(content) > MOST:
            raise InvalidInstance(f"vectors must have at most {MOST} bytes; {count} have {len(content)}; lower count")
        index = {
            "schema": SCHEMA,
            "dtype": dtype,
            "seed": seed,
            "rule": RULE,
            "conventions": Conventions().as_dict(),
            "tensors": TENSORS,
            "sha256": hashlib.sha256(content).hexdigest(),
            "vectors": vectors,
        }
        write_output(folder / TENSORS, content)
        write_output(folder / INDEX, dumps(index).encode())
    return index


def _vector(name: str, sample: KernelSample, tensors: dict[str, Stored]) -> Plain:
    """The entry of one instance; its arrays go to the tensors."""
    dtype, packed = sample.precision.name, sample.ends is not None
    arrays: dict[str, Foreign] = dict(zip(("q", "k", "v", "do"), poisoned(sample), strict=True))
    if sample.dlse is not None:
        arrays["dlse"] = sample.dlse
    inputs = {key: _put(tensors, f"{name}.{key}", _shaped(key, array, packed), dtype) for key, array in arrays.items()}
    keywords: Plain = {}
    for key, value in sample.keywords(FORWARD).items():
        keywords[key] = _put(tensors, f"{name}.{key}", value, _kind(key, value, dtype)) if _is_array(value) else value
    keywords |= {promise: True for feature, promise in PROMISES.items() if feature in sample.features}
    answers = {}
    # gradients by what is poisoned may be anything
    backward = parts_of(BACKWARD, sample) if sample.poison is None else ()
    for part in (*parts_of(FORWARD, sample), *backward):
        ends = {}
        for end, array in zip(("lowest", "highest"), interval(part, sample), strict=True):
            ends[end] = _put(tensors, f"{name}.{part}.{end}", _shaped(part, array, packed), "float64")
        answers[part] = {"answer": f"{name}.{part}", **ends}
    features = list(sample.changed(layout="plain").features)  # a file has no strides
    return {"name": sample.name, "features": features, "inputs": inputs, "keywords": keywords, "answers": answers}


def _put(tensors: dict[str, Stored], name: str, array: Foreign, kind: str) -> str:
    tensors[name] = of_dtype(array, kind)
    return name


def _is_array(value: Foreign) -> bool:
    return isinstance(value, np.ndarray)


def _kind(key: str, value: Foreign, dtype: str) -> str:
    """The type in which a keyword is stored: what is added to logits has the inputs' own, slopes that of the sums."""
    if value.dtype.kind in "bi":
        return "bool" if value.dtype.kind == "b" else "int32"
    if key != "alibi":
        return dtype
    return "float64" if dtype == "float64" else "float32"


def _shaped(name: str, array: Foreign, packed: bool) -> Foreign:
    """Packed sequences are (total, heads, features), their log sum exp (heads, total)."""
    if not packed or name in ("dbias", "dsinks"):
        return array
    return array[0] if name in ("lse", "dlse") else array[0].swapaxes(0, 1)
