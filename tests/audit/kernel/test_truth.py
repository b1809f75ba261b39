"""The truth: balls against float64, the gradient against the slope of the output, shapes and keywords."""

import numpy as np
import pytest
from flint import arb, arb_mat

from attnprune_verify.audit.kernel.problem.conventions import Conventions
from attnprune_verify.audit.kernel.problem.precision import PRECISIONS, precision_named
from attnprune_verify.audit.kernel.problem.regimes import BENIGN, EXTREME, regimes
from attnprune_verify.audit.kernel.problem.sample_factory import Maker
from attnprune_verify.audit.kernel.truth.split_product import wide_product
from attnprune_verify.audit.kernel.truth.truth import by_balls, by_floats, truth
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.oracle.enclosure import working_precision


def sample(regime, name, dtype="float64"):
    name, *base = name.split(", base ")
    (found,) = [s for s in regimes(0, dtype)[regime].samples if s.name == name]
    return found.changed(conventions=Conventions(lse_base=base[0])) if base else found


EVERY = [("plain", "n7"), ("causal", "c5"), ("mask", "m5"), ("grouped heads", "g6-2"), ("all at once", "all"),
         ("window", "w3c"), ("softcap", "cap2"), ("alibi", "alibi7"), ("scale", "s3"),
         ("bias and sinks", "b full, sinks"), ("dropout", "dg"), ("packed", "p slopes"), ("packed", "p causal"),
         ("log-sum-exp gradient", "dlg"),
         ("log-sum-exp gradient", "dlg, base 2"), ("empty rows", "er6, lse"), ("bias gradient", "b cap, db"),
         ("logits of 1000", "w1000")]  # fmt: skip


@pytest.mark.parametrize(("regime", "name"), EVERY)
def test_balls_and_float64_agree_within_their_radii(regime, name):
    one = sample(regime, name)
    exact, rounded = by_balls(one), by_floats(one)
    for part in exact:
        nothing = np.isneginf(exact[part].value)
        assert np.array_equal(nothing, np.isneginf(rounded[part].value))
        off = np.abs(np.where(nothing, 0, exact[part].value) - np.where(nothing, 0, rounded[part].value))
        assert (off <= exact[part].radius + rounded[part].radius).all()
        assert (exact[part].radius <= 1e-15 * np.abs(np.where(nothing, 0, exact[part].value)).max() + 1e-30).all()


@pytest.mark.parametrize(("regime", "name"), EVERY[:-1])
def test_the_gradient_is_the_slope_of_the_output(regime, name):
    """<do, o(x + h e) - o(x - h e)> / 2h in balls, with a step whose square is far below the last bit looked at."""
    one = sample(regime, name)
    rng, step = np.random.default_rng(0), 2.0**-60
    true = by_balls(one)
    parts = (("q", "dq"), ("k", "dk"), ("v", "dv"), ("bias", "dbias"), ("sinks", "dsinks"))
    for which, part in [(which, part) for which, part in parts if part in true]:
        direction = np.round(rng.standard_normal(getattr(one, which).shape), 2)
        slope = (_inner(one, which, direction, step) - _inner(one, which, direction, -step)) / (2 * step)
        expected = float((direction * true[part].value).sum())
        size = float(np.abs(direction * true[part].value).sum())
        assert abs(float(slope.mid()) - expected) <= 1e-13 * size


def _inner(one, which, direction, step):
    """<do, o> at 300 bits, straight from the definition, with one input moved by step * direction."""
    with working_precision(300):
        given = {name: getattr(one, name) for name in ("q", "k", "v", "bias", "sinks")}
        moved = {name: _exact(array) for name, array in given.items() if array is not None}
        array = getattr(one, which)
        for place in np.ndindex(array.shape):
            moved[which][place] = arb(float(array[place])) + arb(step) * arb(float(direction[place]))
        scale = 1 / arb(one.q.shape[3]).sqrt() if one.scale is None else arb(one.scale)
        total = arb(0)
        allowed = np.broadcast_to(one.allowed, (*one.q.shape[:3], one.k.shape[2]))
        for b, h in np.ndindex(*one.q.shape[:2]):
            g = h // one.group
            q, k, v = (arb_mat(a.tolist()) for a in (moved["q"][b, h], moved["k"][b, g], moved["v"][b, g]))
            s = (q * k.transpose() * scale).tolist()
            for i, row in enumerate(s):
                keys = [int(j) for j in np.flatnonzero(allowed[b, h, i])]
                if keys or one.sinks is not None:
                    total += _row(one, (b, h, i), _changed(one, moved, (b, h, i), row), keys, v, moved)
        return total


def _changed(one, moved, place, row):
    """A row of scaled logits after softcap, bias and slopes."""
    b, h, i = place
    if one.softcap is not None:
        row = [arb(one.softcap) * (x / arb(one.softcap)).tanh() for x in row]
    if one.bias is not None:
        bias = np.broadcast_to(moved["bias"], (*one.q.shape[:3], len(row)))
        row = [x + bias[b, h, i, j] for j, x in enumerate(row)]
    if one.alibi is not None:
        starts = [np.array([0, *side[:-1]]) for side in one.ends] if one.ends else [np.zeros(1, int)] * 2
        at = [place - starts[0][starts[0] <= place].max() for place in (i,)][0]
        far = [abs(int(at) - int(j - starts[1][starts[1] <= j].max())) for j in range(len(row))]
        row = [x - arb(float(one.alibi[h])) * distance for x, distance in zip(row, far, strict=True)]
    return row


def _row(one, place, row, keys, v, moved):
    """<do, o> of one query, and the cotangent of its log sum exp times that."""
    weights = [row[j].exp() for j in keys]
    total = sum(weights, arb(0) if one.sinks is None else moved["sinks"][place[1]].exp())
    stays = np.ones(len(row)) if one.dropout is None else one.dropout[place]
    kept = [w * float(stays[j]) / arb(one.keep) for w, j in zip(weights, keys, strict=True)]
    values = [sum((w * v[j, c] for w, j in zip(kept, keys, strict=True)), arb(0)) for c in range(v.ncols())]
    inner = sum((arb(float(d)) * x for d, x in zip(one.do[place], values, strict=True)), arb(0)) / total
    if one.dlse is None:
        return inner
    unit = arb(2).log() if one.conventions.lse_base == "2" else 1
    return inner + arb(float(one.dlse[place])) * total.log() / unit


def _exact(array):
    found = np.empty(array.shape, dtype=object)
    for place in np.ndindex(array.shape):
        found[place] = arb(float(array[place]))
    return found


PLAIN = 36  # regimes without optional parts


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_inputs_are_exact_in_their_type_and_rows_are_not_empty(dtype):
    precision = precision_named(dtype)
    found = list(regimes(0, dtype).values())
    for regime in found:
        assert regime.says
        for one in regime.samples:
            for name in ("q", "k", "v", "do"):
                array = getattr(one, name)
                assert np.isfinite(array).all()
                assert np.array_equal(precision.exact(array), array)
            assert not one.empty or "empty rows" in one.features or one.shape[3] > one.shape[4]
            assert np.abs(one.factor * (one.q @ np.swapaxes(one.grouped(one.k), -1, -2))).max() <= 1e5
            assert one.shape[1] % one.shape[2] == 0 and one.shape[3] <= 300 and one.shape[4] <= 4_097
            if one.causal and regime in found[:PLAIN]:
                assert one.shape[3] == one.shape[4]


def test_the_regimes_reach_what_they_promise():
    found = regimes(0, "float32")
    assert set(BENIGN) | set(EXTREME) <= set(found)
    every = [one for regime in found.values() for one in regime.samples]
    assert len({one.name for one in every}) == len(every)
    assert {1, 300} <= {one.shape[3] for one in every} and {1, 256} <= {one.shape[5] for one in every}
    logits = found["logits of 1e5"].samples[0]
    assert np.abs(logits.factor * (logits.q @ np.swapaxes(logits.k, -1, -2))).max() > 8e4


@pytest.mark.parametrize("scale", [None, 0.125, 2.0])
def test_logits_are_moved_by_what_is_asked(scale):
    maker, asked = Maker(0, PRECISIONS["float64"]), np.array([-3.0, 0.0, 5.0])
    sample = maker.make("moved", 2, 4, 3, scale=scale)
    moved = maker.position_wise(sample, asked, 4.0)
    assert moved.factor * moved.q[..., :1] * np.swapaxes(moved.k[..., :1], -1, -2) == pytest.approx(
        np.broadcast_to(asked, (1, 2, 2, 3)), rel=1e-12
    )


def test_the_same_seed_gives_the_same_numbers():
    first = regimes(5, "float16")["plain"].samples[0].q.copy()
    regimes.cache_clear()
    assert np.array_equal(regimes(5, "float16")["plain"].samples[0].q, first)
    assert truth(regimes(5, "float16")["plain"].samples[0])["o"].value.shape == first.shape


def test_an_unknown_precision_is_refused():
    with pytest.raises(InvalidInstance, match="dtype must be one of"):
        precision_named("float8")


def exactly(array):
    """Balls of wide floats, each the sum of two numbers of float64."""
    near = array.astype(float)
    return arb_mat(
        *array.shape, [arb(x) + arb(y) for x, y in zip(near.flat, (array - near).astype(float).flat, strict=True)]
    )


@pytest.mark.parametrize("terms", [32, 1000])
@pytest.mark.parametrize(
    "kind", ["normal", "weights", "equal", "large against zero", "large against small", "huge", "masked"]
)
def test_a_product_in_wide_floats_errs_by_a_unit_a_term(kind, terms):
    rng = np.random.default_rng(terms)
    a, b = rng.standard_normal((3, terms)).astype(np.longdouble), rng.standard_normal((terms, 3)).astype(np.longdouble)
    if kind == "weights":
        a = np.exp(8 * a)
        a /= a.sum(axis=-1, keepdims=True)
    elif kind == "equal":  # the largest numbers, whose products need all their bits
        a, b = (np.full_like(x, 2 - 2.0**-25 - 2.0**-50) for x in (a, b))
    elif kind.startswith("large"):  # of the sum nothing is left but what is far below the largest number of the row
        a[:, 0], b[0] = 2.0**100, 0.0 if kind.endswith("zero") else 2.0**-120
    elif kind == "huge":
        a *= np.longdouble(1e300)
    elif kind == "masked":
        a[:, 2:] = 0
    with working_precision(2000):
        off = exactly(wide_product(a, b)) - exactly(a) * exactly(b)
        size = exactly(np.abs(a)) * exactly(np.abs(b))
        units = (2 if kind == "masked" else terms) + 7
        most = arb(units * float(np.finfo(np.longdouble).eps) / 2)
        assert all(abs(x) <= most * y for x, y in zip(off.entries(), size.entries(), strict=True))
