"""CI's share of the long tests: by the seed, of the size that is marked, every case sooner or later."""

from pytest import mark

from tests.thorough import SHARE, drawn


class Item:
    def __init__(self, nodeid, marker):
        self.nodeid, self.marker = nodeid, marker

    def get_closest_marker(self, name):
        return self.marker


def test_a_share_is_drawn_by_the_seed_and_default_tests_stay():
    default = [Item(f"a.py::short[{one}]", None) for one in range(5)]
    usual = [Item(f"a.py::long[{one}]", mark.thorough.mark) for one in range(30)]
    rarer = [Item(f"a.py::longer[{one}]", mark.thorough(share=1 / 12).mark) for one in range(30)]
    alone = [Item("a.py::alone", mark.thorough.mark)]
    every = [*default, *usual, *rarer, *alone]
    seen, times = set(), 0
    for seed in range(60):
        kept = drawn(every, str(seed))
        assert kept == drawn(every, str(seed)) and kept >= set(default)
        assert len(kept & set(usual)) == 5 and len(kept & set(rarer)) in (2, 3)
        times += alone[0] in kept
        seen |= kept
    assert seen == set(every) and abs(times / 60 - SHARE) < 0.2
