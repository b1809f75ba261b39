"""Train a small Llama (or Qwen2) from scratch, with nothing but the text that comes with Python (or with torch).

Run ``python benchmarks/train_small_llama.py --out DIR`` (extras `torch` and `real`; minutes on one core). DIR is a
folder in Hugging Face's layout with, beside the model, ``texts/train.txt``, ``texts/test.txt`` and ``training.json``:
the hash of the corpus, what n-grams reach on the same test windows, and the model's perplexity with its attention made
uniform. `--tiny` makes the model that the tests run on.
"""

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import argparse  # noqa: E402  # after the thread counts
import json  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import torch  # noqa: E402
from small_llama.corpus import START, read_corpus, token_stream, train_tokenizer, windows  # noqa: E402
from small_llama.network import Sizes, SmallLlama  # noqa: E402
from small_llama.ngrams import ngram_perplexities  # noqa: E402
from small_llama.training import train  # noqa: E402

_TINY = Sizes(vocabulary=1024, d=64, layers=4, heads=4, kv_heads=2, inner=176)
_TEST_WINDOWS = 128


def main(arguments: list[str] | None = None) -> int:
    """Train, measure, save."""
    chosen = _options(arguments)
    if chosen.out.exists():
        sys.exit(f"--out must be a new folder; {str(chosen.out)!r} is there already")
    sizes = _TINY if chosen.tiny else Sizes(heads=chosen.heads, kv_heads=chosen.kv_heads, family=chosen.family)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(chosen.seed)

    corpus = read_corpus(chosen.text)
    tokenizer = train_tokenizer(corpus.train, sizes.vocabulary)
    stream, unseen = (token_stream(tokenizer, texts) for texts in corpus)
    test = windows(unseen, sizes.context, _TEST_WINDOWS)
    rivals = ngram_perplexities(stream, test, sizes.vocabulary)
    print(f"corpus {corpus.sha256()[:16]}, {len(stream)} and {len(unseen)} tokens")
    print("perplexity by counting: " + ", ".join(f"{name} {value:.1f}" for name, value in rivals.items()), flush=True)

    model, glance = SmallLlama(sizes), torch.from_numpy(windows(unseen, sizes.context, 32))
    started = time.process_time()

    def report(step: int, loss: float) -> None:
        seconds = time.process_time() - started
        print(f"step {step}: loss {loss:.4f}, test {model.perplexity(glance):.2f}, {seconds:.0f} s", flush=True)

    train(model, stream, steps=chosen.steps, batch=chosen.batch, seed=chosen.seed, report=report)
    ids = torch.from_numpy(test)
    rivals |= {"model": model.perplexity(ids), "model, uniform attention": model.perplexity(ids, uniform=True)}
    print(f"perplexity {rivals['model']:.2f}, with uniform attention {rivals['model, uniform attention']:.1f}")

    _save(chosen, model, tokenizer, corpus, {"corpus_sha256": corpus.sha256(), "perplexity": rivals})
    return 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tiny", action="store_true", help="64 features, 1024 tokens, stored in float16")
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--kv-heads", type=int, default=2)
    parser.add_argument("--family", choices=("llama", "qwen2"), default="llama")
    parser.add_argument("--text", choices=("python", "headers"), default="python", help="C++ headers: torch's own")
    parser.add_argument("--steps", type=int, default=1400)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(arguments)


def _save(chosen: argparse.Namespace, model: SmallLlama, tokenizer: Any, corpus: Any, found: dict[str, Any]) -> None:
    """The folder appears whole or not at all."""
    partial = chosen.out.with_name(chosen.out.name + ".partial")
    (partial / "texts").mkdir(parents=True, exist_ok=True)
    model.save(partial, "float16" if chosen.tiny else "float32")
    (partial / "model.safetensors").chmod(0o644)
    tokenizer.save(str(partial / "tokenizer.json"), pretty=not chosen.tiny)
    for name, texts in zip(("train", "test"), corpus, strict=True):
        (partial / "texts" / f"{name}.txt").write_text(START.join(texts), encoding="utf-8")
    choices = {name: value for name, value in vars(chosen).items() if name != "out"}
    (partial / "training.json").write_text(json.dumps(choices | found, indent=1) + "\n")
    os.replace(partial, chosen.out)


if __name__ == "__main__":
    sys.exit(main())
