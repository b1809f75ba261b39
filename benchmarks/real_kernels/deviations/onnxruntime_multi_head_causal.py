"""onnxruntime's MultiHeadAttention (CPU), unidirectional and without a cache: the last query sees every key.

With as many keys as queries this is right; with more keys it is neither of the two alignments of a causal mask.
"""

import numpy as np
import onnxruntime
from onnx import TensorProto, helper


def weights(n, length):
    """All logits are 0 and v is the identity, so that the output is the weights."""
    q, k, v = (np.zeros((1, size, 1), np.float32) for size in (n, length, length))
    v = np.eye(length, dtype=np.float32)[None]
    node = helper.make_node(
        "MultiHeadAttention", ["q", "k", "v"], ["o"], domain="com.microsoft", num_heads=1, unidirectional=1
    )
    inputs = [helper.make_tensor_value_info(*one) for one in (("q", 1, q.shape), ("k", 1, k.shape), ("v", 1, v.shape))]
    output = helper.make_tensor_value_info("o", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "graph", inputs, [output])
    versions = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=versions, ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"q": q, "k": k, "v": v})[0][0]


def uniform(allowed):
    return allowed / allowed.sum(axis=1, keepdims=True)


n, length = 3, 5
i, j = np.arange(n)[:, None], np.arange(length)
print("weights, 3 queries and 5 keys:", weights(n, length).round(3).tolist())
print("j <= i is:", uniform(j <= i).round(3).tolist())
print("j <= i + 2 is:", uniform(j <= i + length - n).round(3).tolist())
