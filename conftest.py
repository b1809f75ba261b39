"""Settings of every test run: one BLAS thread per worker, deterministic Hypothesis."""

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
