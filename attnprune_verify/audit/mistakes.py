"""The mistakes that audits name: what each id means, in which subjects it is looked for, what a report adds to it."""

from typing import NamedTuple

SUBJECTS = {"f": "functions", "l": "layers", "b": "baselines", "k": "kernels"}


class KnownMistake(NamedTuple):
    """The meaning of a mistake id.

    Attributes
    ----------
    initials : str
        The subjects in which it is looked for, each by the first letter of its name in `SUBJECTS`.
    sentence : str
        The mistake, in words that hold for every subject.
    detail : str
        Name of the number, array or place that a report adds in parentheses.
    """

    initials: str
    sentence: str
    detail: str = ""

    @property
    def subjects(self) -> tuple[str, ...]:
        """Names of the subjects."""
        return tuple(SUBJECTS[initial] for initial in self.initials)


_TABLE: dict[str, tuple[str, ...]] = {
    # the softmax and its gradient
    "missing-softmax": ("fl", "the logits or another function of them stand where the softmax is meant"),
    "uniform-attention": ("fl", "the logits are not used: every allowed position of a row gets the same weight"),
    "wrong-softmax-axis": ("flk", "the softmax runs over another axis than the keys, or over the whole matrix"),
    "not-normalised": ("flk", "the weights of a row do not sum to 1", "sum"),
    "unstable-exp": ("flk", "exp overflows or vanishes at large logits: the row maximum is not subtracted first"),
    "approximate-exp": ("flk", "another function stands for exp, such as a polynomial"),
    "denominator-epsilon": ("flk", "a number is added to a denominator, such as the row sum of the softmax", "number"),
    "weights-changed": ("fl", "the softmax's weights are cut off, or a constant is added to them", "number"),
    "attention-transposed": ("fl", "rows and columns of the attention are exchanged"),
    "missing-rescale": ("k", "the online softmax does not rescale its sums when the maximum changes"),
    "splits-averaged": ("k", "parts of the keys are joined without their row sums"),
    "merge-base": ("k", "parts are joined by log sum exp in another base than the declared one"),
    "merge-empty": ("k", "parts without keys are joined wrongly"),
    "merge-unstable": ("k", "exp of a log sum exp overflows or vanishes where parts are joined"),
    "merge-weights": (
        "k",
        "parts are joined with other weights than softmax of their log sum exp, or their gradient is",
    ),
    "merge-lse": ("k", "log sum exp of joined parts is wrong, or its gradient"),
    "merge-strides": (
        "k",
        "parts that lie otherwise in memory, or have other widths, are misread where they are joined",
    ),
    "merge-aliases": ("k", "a part is overwritten, or returned, where parts are joined"),
    "index-padding": ("k", "-1 in an index list is read as a key, or keys behind it are left out"),
    "index-duplicates": (
        "k",
        "a key does not count once for each entry that names it, or the gradients of its entries are not added up",
    ),
    "index-bounds": (
        "k",
        "other keys are read than index lists name: lists are cut or taken for ordered, or positions lose bits",
    ),
    "page-table": (
        "k",
        "other pages are read than a sample's table names: of another sample, of another size, or numbers lose bits",
    ),
    "page-tail": ("k", "what lies behind a sample's length is read, or what lies before it is not"),
    "shard-mask": ("k", "a step of parallel attention masks its shard of the keys wrongly"),
    "shard-gradient": ("k", "a backward step of parallel attention gives its shard a wrong gradient"),
    "missing-softmax-correction": ("flk", "the gradient of the softmax lacks the term that subtracts each row's mean"),
    "wrong-softmax-correction": ("k", "the gradient of the softmax subtracts another number than each row's mean"),
    "correction-uses-dense-softmax": ("fl", "F(1) stands where F(M) belongs in p"),
    "correction-sign": ("fl", "the term diag((c*F)1)F is added instead of subtracted"),
    "correction-wrong-axis": ("fl", "the row sums in p are taken along columns"),
    "curvature-term-missing": ("f", "a term of the second derivative is left out (Gauss-Newton or a part of dp)"),
    # logits and scores
    "missing-scale": ("flk", "the logits are not scaled"),
    "logit-scale": ("flk", "the logits carry a factor that the definition does not have", "factor"),
    "logits-clipped": ("f", "logits are cut off at a number", "number"),
    "weight-transposed": ("f", "the logits are X W^T X^T"),
    "tokens-changed": ("fl", "tokens, queries or keys are centred, normalised or otherwise changed before use"),
    "features-dropped": ("k", "only the first features of queries, keys or values are read"),
    "score-order": ("lk", "scale, cap, slopes, biases or masks are applied in another order"),
    "bias-ignored": ("l", "a bias is not added as given"),
    "bias-wrong": ("k", "the bias is left out, or added in another way"),
    "bias-gradient": ("k", "the gradient of the bias is wrong"),
    "softcap-ignored": ("l", "logits are not capped by c tanh(s / c)"),
    "softcap-wrong": ("k", "another function stands for c tanh(s / c)"),
    "softcap-slope-missing": ("lk", "the gradient lacks the derivative of the cap"),
    "alibi-ignored": ("l", "the slopes are not used, or not per head"),
    "alibi-sign": ("l", "the slopes are added, or multiply another distance than |i - j|"),
    "alibi-wrong": ("k", "slopes of other heads are used, or another distance than |i - j|"),
    "modifier-ignored": ("k", "window, softcap or alibi is ignored"),
    "rope-ignored": ("l", "queries or keys are not turned by position"),
    "rope-transposed": ("l", "queries or keys are turned the other way"),
    "rope-not-turned-back": ("l", "the derivatives in queries and keys are not turned back"),
    "rope-position": ("l", "queries and keys are turned by positions that are not the same"),
    "rope-layout": ("l", "other features are paired than the layout says"),
    "rope-frequency": ("l", "the angles have other frequencies than theta^(-2a/m), scaled as given"),
    "sink-wrong": ("k", "the sinks are left out, or counted in another way"),
    "sink-gradient": ("k", "the gradient of the sinks is wrong"),
    "dropout-wrong": ("k", "dropout is left out, or multiplies something else than the weights and dP"),
    # masks, windows and blocks of positions
    "mask-ignored": ("flk", "the mask is not used: forbidden positions are attended to"),
    "mask-after-softmax": ("flk", "the mask multiplies the softmax, whose rows are not normalised again"),
    "mask-multiplies-logits": ("flk", "forbidden positions get the logit 0 instead of -inf"),
    "mask-added": ("k", "the mask is added to the logits as 0 and 1"),
    "mask-leaks": ("flk", "forbidden positions get weight", "logit"),
    "mask-finite": ("k", "forbidden logits get a finite value that large logits fall below", "logit"),
    "mask-strict": ("fl", "the diagonal is forbidden too"),
    "mask-always-causal": ("flk", "a causal mask is used whatever mask was given"),
    "mask-transposed": ("fl", "the mask is used transposed"),
    "mask-inverted": ("flk", "allowed and forbidden are exchanged in the mask"),
    "mask-broadcast": ("flk", "the mask is broadcast along another axis than it has"),
    "mask-kind": ("f", "what a mask means depends on its dtype"),
    "causal-off-by-one": ("flk", "the causal mask is shifted by one position"),
    "window-ignored": ("l", "the window is not used, or on one side only"),
    "window-wrong": ("k", "the window lies on one side only, or on both where causal"),
    "window-off-by-one": ("lk", "the window is one too wide or too narrow"),
    "gradient-of-unmasked": ("k", "the backward pass ignores the mask"),
    "gradient-of-causal": (
        "k",
        "the backward pass leaves keys after the query out, where the forward pass is not causal",
    ),
    "empty-row": ("k", "rows with nothing allowed give something"),
    "masked-block-nan": ("flk", "a row or block in which everything is forbidden makes results that are not finite"),
    "keys-dropped": ("flk", "positions that are allowed get no weight", "positions"),
    "first-key-only": ("k", "only the first key is read"),
    "padding-counted": ("k", "keys that only fill up the last block are attended to"),
    "keys-counted-twice": ("k", "keys of the last block count twice"),
    "last-block-dropped": ("flk", "the last positions are left out"),
    "rows-dropped": ("flk", "rows of a result are 0", "rows"),
    "tile-tail": ("flk", "wrong at one size and right at the sizes next to it: the rest of a tile", "sizes"),
    "block-edge": ("f", "right up to the size of a block, wrong for one token more", "size"),
    "varlen-offset": ("k", "packed sequences are read with wrong offsets, limits or lengths"),
    "nan-leak": ("k", "what stands where nothing may be read enters a result"),
    # heads and batches
    "heads-swapped": ("lk", "query heads read other key heads than h // (heads / kv_heads)", "heads"),
    "heads-mixed": ("k", "a head or a batch entry depends on another one", "heads"),
    "head-layout": ("l", "the columns of a weight are divided among the heads in another way"),
    "heads-not-summed": ("l", "the heads are averaged, or some left out, instead of summed"),
    "gqa-gradient-not-summed": ("lk", "the gradient of a key head is not the sum over the query heads of its group"),
    "batch-not-averaged": ("fl", "samples of a batch are summed, or averaged as a ratio of sums, not averaged"),
    "batch-weights": ("fl", "the samples of a batch do not count alike"),
    "batch-mixed": ("fl", "samples of a batch depend on each other"),
    "batch-variant": ("k", "a sample gives other bits in a batch than alone"),
    # losses and gradients
    "loss-scale": ("fl", "the attention term of the loss has another factor than 1/2, such as 1 or a mean", "factor"),
    "loss-not-squared": ("fl", "a norm instead of its square"),
    "loss-distance": ("fl", "another distance than half the squared Frobenius norm, such as a divergence"),
    "output-scale": ("k", "the output is off by a constant factor", "factor"),
    "gradient-scale": ("flk", "the gradient is off by a constant factor", "factor"),
    "gradient-sign": ("flk", "the gradient has the wrong sign"),
    "gradient-transposed": ("flk", "the gradient, or a factor of it, is transposed or exchanged with another"),
    "gradient-symmetrised": ("fl", "the gradient and its transpose are averaged"),
    "scale-missing-in-gradient": ("lk", "the gradient lacks the factor of the logits"),
    "transposed-p": ("fl", "X^T p^T X instead of X^T p X"),
    "missing-hadamard-W": ("fl", "the factor W* in front of X^T p X is missing"),
    "hadamard-uses-masked-W": ("fl", "M*W instead of W in front of X^T p X"),
    "missing-regularizer": ("fl", "the regulariser is left out"),
    "regularizer-scale": ("fl", "the regulariser has another factor than lam/2 (loss) or lam (gradient)", "factor"),
    "regularizer-not-squared": ("fl", "||M|| instead of ||M||^2 in the regulariser"),
    "dense-target-uses-M": ("fl", "the dense target F(1) is computed with the pruned weights"),
    "missing-dense-target": ("fl", "F(1) is not subtracted"),
    "unmasked-partner": ("fl", "the mask of a factor is left out where it meets the other, often in the gradient only"),
    "recipe": ("k", "numbers of eight bits are stored, scaled or rounded in another way than declared", "what"),
    "scale-leak": ("k", "what later tokens hold enters earlier results, through the scale of a block or otherwise"),
    "weights-not-normalised": (
        "k",
        "weights rounded to eight bits are not what the row sum adds up, so that v = 1 does not give 1",
        "sum",
    ),
    "lse-wrong": ("k", "log sum exp is wrong, the output is right"),
    "lse-base": ("k", "log sum exp has another base than the declared one"),
    "lse-gradient": ("k", "the cotangent of log sum exp is not added to dP - mean"),
    "follows-from-forward": ("flk", "the derivative is that of a function that is wrong"),
    # what is done with the masks M and W
    "clips-or-rounds-M": ("fl", "M is clipped, rounded or otherwise changed before use"),
    "matmul-for-hadamard": ("fl", "a matrix product stands where M*W is meant"),
    "M-transposed": ("fl", "the transpose of M is used"),
    "early-exit": ("f", "the attention term is left out where M is close to 1"),
    # pruning
    "keeps-instead-of-prunes": ("b", "what should be pruned is kept, and the other way round"),
    "threshold-off-by-one": ("b", "one entry too many or too few is pruned"),
    "wrong-count": ("b", "the smallest entries go, but another number of them than floor(rho size)", "number"),
    "ties-dropped": ("b", "all entries equal to the threshold are pruned, or ties are broken by another rule"),
    "absolute-values": ("b", "magnitudes are sorted where values are meant, or the other way round"),
    "baseline-axis": ("b", "rows and columns of the weight are exchanged"),
    "baseline-global-threshold": ("b", "the threshold is of the whole matrix, not of a row or block, or the reverse"),
    "baseline-ignores-activations": ("b", "the inputs X are not used in the score"),
    "baseline-no-update": ("b", "kept weights are not updated, or not beyond their block"),
    "baseline-update": ("b", "kept weights are updated with another sign, divisor, inverse or order of columns"),
    "baseline-score": ("b", "the score is of another power, norm, weight or part of the inputs than the original's"),
    "baseline-damping": ("b", "the damping of the Hessian is missing or different", "damping"),
    "baseline-dead-inputs": ("b", "inputs that are always zero are not treated as in the original"),
    "group-convention": ("b", "of every M neighbouring inputs N are kept, or others than N pruned"),
    "not-updated": ("b", "the weights that stay are those of the input: the update is left out, or thrown away"),
    "kept-weights-changed": ("b", "weights that stay are changed, by a method that only prunes"),
    "too-few": ("b", "rows, groups or blocks in which too few entries go"),
    "too-many": ("b", "rows, groups or blocks in which too many entries go"),
    "too-few-tokens": ("b", "wrong where there are fewer tokens than inputs, right where there are more"),
    "squared-norm": ("b", "the norm of an input is squared in the score"),
    "pattern-dropped": ("b", "N:M was asked for, and groups of M have other counts than N"),
    "zeros-filled": ("b", "entries that were zero, or had been pruned, are not zero afterwards"),
    "stateful": ("b", "the result depends on the calls before: a mask accumulates, or a sum is not reset"),
    "prunes-nothing": ("b", "nothing is pruned"),
    "prunes-everything": ("b", "everything is pruned"),
    # the descent
    "ignores-step": ("f", "the step eta is not used as given"),
    "ignores-steps": ("f", "another number of steps is taken than asked for"),
    "hidden-momentum": ("f", "momentum is used although none was asked for, or another one than was"),
    "gradient-clipped": ("f", "the gradient, or its norm, is cut off", "bound"),
    "other-optimizer": ("f", "another rule than gradient descent: the gradient's sign or direction, or Adam's steps"),
    "weights-overwritten": ("f", "the weights are replaced by the masked ones on the way"),
    "mask-of-other-M": ("f", "the mask rounds another matrix than the M that is returned"),
    "initial-mask": ("f", "the descent does not start at M = 1"),
    # the numbers and the memory of a program
    "low-precision": ("flbk", "intermediates are kept in a lower precision than that of the inputs", "precision"),
    "biased-rounding": ("k", "results or weights are rounded to one side, as truncation does, not to the nearest"),
    "integer-arithmetic": ("f", "results are cut to integers where an input has integers"),
    "memory-layout": ("f", "the order of an array in memory matters"),
    "strides-ignored": ("k", "inputs that are not contiguous in memory are misread"),
    "not-bitwise": ("k", "equal calls differ in a bit"),
    "nondeterministic": ("flbk", "equal calls differ by more than rounding can"),
    "mutates-input": ("flbk", "an input array is changed"),
    "cached": ("flbk", "what was kept of an earlier call is used for other inputs"),
    "overwrites-results": ("flb", "an array that was returned changes in a later call"),
    "stale-output": ("k", "what another call computed, or left in memory, stands in a result"),
    # shapes and conventions
    "zero-output": ("flbk", "a result is all zeros"),
    "constant-output": ("flbk", "a result does not depend on the inputs"),
    "nan-output": ("flbk", "a result has entries that are not finite", "arrays"),
    "wrong-shape": ("flbk", "a result has another shape or kind than the contract says"),
    "wrong-dtype": ("k", "a result has another dtype than the inputs"),
    "parts-exchanged": ("fl", "the two returned arrays are exchanged"),
    "argument-order": ("flb", "the parameters come in another order than the contract's"),
    "wrong-default": ("f", "left out, lam counts for something else than 0, or the mask for something else than None"),
    "convention": ("bk", "another convention is used than the declared one", "convention"),
    "unknown": ("flbk", "no known mistake gives this result"),
}

MISTAKES = {id: KnownMistake(*row) for id, row in _TABLE.items()}
SENTENCES = {id: mistake.sentence for id, mistake in MISTAKES.items()}


def explained(id: str, detail: str = "") -> str:
    """Return the sentence of a mistake, with a detail in parentheses where the sentence does not hold it.

    Examples
    --------
    >>> explained("logit-scale", "factor 0.5")
    'the logits carry a factor that the definition does not have (factor 0.5)'
    """
    sentence = SENTENCES[id]
    return f"{sentence} ({detail})" if detail and detail not in sentence else sentence
