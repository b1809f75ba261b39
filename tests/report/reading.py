"""Reports read back: the text of a result as numbers, flags and names, by a reader that knows nothing of the writer."""

import io
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Console

_NUMBER = re.compile(r"(?<![\w.:/-])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.]*\w)")
_WIDE = 400


def text_of(report: Any) -> str:
    """Return the text on a terminal of many columns."""
    out = io.StringIO()
    Console(file=out, width=_WIDE, color_system=None, highlight=False).print(report)
    return out.getvalue()


def leaves(document: Any) -> Iterator[Any]:
    """Yield every value of a JSON document."""
    if isinstance(document, dict):
        for value in document.values():
            yield from leaves(value)
    elif isinstance(document, list | tuple):
        for value in document:
            yield from leaves(value)
    else:
        yield document


def numbers(text: str) -> list[str]:
    return _NUMBER.findall(text)


def known(document: Any) -> list[float]:
    """Return every number of a document, those inside its sentences and the lengths of its lists included."""
    found: list[float] = []
    for value in leaves(document):
        if isinstance(value, str):
            found += [float(one) for one in numbers(value)]
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found.append(float(value))
    return found


def unknown(text: str, values: Iterable[float]) -> list[str]:
    """Return the numbers of a text that are no value's, rounded as they are printed."""
    values = [*values]
    return [printed for printed in numbers(text) if not any(_rounds_to(value, printed) for value in values)]


def _rounds_to(value: float, printed: str) -> bool:
    if not math.isfinite(value):
        return False
    digits = len(re.sub(r"e.*|[.-]", "", printed).lstrip("0")) or 1
    return any(float(f"{value:.{some}g}") == float(printed) for some in range(digits, max(digits, 6) + 1))


def row(text: str, name: str) -> str:
    """Return the line that starts with a name."""
    lines = [line.strip() for line in text.splitlines() if re.match(rf"\s*{re.escape(name)}(?:\s|$)", line)]
    assert len(lines) == 1, f"{len(lines)} lines start with {name}"
    return lines[0].removeprefix(name).strip()
