"""Plan of the layer experiment: model, texts, layers, methods, ratios, lengths and seeds."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnprune_verify.algorithms.methods import layer_options
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.experiments.documents import default_texts
from attnprune_verify.files import parse
from attnprune_verify.state.digests import of_document, of_file
from attnprune_verify.values import as_count, as_ratio
from attnprune_verify.whole_model.fingerprint import versions

_BLOCK, _BLOCKS = 4096, 256  # 4 KiB, a page, in each of 256 places: 1 MiB of a large file
QUICK_METHODS = ("random", "magnitude", "wanda", "sparsegpt", "fisher-diagonal", "fisher-obs")


@dataclass(frozen=True)
class LayerRun:
    """One method at one ratio, on one draw of texts, for all layers of the plan."""

    method: str
    rho: float
    n: int
    seed: int


@dataclass(frozen=True)
class LayerPlan:
    """The experiment's choices.

    Attributes
    ----------
    model : str
        Path of the model's folder.
    calibration, held_out : tuple of str
        Paths of documents; empty for the shipped ones.
    layers : tuple of int
        Indices; empty for all layers (then end-to-end effects are measured as well).
    methods : tuple of str
        Names of `prune_layer`'s methods, with options as in ``fisher-obs:sweeps=1,blocksize=64``.
    rhos : tuple of float
        Pruning ratios.
    ns : tuple of int
        Tokens per calibration sequence.
    held_out_n : int or None
        Tokens per held-out sequence; None for the length of the calibration sequences.
    k : int
        Number of sequences, for calibration and again for measuring.
    seeds : int
        Number of draws of sequences.

    Raises
    ------
    InvalidInstance
        If a method, an option, a ratio or a count is out of range, or a document serves both purposes.

    Examples
    --------
    >>> plan = LayerPlan("models/small", methods=("sparsegpt", "fisher-obs"), rhos=(0.5, 0.7), seeds=3)
    >>> len(plan.runs())
    12
    """

    model: str
    calibration: tuple[str, ...] = ()
    held_out: tuple[str, ...] = ()
    layers: tuple[int, ...] = ()
    methods: tuple[str, ...] = QUICK_METHODS
    rhos: tuple[float, ...] = (0.5,)
    ns: tuple[int, ...] = (128,)
    held_out_n: int | None = None
    k: int = 8
    seeds: int = 1

    def __post_init__(self) -> None:
        for method in self.methods:
            parse_method(method)
        for rho in self.rhos:
            as_ratio(rho)
        for n in self.ns:
            as_count("n", n, least=2)
        if self.held_out_n is not None:
            as_count("held_out_n", self.held_out_n, least=2)
        for layer in self.layers:
            as_count("layer", layer)
        as_count("k", self.k, least=1)
        as_count("seeds", self.seeds, least=1)
        for name in ("methods", "rhos", "ns"):
            if not getattr(self, name):
                raise InvalidInstance(f"{name} must not be empty")
        shared = {Path(path).resolve() for path in self.calibration} & {Path(path).resolve() for path in self.held_out}
        if shared:
            raise InvalidInstance(
                f"calibration and held-out documents must differ; both have {sorted(shared)[0].name!r}"
            )

    def runs(self) -> list[LayerRun]:
        """Return all runs, ordered so that runs on the same texts follow each other."""
        return [
            LayerRun(method, rho, n, seed)
            for n in self.ns
            for seed in range(self.seeds)
            for method in self.methods
            for rho in self.rhos
        ]

    def fingerprint(self) -> str:
        """Changes with everything that a run depends on besides its own key."""
        folder = Path(self.model)
        files = [folder / "config.json", *folder.glob("*.safetensors"), folder / "tokenizer.json"]
        depends = {
            "layers": self.layers,
            "k": self.k,
            "held_out_n": self.held_out_n,
            "model": {path.name: _sample(path) for path in files if path.is_file()},
            "texts": {
                part: [of_file(Path(document)) for document in getattr(self, part) or default_texts(part)]
                for part in ("calibration", "held_out")
            },
            "versions": versions(),
        }
        return of_document(depends)[:16]


def _sample(path: Path) -> str:
    """Digest of a file's size and of blocks spread over the file: it differs between models of one architecture."""
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        for start in range(0, size, max(_BLOCK, size // _BLOCKS)):
            file.seek(start)
            digest.update(file.read(_BLOCK))
    return digest.hexdigest()


def parse_method(text: str) -> tuple[str, dict[str, Any]]:
    """``name`` or ``name:option=value,...`` with JSON values (a bare word is a string).

    Examples
    --------
    >>> parse_method("fisher-obs:sweeps=1,sequential=true")
    ('fisher-obs', {'sweeps': 1, 'sequential': True})
    """
    name, _, rest = text.partition(":")
    options: dict[str, Any] = {}
    for item in filter(None, rest.split(",")):
        key, separator, value = item.partition("=")
        if not separator:
            raise InvalidInstance(f"a method's options must read name=value,...; got {item!r:.60}")
        try:
            options[key] = parse(value)
        except ValueError:
            options[key] = value
    layer_options(name, options)
    return name, options
