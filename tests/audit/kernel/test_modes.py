"""Modes: each finds the kernel that has its mistake, and passes the right one; devices: a fake one on the CPU."""

import numpy as np
import pytest

from attnprune_verify import check_attention
from attnprune_verify.audit.kernel.checks import kernel_checks
from attnprune_verify.audit.kernel.process import devices
from attnprune_verify.errors import InvalidInstance

MODES = ("bitwise", "batch-invariant", "poisoned", "replay", "many")


def right(q, k, v):
    s = (q @ np.swapaxes(k, -1, -2)) * q.dtype.type(q.shape[-1] ** -0.5)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v


def judged(kernel, mode, **options):
    result = check_attention(kernel, only=f"attention:mode:{mode}", modes=mode, **options)
    (record,) = result.checks
    return record


@pytest.mark.parametrize("mode", [*MODES[:-1], pytest.param("many", marks=pytest.mark.thorough)])
def test_a_right_kernel_passes(mode):
    record = judged(right, mode)
    assert record.status == ("not_applicable" if mode == "replay" else "passed"), record.reason
    assert record.id == f"attention:mode:{mode}"


def test_modes_are_run_on_request_alone():
    assert not any(one.name.startswith("mode:") for one in kernel_checks())
    assert sum(one.name.startswith("mode:") for one in kernel_checks(MODES)) == 2 * len(MODES)


def test_a_bit_that_changes_is_found():
    calls = []

    def other_order(q, k, v):
        calls.append(1)
        o = right(q, k, v)
        return np.nextafter(o, np.float32(9)) if len(calls) % 7 == 0 else o

    record = judged(other_order, "bitwise")
    assert record.status == "failed" and record.diagnosis == ("not-bitwise",)


def test_a_batch_that_changes_a_bit_is_found():
    def by_batch(q, k, v):
        o = right(q, k, v)
        return np.nextafter(o, np.float32(9)) if len(q) > 4 else o

    assert judged(by_batch, "batch-invariant").diagnosis == ("batch-variant",)


def test_memory_that_was_not_written_is_found():
    def unwritten(q, k, v):
        sums = np.empty(v.shape[:2] + (q.shape[2], v.shape[3]), q.dtype)  # meant to be zeros
        return right(q, k, v) + np.where(np.isnan(sums), sums, 0)  # numbers are right by luck

    record = judged(unwritten, "poisoned")
    assert record.status == "failed" and record.diagnosis == ("nan-output",)


def test_one_wrong_answer_in_many_is_found():
    calls = []

    def racing(q, k, v):
        calls.append(1)
        return right(q, k, v) * (2 if len(calls) % 2_000 == 1_500 else 1)

    record = judged(racing, "many")
    assert record.status == "failed" and record.diagnosis == ("nondeterministic",)


@pytest.fixture
def fake(monkeypatch):
    """A device whose tensors are a class of their own: mixing them with others, or reading them here, is an error."""
    torch = pytest.importorskip("torch")
    from torch.utils._python_dispatch import TorchDispatchMode

    class There(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            tensors = [one for one in (*args, *(kwargs or {}).values()) if isinstance(one, torch.Tensor)]
            name = getattr(function, "__name__", "")
            if name == "numpy" or (any(not isinstance(one, cls) for one in tensors) and name != "copy_"):
                raise RuntimeError(f"tensors of two devices meet in {name}")
            return super().__torch_function__(function, types, args, kwargs or {})

    class Tape(TorchDispatchMode):
        """Records what a call does, as a graph of a device would; Python's own steps are not repeated."""

        def __init__(self):
            super().__init__()
            self.steps = []

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            self.steps.append((function, args, kwargs or {}, out))
            return out

    class Fake:
        put = staticmethod(lambda tensor: tensor.as_subclass(There) if type(tensor) is not There else tensor)
        get = staticmethod(lambda tensor: tensor.as_subclass(torch.Tensor))

        def captured(self, call):
            with Tape() as tape:
                result = call()

            def replayed():
                with torch.no_grad():
                    for function, args, kwargs, out in tape.steps:
                        again = function(*args, **kwargs)
                        if isinstance(out, torch.Tensor) and out is not again and out.data_ptr() != again.data_ptr():
                            out.copy_(again)
                return result

            return replayed

    real = devices.torch_device
    monkeypatch.setattr(devices, "torch_device", lambda t, name: Fake() if name == "fake" else real(t, name))
    return torch


def torch_kernel(torch):
    def kernel(q, k, v, *, causal=False, mask=None):
        s = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        if causal:
            s = s.masked_fill(torch.ones_like(s).triu(1).bool(), float("-inf"))
        if mask is not None:
            s = s.masked_fill(~mask, float("-inf"))
        return torch.softmax(s, -1) @ v

    return kernel


def test_everything_goes_to_the_device_and_comes_back(fake):
    few = ("attention:values:mask", "*:values:causal", "*:shape", "*:refilled", "attention:strides")
    result = check_attention(torch_kernel(fake), device="fake", only=few)
    assert result.outcome == "passed" and not result.confinement["closed"]
    assert {one.status for one in result.checks} == {"passed"}

    def left_behind(q, k, v):
        return fake.softmax(q @ k.transpose(-1, -2) * fake.ones(1), -1) @ v  # a constant on another device

    assert check_attention(left_behind, device="fake", only=few).outcome != "passed"
    assert check_attention(left_behind, only="attention:values:scale").outcome != "failed"


def test_a_captured_call_is_replayed_on_other_values(fake):
    plain = torch_kernel(fake)
    assert judged(plain, "replay", device="fake").status == "passed"

    def stale(q, k, v):  # a mean that Python has read stays that of the captured call
        return plain(q, k, v) + (float(v.as_subclass(fake.Tensor).mean()) - v.mean())

    record = judged(stale, "replay", device="fake")
    assert record.status == "failed" and record.diagnosis == ("stale-output",)


def test_a_device_that_is_not_there_is_refused(fake):
    with pytest.raises(InvalidInstance, match="device must be one that torch has"):
        check_attention(torch_kernel(fake), device="nowhere", only="attention:shape")
