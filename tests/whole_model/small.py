"""The tiny model that is kept here, and texts it has not seen: modules that its corpus left out."""

import argparse
import dis
import functools
import inspect
from pathlib import Path

MODEL = Path(__file__).parents[1] / "data" / "small_llama"


def write_texts(folder, letters=10000):
    """Two short texts, one to calibrate on and one to judge on, and where they lie."""
    sources = {"calibration.txt": [functools, dis], "held_out.txt": [argparse]}
    for name, modules in sources.items():
        (folder / name).write_text("\n".join(map(inspect.getsource, modules))[:letters], encoding="utf-8")
    return tuple(folder / name for name in sources)
