"""A model folder, judged once, before anything opens it: its configuration, its tensors' headers, its tokenizer."""

import math
import os
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.extras import need
from attnprune_verify.files import parse, read_regular
from attnprune_verify.pretrained.tensors import Place, Tensors
from attnprune_verify.state.child import in_child

_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_LAYERS = frozenset(
    "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_hidden_groups".split()
)
_BASES = frozenset("rope_theta rope_local_base_freq rotary_emb_base".split())


class ModelFolder:
    """A folder in Hugging Face's layout. Nothing is fetched, and nothing in its files is executed.

    Attributes
    ----------
    path : Path
    config : dict
        Content of config.json: every number is finite, every name printable.
    weights : list of Path
        The safetensors files.
    places : dict of Place
        Every tensor of these files, by its name.

    Raises
    ------
    InvalidInstance
        If a file is missing or damaged or leads out of the folder, or config.json gives what no network can have.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not Path(path).is_dir():
            name, hub = str(path), ""
            if re.fullmatch(r"[\w.-]+/[\w.-]+", name) and not Path(path).parent.exists():
                hub = f"; for a model of the hub: hf download {name} --local-dir {Path(path).name}, then that folder"
            raise InvalidInstance(f"a model must be a folder; got {name!r}{hub}")
        self.path = Path(path)
        self.config = _read_json(self.path / "config.json")
        if (self.path / "adapter_config.json").exists():
            raise InvalidInstance("a model folder must hold whole weights, not adapters; it holds adapter_config.json")
        self.weights = _weight_files(self.path)
        self.places: dict[str, Place] = {}
        for file in self.weights:
            for name, place in _places(file).items():
                if not name.isprintable():
                    raise InvalidInstance(f"names of tensors must be printable; {file.name} holds {name!r:.60}")
                if name in self.places:
                    first = self.places[name].file.name
                    raise InvalidInstance(f"a tensor must be in one file; {name!r} is in {first} and in {file.name}")
                self.places[name] = place
        self._judge_config()

    def _judge_config(self) -> None:
        for name, value in named_values(self.config):
            if not name.isprintable():
                raise InvalidInstance(f"names in config.json must be printable; got {name!r:.60}")
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if name in _BASES and value is not None and not (number and math.isfinite(value) and value > 1):
                raise InvalidInstance(f"{name} must be finite and > 1; got {value!r:.60}")
            if isinstance(value, float) and not math.isfinite(value):
                raise InvalidInstance(f"config.json must give {name} as a finite number; got {value!r}")
            if name in _LAYERS and number and value > len(self.places):  # before a name is made for each of them
                raise InvalidInstance(f"a model must hold tensors for its {value} {name}; it holds {len(self.places)}")
            if name == "rope_type" and not isinstance(value, str):
                raise InvalidInstance(f"config.json must give rope_type as a string; got {value!r:.60}")

    def tensors(self, dtype: type[np.floating[Any]]) -> Tensors:
        """Return the tensors, converted to a type when they are read."""
        return Tensors(self.places, dtype)

    @cached_property
    def tokenizer(self) -> Any:
        """A `tokenizers.Tokenizer`; None where the folder holds none, or nothing is installed that reads it.

        It is first read in a process of its own, which may abort or take all memory.

        Raises
        ------
        InvalidInstance
        """
        file = self.path / "tokenizer.json"
        if not file.is_file():
            return None
        try:
            from tokenizers import Tokenizer
        except ImportError:
            return None
        content = read_regular(inside(self.path, file.name))

        def read() -> bytes:
            Tokenizer.from_buffer(content)
            return b""

        in_child("tokenizer.json must be a tokenizer file", read)
        tokenizer = Tokenizer.from_buffer(content)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer


def named_values(content: Any) -> Iterator[tuple[str, Any]]:
    """Yield every name in a JSON document, at any depth, with its value.

    Examples
    --------
    >>> list(named_values({"a": [{"b": 1}]}))
    [('a', [{'b': 1}]), ('b', 1)]
    """
    waiting = [content]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            yield from value.items()
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def inside(folder: Path, name: str) -> Path:
    """The file `name` of a model folder, if it is a file of that folder or a link to a blob of the hub's cache.

    Raises
    ------
    InvalidInstance
        If it is a link to somewhere else.
    """
    home, target = folder.resolve(), (folder / name).resolve()
    blobs = home.parent.parent / "blobs"
    if not target.is_relative_to(home) and not (home.parent.name == "snapshots" and target.parent == blobs):
        raise InvalidInstance(f"links of a model must stay in its folder or the hub's cache; {name} leads out of it")
    return folder / name


def _read_json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise InvalidInstance(f"a model folder must hold {file.name}; there is none in {str(file.parent)!r}")
    content = read_regular(inside(file.parent, file.name))
    try:
        content = parse(content)
    except ValueError as error:
        reason = str(error).removeprefix("must be valid JSON; ")[:100]
        raise InvalidInstance(f"{file.name} must be valid JSON; {reason}") from error
    if not isinstance(content, dict):
        raise InvalidInstance(f"{file.name} must hold a JSON object; got {type(content).__name__}")
    return content


def _weight_files(folder: Path) -> list[Path]:
    if (folder / _SINGLE).is_file():
        return [inside(folder, _SINGLE)]
    if not (folder / _INDEX).is_file():
        raise InvalidInstance(
            f"a model folder must hold {_SINGLE} or {_INDEX}; {str(folder)!r} holds neither; "
            "save_pretrained of transformers writes them"
        )
    weight_map = _read_json(folder / _INDEX).get("weight_map")
    if not isinstance(weight_map, Mapping) or not weight_map:
        raise InvalidInstance(f"{_INDEX} must hold a non-empty object weight_map; got {type(weight_map).__name__}")
    files = []
    for name in sorted({str(value) for value in weight_map.values()}):
        if Path(name).name != name or "\\" in name or not name.endswith(".safetensors"):
            raise InvalidInstance(f"{_INDEX} may name only *.safetensors files beside it; got {name[:80]!r}")
        if not (folder / name).is_file():
            raise InvalidInstance(f"{_INDEX} names {name!r}, which is not in {str(folder)!r}")
        files.append(inside(folder, name))
    return files


def _places(file: Path) -> dict[str, Place]:
    """Return the place of each tensor; the safetensors library checks the header before its offsets are used."""
    safe_open = need("reading model files", "real", "safetensors").safe_open
    try:
        with safe_open(str(file), framework="np"):
            pass
        with file.open("rb") as handle:
            length = int.from_bytes(handle.read(8), "little")
            header = parse(handle.read(length))
    except Exception as error:  # the library raises its own kinds, none of them public
        first = (str(error).splitlines() or [""])[0][:120]
        raise InvalidInstance(f"{file.name} must be an intact safetensors file; {first}") from error
    header.pop("__metadata__", None)
    return {
        name: Place(name, file, entry["dtype"], tuple(entry["shape"]), 8 + length + entry["data_offsets"][0])
        for name, entry in header.items()
    }
