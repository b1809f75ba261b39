"""A finished folder: put together beside its place, given its name at the end, and compared when it is met again."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.files import PART, parse, read_regular, sync_folder, write_whole
from attnprune_verify.state.digests import of_file
from attnprune_verify.state.sealed import sealed, unsealed
from attnprune_verify.whole_model.source import Patches, Source

_REPORT = "pruning.json"


def assemble(
    source: Source, patches: Mapping[str, Patches], report: Mapping[str, Any], folder: Path, target: Path
) -> dict[str, Any]:
    """Copy the model with its patches into `folder`, add the report with a digest of every file, and name it `target`.

    Raises
    ------
    InvalidInstance
        If the folder holds what is not ours, the model is not the one that was hashed, or a copy is not what was
        written.
    """
    names = [*source.digests, _REPORT]
    if folder.is_symlink():
        raise InvalidInstance(f"{str(folder)!r} must be a folder of ours; it is a link")
    folder.mkdir(exist_ok=True)
    for one in sorted(folder.iterdir()):
        if one.name not in names and not PART.fullmatch(one.name):
            raise InvalidInstance(f"{str(folder)!r} must hold files of ours only; it holds {one.name!r}")
        one.unlink()
    files = {name: source.copy(name, folder, patches.get(name, {})) for name in source.digests}
    content = sealed({**report, "files": files})
    write_whole(folder / _REPORT, content)
    os.replace(folder, target)
    sync_folder(target.parent)
    whole: dict[str, Any] = parse(content)
    return whole


def holds(target: Path, digest: str) -> bool:
    """Return True where a folder holds the result of a request."""
    try:
        return bool(unsealed(read_regular(target / _REPORT))["request"] == digest)
    except (InvalidInstance, OSError, ValueError, KeyError, TypeError):
        return False


def finished(target: Path, digest: str) -> dict[str, Any]:
    """The report of a finished folder of this very request, every file of which is as it was written.

    Raises
    ------
    InvalidInstance
        If it is something else, or a file was changed or is missing; it is named.
    """
    file = target / _REPORT
    if not file.is_file():
        raise InvalidInstance(
            f"out must be a new folder; {str(target)!r} exists and is no result of ours: name another"
        )
    try:
        report = unsealed(read_regular(file))
        same, files = report["request"] == digest, dict(report["files"])
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInstance(f"out must be a new folder; {str(file)!r} was changed since it was written") from error
    if not same:
        raise InvalidInstance(
            f"out must be a new folder; {str(target)!r} holds the result of another request: name another"
        )
    for name, wanted in files.items():
        if not (target / name).is_file() or of_file(target / name) != wanted:
            raise InvalidInstance(
                f"a finished folder must be as it was written; {str(target / name)!r} was changed or is missing"
            )
    whole: dict[str, Any] = parse(read_regular(file))
    return whole
