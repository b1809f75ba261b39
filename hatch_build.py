"""The long description of the package: README.md, with links that lead somewhere from wherever it is read."""

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface


class LongDescription(MetadataHookInterface):
    """Relative links become absolute ones below `base`; without a base, the names of the files they lead to."""

    def update(self, metadata):
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(text, self.config.get("base", ""))}


def absolute(text, base):
    """README.md's text without relative links.

    >>> absolute("[docs](docs/a.md) ![p](p.svg) [web](https://x.org)", "https://h/r/")
    '[docs](https://h/r/docs/a.md) ![p](https://h/r/p.svg) [web](https://x.org)'
    >>> absolute("[docs](docs/a.md) ![p](p.svg)", "")
    'docs (`docs/a.md` in the source distribution) '
    """
    if base:
        return re.sub(r"\]\((?!https?:|#)([^)]+)\)", rf"]({base}\1)", text)
    text = re.sub(r"!\[[^\]]*\]\((?!https?:)[^)]+\)", "", text)
    return re.sub(
        r"\[([^\]]+)\]\((?!https?:|#)([^)]+)\)",
        lambda m: m[1] if m[1].strip("`") == m[2] else f"{m[1]} (`{m[2]}` in the source distribution)",
        text,
    )
