"""The honest reference: attention and its gradients in float64, with all parts of the contract."""

from __future__ import annotations

from attnprune_verify.audit.kernel.problem.sample import Array
from attnprune_verify.audit.kernel.tensors.problem import GivenProblem, problem_of
from attnprune_verify.audit.kernel.truth.bounds import propagated
from attnprune_verify.audit.kernel.typing import Foreign


def reference_attention(
    q: Foreign, k: Foreign, v: Foreign, *, return_lse: bool = False, **given: Foreign
) -> Array | tuple[Array, Array]:
    """Return softmax attention of anyone's arrays in float64: o, or o and log sum exp.

    Parameters
    ----------
    q, k, v : array
        As of `attnprune_verify.attention_interval`; numbers of any type, taken as they are.
    return_lse : bool
        Return (o, lse).
    **given
        Further parts of the problem, such as ``causal=True``: keywords of `attention_interval`.

    Returns
    -------
    numpy.ndarray or tuple[numpy.ndarray, numpy.ndarray]
        o (batch, heads, n, mv), and lse (batch, heads, n).

    Raises
    ------
    InvalidInstance
        As `attention_interval` does.

    Examples
    --------
    >>> import numpy as np
    >>> reference_attention(np.zeros((2, 1)), np.zeros((2, 1)), np.array([[1.0], [3.0]]), causal=True).tolist()
    [[1.0], [2.0]]
    """
    problem = problem_of(q, k, v, dtype="float64", **given)
    o, lse = _values(problem, ("o", "lse"), False)
    return (o, lse) if return_lse else o


def reference_attention_backward(
    q: Foreign, k: Foreign, v: Foreign, do: Foreign, **given: Foreign
) -> tuple[Array, ...]:
    """Return the gradients of <do, o> (plus <dlse, lse>) in float64: dq, dk, dv, then dbias and dsinks where given.

    Parameters
    ----------
    q, k, v, do : array
        As of `attnprune_verify.attention_interval`; numbers of any type, taken as they are.
    **given
        Further parts of the problem, such as ``causal=True`` and ``dlse``: keywords of `attention_interval`.

    Returns
    -------
    tuple[numpy.ndarray, ...]
        In the shapes of q, k, v, bias and sinks.

    Raises
    ------
    InvalidInstance
        As `attention_interval` does.

    Examples
    --------
    >>> import numpy as np
    >>> q, k, v = np.zeros((1, 1)), np.zeros((2, 1)), np.array([[1.0], [3.0]])
    >>> [x.tolist() for x in reference_attention_backward(q, k, v, np.ones((1, 1)))]
    [[[0.0]], [[0.0], [0.0]], [[0.5], [0.5]]]
    """
    problem = problem_of(q, k, v, do, dtype="float64", **given)
    return _values(problem, ("dq", "dk", "dv", *problem.sample.wanted), True)


def _values(problem: GivenProblem, names: tuple[str, ...], backward: bool) -> tuple[Array, ...]:
    found, _ = propagated(problem.sample, [], backward, valued=True)
    return tuple(problem.outward(name, found[name].astype(float)) for name in names)
