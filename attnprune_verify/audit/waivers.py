"""Known deviations, declared by the audited party in a TOML file with a reason each.

::

    [[waive]]                          # runs; a failure is reported as waived
    check = "gradient:values:float32"  # a check id, * and ? allowed
    reason = "float32 is not supported before version 2"

    [[skip]]                           # does not run
    check = "loss:values:larger"
    reason = "takes minutes"

    [[xfail]]                          # runs and has to fail: an entry for a check that passes is an error
    check = "attention:values:logits-1000"
    reason = "issue 17"

An entry that matches no check of the target is an error, too, as are two entries with the same check.
"""

import json
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, cast

from attnprune_verify.audit.record import Record
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.files import read_regular

Kind = Literal["waive", "skip", "xfail"]
_KINDS = ("waive", "skip", "xfail")
_LONGEST = 200  # chosen: letters of a reason that a line of the file holds


@dataclass(frozen=True)
class Waiver:
    """One entry of the file."""

    kind: Kind
    check: str
    reason: str

    def matches(self, id: str) -> bool:
        return fnmatchcase(id, self.check)


def load_waivers(path: str | Path) -> tuple[Waiver, ...]:
    """Read a file of deviations.

    Raises
    ------
    InvalidInstance
        If the file cannot be read, is no TOML, names a check twice, or an entry lacks its check or its reason.
    """
    file = Path(path)
    rule = f"deviations file {str(path)!r} must"
    try:
        content = tomllib.loads(read_regular(file).decode())
    except OSError as error:
        raise InvalidInstance(f"{rule} be readable; got {error.strerror}") from error
    except InvalidInstance as error:
        raise InvalidInstance(f"{rule} be readable; {error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInstance(f"{rule} be TOML; got {error}") from error
    unknown = sorted(set(content) - set(_KINDS))
    if unknown:
        raise InvalidInstance(f"{rule} hold [[waive]], [[skip]] and [[xfail]] entries only; got {', '.join(unknown)}")
    waivers = tuple(_entry(kind, entry, rule) for kind in _KINDS for entry in _entries(content, kind, rule))
    kinds: dict[str, list[str]] = {}
    for waiver in waivers:
        kinds.setdefault(waiver.check, []).append(f"[[{waiver.kind}]]")
    twice = [f"{check!r} in {' and '.join(found)}" for check, found in kinds.items() if len(found) > 1]
    if twice:
        raise InvalidInstance(f"{rule} name every check once; got {', '.join(twice)}")
    return waivers


def waivers_toml(records: Iterable[Record], kept: Iterable[Waiver] = ()) -> str:
    """A file of deviations that waives what failed, could not run or was not decided, after entries that are kept."""
    found = [record for record in records if record.status in ("failed", "could_not_run", "inconclusive")]
    entries = [
        f"[[waive]]\ncheck = {_quoted(record.id)}\nreason = {_quoted(f'{_label(record)}{record.reason}'[:_LONGEST])}\n"
        for record in found
    ]
    entries[:0] = [f"[[{one.kind}]]\ncheck = {_quoted(one.check)}\nreason = {_quoted(one.reason)}\n" for one in kept]
    return "\n".join(entries) if entries else "# nothing to waive\n"


def _label(record: Record) -> str:
    return f"{', '.join(record.diagnosis)}: " if record.diagnosis else ""


def _quoted(text: str) -> str:
    """A basic string of TOML, which escapes as JSON does."""
    return json.dumps("".join(letter if letter.isprintable() else " " for letter in text))


def _entries(content: dict[str, Any], kind: str, rule: str) -> list[Any]:
    entries = content.get(kind, [])
    if not isinstance(entries, list):
        raise InvalidInstance(f"{rule} hold a list [[{kind}]]; got [{kind}]")
    return entries


def _entry(kind: str, entry: Any, rule: str) -> Waiver:
    texts = entry if isinstance(entry, dict) else {}
    if set(texts) != {"check", "reason"} or not all(isinstance(text, str) and text.strip() for text in texts.values()):
        raise InvalidInstance(
            f"{rule} give every [[{kind}]] a check and a reason, both non-empty texts; got {entry!r:.80}"
        )
    return Waiver(cast(Kind, kind), texts["check"], texts["reason"])


def waiver_for(id: str, waivers: tuple[Waiver, ...]) -> Waiver | None:
    """The first entry that matches a check; skip goes before waive."""
    found = [waiver for waiver in waivers if waiver.matches(id)]
    return min(found, key=lambda waiver: waiver.kind != "skip", default=None)
