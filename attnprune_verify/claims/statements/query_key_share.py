"""How much of a model W_Q and W_K are, from the shapes of its layers."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from attnprune_verify.claims.case import Case
from attnprune_verify.claims.core import Claim, Kind, Reading, Strength, Wrong
from attnprune_verify.claims.quantities import Quantities
from attnprune_verify.claims.relation import Relation, equal
from attnprune_verify.claims.supply import Fixed
from attnprune_verify.pretrained.counts import LLAMA_3_2_1B, parameter_counts

_SECTION = "6 Experiment"
_MAPS = ("Q", "K", "V", "O", "gate", "up", "down")


def _shares(q: Quantities, factor: int = 2) -> list[Relation]:
    """W_Q and W_K over the blocks' maps, by the formula."""
    config = dict(q.case["config"])
    counts = parameter_counts(config)
    ours, maps = counts["Q"] + counts["K"], sum(counts[role] for role in _MAPS)
    wide = (config["num_attention_heads"] + config["num_key_value_heads"]) * config["head_dim"]
    of_maps = Fraction(wide, factor * wide + 3 * config["intermediate_size"])
    found = [equal(q.number(Fraction(ours, maps)), q.number(of_maps), "of the maps")]
    return found


def _llama() -> tuple[Fraction, float, Fraction, float]:
    """W_Q and W_K of the paper's model among the blocks' maps, and among all parameters."""
    counts = parameter_counts(LLAMA_3_2_1B)
    ours = counts["Q"] + counts["K"]
    maps, whole = Fraction(ours, sum(counts[role] for role in _MAPS)), Fraction(ours, sum(counts.values()))
    return maps, float(maps), whole, float(whole)


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


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="new:query_key_share",
        kind=Kind.LEMMA,
        title="W_Q and W_K are a small part of a model",
        section=_SECTION,
        reading=Reading("Llama", "blocks with gated MLP, no biases; h heads and g key heads of m, f inner features"),
        says="W_Q and W_K are a share (h+g)m / (2(h+g)m + 3f) of the weights of the blocks' maps: {} ({:.1%}) in"
        " Llama-3.2-1B, where they are {} ({:.1%}) of all parameters. So much the theory is about.".format(*_llama()),
        formula="(|W_Q| + |W_K|) / (all maps) = (h+g)m / (2(h+g)m + 3f)",
        strength=Strength.IDENTITY,
        arithmetic="exact",
        margin=_shares,
        supply=Fixed(_configurations),
        uses=("eq:new_loss",),
        wrong=(Wrong("V and O left out of the whole", lambda q: _shares(q, 1)),),
        source="new",
    ),
)
