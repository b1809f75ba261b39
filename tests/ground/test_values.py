"""Every rule about one value, at its edges and against everything that is no number."""

import math

import numpy as np
import pytest

from attnprune_verify import values
from attnprune_verify.errors import InvalidInstance

INSIDE = {
    values.as_number: (0.0, -1e308),
    values.as_positive: (5e-324, 1e308),
    values.as_nonnegative: (0.0, 1e308),
    values.as_ratio: (0.0, 1.0),
    values.as_momentum: (0.0, math.nextafter(1, 0)),
    values.as_lam: (0.0, 3),
}
OUTSIDE = {
    values.as_number: (),
    values.as_positive: (0.0, -1.0),
    values.as_nonnegative: (-5e-324,),
    values.as_ratio: (-5e-324, math.nextafter(1, 2)),
    values.as_momentum: (-5e-324, 1.0),
    values.as_lam: (-5e-324,),
}
NO_NUMBERS = ("0.5", b"0.5", None, 0.5j, np.complex128(0.5), np.ma.masked, [0.5, 0.5], 10**400)


def called(rule, value):
    named = rule in (values.as_number, values.as_positive, values.as_nonnegative)
    return rule("x", value) if named else rule(value)


@pytest.mark.parametrize("rule", INSIDE, ids=lambda rule: rule.__name__)
def test_a_number_obeys_its_rule(rule):
    for value in INSIDE[rule]:
        for form in (value, np.float64(value), np.array(value)):
            assert called(rule, form) == value and type(called(rule, form)) is float
    for value in (*OUTSIDE[rule], math.inf, -math.inf, math.nan, *NO_NUMBERS):
        with pytest.raises(InvalidInstance, match=r"must be .*; got "):
            called(rule, value)


def test_counts_and_choices():
    assert values.as_count("n", np.int8(3), least=3) == 3
    for value in (2, 3.0, "3", None, np.array([3, 3])):
        with pytest.raises(InvalidInstance, match="n must be an integer >= 3; got"):
            values.as_count("n", value, least=3)
    assert values.as_choice("order", "up", ("up", "down")) == "up"
    for value in ("Up", None, 1, ["up"], True):
        with pytest.raises(InvalidInstance, match="order must be up or down; got"):
            values.as_choice("order", value, ("up", "down"))
    with pytest.raises(InvalidInstance, match="on must be True or False; got 1"):
        values.as_choice("on", 1, (True, False))
