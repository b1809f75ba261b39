"""Programs under audit that attack, as texts: a wrong ``causal_mask`` with something beside it, and their audit."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from attnprune_verify import run_audit
from attnprune_verify.audit.result import AuditResult

RIGHT = "import numpy as np\ndef causal_mask(n):\n    return np.tri(n)\n"
WRONG = "import numpy as np\ndef causal_mask(n):\n    attack()\n    return np.tri(n, k=-1)\n"
CLOSED = {"PermissionError", "OSError", "FileNotFoundError"}
"""What an attempt ends in where it is closed."""
ZEROES = (
    "def loss(M, X, W, lam=0.0, mask=None):\n    value = right(M, X, W, lam, mask)\n    M[:] = 0\n    return value\n"
)


def subject(folder: Path, attack: str, code: str = WRONG) -> Path:
    """Write a program: the attack, then the audited code, which calls ``attack()``."""
    path = folder / "subject.py"
    path.write_text(f"{textwrap.dedent(attack)}\n{code}", encoding="utf-8")
    return path


def audited(folder: Path, attack: str, code: str = WRONG, only: str = "causal_mask", **terms: Any) -> AuditResult:
    """Audit such a program here."""
    return run_audit(str(subject(folder, attack, code)), only=only, **terms)


def told(folder: Path, words: str, **terms: Any) -> str:
    """Return the value of the expression ``words`` inside the subject, or the name of the error that it raises.

    In it ``tried(way, ...)`` calls each way, and is what they return or the names of the errors they raise.
    """
    attack = f"""
    import ctypes, os, socket, subprocess, sys, time
    libc = ctypes.CDLL(None, use_errno=True)
    def tried(*ways):
        found = []
        for way in ways:
            try:
                found.append(way())
            except BaseException as error:
                found.append(type(error).__name__)
        return found
    def attack():
        try:
            answer = {words}
        except BaseException as error:
            answer = type(error).__name__
        raise RuntimeError("told " + str(answer))
    """
    result = audited(folder, attack, "def causal_mask(n):\n    attack()\n", **terms)
    reason = next(record.reason for record in result.checks if "told " in record.reason)
    return reason.partition("told ")[2]


def run(folder: Path, *arguments: object, module: bool = True, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command, with a folder as the working directory."""
    program = ["-m", "attnprune_verify"] if module else ["-c", "from attnprune_verify.cli.main import main; main()"]
    return subprocess.run(
        [sys.executable, *program, "audit", *map(str, arguments)],
        capture_output=True, text=True, cwd=folder, check=False, env={**os.environ, **variables},
    )  # fmt: skip
