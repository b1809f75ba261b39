"""The Attention operator of ONNX (opset 23) in onnxruntime on the CPU."""

import functools

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

FRAMEWORK = "numpy"
_TYPES = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "float64": TensorProto.DOUBLE}


@functools.lru_cache(maxsize=64)
def _session(dtype, causal, scale, masked):
    kind = _TYPES[dtype]
    names = ["Q", "K", "V"] + ["mask"] * masked
    options = {"is_causal": int(causal)} | ({} if scale is None else {"scale": scale})
    node = helper.make_node("Attention", names, ["Y"], **options)
    inputs = [helper.make_tensor_value_info(name, kind, [None] * 4) for name in "QKV"]
    if masked:
        inputs.append(helper.make_tensor_value_info("mask", TensorProto.BOOL, [None] * 2))
    graph = helper.make_graph([node], "attention", inputs, [helper.make_tensor_value_info("Y", kind, [None] * 4)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.log_severity_level = 1, 4
    return onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])


def attention(q, k, v, *, causal=False, scale=None, mask=None):
    feeds = {name: np.ascontiguousarray(array) for name, array in zip("QKV", (q, k, v), strict=True)}
    if mask is not None:
        feeds["mask"] = mask
    return _session(q.dtype.name, causal, scale, mask is not None).run(None, feeds)[0]
