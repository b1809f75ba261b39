"""Meanings of the letters that a statement uses, in words, so that a sentence can be read alone."""

from __future__ import annotations

import re

from attnprune_verify.claims.core import Claim
from attnprune_verify.claims.scope import hypotheses

__all__ = ["SYMBOLS", "symbols_of"]

SYMBOLS: dict[str, str] = {
    "L_attn": "the attention error, half the sum of the squared entries of c (of several samples the mean)",
    "f(M)": "the attention matrix at M: the softmax of the rows of X (M o W) X^T over the allowed positions",
    "F": "the attention matrix at M: the softmax of the rows of X (M o W) X^T over the allowed positions",
    "f": "the attention matrix at M = 1, or a row of it",
    "c": "the residual, the attention matrix at M less that at M = 1; or a row of it",
    "p": "the softmax Jacobian at M applied to c, row by row",
    "G": "the gradient of L_attn",
    "J": "diag(s) - s s^T of a softmax row s",
    "J_i": "diag(s) - s s^T of row i of the attention matrix at M",
    "lambda_2": "of J_i: its least eigenvalue on the vectors with sum 0",
    "Pi A": "the map from M to the logits X (M o W) X^T, each row centred over its allowed positions",
    "K": "the norm of the map from M to the logits X (M o W) X^T, each row centred over its allowed positions",
    "R": "any bound above 1 of ||X||_F and ||W||_F",
    "C_+": "(39 + 55 sqrt(33))/1152, the largest curvature of a row's loss in its logits",
    "C_-": "(55 sqrt(33) - 39)/1152, minus the least curvature of a row's loss in its logits",
    "L_sharp": "lam + C_+ K^2",
    "m_i": "the number of allowed positions of row i",
    "n_e": "the number of rows with at least two allowed positions",
    "f_min": "the least allowed entry of f in the rows with at least two of them",
    "X_c": "the tokens less the mean of all",
    "X_0": "the tokens less the mean of all",
    "beta": "a number with X X^T - beta I positive semidefinite",
    "delta": "a lower bound of the attention entries",
    "delta_T": "the least lower bound of the attention entries at M_0, ..., M_{T-1}",
    "kappa_T": "the least ||W o (X^T V X)|| of V with norm 1 and zero row sums that is 0 where the mask forbids",
    "kappa_+": "the smallest nonzero singular value of the map from M to the centred logits",
    "beta_c": "the least ||X_c^T v||^2 of the unit vectors v with sum 0",
    "beta_i": "the least eigenvalue of X X^T on the vectors with sum 0 that row i may hold",
    "X_L": "the tokens of the rows that have a choice",
    "s1": "the largest weight of the row s",
    "s2": "the second largest weight of the row s",
    "E_s": "the mean under the weights s",
    "Var_s": "the variance under the weights s",
    "L_paper": "the paper's constant, lam + 30 d n^{7/2} R^6",
    "M_c": "the attention mask, 1 where a position is allowed",
    "W0": "the principal branch of Lambert's W function",
    "o": "the product entry by entry",
}
"""By symbol; beside those of the problem itself (n, d, X, W, M, lam, L), which NOTATION.md has."""

_WORD = r"(?<![A-Za-z0-9_{*])"
_PATTERNS = {
    name: re.compile(_WORD + re.escape(name) + (r"(?![A-Za-z0-9_'])(?!\^\{d)" if name[-1].isalnum() else ""))
    for name in SYMBOLS
}
_PATTERNS["f"] = re.compile(_WORD + r"f(?![A-Za-z0-9_('])")
"""f(M) is not f; and R^{dxd} is not R."""


def symbols_of(claim: Claim) -> dict[str, str]:
    """The symbols in a statement of ours with their meanings, except those that its text defines.

    Examples
    --------
    >>> from attnprune_verify.claims.registry import find
    >>> list(symbols_of(find("new:PL_sharp", "any")))
    ['c', 'p', 'J_i', 'lambda_2', 'kappa_T', 'o']
    """
    if not claim.own:
        return {}
    text = " ".join((claim.says, claim.formula, *hypotheses(claim)))
    return {name: words for name, words in SYMBOLS.items() if _PATTERNS[name].search(text) and not said(name, text)}


def said(name: str, text: str) -> bool:
    """Return whether a text defines a symbol: ``K = ...``, ``P is a bound``, ``m the number``."""
    after = r",? (?:=(?! [01]\b) |being |is the |is a |is that |the (?:number|largest|least|smallest|mean|rows))"
    return bool(re.search(_WORD + re.escape(name) + after, text))
