"""The numbers that the paper reports, read from the lines of its LaTeX that are carried with their hash."""

import re
from fractions import Fraction
from functools import cache
from typing import NamedTuple

from attnprune_verify.claims.excerpts import excerpt


class Synthetic(NamedTuple):
    """Section 6.1."""

    features: int
    samples: tuple[int, int]
    tokens: int
    lam: Fraction
    """The controlled one; the loss has tokens * lam."""
    step: Fraction
    """eta lam."""
    momentum: Fraction


class Real(NamedTuple):
    """The real models and settings of Section 6.2."""

    features: int
    lam: Fraction
    tokens: int
    """Of the experiment that varies rho, the only length that is told."""
    beta: Fraction
    delta: Fraction


class Perplexity(NamedTuple):
    """Section 6.3."""

    of_mlp: Fraction
    of_attention: Fraction
    of_model: Fraction


@cache
def synthetic() -> Synthetic:
    """Settings of Section 6.1.

    Examples
    --------
    >>> set_up = synthetic()
    >>> set_up.features, set_up.samples, set_up.tokens, float(set_up.lam), float(set_up.step), float(set_up.momentum)
    (64, (16, 64), 128, 0.04, 0.1, 0.9)
    """
    text = excerpt("setup:synthetic")
    return Synthetic(
        int(_one(text, r"\$d = (\d+)\$")),
        (int(_one(text, r"size \$k = (\d+)\$ and")), int(_one(text, r"and \$k = (\d+)\$"))),
        int(_one(text, r"sequence length \$n = (\d+)\$")),
        Fraction(_one(text, r"\$\\lambda\$ is set as \$([\d.]+)\$")),
        Fraction(_one(text, r"\$\\eta = ([\d.]+)/\\lambda\$")),
        Fraction(_one(text, r"momentum parameter at \$([\d.]+)\$")),
    )


@cache
def real() -> Real:
    """Settings of Section 6.2, and the measurements it reports.

    Examples
    --------
    >>> set_up = real()
    >>> set_up.features, float(set_up.lam), set_up.tokens, float(set_up.beta), float(set_up.delta)
    (2048, 0.05, 512, 0.034, 0.0025)
    """
    text = excerpt("setup:real")
    return Real(
        int(_one(text, r"dimension is \$d = (\d+)\$")),
        Fraction(_one(text, r"we set \$\\lambda\$ as \$([\d.]+)\$")),
        int(_one(text, r"sequence length \$n\$ as \$(\d+)\$")),
        Fraction(_one(text, r"\$\\beta \\approx ([\d.]+)\$")),
        Fraction(_one(text, r"\$\\delta \\approx ([\d.]+)\$")),
    )


@cache
def perplexity() -> Perplexity:
    """The shares that Section 6.3 prunes, of MLP, attention and the whole model.

    Examples
    --------
    >>> [float(share) for share in perplexity()]
    [0.5, 0.5, 0.5]
    """
    text = excerpt("setup:perplexity")
    found = (r"as \$([\d.]+)\$ for MLP", r"and \$([\d.]+)\$ for Attention", r"the whole model as \$([\d.]+)\$")
    return Perplexity(*(Fraction(_one(text, pattern)) for pattern in found))


def _one(text: str, pattern: str) -> str:
    """The only number that the pattern finds."""
    (found,) = re.findall(pattern, text)
    return str(found)
