"""Printed formulas in LaTeX, from the tree that is read back and compared."""

import re
from contextlib import suppress

from attnprune_verify.claims.formulas.letters import names_of
from attnprune_verify.claims.formulas.notation import Clause, Node, Unreadable, clauses

_RELATIONS = {"<=": r"\le", ">=": r"\ge", "=": "=", "<": "<", ">": ">"}
_WORDS = (
    "alpha", "beta", "delta", "eta", "gamma", "kappa", "lambda", "mu", "rho", "sigma", "tau", "theta", "xi",
)  # fmt: skip
_LETTERS = {"lam": r"\lambda", "eps": r"\varepsilon", "grad": r"\nabla", "Hess": r"\nabla^2", "Pi": r"\Pi"}
_BINDING = {"add": 1, "subtract": 1, "minus": 1, "hadamard": 2, "times": 3, "divide": 3, "over": 3}
"""How loosely an operation binds; a part that binds more loosely than the whole stands in brackets."""


def in_latex(formula: str, claim_id: str = "") -> str | None:
    r"""Return a formula in LaTeX; None where it is not in the notation.

    Examples
    --------
    >>> in_latex("||p||_F <= 3 sqrt(n)")
    '\\lVert p \\rVert_F \\le 3 \\, \\sqrt{n}'
    """
    try:
        found = clauses(formula, names_of(claim_id))
    except Unreadable:
        return None
    texts = []
    for clause in found:
        text = _chain(clause)
        texts.append(rf"\text{{if }} {text}" if clause.condition else text)
        texts += [rf"\text{{ wherever }} {_chain(one)}" for one in clause.own]
    return r", \quad ".join(texts)


def _chain(clause: Clause) -> str:
    sides = [_tex(side) for side in clause.sides]
    return sides[0] + "".join(f" {_RELATIONS[r]} {s}" for r, s in zip(clause.relations, sides[1:], strict=True))


def _tex(node: Node, within: int = 0) -> str:
    text = _written(node)
    return rf"\left( {text} \right)" if _BINDING.get(node.kind, 9) < within else text


def _written(node: Node) -> str:
    parts = node.parts
    match node.kind:
        case "number":
            return node.text
        case "letter":
            return _letter(node.text)
        case "add" | "subtract":
            return f"{_tex(parts[0])} {'+' if node.kind == 'add' else '-'} {_tex(parts[1], 2)}"
        case "minus":
            return f"-{_tex(parts[0], 2)}"
        case "hadamard":
            return rf"{_tex(parts[0], 2)} \circ {_tex(parts[1], 2)}"
        case "times":
            left, right = (_tex(part, 3) for part in parts)
            return left + (r" \cdot " if left[-1:].isdigit() and right[:1].isdigit() else r" \, ") + right
        case "divide":
            return rf"\frac{{{_tex(parts[0])}}}{{{_tex(parts[1])}}}"
        case "power":
            return f"{{{_tex(parts[0], 9)}}}^{{{_tex(parts[1])}}}"
        case "transpose":
            return rf"{{{_tex(parts[0], 9)}}}^\top"
        case "entry":
            return f"{{{_tex(parts[0], 9)}}}_{{{node.text}}}"
        case _:
            return _fenced(node)


def _fenced(node: Node) -> str:
    inside = ", ".join(map(_tex, node.parts))
    match node.kind:
        case "norm":
            return rf"\lVert {inside} \rVert{node.text}"
        case "absolute":
            return rf"\lvert {inside} \rvert"
        case "inner":
            return rf"\langle {inside} \rangle"
        case "over":
            name, _, index = node.text.partition("_")
            return rf"\{name}_{{{index}}} {_tex(node.parts[0], 3)}"
        case "function" if node.text == "sqrt":
            return rf"\sqrt{{{inside}}}"
        case "function":
            return rf"\operatorname{{{node.text.replace('_', ' ')}}}\left( {inside} \right)"
        case _:
            return rf"\{node.kind}\left( {inside} \right)"


def _letter(name: str) -> str:
    if match := re.fullmatch(r"(max|min)\|(\|?)(.*?)\|?\|", name):
        return rf"\{match[1]} \lvert {match[3]} \rvert"
    if any(sign in name for sign in ("||", "{", "<")) or re.search(r"\(\w+_", name):
        return _phrase(name)
    if match := re.fullmatch(r"([A-Za-z]\w*)\(([^,]*[ /].*)\)", name):
        with suppress(Unreadable):
            argument = clauses(f"{match[2]} = 0")[0].sides[0]
            return rf"{_letter(match[1])}\left( {_tex(argument)} \right)"
    if " " in name or "/" in name:
        first, _, rest = name.partition(" ")
        return f"{_LETTERS[first]} {rest}" if first in ("grad", "Hess", "Pi") else rf"\text{{{name}}}"
    base, _, index = name.partition("_")
    arguments = base[base.index("(") :] if "(" in base else ""
    base = base.removesuffix(arguments)
    plain = base.rstrip("'")
    if base.endswith("~"):
        return rf"\tilde{{{base[:-1]}}}"
    word = f"\\{base}" if base in _WORDS else base if len(plain) == 1 else rf"\mathrm{{{base}}}"
    drawn = _LETTERS.get(base, word)
    return f"{drawn}{arguments}" + (f"_{{{index}}}" if index else "")


_SPELLED = {
    r"\|\|(.+?)\|\|": r"\\lVert \1 \\rVert ",
    r"\b(min|max|sum)_": r"\\\1_",
    r"\bgrad ": r"\\nabla ",
    r"L_attn": r"L_{\\mathrm{attn}}",
    r"\blam\b": r"\\lambda ",
    r"(?<![a-z])(eta|mu)(?![a-z])": r"\\\1 ",
    r"<(.+), (.+)>": r"\\langle \1, \2 \\rangle ",
    r"<": r"\\lt ",
}
"""Replacements inside a letter that is a whole expression, such as ``min_{t<T} ||grad L(M_t)||``."""


def _phrase(name: str) -> str:
    for pattern, drawn in _SPELLED.items():
        name = re.sub(pattern, drawn, name)
    return name
