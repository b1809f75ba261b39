"""The plan lists the checks of the audit, and agrees with it about those that do not apply."""

import numpy as np
import pytest

from attnprune_verify.audit.kernel.plan import plan
from attnprune_verify.audit.kernel.run import run_kernel_audit
from attnprune_verify.audit.subject.terms import Terms
from attnprune_verify.cli.main import main


def attention(q, k, v, *, causal=False):
    scores = q @ np.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def windowed(q, k, v, *, causal=False, window=None, **more):
    raise NotImplementedError


def test_the_plan_is_that_of_the_audit():
    result = run_kernel_audit(
        attention, only=("*:dtype", "*:values:mask", "*:values:window", "*:values:scale", "*:rounding")
    )
    planned = {check.check: check.applies for check in plan(attention).checks}
    assert len(planned) == len(plan({"attention": windowed}).checks)
    for record in result.checks:
        assert planned[record.id] == (record.status != "not_applicable"), record.id


@pytest.mark.parametrize(("kernel", "applies"), [(attention, False), ({"attention": windowed}, True)])
def test_a_window_is_judged_where_the_kernel_has_the_parameter(kernel, applies):
    ruled = []

    class Watched(Terms):
        def rule(self, subject):
            ruled.append(subject)

    (found,) = [check for check in plan(kernel, terms=Watched()).checks if check.check == "attention:values:window"]
    assert found.applies == applies
    assert ("has no parameter window" in found.why) != applies
    assert len(ruled) == 1, "what is imported for a plan is under the terms of the audit"


def test_the_command_prints_the_plan_and_judges_nothing(tmp_path, capsys):
    target = tmp_path / "kernel.py"
    target.write_text("def attention(q, k, v):\n    return v\n")
    with pytest.raises(SystemExit, match="^0$"):
        main(["audit-kernel", "--plan", str(target)])
    printed = capsys.readouterr().out
    assert "- attention:values:causal " in printed and "has no parameter causal" in printed
    assert "+ attention:values:plain " in printed
