"""Sentences of the text on its experiments on Llama-3.2-1B: reported numbers, shapes, ratios, a cross-reference."""

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from attnprune_verify.claims.cases.agreement import conformable
from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.quantities import Quantities
from attnprune_verify.claims.cases.relation import Relation, at_least, at_most, equal
from attnprune_verify.claims.cases.supply import Fixed
from attnprune_verify.claims.core import Claim, Kind, Reading, Strength, Wrong
from attnprune_verify.claims.excerpts import excerpt
from attnprune_verify.claims.prose import one_case, sentence
from attnprune_verify.claims.reported import perplexity, real, synthetic
from attnprune_verify.pretrained.counts import LLAMA_3_2_1B, parameter_counts
from attnprune_verify.theory.formulas import paper

_SET, _SHARES = real(), perplexity()
_ONE_LENGTH = Reading("n = 512", f"no attention mask, and n = {_SET.tokens}, the only length the section tells")
_MODEL = Reading("Llama-3.2-1B", "2048 features, 32 query heads and 8 key-value heads of 64")

_SHORTEST = synthetic().tokens
_LONGEST = _SET.tokens
_EXCESS = float(3 * _SET.features * _SET.lam / _SET.delta) * _SHORTEST**0.5
_HIDDEN, _KEY_HEADS, _HEAD, _LAYERS = (
    LLAMA_3_2_1B[name] for name in ("hidden_size", "num_key_value_heads", "head_dim", "num_hidden_layers")
)
_KEYS = _KEY_HEADS * _HEAD
_COUNTS = parameter_counts(LLAMA_3_2_1B)
_MAPS = ("Q", "K", "V", "O", "gate", "up", "down")


def _cross_reference() -> Iterator[Case]:
    """The label of the section that names the baselines, and the section that the text refers to."""
    text = excerpt("exp:baselines_reference")
    (label,) = re.findall(r"\\subsection\{.*\}\\label\{([^}]*)\}", text)
    (reference,) = re.findall(r"baselines are .*the same as Section~\\ref\{([^}]*)\}", text)
    yield Case({"stands_in": label, "refers_to": reference}, "the paper's LaTeX, lines 529 to 545")


def _lengths() -> Iterator[Case]:
    """The lengths n of Section 6.2, whose text gives none; longer ones are worse."""
    for n in (_SHORTEST, 256, 400, _LONGEST):
        values = {
            "tokens": Fraction(n), "features": Fraction(_SET.features), "strength": _SET.lam, "floor": _SET.delta,
        }  # fmt: skip
        yield Case(values, f"n = {n}, d = {_SET.features}, lam = {float(_SET.lam):g}, delta = {float(_SET.delta):g}")


def _least_xi(q: Quantities, factor: Fraction = Fraction(1)) -> Relation:
    """The theorem's xi at max|W| = min|W| and ||X||_F^2 = n beta; tr(X X^T) >= n beta, so it is nowhere smaller."""
    mu = q.of(paper.mu, 1, 1, q.floor)
    xi = q.of(paper.xi_theorem, q.tokens, q.features, 1, q.sqrt(q.tokens), q.strength, mu)
    q.note({"xi": xi, "mu": mu, "delta": q.floor, "n": q.tokens, "d": q.features, "lam": q.strength, "beta": 1})
    q.note({"max|W|": 1, "min|W|": 1, "||X||_F": q.sqrt(q.tokens)})
    return at_most(xi / 2 * q.number(factor), 1 / q.tokens)


def _pruned_shares() -> dict[str, Fraction]:
    """Return the pruned shares: half of every MLP with half of some W_Q and W_K, the only maps the method prunes.

    W_Q and W_K of the last layer (Section 6.2) or of all (Table 1's "Attn"), over all parameters or over the blocks'
    maps.
    """
    of_mlp = _SHARES.of_mlp * sum(_COUNTS[role] for role in ("gate", "up", "down"))
    all_layers = _SHARES.of_attention * _query_key(_COUNTS)
    wholes = {"all parameters": sum(_COUNTS.values()), "the blocks' maps": sum(_COUNTS[role] for role in _MAPS)}
    return {
        f"{layers}, of {whole}": (of_mlp + attention) / count
        for layers, attention in (("last layer", all_layers / _LAYERS), ("every layer", all_layers))
        for whole, count in wholes.items()
    }


def _query_key(counts: Mapping[str, int]) -> int:
    return counts["Q"] + counts["K"]


_LEAST, _MOST = min(_pruned_shares().values()), max(_pruned_shares().values())


def _share_of_maps(config: Mapping[str, Any]) -> Fraction:
    counts = parameter_counts(config)
    return Fraction(_query_key(counts), sum(counts[role] for role in _MAPS))


_OF_MAPS = _share_of_maps(LLAMA_3_2_1B)
_OF_ALL = Fraction(_query_key(_COUNTS), sum(_COUNTS.values()))


def _shares(q: Quantities, factor: int = 2) -> Relation:
    """W_Q and W_K over the blocks' maps: counted, and by the formula."""
    config = dict(q.case["config"])
    wide = (config["num_attention_heads"] + config["num_key_value_heads"]) * config["head_dim"]
    formula = Fraction(wide, factor * wide + 3 * config["intermediate_size"])
    counts = parameter_counts(config)
    q.note({"W_Q": counts["Q"], "W_K": counts["K"], "maps": sum(counts[role] for role in _MAPS)})
    q.note({"h": config["num_attention_heads"], "g": config["num_key_value_heads"], "m": config["head_dim"]})
    q.note({"f": config["intermediate_size"]})
    return equal(q.number(_share_of_maps(config)), q.number(formula))


def _configurations() -> Iterator[Case]:
    """The paper's model, our small ones, and two with other proportions."""
    known = dict(LLAMA_3_2_1B)
    yield Case({"config": known}, "Llama-3.2-1B")
    sizes = {
        "two heads of 1": (1, 2, 2, 1, 1),
        "small, 4 heads": (128, 352, 4, 2, 32),
        "small, 8 heads": (128, 352, 8, 2, 16),
    }
    for name, (d, inner, heads, groups, m) in sizes.items():
        given = {"hidden_size": d, "intermediate_size": inner, "num_attention_heads": heads}
        yield Case({"config": known | given | {"num_key_value_heads": groups, "head_dim": m}}, name)


def _same_section(q: Quantities) -> int:
    return int(q.case["refers_to"] == q.case["stands_in"])


def _largest_share(q: Quantities) -> Relation:
    q.note({"s": [*_pruned_shares().values()]})
    return at_least(q.number(max(_pruned_shares().values())), q.number(_SHARES.of_model))


CLAIMS: tuple[Claim, ...] = (
    sentence(
        "exp:reported_delta",
        "The reported delta",
        f"{float(_SET.delta):g} <= 1/n at n = {_SET.tokens}",
        lambda q: at_most(q.delta_reported, Fraction(1, q.case["tokens"])),
        one_case(delta_reported=_SET.delta, tokens=_SET.tokens),
        (Wrong("at n = 4096", lambda q: at_most(q.delta_reported, Fraction(1, 4096))),),
        arithmetic="exact",
        reading=_ONE_LENGTH,
        uses=("new:delta_le_inverse_n", "new:causal_floor"),
        finding=f"{float(_SET.delta):g} is at most 1/n only for n <= {int(1 / _SET.delta)}. For which n and which mask"
        " it"
        " was measured is not told; with the theorem's causal mask it is 0",
    ),
    sentence(
        "exp:vacuous_guarantee",
        "The guarantee says something at the reported numbers",
        "xi/2 <= 1/n, xi = 12 n^{-3/2} max|W| ||X||_F^2 lam d/mu, mu = 2 min|W| beta delta, where max|W| = min|W| and"
        " ||X||_F^2 = n beta",
        _least_xi,
        Fixed(_lengths),
        (Wrong("a hundred times smaller", lambda q: _least_xi(q, Fraction(1, 100))),),
        arithmetic="ball",
        uses=("thm:our_convergence",),
        repaired_by="new:linear_convergence",
        finding=f"where it is least xi/2 is 3 lam d/(sqrt(n) delta), from n = {_SHORTEST} to {_LONGEST} at least"
        f" {_EXCESS:.3g} times 1/n",
    ),
    sentence(
        "exp:square_weights",
        "W_Q and W_K are d x d",
        f"(M_Q o W_Q)(M_K o W_K)^T with W_Q {_HIDDEN} x {_HIDDEN}, W_K {_HIDDEN} x {_KEYS}",
        lambda q: equal(q.number(q.case["key_features"]), q.number(_KEYS)),
        one_case(features=_HIDDEN, key_features=_KEYS),
        (Wrong("2048 key features", lambda q: equal(q.number(q.case["key_features"]), q.number(_HIDDEN))),),
        strength=Strength.IDENTITY,
        arithmetic="exact",
        reading=_MODEL,
        defect=lambda q: equal(
            q.number(conformable((1, q.case["features"]), (q.case["key_features"], 1))),
            q.number(0),
            "the product exists",
        ),
        uses=("eq:new_loss",),
        finding=f"grouped key-value heads make W_K {_HIDDEN} x {_KEYS}: the product does not exist",
        note="rotary positions, heads and the scale 1/sqrt(64) are not modelled either",
    ),
    sentence(
        "exp:baselines_reference",
        "Baselines as in the other section",
        "the reference leads to another section",
        lambda q: equal(q.number(_same_section(q)), q.number(0)),
        Fixed(_cross_reference),
        (Wrong("it leads elsewhere", lambda q: equal(q.number(1 - _same_section(q)), q.number(1))),),
        strength=Strength.IDENTITY,
        arithmetic="exact",
        defect=lambda q: equal(q.number(_same_section(q)), q.number(1)),
        finding="the section refers to itself",
        note="read from the paper's LaTeX, of which the three lines are carried with their hash; the synthetic section"
        " is presumably meant",
    ),
    sentence(
        "exp:whole_model_ratio",
        "The pruned share of the whole model",
        f"max_i s_i >= {float(_SHARES.of_model):g} for every reading i of the share that is pruned",
        _largest_share,
        one_case(shares=", ".join(f"{name}: {float(share):.3f}" for name, share in _pruned_shares().items())),
        (Wrong("at least 0.46", lambda q: at_least(q.number(_MOST), q.number(Fraction(46, 100)))),),
        strength=Strength.LOWER,
        arithmetic="exact",
        reading=_MODEL,
        finding=f"it is {float(_LEAST):.1%} (last layer, of all parameters) to {float(_MOST):.1%} (every layer, of the"
        " blocks' maps); half would need W_V and W_O as well, and the embedding not counted",
    ),
    Claim(
        id="new:query_key_share",
        kind=Kind.LEMMA,
        title="W_Q and W_K are a small part of a model",
        section="6 Experiment",
        reading=Reading("Llama", "blocks with gated MLP, no biases; h heads and g key heads of m, f inner features"),
        formula="(|W_Q| + |W_K|)/|maps| = (h + g) m/(2 (h + g) m + 3 f)",
        note=f"{_OF_MAPS} ({float(_OF_MAPS):.1%}) in Llama-3.2-1B, and {_OF_ALL} ({float(_OF_ALL):.1%}) of its"
        " parameters",
        strength=Strength.IDENTITY,
        arithmetic="exact",
        margin=_shares,
        supply=Fixed(_configurations),
        uses=("eq:new_loss",),
        wrong=(Wrong("V and O left out of the whole", lambda q: _shares(q, 1)),),
        source="new",
    ),
)
