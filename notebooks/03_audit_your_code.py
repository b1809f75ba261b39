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
# which mistake does it make? `run_audit` answers in one call; the command `attnprune-verify audit` does the same for
# files, modules and packages.
#
# Your code runs in a process of its own. It may hang, crash or print; the audit goes on and says so.

# %%
import os
import tempfile
from pathlib import Path

import numpy as np

import attnprune_verify as apv

folder = tempfile.TemporaryDirectory()
os.chdir(folder.name)

# %% [markdown]
# ## What is alive
#
# A function of this notebook, a dict of functions, an object or a module can be audited as it is. Here are two
# gradients of the pruning loss. The second forgets that the softmax normalises: it leaves out
# $\mathrm{diag}((c \circ F) \mathbf 1) F$ in $p$ (the paper's Definition of $p$).


# %%
def softmax(A, mask):
    A = A if mask is None else np.where(mask == 1, A, -np.inf)
    A = np.exp(A - A.max(axis=1, keepdims=True))
    return A / A.sum(axis=1, keepdims=True)


def right(M, X, W, lam=0.0, mask=None):
    F = softmax(X @ (M * W) @ X.T, mask)
    c = F - softmax(X @ W @ X.T, mask)
    p = c * F - (c * F).sum(axis=1, keepdims=True) * F
    return W * (X.T @ p @ X) + lam * M


def gradient(M, X, W, lam=0.0, mask=None):
    F = softmax(X @ (M * W) @ X.T, mask)
    c = F - softmax(X @ W @ X.T, mask)
    return W * (X.T @ (c * F) @ X) + lam * M


apv.run_audit({"gradient": right})

# %%
result = apv.run_audit(gradient)
print(result)

# %% [markdown]
# ## A failure
#
# names the mistake, if the output equals that of a known wrong formula to rounding, and carries the smallest instance
# that still shows it, as lines of NumPy that run as they are: here, below the definition; of a file or a package, in
# any folder.

# %%
first = next(check for check in result.checks if check.status == "failed")
print(first.id, "-", first.says)
print("diagnosis:", ", ".join(first.diagnosis), "-", first.words)
print()
print(first.snippet)

# %%
exec(first.snippet)

# %% [markdown]
# Masks and baselines are cut down in the same way. This one takes the smallest entries of every row where the contract
# says: of the whole matrix.


# %%
def binary_mask(M, rho):
    kept = np.ones(M.shape)
    for row in range(len(M)):
        kept[row, np.argsort(M[row], kind="stable")[: int(rho * M.shape[1])]] = 0
    return kept


masks = apv.run_audit(binary_mask)
first = next(check for check in masks.checks if check.status == "failed")
print(", ".join(first.diagnosis), "-", first.words)
print(first.snippet)
exec(first.snippet)

# %% [markdown]
# ## Precision
#
# Inputs are float64. What computes in float32 is not wrong everywhere: it fails one check, which names the remedy, and
# is judged in float32 for the rest. With the precision declared it passes.


# %%
def single(M, X, W, lam=0.0, mask=None):
    return right(*(np.asarray(part, dtype=np.float32) for part in (M, X, W)), np.float32(lam), mask)


print(apv.run_audit({"gradient": single}))
print(apv.run_audit({"gradient": single}, dtype="float32"))

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
# *detection power*: the smallest relative error that would have been noticed; and nothing is known above the largest
# sizes judged.

# %%
passed = apv.run_audit({"gradient": right})
print(passed.counts(), passed.largest)
for check in passed.checks:
    if check.status == "passed" and check.power and check.name.startswith("values:"):
        print(f"{check.id:38} would have seen a relative error of {check.power:.0e}")

# %% [markdown]
# ## Files
#
# Some mistakes show in one regime only. Here the regulariser is capped, which nobody notices for small $\lambda$; and
# the exponential overflows, which nobody notices for small logits.

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
#
# `attnprune-verify audit mypackage.pruning --waive-current known.toml` writes the file for what fails now.

# %%
deviations = '[[waive]]\ncheck = "loss:*"\nreason = "the kernel is not finished"\n'
Path("known.toml").write_text(deviations)
result = apv.run_audit("crashes.py", deviations="known.toml")
print(result.outcome, result.exit_code, result.counts())

# %%
os.chdir("/")
folder.cleanup()
