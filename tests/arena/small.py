"""The smallest things that the resumable commands work on, and commands in forked processes that may be killed."""

import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from tests.pretrained.folders import llama_config, llama_tensors, write_folder

WORDS = "a mask of zeros and ones prunes the weights of a layer that attends to tokens".split()


def write_model(folder):
    """A Llama of two blocks of width 8 with a tokenizer of words, and a text to calibrate it on."""
    pytest.importorskip("safetensors", reason="writing model folders needs the extra 'real'")
    models = pytest.importorskip("tokenizers", reason="reading texts needs the extra 'real'").models
    from tokenizers import Tokenizer, pre_tokenizers

    write_folder(folder, llama_config() | {"tie_word_embeddings": True}, llama_tensors(np.random.default_rng(0)))
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(dict.fromkeys(WORDS))}, unk_token="a"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    text = folder.parent / "text.txt"
    text.write_text(" ".join(random.Random(0).choices(WORDS, k=200)))
    return folder, text


def prune_words(model, text, out):
    words = ["prune-model", model, "--out", out, "--rho", "0.5", "--calibration", text, "--k", "4", "--n", "8"]
    return [*map(str, words), "--budget", "owl", "--reconstruct", "0", "--quiet"]


def campaign_words(out):
    words = ["campaign", "fix:lip_f", "lem:PL_ineq", "--instances", "400", "--sizes", "n=2,d=2..3", "--quiet"]
    return [*words, "--format", "json", "--out", str(out)]


def experiment_words(out):
    words = ["experiment", "synthetic", "--weights", "shared", "--k", "2", "--seeds", "2", "--n", "8", "--fixed-n", "8"]
    words += [
        "--d",
        "6",
        "--steps",
        "3",
        "--jobs",
        "1",
        "--no-plots",
        "--quiet",
        "--lam",
        "0.25",
        "--fixed-lam",
        "0.25",
    ]
    return [*words, "--rho", "0.5", "--out", str(out)]


def contents(folder):
    return {str(one.relative_to(folder)): one.read_bytes() for one in sorted(folder.rglob("*")) if one.is_file()}


def forked(words, said: Path, *, kill_after=None, kill_by=signal.SIGKILL, file_limit=None, temporary=None):
    """The exit code of a command, or a program, in a forked process, negative for a signal; what it prints is `said`.

    Its temporary files lie in the folder `temporary`.
    """
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        _child(words, writing, file_limit, temporary)
    os.close(writing)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(process, kill_by)
    with open(reading, "rb") as pipe:
        said.write_bytes(pipe.read())
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _child(words, writing, file_limit, temporary):
    code = 99  # no exit code of the program
    try:
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))
        if file_limit is not None:
            import resource

            resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
        if temporary is not None:
            os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
        from attnprune_verify.claims.campaign import checkpoint
        from attnprune_verify.cli.main import main

        checkpoint._EVERY = 0.0  # every group is written down at once, so that there is more to interrupt
        words() if callable(words) else main(words)
        code = 0
        sys.stdout.flush()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 98
        sys.stdout.flush()
    finally:
        os._exit(code)
