"""Prune a decoder of transformers in memory to 2:4 and save it: python examples/prune_decoder.py MODEL TEXT OUT"""

import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from attnprune_verify.torch import prune_

folder, text, out = sys.argv[1:]
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
tokenizer = AutoTokenizer.from_pretrained(folder)
with open(text, encoding="utf-8") as file:
    ids = tokenizer(file.read(), return_tensors="pt").input_ids[0]
windows = ids[: len(ids) // 64 * 64].view(-1, 64)[:32]  # take 128 windows of 2,048 tokens for a model of real size

report = prune_(model, windows, pattern="2:4")
model.save_pretrained(out)
tokenizer.save_pretrained(out)
print(f"{report['zeros']} of {report['size']} weights are 0")
