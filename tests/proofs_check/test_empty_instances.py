"""True certificates that say nothing are refused or called trivial; hostile ones cost little; arguments are checked."""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proofs_check import both
from proofs_check.__main__ import CERTIFICATES
from proofs_check.checker import judge_bytes, judge_file
from proofs_check.mutations import pivots

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 5
OPEN = ["-1" + "0" * 40, "1" + "0" * 40]


@pytest.fixture(scope="module")
def program() -> Path:
    if missing := both.missing_tool():
        pytest.skip(f"the second checker cannot be built: no {missing}")
    return both.build()


def changed(name: str, **inputs: Any) -> dict[str, Any]:
    document = json.loads((CERTIFICATES / f"{name}.json").read_text())
    document["inputs"] |= {key.rstrip("_"): value for key, value in inputs.items()}
    document["quantities"] |= {key: OPEN for key in ("c_sq", "lhs", "rhs", "gap") if key in document["quantities"]}
    return document


def one_token() -> dict[str, Any]:
    document = changed("PL_ineq-confirmation-attained", n=1, d=1, X=[["1"]], W=[["1"]], M=[["0"]], delta="1")
    return document | {"hypotheses": {"psd_pivots": ["0"], "delta_le_min_f": ["1", "1"]}}


LARGE_LAMBDA = changed("PL_ineq-confirmation-small-weights-1e-1", lambda_="1")


@pytest.mark.parametrize("document", [one_token(), LARGE_LAMBDA], ids=["one token", "rhs below 0"])
def test_an_instance_that_holds_by_itself_is_called_trivial(program: Path, document: dict[str, Any]) -> None:
    """c = 0, or a regulariser so large that the right side is negative: true, as every square is."""
    content = json.dumps(document).encode()
    with both.SecondChecker(program) as second:
        for verdict in (judge_bytes(content), second.judge(content)):
            assert verdict.accepted and ": trivial instance: lhs>=rhs" in verdict.reason


def test_no_committed_certificate_is_trivial() -> None:
    said = [judge_file(path).reason for path in CERTIFICATES.glob("PL_ineq-confirmation-*.json")]
    assert len(said) > 8 and not [reason for reason in said if "trivial" in reason]
    document = changed("PL_ineq-confirmation-four-tokens", lambda_="1/10000000")
    assert "trivial" in judge_bytes(json.dumps(document).encode()).reason


def test_a_map_norm_within_a_tenth_is_enough(program: Path) -> None:
    """The true one is 70.2: 9/10 of 75 is below it, of 79 above."""
    with both.SecondChecker(program) as second:
        for map_sq, accepted in (("75/1", True), ("79/1", False)):
            content = json.dumps(changed("returned_mask-lambda-1e-0", map_sq=map_sq, eta="1/26")).encode()
            assert judge_bytes(content).accepted is second.judge(content).accepted is accepted


def huge_least_value() -> bytes:
    """The reach of the search was doubled until it surrounded this: half a minute."""
    document = json.loads((CERTIFICATES / "our_convergence-refutation-from-ones.json").read_text())
    document["quantities"]["lhs"] = ["9" * 99_000, "9" * 99_001]
    return json.dumps(document).encode()


def wide_box() -> bytes:
    """Twelve tokens of 59 digits and a radius of 1: the Hessian on the box is enclosed in vain at every precision."""
    X = [[f"{10**58 * ((5 * i + 3 * a * a) % 7 - 3) + i}/{10**58 + a}" for a in range(3)] for i in range(12)]
    document = changed("spurious_minimum-four-tokens", n=12, d=3, X=X, W=X[3:6], M=[["0"] * 3] * 3, radius="1")
    document["quantities"] |= {"curvature": ["1" + "0" * 99, "1" + "0" * 100], "gradient_norm": OPEN, "rhs": ["0", "0"]}
    columns = {"X": [list(column) for column in zip(*X, strict=True)], "beta": "0"}
    document["hypotheses"]["gram_pivots"] = [str(pivot) for pivot in pivots(columns)]
    return json.dumps(document).encode()


def long_walk() -> bytes:
    X = [[f"{10**18 + 7 * i + a}/{10**19 + i * a}" for a in range(4)] for i in range(8)]
    masks = [[["1", "0"][(a + b) % 2] for b in range(4)] for a in range(4)]
    other = [row[::-1] for row in masks]
    return json.dumps(
        changed("returned_mask-lambda-1e-0", n=8, t=156, X=X, W=X[:4], M=masks, N=other, map_sq="10/1", eta="1/5")
    ).encode()


HOSTILE: dict[str, Callable[[], bytes]] = {
    "a least value of 99,000 digits": huge_least_value,
    "a Hessian on a wide box": wide_box,
    "the longest walk": long_walk,
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.thorough) if "wide box" in name else name for name in HOSTILE]
)
def test_hostile_sizes_are_bounded_work(program: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / "hostile.json"
    path.write_bytes(HOSTILE[name]())
    begun = time.process_time()
    assert not judge_file(path).accepted
    assert time.process_time() - begun < SECONDS
    assert work_of(program, path) < SECONDS


def work_of(program: Path, path: Path) -> float:
    """Seconds of a core that the second checker takes for a file that it refuses."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    assert subprocess.run([program, path], capture_output=True, check=False).returncode in (1, 3)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def keys_of_one_hash(count: int) -> list[str]:
    """Strings of eight letters and digits on which OCaml's `Hashtbl.hash`, MurmurHash3 with the seed 0, is the same.

    A block k of four bytes turns the state h into 5 rotl(h xor mix(k), 13) + c: for a wanted state after the second
    block, its bytes follow from the first one.
    """
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-", dtype=np.uint8)
    word = np.uint32
    places = np.arange(300 * count, dtype=np.uint32)  # one in 4^4 = 256 is letters throughout
    first = sum(letters[(places >> word(6 * i)) & word(63)].astype(word) << word(8 * i) for i in range(4))

    def rotl(x: Any, r: int) -> Any:
        return (x << word(r)) | (x >> word(32 - r))

    def mix(k: Any) -> Any:
        return rotl(k * word(0xCC9E2D51), 15) * word(0x1B873593)

    def unmix(k: Any) -> Any:
        return rotl(k * word(pow(0x1B873593, -1, 2**32)), 17) * word(pow(0xCC9E2D51, -1, 2**32))

    state = rotl(mix(first), 13) * word(5) + word(0xE6546B64)
    second = unmix(state ^ word(12345))
    good = np.ones(len(second), dtype=bool)
    for i in range(4):
        good &= np.isin((second >> word(8 * i)) & word(255), letters)
    pairs = np.stack([first[good], second[good]], axis=1)[:count]
    return [pair.astype("<u4").tobytes().decode() for pair in pairs]


def test_keys_that_hash_to_one_number_cost_no_more_than_others(program: Path, tmp_path: Path) -> None:
    """In a hash table 20,000 such keys took seconds."""
    keys = keys_of_one_hash(20_000)
    assert len(set(keys)) == 20_000
    path = tmp_path / "keys.json"
    path.write_text("{" + ",".join(f'"{key}":1' for key in keys) + "}")
    assert work_of(program, path) < 1


@pytest.mark.parametrize("argument", ["--json", "-", "-v", "--check"])
def test_an_option_that_does_not_exist_is_a_usage_error(program: Path, tmp_path: Path, argument: str) -> None:
    good = str(next(CERTIFICATES.glob("*.json")))
    for command in ([sys.executable, "-m", "proofs_check"], [str(program)]):
        for arguments in ([argument], [good, argument]):
            done = subprocess.run([*command, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
            assert (done.returncode, done.stdout) == (2, "") and argument in done.stderr
    (tmp_path / argument).write_text("{}")
    done = subprocess.run([program, argument], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stdout.startswith(f"REJECT {argument}: missing key")


@pytest.mark.parametrize("path", ["/dev/zero", "/", "/no/such/file", "pipe"])
def test_the_comparison_waits_for_no_pipe_and_no_device(program: Path, tmp_path: Path, path: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    command = [sys.executable, "-m", "proofs_check.both", str(tmp_path / path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2 and done.stderr.startswith("error: ")
