"""Instances as .npz files: never unpickled, never trusted, written whole or not at all."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.files import dumps, parse, whole_file
from attnprune_verify.instance.archive import read_arrays
from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.mask import Mask, as_mask
from attnprune_verify.instance.problem import Instance, LayerInstance
from attnprune_verify.instance.rope import RoPE

_FUSED = ("X", "W", "W_Q", "W_K", "M", "mask", "lam")
_ROPE = ("rope_theta", "rope_layout", "rope_scaling")
_COUNTS = ("heads", "kv_heads", "window")
_NUMBERS = (*_COUNTS, "scale", "softcap", "rope_theta", "lam")
_ARRAYS = ("W_Q", "W_K", "b_Q", "b_K", "alibi", "mask")
_LAYER = ("X", *_ARRAYS, *_NUMBERS, "rope_layout", "rope_scaling", "M_Q", "M_K")


def load_instance(path: str | os.PathLike[str]) -> Instance | LayerInstance:
    """Read an instance from an .npz file.

    The file holds `X` (n, d) or (k, n, d) and `W` (d, d), or `W_Q` and `W_K` (d, m), and optionally `M`,
    `mask` ((n, n) of 0 and 1, or the string "causal") and `lam`.

    A file with `heads` is a layer: `W_Q` (d, heads*m) and `W_K` (d, kv_heads*m), and optionally `kv_heads`, `b_Q`,
    `b_K`, `scale` (default 1/sqrt(m)), `rope_theta` with `rope_layout` ("half", the default, or "interleaved") and
    `rope_scaling` (JSON, as in a config file), `mask`, `window`, `softcap`, `alibi` (heads,), `M_Q`, `M_K`, `lam`.

    Every array's announced size is compared with the bytes in the file before anything is allocated; nothing is ever
    unpickled. An X of 64 MiB or more that is stored without compression, as by `save_instance` and ``np.savez``, is
    mapped: the system reads the parts that are used. All other arrays must fit into the memory budget.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    Instance or LayerInstance

    Raises
    ------
    InvalidInstance
        If the file cannot be read, is no .npz, holds other names or other content, or breaks a rule of `Instance` or
        `AttentionLayer`.

    Examples
    --------
    >>> import numpy as np, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "small.npz"
    ...     save_instance(path, Instance(np.eye(3), np.eye(3), lam=0.1))
    ...     load_instance(path)
    Instance(n=3, d=3, k=None, mask=None, lam=0.1, dtype=float64)
    """
    content = read_arrays(Path(path), tuple(dict.fromkeys((*_FUSED, *_LAYER))))
    if "mask" in content and content["mask"].dtype.kind in "US":
        content["mask"] = _text("mask", content["mask"], 'an (n, n) array of 0 and 1 or the string "causal"')
    content |= {name: _one(name, content[name]) for name in _NUMBERS if name in content}
    is_layer = "heads" in content
    needed = ("X", "W") if "W" in content and not is_layer else ("X", "W_Q", "W_K")
    if not set(needed) <= set(content):
        wanted = "X, W_Q and W_K beside heads" if is_layer else "X and W, or X, W_Q and W_K"
        raise InvalidInstance(
            f"an instance file must hold {wanted}; {str(path)!r} holds {', '.join(content) or 'nothing'}"
        )
    odd = sorted(set(content) - set(_LAYER if is_layer else _FUSED))
    if odd:
        rule = "a file with heads must hold neither W nor M" if is_layer else "a file without heads must hold no layer"
        raise InvalidInstance(f"{rule}; {str(path)!r} holds {', '.join(odd)}")
    return _layer_instance(content) if is_layer else Instance(**content)


def save_instance(path: str | os.PathLike[str], instance: Instance | LayerInstance) -> None:
    """Write `instance` to `path` as .npz: first under a temporary name, then renamed, so no half file is left.

    Parameters
    ----------
    path : str or path-like
        Taken as it is: no suffix is added.
    instance : Instance or LayerInstance

    Raises
    ------
    OSError
        If the folder does not exist or cannot be written.

    Examples
    --------
    >>> import numpy as np
    >>> save_instance("no/such/folder/file.npz", Instance(np.eye(2), np.eye(2)))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    FileNotFoundError: [Errno 2] No such file or directory: ...
    """
    content = _of_layer(instance) if isinstance(instance, LayerInstance) else _of_fused(instance)
    present = {name: value for name, value in content.items() if value is not None}
    with whole_file(Path(path)) as file:
        np.savez(file, **present)


def _layer_instance(content: dict[str, Any]) -> LayerInstance:
    masks = {name: content.pop(name) for name in ("M_Q", "M_K") if name in content}
    X, lam = content.pop("X"), content.pop("lam", 0.0)
    words = {name: _text(name, content.pop(name), "one string") for name in _ROPE[1:] if name in content}
    if words and "rope_theta" not in content:
        raise InvalidInstance(f"{' and '.join(words)} must come with rope_theta; the file holds none")
    rope = None
    if "rope_theta" in content:
        scaling = _parsed(words["rope_scaling"]) if "rope_scaling" in words else None
        rope = RoPE.of_file(content.pop("rope_theta"), words.get("rope_layout", "half"), scaling)
    return LayerInstance(AttentionLayer(**content, rope=rope), X, lam=lam, **masks)


def _of_fused(instance: Instance) -> dict[str, Any]:
    pair = instance.W_Q is not None
    weights = {"W_Q": instance.W_Q, "W_K": instance.W_K} if pair else {"W": instance.W}
    mask = _stated(instance.visible, instance.n)
    return {"X": instance.X, **weights, "M": instance.M, "mask": mask, "lam": np.float64(instance.lam)}


def _of_layer(instance: LayerInstance) -> dict[str, Any]:
    layer = instance.layer
    if layer.scores:
        raise InvalidInstance(f"an instance file holds no scores; got a layer with scores = {layer.scores}")
    names = ("W_Q", "W_K", "b_Q", "b_K", "alibi", *_COUNTS, "scale", "softcap")
    content = {name: getattr(layer, name) for name in names}
    if layer.rope is not None:
        content |= {"rope_theta": layer.rope.theta, "rope_layout": layer.rope.layout}
        if layer.rope.scaling is not None:
            content["rope_scaling"] = dumps(layer.rope.scaling, None)
    content["mask"] = _stated(as_mask(layer.mask), instance.n)
    return {"X": instance.X, **content, "M_Q": instance.M_Q, "M_K": instance.M_K, "lam": np.float64(instance.lam)}


def _stated(mask: Mask, n: int) -> Any:
    """A mask as a file holds it: nothing, "causal", or an array."""
    return mask.allowed(n) if mask.kind == "given" else mask.kind


def _parsed(text: str) -> Any:
    try:
        return parse(text)
    except ValueError as error:
        raise InvalidInstance(f"rope_scaling must be JSON, as in a config file; got {text!r:.60}") from error


def _one(name: str, array: Any) -> Any:
    if array.size != 1:
        raise InvalidInstance(f"{name} must be one number; got shape {array.shape}")
    return array.reshape(()).item()


def _text(name: str, array: Any, rule: str) -> str:
    if array.size != 1:
        raise InvalidInstance(f"{name} must be {rule}; got {array.size} strings")
    item = array.reshape(()).item()
    return item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item)
