"""Settings of every test run: one BLAS thread per worker, deterministic Hypothesis, a drawn share of long tests."""

import os

# Before NumPy is imported: threaded BLAS collapses when workers share the cores.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

from hypothesis import HealthCheck, settings  # noqa: E402  # after the thread counts

settings.register_profile(
    "attnprune", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("attnprune")


def pytest_addoption(parser):
    parser.addoption(
        "--attnprune-smallest",
        action="store_true",
        help="set every registered size (tests/sizes/registry.py) to its smallest value: all problems count as large",
    )


def pytest_configure(config):
    if config.getoption("--attnprune-smallest"):
        from tests.sizes.registry import SMALLEST, shrink

        shrink(SMALLEST)


def pytest_collection_modifyitems(config, items):
    if seed := os.environ.get("ATTNPRUNE_DRAW"):
        from tests.thorough import drawn

        left_out = set(items) - drawn(items, seed)
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]
