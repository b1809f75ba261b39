"""Test vectors of attention for every language: inputs, and for every answer the two ends of what is right."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count as _count
from itertools import islice, zip_longest
from pathlib import Path

import numpy as np

from attnprune_verify.audit.kernel.foreign import Plain
from attnprune_verify.audit.kernel.interactions import LEVELS, OPTIONAL, interaction, rows
from attnprune_verify.audit.kernel.intervals import interval
from attnprune_verify.audit.kernel.regimes import regimes
from attnprune_verify.audit.kernel.sample import FORWARD, Sample
from attnprune_verify.audit.kernel.tensors import Stored, of_dtype, packed
from attnprune_verify.audit.run import Outcome
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.files import dumps, write_whole
from attnprune_verify.values import as_count

__all__ = ["INDEX", "SCHEMA", "TENSORS", "VectorsResult", "vector_samples", "write_vectors"]

SCHEMA = "attnprune-verify/vectors/1"
INDEX, TENSORS = "index.json", "vectors.safetensors"
RULE = "An answer passes where lowest <= answer <= highest holds for every entry; nan passes nowhere."
_FEATURES = {*LEVELS} - OPTIONAL  # what the index describes
_LONGEST = 130  # chosen: sizes up to here keep 256 vectors below 40 MB


@dataclass(frozen=True)
class VectorsResult:
    """Verdict on a file of answers.

    Attributes
    ----------
    passed, failed, missing : names of answers, such as "17.dq"
    reasons : why each of `failed` did
    left_out : what was declared not to be answered
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


def vector_samples(dtype: str, count: int, seed: int = 0) -> list[Sample]:
    """The instances: of every regime one, then another one of each, then all triples of features.

    Examples
    --------
    >>> [sample.name for sample in vector_samples("float32", 3)]
    ['n4', '1x1', 'c5']
    """
    return list(islice(_instances(dtype, seed), count))


def _instances(dtype: str, seed: int) -> Iterator[Sample]:
    """Instances without end; those of later seeds come last."""
    for later in _count(seed):
        by_regime = [regime.samples for regime in regimes(later, dtype).values()]
        for turn in zip_longest(*by_regime):
            yield from (one for one in turn if one is not None and _storable(one))
        for place, row in enumerate(rows(OPTIONAL, 3, largest=False)):
            yield interaction(row, later, dtype, place)


def _storable(sample: Sample) -> bool:
    return sample.longest <= _LONGEST and set(sample.features) <= _FEATURES


def write_vectors(folder: Path, dtype: str = "float32", count: int = 256, seed: int = 0) -> Plain:
    """Write the vectors into a folder, which is made if it is not there; return the index.

    Raises
    ------
    InvalidInstance
        If the folder holds anything else, or the count is no positive integer.
    """
    samples = vector_samples(dtype, as_count("count", count, least=1), seed)
    if folder.exists() and (not folder.is_dir() or {one.name for one in folder.iterdir()} - {INDEX, TENSORS}):
        raise InvalidInstance(f"--out must be a folder that is new, empty or of vectors; got {str(folder)!r}")
    tensors: dict[str, Stored] = {}
    vectors = [_vector(str(place), sample, tensors) for place, sample in enumerate(samples)]
    content = packed(tensors)
    index = {
        "schema": SCHEMA,
        "dtype": dtype,
        "seed": seed,
        "rule": RULE,
        "tensors": TENSORS,
        "sha256": hashlib.sha256(content).hexdigest(),
        "vectors": vectors,
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / TENSORS, content)
    write_whole(folder / INDEX, dumps(index).encode())
    return index


def _vector(name: str, sample: Sample, tensors: dict[str, Stored]) -> Plain:
    """The entry of one instance; its arrays go to the tensors."""
    dtype = sample.precision.name
    for one in ("q", "k", "v", "do"):
        tensors[f"{name}.{one}"] = of_dtype(getattr(sample, one), dtype)
    keywords: Plain = {}
    for key, value in sample.keywords(FORWARD).items():
        if isinstance(value, np.ndarray):
            kind = "bool" if value.dtype == bool else "float64" if dtype == "float64" else "float32"
            tensors[f"{name}.{key}"], value = of_dtype(value, kind), f"{name}.{key}"
        keywords[key] = value
    answers = {}
    for part in ("o", "dq", "dk", "dv"):
        ends = {"lowest": f"{name}.{part}.lowest", "highest": f"{name}.{part}.highest"}
        for end, array in zip(ends.values(), interval(part, sample), strict=True):
            tensors[end] = of_dtype(array, "float64")
        answers[part] = {"answer": f"{name}.{part}", **ends}
    inputs = {one: f"{name}.{one}" for one in ("q", "k", "v", "do")}
    features = [one for one in sample.features if one != "strides"]  # which a file has not
    return {"name": sample.name, "features": features, "inputs": inputs, "keywords": keywords, "answers": answers}
