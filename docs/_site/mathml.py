"""Formulas as MathML, which browsers draw and read aloud by themselves: no script, no font, nothing fetched."""

import html
import re
import unicodedata

from latex2mathml.converter import convert

__all__ = ["with_mathml"]

_FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">(?:\\\((?P<inline>.*?)\\\)|\\\[(?P<block>.*?)\\\])</(?P=tag)>',
    flags=re.DOTALL,
)

_VARIANT = re.compile(r'<(mi|mn) mathvariant="(script|double-struck|bold)">([A-Za-z0-9])</\1>')


def with_mathml(page: str) -> str:
    """The page with every formula that arithmatex found."""
    return _FORMULA.sub(_one, page)


def _one(found: re.Match[str]) -> str:
    block = found["block"] is not None
    formula = html.unescape(found["block"] if block else found["inline"])
    drawn = _VARIANT.sub(_letter, convert(formula, display="block" if block else "inline"))
    drawn = re.sub(r"<mo>(&#x02016;|&#x022A4;)</mo>", r'<mo stretchy="false" lspace="0" rspace="0">\1</mo>', drawn)
    if not block:
        return drawn
    return f'<div class="formula">{drawn}</div>'


def _letter(found: re.Match[str]) -> str:
    """The letter itself: browsers know `mathvariant` no longer."""
    tag, variant, letter = found.groups()
    kind = "DIGIT" if letter.isdigit() else "CAPITAL" if letter.isupper() else "SMALL"
    name = f"{variant.upper()} {kind} {unicodedata.name(letter).split()[-1]}"
    for full in (f"MATHEMATICAL {name}", name):
        try:
            return f"<{tag}>{unicodedata.lookup(full)}</{tag}>"
        except KeyError:
            continue
    raise ValueError(f"no letter {letter} in {variant}")
