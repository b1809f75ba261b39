"""The second checker (OCaml): accepts every certificate, rejects the corpus, agrees with the first one on mutants."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from proofs_check import both, fuzz, mutations
from proofs_check.__main__ import CERTIFICATES
from proofs_check.checker import judge_bytes
from proofs_check.corpus import __main__ as corpus
from proofs_check.corpus.parts import invalid, parts
from proofs_check.corpus.trap import Trap

FILES = sorted(CERTIFICATES.glob("*.json"))


@pytest.fixture(scope="module")
def program() -> Path:
    if missing := both.missing_tool():
        pytest.skip(f"the second checker cannot be built: no {missing} (apt-get install ocaml-nox ocaml-findlib "
                    "libzarith-ocaml-dev make gcc)")  # fmt: skip
    return both.build()


@pytest.fixture
def second(program: Path) -> Iterator[both.SecondChecker]:
    with both.SecondChecker(program) as process:
        yield process


def run(program: Path, *arguments: str | bytes) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


def test_it_accepts_every_certificate(program: Path) -> None:
    done = run(program, *map(str, FILES))
    assert done.returncode == 0, done.stdout
    assert done.stdout.endswith(f"{len(FILES)} of {len(FILES)} certificates accepted\n")


def walks(content: bytes) -> bool:
    """Return True where a certificate is judged by a search or a descent, which take most of the time."""
    return any(
        f'"{statement}"'.encode() in content for statement in ("new:best_mask", "new:descent_mask_far_from_best")
    )


def test_the_first_checker_rejects_the_corpus() -> None:
    """All but most of those that walk; `python -m proofs_check.both`, another stage of CI, gives all to both.

    Which sixth of these is judged is drawn by ATTNPRUNE_DRAW, the commit in CI, so that nobody who commits chooses it.
    """
    long = [name for name, content in invalid().items() if walks(content)]
    sixth = Random(os.environ.get("ATTNPRUNE_DRAW", "")).sample(long, len(long) // 6)
    judged = [*(name for name in invalid() if name not in long), *sixth]
    assert [name for name in judged if judge_bytes(invalid()[name]).accepted] == []
    assert len(judged) > 500


@pytest.mark.thorough(share=1)
def test_the_corpus_is_the_pinned_one_and_the_first_checker_rejects_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index judges every trap, and stops at one that is accepted or breaks the checker."""
    assert corpus.main(["--check"]) == 0
    assert len(invalid()) >= 130
    monkeypatch.setattr(corpus, "invalid", lambda: {**invalid(), "nul-byte.json": b"{}"})
    assert corpus.main(["--check"]) == 1


def test_the_corpus_is_written_where_nothing_is_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first two traps of each part are written; the whole corpus would take longer."""
    few = {title: [trap for trap in traps if not walks(trap.content)][:2] for title, traps in parts().items()}
    files = {trap.name + ".json": trap.content for traps in few.values() for trap in traps}
    for name, value in {"parts": lambda: few, "invalid": lambda: files, "index": corpus.index.__wrapped__}.items():
        monkeypatch.setattr(corpus, name, value)
    assert corpus.main(["--out", str(tmp_path / "there")]) == 0
    written = {path.name: path.read_bytes() for path in (tmp_path / "there").iterdir()}
    assert written.pop("INDEX.md").count(b"\n| `") == len(files) > 10
    assert written == files
    first = tmp_path / "there" / min(files)
    first.write_text("mine")
    assert corpus.main(["--out", str(tmp_path / "there")]) == 2
    assert first.read_text() == "mine"


def test_a_trap_that_is_none_is_not_taken_into_the_corpus() -> None:
    with pytest.raises(ValueError, match="valid: lem:PL_ineq"):
        corpus._row(Trap("valid", "nothing", FILES[0].read_bytes()))


def test_it_rejects_the_whole_corpus(second: both.SecondChecker) -> None:
    assert [name for name, content in invalid().items() if second.judge(content).accepted] == []


def test_one_bad_file_among_good_ones(program: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text(FILES[0].read_text().replace("lem:PL_ineq", "lem:PL"))
    done = run(program, str(FILES[0]), str(bad))
    assert done.returncode == 1
    assert done.stdout.splitlines()[1].startswith("REJECT bad.json: statement must be one of")


@pytest.mark.parametrize("path", ["/dev/zero", "/", "/no/such/file"])
def test_odd_paths(program: Path, path: str) -> None:
    assert run(program, path).returncode == 1


def test_a_pipe_is_not_waited_for(program: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    assert "not a regular file" in run(program, str(tmp_path / "pipe.json")).stdout


def test_a_name_cannot_forge_a_line(program: Path, tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/x\nACCEPT y.json"
    Path(os.fsdecode(name)).write_text("{}")
    lines = run(program, name).stdout.splitlines()
    assert len(lines) == 2 and lines[0].startswith("REJECT x\\nACCEPT y.json: ")


@pytest.mark.parametrize("arguments", [["BAD.json", "--help"], ["-h", "BAD.json"], ["BAD.json", "--stream"], []])
def test_help_beside_files_checks_nothing(program: Path, arguments: list[str]) -> None:
    assert run(program, *arguments).returncode == 2


@pytest.mark.parametrize("sent", [b"abc\n{}", b"-1\n", b"99999999999999\n{}"])
def test_a_stream_without_lengths_is_a_usage_error(program: Path, sent: bytes) -> None:
    done = subprocess.run([program, "--stream"], input=sent, capture_output=True, check=False, timeout=60)
    assert done.returncode == 2 and done.stdout == b"" and done.stderr.startswith(b"error: each certificate")


def test_a_fault_is_a_rejection(second: both.SecondChecker) -> None:
    document = json.loads(FILES[0].read_text())
    for value in (None, [], "x", {"lo": 1}, 5):
        for key in document:
            assert not second.judge(json.dumps(document | {key: value}).encode()).accepted
    assert second.judge(FILES[0].read_bytes()).accepted


def test_a_mutant_that_only_one_accepts_is_reported(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison itself: with a first checker that accepts everything it finds disagreements."""
    accepting = both.CertificateVerdict(True, "whatever")
    monkeypatch.setattr(fuzz, "judge_bytes", lambda content: accepting)
    assert fuzz.compare(0, 20)["disagree"] > 0


def test_tokens_that_a_mutation_made_a_text_are_not_eliminated() -> None:
    """Its 2,000 digits were read as so many tokens: the fuzzer stood still at the 1,075th mutant of a seed."""
    document = json.loads((CERTIFICATES / "PL_ineq-refutation-causal.json").read_text())
    document["inputs"]["X"] = "9" * 2000
    with pytest.raises(TypeError, match="list of rows"):
        mutations.pivots(document["inputs"])
    kept = json.dumps(document["hypotheses"]["psd_pivots"])
    mutations.open_enclosures(document)
    assert json.dumps(document["hypotheses"]["psd_pivots"]) == kept


def test_both_agree_on_a_sample_of_mutants(program: Path) -> None:
    found = fuzz.compare(14, 150)
    assert found["disagree"] == 0
    assert found["limit"] <= 3 and found["accept"] > 18 and found["reject"] > 60


@pytest.mark.thorough
def test_both_agree_on_many_mutants(program: Path) -> None:
    found = fuzz.compare(2026, 4000)
    assert found["disagree"] == 0 and found["limit"] <= 80


def test_the_first_checker_knows_what_the_comparison_taught() -> None:
    """Differences that the second checker showed: JSON booleans as counts, half of a surrogate pair, R <= 1, R < 0."""
    counts = json.loads((CERTIFICATES / "mask_gd-confirmation-distinct.json").read_text())
    counts["inputs"]["d"], counts["inputs"]["M"], counts["inputs"]["rho"] = 2, [["1/2"] * 2] * 2, ["0", "1/4"]
    counts["quantities"] = {"zeros": [0, 1], "wanted": [0, 1]}
    assert judge_bytes(json.dumps(counts).encode()).accepted
    counts["quantities"] = {"zeros": [False, True], "wanted": [False, True]}
    assert "lists counts" in judge_bytes(json.dumps(counts).encode()).reason
    half = FILES[0].read_bytes().replace(b'"python-flint (Arb)"', b'"\\ud800"')
    assert "surrogate" in judge_bytes(half).reason
    for name in ("step_size-refutation", "smaller_lam_takes_longer-refutation"):
        document = json.loads((CERTIFICATES / f"{name}.json").read_text())
        document["inputs"]["R"] = "1/2"
        assert "R must be > 1" in judge_bytes(json.dumps(document).encode()).reason
    informal = json.loads((CERTIFICATES / "our_convergence_informal-refutation.json").read_text())
    informal["inputs"]["R"] = "-3/2"
    assert "R >= sqrt(2)" in judge_bytes(json.dumps(informal).encode()).reason
