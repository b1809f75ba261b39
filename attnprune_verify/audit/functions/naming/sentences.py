"""One sentence for each mistake id, and searches that may break off."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import numpy as np

__all__ = ["NO_NAME", "SENTENCES", "search_for_names"]

SENTENCES: dict[str, str] = {
    "missing-softmax-correction": "the term -diag((c*F)1)F of p is left out",
    "correction-uses-dense-softmax": "F(1) stands where F(M) belongs in p",
    "correction-sign": "the term diag((c*F)1)F is added instead of subtracted",
    "correction-wrong-axis": "the row sums in p are taken along columns",
    "transposed-p": "X^T p^T X instead of X^T p X",
    "missing-hadamard-W": "the factor W* in front of X^T p X is missing",
    "hadamard-uses-masked-W": "M*W instead of W in front of X^T p X",
    "missing-regularizer": "the regulariser is left out",
    "regularizer-scale": "the regulariser has another factor than lam/2 (loss) or lam (gradient)",
    "regularizer-not-squared": "||M|| instead of ||M||^2 in the regulariser",
    "loss-scale": "the attention term of the loss has another factor than 1/2, such as 1 or a mean",
    "loss-not-squared": "a norm instead of its square",
    "gradient-scale": "the attention part of the gradient has a wrong factor",
    "gradient-sign": "the attention part of the gradient has the wrong sign",
    "gradient-symmetrised": "the gradient and its transpose are averaged",
    "gradient-transposed": "the transpose of the gradient is returned",
    "mask-ignored": "the attention mask is not used",
    "mask-after-softmax": "the mask multiplies the softmax, whose rows then no longer sum to 1",
    "mask-multiplies-logits": "the mask multiplies the logits: forbidden positions get logit 0, not -inf",
    "mask-leaks": "forbidden positions get a finite logit that still counts",
    "mask-strict": "the diagonal is forbidden too",
    "mask-always-causal": "a causal mask is used whatever mask was given",
    "mask-transposed": "the mask is used transposed",
    "mask-inverted": "0 and 1 of the mask are exchanged",
    "wrong-softmax-axis": "the softmax runs over columns or over the whole matrix",
    "uniform-attention": "the logits are not used: every allowed position of a row gets the same weight",
    "not-normalised": "the exponentials are not divided by their row sum",
    "missing-softmax": "the logits, their logarithmic softmax or another function stand where the softmax is meant",
    "attention-transposed": "rows and columns of the attention are exchanged",
    "weights-changed": "the softmax's weights are cut off, or a constant is added to them",
    "approximate-exp": "another function of the logits stands where exp is meant, such as a polynomial",
    "tokens-changed": "tokens, queries or keys are centred, normalised or otherwise changed before use",
    "mask-broadcast": "one row or column of the mask is used for all",
    "causal-off-by-one": "a causal mask allows one position too many",
    "loss-distance": "another distance than half the squared Frobenius norm, such as a divergence",
    "logit-scale": "the logits carry a factor the definition does not have, such as 1/sqrt(d)",
    "weight-transposed": "logits X W^T X^T",
    "unstable-exp": "exp of large logits overflows (or of very negative ones vanishes): shift by the row maximum",
    "denominator-epsilon": "a small number is added to a denominator, such as the row sum of the softmax",
    "low-precision": "computed in a lower precision than that of the inputs",
    "mutates-input": "an input array is changed",
    "nondeterministic": "two equal calls give different results",
    "wrong-shape": "the result has another shape or kind than the contract says",
    "dense-target-uses-M": "the dense target F(1) is computed with the pruned weights",
    "missing-dense-target": "F(1) is not subtracted",
    "clips-or-rounds-M": "M is clipped, rounded or otherwise changed before use",
    "matmul-for-hadamard": "a matrix product stands where M*W is meant",
    "M-transposed": "the transpose of M is used",
    "keeps-instead-of-prunes": "what should be pruned is kept, and the other way round",
    "threshold-off-by-one": "one entry too many or too few is pruned",
    "wrong-count": "the smallest entries go, but another number of them than floor(rho size)",
    "ties-dropped": "all entries equal to the threshold are pruned, or ties are broken by another rule",
    "absolute-values": "magnitudes are sorted where values are meant, or the other way round",
    "baseline-axis": "rows and columns of the weight are exchanged",
    "baseline-global-threshold": "one threshold for the whole matrix instead of one per row or block, or the reverse",
    "baseline-ignores-activations": "the inputs X are not used in the score",
    "baseline-no-update": "kept weights are not updated",
    "baseline-update": "kept weights are updated with another sign, divisor or inverse, or columns in another order",
    "baseline-score": "the score is another power or norm than the original's",
    "baseline-damping": "the damping of the Hessian is missing or different",
    "baseline-dead-inputs": "inputs that are always zero are not treated as in the original",
    "group-convention": "of every M neighbouring inputs N are kept, or others than N pruned",
    "batch-not-averaged": "samples of a batch are summed, or averaged as a ratio of sums, instead of averaged",
    "curvature-term-missing": "a term of the second derivative is left out (Gauss-Newton or a part of dp)",
    "unmasked-partner": "one factor's mask is left out where it meets the other factor, often in the gradient only",
    "parts-exchanged": "the two returned arrays are exchanged",
    "ignores-step": "the step eta is not used as given",
    "ignores-steps": "another number of steps is taken than asked for",
    "hidden-momentum": "momentum is used although none was asked for, or another one than was",
    "gradient-clipped": "the gradient, or its norm, is cut off",
    "other-optimizer": "another rule than gradient descent: the gradient's sign or direction, or Adam's steps",
    "weights-overwritten": "the weights are replaced by the masked ones on the way",
    "mask-of-other-M": "the mask rounds another matrix than the M that is returned",
    "initial-mask": "the descent does not start at M = 1",
    "argument-order": "the parameters come in another order than the contract's",
    "wrong-default": "left out, lam counts for something else than 0, or the mask for something else than None",
    "mask-kind": "what a mask means depends on its dtype",
    "integer-arithmetic": "results are cut to integers where an input has integers",
    "memory-layout": "the order of an array in memory matters",
    "cached": "what was kept of an earlier call is used though an input has changed",
    "overwrites-results": "an array that was returned changes in a later call",
    "heads-swapped": "query heads read the wrong key heads (h % kv_heads for h // group)",
    "head-layout": "the columns of a weight are divided among the heads in another way",
    "heads-not-summed": "the heads are averaged, or some left out, instead of summed",
    "missing-scale": "the factor in front of the logits is missing",
    "scale-missing-in-gradient": "the gradient lacks the factor of the logits",
    "bias-ignored": "a bias is not added as given",
    "rope-ignored": "queries or keys are not turned by position",
    "rope-transposed": "queries or keys are turned the other way",
    "rope-not-turned-back": "the derivatives in queries and keys are not turned back",
    "rope-position": "queries and keys are turned by positions that are not the same",
    "rope-layout": "other features are paired than the layout says",
    "rope-frequency": "the angles have other frequencies than theta^(-2a/m), scaled as given",
    "window-ignored": "the window is not used, or on one side only",
    "window-off-by-one": "the window is one too wide or too narrow",
    "softcap-ignored": "logits are not capped by c tanh(s/c)",
    "softcap-slope-missing": "the gradient lacks the derivative of the cap",
    "alibi-ignored": "the slopes are not used, or not per head",
    "alibi-sign": "the slopes are added, or multiply another distance than |i - j|",
    "score-order": "biases, rotations, scale, cap and slopes are applied in another order",
    "gqa-gradient-not-summed": "the gradient of a key head is not the sum over its query heads",
    "prunes-nothing": "nothing is pruned",
    "prunes-everything": "everything is pruned",
    "zero-output": "everything returned is 0",
    "constant-output": "what is returned does not depend on the inputs",
    "nan-output": "a result has entries that are not finite",
    "masked-block-nan": "a mask makes results that are not finite",
    "keys-dropped": "positions that are allowed get no weight",
    "last-block-dropped": "the last positions are left out",
    "rows-dropped": "rows of the result are 0",
    "tile-tail": "wrong at one size and right at the sizes next to it: the rest of a tile",
    "block-edge": "right up to the size of a block, wrong for one token more",
    "batch-weights": "the samples of a batch do not count alike",
    "batch-mixed": "samples of a batch depend on each other",
    "early-exit": "the attention term is left out where M is close to 1",
    "logits-clipped": "logits are cut off at a number",
    "follows-from-forward": "the derivative of a function that is wrong",
    "unknown": "no known wrong formula reproduces it",
}


_P = ParamSpec("_P")
NO_NAME = ("unknown",)


def search_for_names(search: Callable[_P, tuple[str, ...]]) -> Callable[_P, tuple[str, ...]]:
    """The search, which answers ``("unknown",)`` where an output that nobody foresaw makes it raise.

    Examples
    --------
    >>> def first_entry_is_zero(output):
    ...     return ("zero-output",) if output[0] == 0 else NO_NAME
    >>> search = search_for_names(first_entry_is_zero)
    >>> search([0.0]), search([])
    (('zero-output',), ('unknown',))
    """

    @wraps(search)
    def guarded(*args: _P.args, **kwargs: _P.kwargs) -> tuple[str, ...]:
        try:
            with np.errstate(all="ignore"):
                return search(*args, **kwargs)
        except (ArithmeticError, ValueError, IndexError, TypeError):
            return NO_NAME

    return guarded
