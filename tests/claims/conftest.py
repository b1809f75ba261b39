"""What the tests of claims share."""

import pytest

from attnprune_verify.claims.judging import judge


@pytest.fixture
def one_witness(monkeypatch: pytest.MonkeyPatch) -> None:
    """End an attack at the first confirmed counterexample, for tests of whether there is one, not of which is shown.

    Nor is it made simpler for a reader.
    """
    monkeypatch.setattr(judge, "_ENOUGH", 1)
    monkeypatch.setattr(judge, "rounded", lambda claim, trial: trial)
