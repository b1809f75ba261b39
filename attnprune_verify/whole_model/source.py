"""The files of a model that is pruned: which they are, that they stay as they were hashed, and their copies."""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, TypeAlias

import numpy as np

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.files import sync_folder
from attnprune_verify.pretrained.folder import ModelFolder, inside
from attnprune_verify.state.digests import of_file

_BESIDE = frozenset(
    """
    README.md added_tokens.json chat_template.jinja chat_template.json config.json generation_config.json merges.txt
    model.safetensors.index.json preprocessor_config.json sentencepiece.bpe.model special_tokens_map.json spiece.model
    tokenizer.json tokenizer.model tokenizer_config.json vocab.json vocab.txt
    """.split()
)
_LEGAL = ("LICENSE", "NOTICE", "USE_POLICY")
_MOST_BESIDE = 64 * 2**20  # bytes beside the weights; chosen: twice the largest tokenizer in use (32 MB, 260k tokens)
_CHUNK = 1 << 20  # bytes copied at a time; chosen

Patches: TypeAlias = Mapping[int, tuple[int, Callable[[], bytes]]]
"""By offset in a file how many bytes are exchanged, and by what."""


class Source:
    """The files of a model folder that a pruned one holds, with a digest of each.

    Raises
    ------
    InvalidInstance
        If one is a link out of the folder, or those beside the weights have more than 64 MiB.
    """

    def __init__(self, model: ModelFolder) -> None:
        self._model, folder = model, model.path
        beside = [one.name for one in folder.iterdir() if one.name in _BESIDE or one.name.startswith(_LEGAL)]
        self._files = {name: inside(folder, name) for name in sorted(beside) if (folder / name).is_file()}
        size = sum(file.stat().st_size for file in self._files.values())
        if size > _MOST_BESIDE:
            raise InvalidInstance(f"a model may have at most {_MOST_BESIDE} bytes beside its weights; got {size}")
        self._files |= {file.name: file for file in model.weights}
        self._stamps = self._stamped()

    @cached_property
    def digests(self) -> dict[str, str]:
        """SHA-256 of every file; with the files all read, a tensor that is not finite is refused as well.

        Raises
        ------
        InvalidInstance
        """
        found = {name: of_file(file) for name, file in self._files.items()}
        self._model.tensors(np.float32).refuse_infinite()
        self.refuse_changes()
        return found

    def refuse_changes(self) -> None:
        """Refuse to go on when a file is not the one that was hashed: other place, size or time.

        Raises
        ------
        InvalidInstance
        """
        for name, stamp in self._stamped().items():
            if stamp != self._stamps[name]:
                raise InvalidInstance(f"a model must stay as it is while it is pruned; {name} was changed")

    def copy(self, name: str, folder: Path, patches: Patches) -> str:
        """Copy one file into `folder` with its patches, and read the copy back; its SHA-256.

        Raises
        ------
        InvalidInstance
            If the file is not the one that was hashed, or its copy is not what was written.
        """
        with self._files[name].open("rb") as old, (folder / name).open("wb") as new:
            read, written = _copied(old, new, patches)
            new.flush()
            os.fsync(new.fileno())
        if read != self.digests[name]:
            raise InvalidInstance(f"a model must stay as it is while it is pruned; {name} was changed")
        if of_file(folder / name) != written:
            raise InvalidInstance(f"a file must read back as it was written; {str(folder / name)!r} does not")
        sync_folder(folder)
        return written

    def _stamped(self) -> dict[str, tuple[int, ...]]:
        found = {name: file.stat() for name, file in self._files.items()}
        return {name: (s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for name, s in found.items()}


def _copied(old: BinaryIO, new: BinaryIO, patches: Patches) -> tuple[str, str]:
    """Digests of what was read and of what was written."""
    read, written = hashlib.sha256(), hashlib.sha256()

    def passed(count: int) -> Iterator[bytes]:
        while count > 0 and (piece := old.read(min(count, _CHUNK))):
            read.update(piece)
            count -= len(piece)
            yield piece

    def write(piece: bytes) -> None:
        written.update(piece)
        new.write(piece)

    for offset, (size, content) in sorted(patches.items()):
        for piece in passed(offset - old.tell()):
            write(piece)
        write(content())
        for _ in passed(size):
            pass
    for piece in passed(os.fstat(old.fileno()).st_size - old.tell()):
        write(piece)
    return read.hexdigest(), written.hexdigest()
