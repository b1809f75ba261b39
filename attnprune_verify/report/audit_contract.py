"""The contract of the audited functions as text, printed by ``audit --contract`` and shown in the docs."""

from collections.abc import Iterable

from attnprune_verify.audit.contract import FUNCTIONS, RULES, Signature, argument_of


def contract_text(names: Iterable[str] = ()) -> str:
    """Signatures, shapes and polarities of some functions (default: all), then the rules that hold for every one.

    Examples
    --------
    >>> print(contract_text(["causal_mask"]).splitlines()[0])
    causal_mask(n) -> (n, n) of 0 and 1
    """
    chosen = [FUNCTIONS[name] for name in names] or list(FUNCTIONS.values())
    lines = [line for signature in chosen for line in (f"{signature} -> {signature.returns}", f"    {signature.says}")]
    described: dict[str, str] = {}
    for signature in chosen:
        for name in _names(signature):
            words = argument_of(signature, name)
            kind = "a linear layer" if "weight" in signature.arguments else "a layer"
            described[name if described.get(name, words) == words else f"{name} of {kind}"] = words
    width = max(map(len, described))
    lines += ["", *(f"{name:{width}}  {words}" for name, words in described.items()), "", *RULES]
    return "\n".join(lines) + "\n"


def _names(signature: Signature) -> list[str]:
    return [*signature.arguments, *(name for name, _ in signature.options)]
