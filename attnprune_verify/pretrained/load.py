"""The door: a folder in, a network out."""

import os
from typing import Any

import numpy as np

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.pretrained.bert import Bert
from attnprune_verify.pretrained.config import Config
from attnprune_verify.pretrained.folder import ModelFolder
from attnprune_verify.pretrained.llama import Llama, Mistral, Qwen2
from attnprune_verify.pretrained.network import PretrainedModel

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
    return opened_network(ModelFolder(folder), dtype)


def opened_network(folder: ModelFolder, dtype: type[np.floating[Any]]) -> PretrainedModel:
    """Return the network of a folder that was judged; what `load_pretrained` does for a path."""
    config = Config(folder.config)
    if config.family not in FAMILIES:
        raise InvalidInstance(f"model_type must be one of {', '.join(FAMILIES)}; got {config.family!r:.60}")
    return PretrainedModel(FAMILIES[config.family](config, folder.tensors(dtype)), folder.tokenizer)
