"""Entry point for Hypothesis: registers a strategy for `Instance` as soon as both are imported, and imports neither."""

import sys
from typing import Any


def register() -> None:
    """Register the strategy for `Instance`, if its module is imported; that module calls this again."""
    problem: Any = sys.modules.get("attnprune_verify.instance.problem")
    if problem is None:
        return
    from hypothesis import strategies as st

    def build(_: type) -> st.SearchStrategy[Any]:
        from attnprune_verify.strategies import instances

        return instances()

    st.register_type_strategy(problem.Instance, build)
