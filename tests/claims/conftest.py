"""What the tests of claims share."""

import pytest

from attnprune_verify.claims import judge


@pytest.fixture
def one_witness(monkeypatch: pytest.MonkeyPatch) -> None:
    """End an attack at the first confirmed counterexample, for tests of whether there is one, not of which is shown."""
    monkeypatch.setattr(judge, "_ENOUGH", 1)
