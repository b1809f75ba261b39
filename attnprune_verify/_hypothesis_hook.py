"""Entry point for Hypothesis: registers a strategy for `Instance` as soon as both are imported, and imports neither."""

import sys
from typing import Any

from attnprune_verify.instance import awaited


def register() -> None:
    """Register the strategy for `Instance` now, or when it is defined."""
    problem: Any = sys.modules.get("attnprune_verify.instance.problem")
    if problem is None:
        awaited.append(_for)
    else:
        _for(problem.Instance)


def _for(cls: type) -> None:
    from hypothesis import strategies as st

    def build(_: type) -> st.SearchStrategy[Any]:
        from attnprune_verify.strategies import instances

        return instances()

    st.register_type_strategy(cls, build)
