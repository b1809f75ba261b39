"""The door: a folder in, a network out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.pretrained.bert import Bert
from attnprune_verify.pretrained.config import Config
from attnprune_verify.pretrained.llama import Llama, Mistral, Qwen2
from attnprune_verify.pretrained.network import PretrainedModel
from attnprune_verify.pretrained.panics import refusing_panics
from attnprune_verify.pretrained.tensors import Tensors, inside, model_folder, read_json

__all__ = ["FAMILIES", "load_pretrained", "read_tokenizer"]

FAMILIES: dict[str, type[Llama] | type[Bert]] = {
    "bert": Bert,
    "llama": Llama,
    "mistral": Mistral,
    "qwen2": Qwen2,
}


def load_pretrained(folder: str | os.PathLike[str], *, dtype: type[np.floating[Any]] = np.float64) -> PretrainedModel:
    """Read a model of the BERT or Llama family (Llama, Qwen2, Mistral) from a local folder in Hugging Face's layout.

    The folder holds ``config.json`` and ``model.safetensors`` (or ``model.safetensors.index.json`` and the files it
    names), and optionally ``tokenizer.json``. Nothing is fetched and nothing in the files is executed. Needs the extra
    ``real`` (safetensors; tokenizers for the tokenizer).

    Parameters
    ----------
    folder : path
    dtype : numpy.float64 or numpy.float32
        Type of the converted weights and of all computations.

    Returns
    -------
    PretrainedModel

    Raises
    ------
    InvalidInstance
        If a file is missing or damaged, points outside the folder, is of another family, or has an unsupported feature
        (the message names it), or if a tensor is missing or has another shape than ``config.json`` implies. A tensor
        that is not finite is refused when it is read.

    Examples
    --------
    >>> load_pretrained("no-such-folder")
    Traceback (most recent call last):
        ...
    attnprune_verify.errors.InvalidInstance: a model must be a folder; got 'no-such-folder'
    """
    path = model_folder(folder)
    config = Config(read_json(path / "config.json"))
    if config.family not in FAMILIES:
        raise InvalidInstance(f"model_type must be one of {', '.join(FAMILIES)}; got {config.family!r:.60}")
    tensors = Tensors(path, dtype)
    layers = config.count("num_hidden_layers")
    if layers > len(tensors):  # before a name is made for each of them
        raise InvalidInstance(f"a model must hold tensors for its {layers} num_hidden_layers; it holds {len(tensors)}")
    family = FAMILIES[config.family](config, tensors)
    return PretrainedModel(family, read_tokenizer(path))


def read_tokenizer(folder: Path) -> Any:
    """The tokenizer of a model folder; None where there is none, or nothing to read it with."""
    file = folder / "tokenizer.json"
    if not file.is_file():
        return None
    try:
        from tokenizers import Tokenizer
    except ImportError:
        return None
    inside(file.parent, file.name)
    with refusing_panics("tokenizer.json must be a tokenizer file"):
        tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
