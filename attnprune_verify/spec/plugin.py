"""The pytest plugin: options of the executable spec and the thorough profile. Imports nothing heavy."""

import sys
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the ``--attnprune-...`` options."""
    group = parser.getgroup("attnprune", "executable spec of the attention-weight-pruning paper")
    group.addoption(
        "--attnprune-thorough",
        action="store_true",
        help="also run the long campaigns (marked 'thorough')",
    )
    group.addoption(
        "--attnprune-target",
        metavar="TARGET",
        default="attnprune_verify",
        help="what the executable spec judges: package.module, package.module:object or path/to/file.py "
        "(default: the reference implementation)",
    )
    group.addoption(
        "--attnprune-kernel",
        metavar="TARGET",
        default=None,
        help="an attention kernel to judge, forward and backward, in place of the paper's functions",
    )
    group.addoption(
        "--attnprune-kernel-dtype",
        choices=["float64", "float32", "bfloat16", "float16"],
        default="float32",
        help="the precision that the kernel promises",
    )
    group.addoption("--attnprune-seed", type=int, metavar="N", default=0, help="seed of the spec's instances")
    group.addoption(
        "--attnprune-deviations",
        metavar="FILE",
        default=None,
        help="TOML of known deviations of the target, with reasons",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker, so that --strict-markers accepts it wherever the plugin is installed."""
    config.addinivalue_line("markers", "thorough: long campaigns, run with --attnprune-thorough")


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the targets of `parametrize_with_checks`, where a test module has used it."""
    sys.modules["attnprune_verify.spec.decorator"].close_all()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Take out Hypothesis' plugin where no test imported Hypothesis: its summary would, for most of a second."""
    manager = session.config.pluginmanager
    if "hypothesis" not in sys.modules and not manager.hasplugin("dsession"):  # whose tests run in other processes
        manager.unregister(name="hypothesispytest")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the spec if no target was given; skip, visibly, the tests of the thorough profile."""
    other = "test_kernel" if config.getoption("--attnprune-kernel") is None else "test_subject"
    spec = Path(__file__).parent / f"{other}.py"
    unasked = [item for item in items if item.path == spec]
    if unasked:
        items[:] = [item for item in items if item.path != spec]
        config.hook.pytest_deselected(items=unasked)
    if config.getoption("--attnprune-thorough"):
        return
    skip = pytest.mark.skip(reason="long campaign; run with --attnprune-thorough")
    for item in items:
        if item.get_closest_marker("thorough"):
            item.add_marker(skip)
