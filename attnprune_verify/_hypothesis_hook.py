"""Entry point for Hypothesis: registers a strategy for `Instance`, whose imports wait until the strategy is used."""


def register() -> None:
    """Register the strategy for `Instance`; called by Hypothesis when it is imported."""
    from hypothesis import strategies as st

    from attnprune_verify.instance.problem import Instance

    def build(_: type[Instance]) -> st.SearchStrategy[Instance]:
        from attnprune_verify.strategies import instances

        return instances()

    st.register_type_strategy(Instance, build)
