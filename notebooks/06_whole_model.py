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
# # Pruning a whole language model
#
# Section 6.3 of the paper (Table 1) prunes a whole model and reports its perplexity. Here we do so with a Llama-type
# model of half a megabyte, trained from scratch on the sources of Python's standard library
# (`benchmarks/train_small_llama.py --tiny`):
#
# 1. what it predicts, and how sure it is,
# 2. rows of Table 1: W_Q and W_K pruned by several methods, KL to the dense model beside perplexity,
# 3. a pruned folder, written and read back.

# %%
import argparse
import dis
import functools
import inspect
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import attnprune_verify as apv

# %%
# %matplotlib inline

# %%
PLACES = (Path("tests/data/small_llama"), Path("../tests/data/small_llama"))
FOLDER = next((folder for folder in PLACES if (folder / "config.json").is_file()), None)
if FOLDER is None:
    raise FileNotFoundError(
        "the small Llama lies in the repository, not in the installed package: run this notebook in a checkout, "
        "or set FOLDER to a model of your own (config.json, safetensors, tokenizer.json)"
    )
model = apv.load_pretrained(FOLDER, dtype=np.float32)
block = model.block(0)
shares = {role: block.weight(role).size for role in block.roles}
total = sum(shares.values())
print(f"{model.depth} blocks, {block.layer}")
print("share of a block's weights:", {role: f"{size / total:.0%}" for role, size in shares.items()})

# %% [markdown]
# Q and K, all that the paper's theory is about, are a small part of the model: at Llama 3.2-1B's sizes a fifteenth.
#
# ## What it predicts
#
# The texts are modules of Python that the model has not seen: two to calibrate on, one to judge on.

# %%
work = Path(tempfile.mkdtemp())
calibration, held_out = work / "calibration.txt", work / "held_out.txt"
calibration.write_text(inspect.getsource(functools) + inspect.getsource(dis))
held_out.write_text(inspect.getsource(argparse))
ids = np.array(model.tokenizer.encode("def main(self, name):\n    return self.").ids)
likely = np.argsort(model.logits(ids)[0, -1])[::-1][:5]
print("most likely next tokens:", [model.tokenizer.decode([token]) for token in likely])

# %% [markdown]
# ## Table 1
#
# Every method gets the same calibration windows and as many zeros. KL is measured against what the dense model
# predicts, token by token; it tells methods apart where perplexity hardly does.

# %%
plan = apv.PerplexityPlan(
    str(FOLDER),
    (str(calibration),),
    (str(held_out),),
    attention=("magnitude", "wanda", "sparsegpt", "output-obs"),
    rest=("dense",),
    rhos=(0.5, 0.7),
    ks=(4,),
    n=128,
    windows=16,
)
results = apv.run_perplexity(plan)
print(f"dense: perplexity {results.dense['perplexity']:.2f} on {results.dense['tokens']} tokens")
for row in results.rows:
    name, rho, kl = row["attention"], row["rho"], 1000 * row["kl"]
    print(f"{name:10}  rho {rho}: perplexity {row['perplexity']:.2f}, KL {kl:6.1f}e-3 nats")

# %%
kl = {(row["attention"], row["rho"]): row["kl"] for row in results.rows}
assert kl["output-obs", 0.5] < kl["sparsegpt", 0.5] and kl["output-obs", 0.7] < kl["sparsegpt", 0.7]
apv.draw_damage(results, "rho").savefig(work / "damage.png")
plt.imshow(plt.imread(work / "damage.png"))
plt.axis("off")
plt.show()

# %% [markdown]
# ## A pruned model on disk
#
# Every linear map, half of its weights. The folder loads wherever the original did; `pruning.json` says what was done
# and on what it depends.

# %%
report = apv.prune_model(FOLDER, work / "pruned", 0.5, calibration=calibration, k=4, n=128)
pruned = apv.load_pretrained(work / "pruned", dtype=np.float32)
window = np.array(model.tokenizer.encode(held_out.read_text()).ids[:256])
print(f"{report['zeros']} of {report['size']} weights are 0; methods {report['method']}")
print(f"perplexity {model.perplexity(window):.2f} -> {pruned.perplexity(window):.2f} on 255 unseen tokens")
print("files:", sorted(path.name for path in (work / "pruned").iterdir()))
