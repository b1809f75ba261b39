# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Audit your code
#
# You have written the loss, its gradient, a pruning mask or a baseline yourself. Is it right? In which regime? If not,
# which mistake does it make? `run_audit` answers in one call; the command `attnprune-verify audit` does the same.
#
# Your code runs in a process of its own. It may hang, crash or print; the audit goes on and says so.

# %%
import os
import tempfile
from pathlib import Path

import attnprune_verify as apv

folder = tempfile.TemporaryDirectory()
os.chdir(folder.name)

# %% [markdown]
# ## A right and a wrong implementation
#
# Two gradients of the pruning loss. The second forgets that the softmax normalises: it leaves out
# $\mathrm{diag}((c \circ F) \mathbf 1) F$ in $p$ (the paper's Definition of $p$).

# %%
RIGHT = """
import numpy as np

def softmax(A, mask):
    A = A if mask is None else np.where(mask == 1, A, -np.inf)
    A = np.exp(A - A.max(axis=1, keepdims=True))
    return A / A.sum(axis=1, keepdims=True)

def gradient(M, X, W, lam=0.0, mask=None):
    F = softmax(X @ (M * W) @ X.T, mask)
    c = F - softmax(X @ W @ X.T, mask)
    p = c * F - (c * F).sum(axis=1, keepdims=True) * F
    return W * (X.T @ p @ X) + lam * M
"""
Path("right.py").write_text(RIGHT)
Path("wrong.py").write_text(RIGHT.replace(" - (c * F).sum(axis=1, keepdims=True) * F", ""))

for target in ("right.py", "wrong.py"):
    result = apv.run_audit(target)
    print(target, result.outcome, result.diagnosis)

# %% [markdown]
# ## How to read a verdict
#
# Every check asks one question about one function and ends in one of six ways:
#
# * `passed`: right within the resolution of this instance.
# * `failed`: off by more than rounding can explain (a running-error bound around a ball-arithmetic enclosure), or a
#   rule of the contract is broken.
# * `inconclusive`: on this instance rounding hides too much to decide.
# * `not_applicable`: the target has no such function, or does not accept such an input.
# * `could_not_run`: the call raised, hung for 30 seconds, or took the interpreter down.
# * `waived`: you declared the deviation, with a reason, in a TOML file.
#
# One failed check fails the audit. What could not be run makes it incomplete, never green. A pass comes with its
# *detection power*: the smallest relative error that would have been noticed.

# %%
passed = apv.run_audit("right.py")
print(passed.counts())
for check in passed.checks:
    if check.status == "passed" and check.power and check.name.startswith("values:"):
        print(f"{check.id:38} would have seen a relative error of {check.power:.0e}")

# %% [markdown]
# A failure names the mistake, if the output equals that of a known wrong formula to rounding, and carries the smallest
# instance found with a few lines of NumPy that show it.

# %%
first = next(check for check in result.checks if check.status == "failed")
print(first.id, "-", first.says)
print("diagnosis:", ", ".join(first.diagnosis), "-", first.words)
print()
print("\n".join(line for line in first.snippet.splitlines() if "runpy" not in line))

# %% [markdown]
# Some mistakes show in one regime only. Here the regulariser is capped, which nobody notices for small $\lambda$; and
# the exponential overflows, which nobody notices for small logits.

# %%
Path("capped.py").write_text(RIGHT.replace("lam * M", "min(lam, 1.0) * M"))
Path("unshifted.py").write_text(RIGHT.replace("A - A.max(axis=1, keepdims=True)", "A"))
for target in ("capped.py", "unshifted.py"):
    result = apv.run_audit(target)
    failed = [check.name for check in result.checks if check.status == "failed"]
    print(target, result.outcome, result.diagnosis["gradient"], "in", ", ".join(failed))

# %% [markdown]
# ## Accidents
#
# Code that crashes is recorded, and what works is still judged.

# %%
CRASHES = "\ndef loss(M, X, W, lam=0.0, mask=None):\n    import ctypes\n    ctypes.string_at(0)\n"
Path("crashes.py").write_text(RIGHT + CRASHES)
result = apv.run_audit("crashes.py")
print(result.outcome)
print(next(check.reason for check in result.checks if check.id == "loss:shape"))
print({check.status for check in result.checks if check.function == "gradient"})

# %% [markdown]
# ## In continuous integration
#
# The exit code says it all: 0 passed, 1 failed, 2 bad input, 3 incomplete. The JUnit file shows it in the server's
# pages.
#
# ```yaml
# - run: pip install attnprune-verify
# - run: attnprune-verify audit mypackage.pruning --format junit --out audit.xml --deviations known.toml
# - uses: actions/upload-artifact@v4
#   if: always()
#   with: {name: audit, path: audit.xml}
# ```
#
# The same checks as tests of your own suite:
# `pytest --pyargs attnprune_verify.spec --attnprune-target mypackage.pruning`. A known deviation is declared like this;
# an entry that matches no check is an error, so the file cannot rot:
#
# ```toml
# [[waive]]
# check = "gradient:values:logits-1000-float32"
# reason = "float32 is used for logits below 100 only"
# ```

# %%
deviations = '[[waive]]\ncheck = "loss:*"\nreason = "the kernel is not finished"\n'
Path("known.toml").write_text(deviations)
result = apv.run_audit("crashes.py", deviations="known.toml")
print(result.outcome, result.exit_code, result.counts())

# %%
os.chdir("/")
folder.cleanup()
