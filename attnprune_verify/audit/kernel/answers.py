"""Answers to the test vectors, from any language: each has to lie between the two ends that the vectors give."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from attnprune_verify.audit.kernel.problem.tensors import unpacked
from attnprune_verify.audit.kernel.typing import Foreign, Plain
from attnprune_verify.audit.kernel.vectors import INDEX, MOST, SCHEMA, VectorsResult
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.files import parse, read_regular
from attnprune_verify.values import as_shaped, nearest

BACKWARD_PARTS = "backward"
"""Stands for all gradients, where only o and log sum exp are answered."""
Tensors = dict[str, Foreign]
_ANSWERS = {str: dict.fromkeys(("answer", "lowest", "highest"), str)}
_SHAPE = {
    "schema": str, "tensors": str, "sha256": str,
    "vectors": [{"name": str, "features": [str], "answers": _ANSWERS}],
}  # fmt: skip


def read_vectors(folder: Path) -> tuple[Plain, Tensors]:
    """The index and the arrays of a folder of vectors.

    Raises
    ------
    InvalidInstance
        If there are none, or a file is not the one that was written.
    """
    try:
        index: Plain = as_shaped(INDEX, parse(read_regular(folder / INDEX)), _SHAPE)
        if index["schema"] != SCHEMA:
            raise InvalidInstance(f"its schema is {index['schema']!r:.60}")
        content = read_regular(folder / Path(index["tensors"]).name, MOST)
        if hashlib.sha256(content).hexdigest() != index["sha256"]:
            raise InvalidInstance("the tensors are not those it was written with")
        tensors = unpacked(content, "the vectors")
        for vector in index["vectors"]:
            for ends in vector["answers"].values():
                shapes = {tensors[ends[end]].shape if ends[end] in tensors else None for end in ("lowest", "highest")}
                if None in shapes or len(shapes) > 1:
                    raise InvalidInstance(
                        f"the ends of {ends['answer']!r:.60} must be arrays of one shape in its tensors"
                    )
        return index, tensors
    except (OSError, InvalidInstance) as error:
        said = error.strerror if isinstance(error, OSError) else error
        raise InvalidInstance(f"DIR must hold vectors of {SCHEMA!r}; {str(folder)!r}: {said}") from None


def check_answers(folder: Path, answers: Path, without: tuple[str, ...] = ()) -> VectorsResult:
    """Judge a safetensors file of answers.

    Parameters
    ----------
    folder : Path
        Of the vectors.
    answers : Path
        Arrays named as the index names them, such as "0.o", of any float type.
    without : tuple of str
        Features, or "backward", that the kernel has not: answers with them need not be there.

    Raises
    ------
    InvalidInstance
        If a file cannot be read, an answer belongs to no vector, or no vector has such a feature.
    """
    index, tensors = read_vectors(folder)
    try:
        given = unpacked(read_regular(answers, MOST), "ANSWERS")
    except OSError as error:
        raise InvalidInstance(f"ANSWERS must be a file; {str(answers)!r}: {error.strerror}") from None
    places = {
        one["answer"]: (vector, part, one) for vector in index["vectors"] for part, one in vector["answers"].items()
    }
    _refuse_strangers(given, places, without)
    passed, failed, missing, reasons = [], [], [], {}
    for name, (vector, part, ends) in places.items():
        excused = set(without) & {*vector["features"], *([BACKWARD_PARTS] if part not in ("o", "lse") else [])}
        if name not in given:
            missing += [] if excused else [name]
            continue
        reason = _wrong(given[name], tensors[ends["lowest"]], tensors[ends["highest"]])
        if reason:
            failed.append(name)
            reasons[name] = f"{reason}, on {vector['name']} ({', '.join(vector['features']) or 'plain'})"
        else:
            passed.append(name)
    return VectorsResult(tuple(passed), tuple(failed), tuple(missing), reasons, without)


def _refuse_strangers(given: Tensors, places: Plain, without: tuple[str, ...]) -> None:
    for name in given:
        if name not in places:
            hint = nearest(name, places)
            raise InvalidInstance(f"every answer must belong to a vector of the index; got {name!r}{hint}")
    features = {BACKWARD_PARTS, *(one for vector, *_ in places.values() for one in vector["features"])}
    for feature in without:
        if feature not in features:
            raise InvalidInstance(f"without must name one of {', '.join(sorted(features))}; got {feature!r}")


def _wrong(answer: Foreign, lowest: Foreign, highest: Foreign) -> str:
    """Return the reason that an answer is wrong; empty if it is right."""
    if answer.shape != lowest.shape:
        return f"the shape is {answer.shape} where {lowest.shape} is right"
    lowest, highest, answer = (one.astype(np.float64) for one in (lowest, highest, answer))
    inside = (lowest <= answer) & (answer <= highest)
    if inside.all():
        return ""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        middle, width = (lowest + highest) / 2, (highest - lowest) / 2
        excess = np.where(inside, 0.0, np.nan_to_num(np.abs(answer - middle) / width, nan=np.inf))
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(excess)), answer.shape))
    count = int((~inside).sum())
    ends = f"[{lowest[at]:.9g}, {highest[at]:.9g}]"
    return f"{count} of {answer.size} entries are outside; at {list(at)} {answer[at]:.9g} is not in {ends}"
