"""onnxruntime on the CPU: Attention of ONNX (opset 23), and MultiHeadAttention of its own operators as `multi_head`."""

import functools
from types import SimpleNamespace

import numpy as np
import onnxruntime
from onnx import helper

FRAMEWORK = "numpy"
CAPABILITIES = ("mask_rank_3", "mask_rank_4", "float_mask")
_TYPES = {name: helper.np_dtype_to_tensor_dtype(np.dtype(name)) for name in ("float16", "float32", "float64", "bool")}


@functools.lru_cache(maxsize=256)
def _session(operator, names, types, ranks, options):
    domain, version = ("", 23) if operator == "Attention" else ("com.microsoft", 1)
    inputs = [
        helper.make_tensor_value_info(name, _TYPES[kind], [None] * rank)
        for name, kind, rank in zip(filter(None, names), types, ranks, strict=True)
    ]
    node = helper.make_node(operator, names, ["Y"], domain=domain, **dict(options))
    output = helper.make_tensor_value_info("Y", _TYPES[types[0]], [None] * ranks[0])
    graph = helper.make_graph([node], "attention", inputs, [output])
    versions = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=versions, ir_version=10)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.log_severity_level = 1, 4
    return onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])


def _run(operator, feeds, **options):
    given = {name: np.ascontiguousarray(array) for name, array in feeds.items() if array is not None}
    last = max(place for place, name in enumerate(feeds) if name in given)
    names = tuple(name if name in given else "" for name in list(feeds)[: last + 1])
    types, ranks = tuple(array.dtype.name for array in given.values()), tuple(array.ndim for array in given.values())
    kept = tuple((name, value) for name, value in options.items() if value is not None)
    return _session(operator, names, types, ranks, kept).run(None, given)[0]


def _as_bias(mask, bias, dtype):
    """A bool mask and a bias as one array to be added."""
    if bias is None or mask is None:
        return mask if bias is None else bias
    mask = np.where(mask, 0.0, -np.inf).astype(dtype) if mask.dtype == bool else mask
    return (bias + mask).astype(dtype)


def attention(q, k, v, *, causal=False, scale=None, mask=None, softcap=None, bias=None):
    feeds = {"Q": q, "K": k, "V": v, "mask": _as_bias(mask, bias, q.dtype)}
    return _run("Attention", feeds, is_causal=int(causal), scale=scale, softcap=softcap)


def _multi_head(q, k, v, *, causal=False, scale=None, mask=None, bias=None):
    if k.shape[1] != q.shape[1]:
        raise NotImplementedError("one key head for each query head")
    (batch, heads, n, _), length = q.shape, k.shape[2]
    flat = [np.swapaxes(one, 1, 2).reshape(batch, one.shape[2], -1) for one in (q, k, v)]
    if mask is not None and mask.dtype == bool:
        mask = np.where(mask, 0.0, -np.inf).astype(q.dtype)
    added = _as_bias(mask, bias, q.dtype)
    if added is not None:
        added = np.broadcast_to(added, np.broadcast_shapes(added.shape, (1, 1, n, length)))
    names = ("query", "key", "value", "none", "padding", "attention_bias")
    feeds = dict(zip(names, (*flat, None, None, added), strict=True))
    o = _run("MultiHeadAttention", feeds, num_heads=heads, unidirectional=int(causal), scale=scale)
    return np.swapaxes(o.reshape(batch, n, heads, -1), 1, 2)


multi_head = SimpleNamespace(
    attention=_multi_head,
    CAPABILITIES=CAPABILITIES,
    CONVENTIONS={"causal_alignment": "bottom-right", "empty_rows": "undefined"},
)
