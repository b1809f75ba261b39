"""The blocks of a decoder, found in one pass, and the model computed block by block instead of at once.

A decoder here is a model whose states go through the modules of one ModuleList, one after the other, and are changed
by nothing in between. That is not believed but computed: the logits block by block must be those of the model.
"""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from attnprune_verify.errors import InvalidInstance

TOKENS = 13
"""Tokens of the window that structure is looked at with; chosen: a prime, which no size of a model is."""
_CLOSE = 2.0**-6
"""Largest difference of the logits, relative to the largest one: two bits more than bfloat16 rounds one number by."""


@dataclass(frozen=True)
class BlockCall:
    """The model's call of one block on one window: all arguments but the states."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    place: int | str
    """Where the states stand among them."""

    def __call__(self, block: Any, states: Any) -> Any:
        """The states after the block."""
        return _states_of(block(*self._args(states), **self._kwargs(states)))

    def _args(self, states: Any) -> list[Any]:
        return [states if place == self.place else value for place, value in enumerate(self.args)]

    def _kwargs(self, states: Any) -> dict[str, Any]:
        return {name: states if name == self.place else value for name, value in self.kwargs.items()}


class Decoder:
    """A model of transformers by its blocks.

    Attributes
    ----------
    model : the model
    blocks : its blocks, in order
    names : how the model calls them
    vocabulary, longest : ids are less than the first, windows not longer than the second (None: of any length)
    """

    def __init__(self, model: Any, blocks: Sequence[Any], names: Sequence[str], outputs: Sequence[Any]) -> None:
        self.model, self.blocks, self.names, self._outputs = model, list(blocks), list(names), list(outputs)
        self.vocabulary, self.longest = limits(model)

    @property
    def depth(self) -> int:
        """The number of blocks."""
        return len(self.blocks)

    def calls(self, window: Any) -> tuple[Any, list[BlockCall]]:
        """The states before the first block for one window of ids (1, n), and how each block is called."""
        calls: list[BlockCall] = []
        with ExitStack() as stack, torch.no_grad():
            first: list[Any] = []

            def note(_: Any, args: Any, kwargs: Any) -> None:
                place = _place_of(args, kwargs, window.shape[1])
                first.append(args[place] if isinstance(place, int) else kwargs[place])
                calls.append(
                    BlockCall(
                        tuple(None if i == place else value for i, value in enumerate(args)),
                        {name: None if name == place else value for name, value in kwargs.items()},
                        place,
                    )
                )

            for block in self.blocks:
                stack.callback(block.register_forward_pre_hook(note, with_kwargs=True).remove)
            stack.enter_context(self._passing())
            _call(self.model, window)
        return first[0], calls

    def logits(self, window: Any, states: Any) -> Any:
        """Logits (n, vocabulary) of the states after the last block, by what the model does with them."""
        dtype = next(self.model.parameters()).dtype
        with self._passing(states.to(dtype)):
            return _call(self.model, window).logits[0].float()

    @contextmanager
    def _passing(self, states: Any = None) -> Iterator[None]:
        """Blocks that give back what they get, or `states`."""

        def passing(output: Any) -> Any:
            def forward(*args: Any, **kwargs: Any) -> Any:
                place = _place_of(args, kwargs, None)
                kept = states if states is not None else (args[place] if isinstance(place, int) else kwargs[place])
                return kept if isinstance(output, torch.Tensor) else type(output)([kept, *(None for _ in output[1:])])

            return forward

        own = [block.__dict__.get("forward") for block in self.blocks]
        try:
            for block, output in zip(self.blocks, self._outputs, strict=True):
                block.forward = passing(output)
            yield
        finally:
            for block, forward in zip(self.blocks, own, strict=True):
                del block.forward
                if forward is not None:
                    block.forward = forward


def find_blocks(model: Any, window: Any) -> Decoder:
    """The decoder's blocks: the largest ModuleList whose modules all run once, each on what the one before gave.

    Parameters
    ----------
    window : (1, n) tensor
        Ids to look with; the first ones are taken.

    Raises
    ------
    InvalidInstance
        If there is none, or the model is not what its blocks compute one after the other.
    """
    kind = getattr(model.config, "model_type", type(model).__name__)
    window = window[:, : min(TOKENS, window.shape[1])]
    lists = _outermost_lists(model)
    seen: dict[int, list[tuple[Any, Any]]] = {}
    with ExitStack() as stack, torch.no_grad():
        for module in (module for _, members in lists for module in members):

            def note(module: Any, args: Any, kwargs: Any, output: Any) -> None:
                seen.setdefault(id(module), []).append(((args, kwargs), output))

            stack.callback(module.register_forward_hook(note, with_kwargs=True).remove)
        try:
            logits = _call(model, window).logits[0].float()
        except InvalidInstance:
            raise
        except Exception as error:
            raise InvalidInstance(f"a model of type {kind!r} must run on {window.shape[1]} tokens; {error}") from error
    if not torch.isfinite(logits).all():
        raise InvalidInstance(f"the model's predictions must be finite; those of {kind!r} are not")
    name, blocks = max(lists, key=_weights, default=("", []))
    if not blocks or not _is_chain(blocks, seen, window.shape[1]):
        raise InvalidInstance(
            f"a decoder's blocks must be one ModuleList whose modules run one after the other on one tensor; "
            f"{name or 'no list'} of {kind!r} does not"
        )
    decoder = Decoder(
        model, blocks, [f"{name}.{i}" for i in range(len(blocks))], [seen[id(block)][0][1] for block in blocks]
    )
    _check_shared(decoder)
    _check_logits(decoder, window, logits, kind)
    return decoder


def as_float32(value: Any) -> Any:
    """Arguments of a block in float32; what is no floating tensor stays."""
    if isinstance(value, BlockCall):
        return BlockCall(as_float32(value.args), as_float32(value.kwargs), value.place)
    if type(value) in (tuple, list):
        return type(value)(map(as_float32, value))
    if type(value) is dict:
        return {name: as_float32(one) for name, one in value.items()}
    return value.float() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def _call(model: Any, window: Any) -> Any:
    known = inspect.signature(type(model).forward).parameters
    options = {"use_cache": False} if "use_cache" in known or "kwargs" in known else {}
    return model(input_ids=window, **options)


def _states_of(output: Any) -> Any:
    return output if isinstance(output, torch.Tensor) else output[0]


def _place_of(args: Any, kwargs: Any, tokens: int | None) -> int | str:
    """Return the place of the states: the first floating tensor (1, tokens, features)."""
    places: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
    for place, value in places:
        if isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim() == 3:
            if tokens is None or tuple(value.shape[:2]) == (1, tokens):
                return place
    raise InvalidInstance("a block must be called with states (1, tokens, features); it is not")


def _outermost_lists(model: Any) -> list[tuple[str, Any]]:
    lists: list[tuple[str, Any]] = []
    for name, module in model.named_modules():
        inside = any(name.startswith(f"{outer}.") for outer, _ in lists)
        if isinstance(module, torch.nn.ModuleList) and len(module) and not inside:
            lists.append((name, module))
    return lists


def _weights(one: tuple[str, Any]) -> int:
    return sum(parameter.numel() for parameter in one[1].parameters())


def _is_chain(members: Any, seen: dict[int, list[tuple[Any, Any]]], tokens: int) -> bool:
    before = None
    for module in members:
        runs = seen.get(id(module), [])
        if len(runs) != 1:
            return False
        (args, kwargs), output = runs[0]
        try:
            place = _place_of(args, kwargs, tokens)
        except InvalidInstance:
            return False
        states = args[place] if isinstance(place, int) else kwargs[place]
        after = output if isinstance(output, torch.Tensor) else output[0] if isinstance(output, tuple | list) else None
        if not isinstance(after, torch.Tensor) or after.shape != states.shape:
            return False
        if before is not None and not torch.equal(before, states):
            return False
        before = after
    return True


def _check_shared(decoder: Decoder) -> None:
    """Refuse weights that two blocks share, or a block and the rest of the model."""
    owners: dict[int, str] = {}
    inside = set()
    for name, block in zip(decoder.names, decoder.blocks, strict=True):
        for inner, parameter in block.named_parameters():
            first = owners.setdefault(id(parameter), name)
            if first != name:
                raise InvalidInstance(f"a block must have weights of its own; {name}.{inner} is also one of {first}")
        inside |= {id(module) for module in block.modules()}
    for path, module in decoder.model.named_modules():
        for inner, parameter in module.named_parameters(recurse=False):
            if id(module) not in inside and id(parameter) in owners:
                place = f"{path}.{inner}".lstrip(".")
                raise InvalidInstance(f"a block must have weights of its own; {place} is also one of a block")


def _check_logits(decoder: Decoder, window: Any, logits: Any, kind: str) -> None:
    """Refuse a model that is not its blocks one after the other, or whose first prediction sees later tokens."""
    states, calls = decoder.calls(window)
    first = states.detach().requires_grad_()
    with torch.enable_grad():
        states = first
        for block, call in zip(decoder.blocks, calls, strict=True):
            states = call(block, states)
        found = decoder.logits(window, states)
        (influence,) = torch.autograd.grad(found[0].sum(), first)
    if influence[:, 1:].any():
        raise InvalidInstance(f"a decoder must predict from earlier tokens alone; {kind!r} looks at later ones")
    found = found.detach()
    scale = float(logits.abs().max()) or 1.0
    worst = float((found - logits).abs().max()) / scale
    if not worst <= _CLOSE:
        raise InvalidInstance(
            f"a decoder must be what its blocks compute one after the other; {kind!r} computed so differs by "
            f"{worst:.1g} of its largest logit (states are kept beside the blocks, or passed between some of them)"
        )


def limits(model: Any) -> tuple[int, int | None]:
    """Ids are less than the first; windows are not longer than the second, where the model names a length."""
    config = model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config
    longest = next(
        (
            getattr(config, name)
            for name in ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx")
            if isinstance(getattr(config, name, None), int)
        ),
        None,
    )
    return int(model.get_input_embeddings().weight.shape[0]), longest
