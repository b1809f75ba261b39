"""Write the bench's English texts out of Debian packages: two modern books, a half of each held out, and a novel.

Run ``python -m benchmarks.real_model.texts OUT`` (needs `apt-get`, `dpkg-deb` and ``pip install rdata``). OUT gets
calibration.txt and same.txt (alternating chapters of the Debian Administrator's Handbook and An Anarchist FAQ) and
novel.txt (Jane Austen's Emma).
"""

from __future__ import annotations

import argparse
import gzip
import re
import subprocess
import tempfile
import zlib
from html.parser import HTMLParser
from pathlib import Path

__all__ = ["write_texts"]

PACKAGES = ("debian-handbook", "anarchism", "r-cran-janeaustenr")
BOOKS = ("debian-handbook/usr/share/doc/debian-handbook/html/en-US", "anarchism/usr/share/doc/anarchism/html")
NOVELS = "r-cran-janeaustenr/usr/lib/R/site-library/janeaustenr/data/Rdata"
LEAST, CHAPTER, BOOK = 150, 20_000, 400_000
"""Characters: of a paragraph (shorter ones are headings and menus), and at most of a chapter and of a book's half."""


class Paragraphs(HTMLParser):
    """Collect the paragraphs of a page, in one line each."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._words: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """End the paragraph before, and begin a new one at its tag."""
        if tag in ("p", "div", "pre", "table", "ul", "dl", "h1", "h2", "h3"):
            self.handle_endtag("p")
            if tag == "p" or ("class", "para") in attrs:
                self._words = []

    def handle_endtag(self, tag: str) -> None:
        """Keep what was read if it is long enough."""
        if tag in ("p", "div", "body") and self._words is not None:
            line = " ".join("".join(self._words).split())
            self._words = None
            if len(line) >= LEAST:
                self.found.append(line)

    def handle_data(self, data: str) -> None:
        """Take words inside a paragraph."""
        if self._words is not None:
            self._words.append(data)


def write_texts(out: Path) -> None:
    """Download the packages and write the three texts."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(["apt-get", "download", "-qq", *PACKAGES], cwd=scratch, check=True)
        for archive in Path(scratch).glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", archive, Path(scratch) / archive.name.split("_")[0]], check=True)
        halves = [[], []]
        for book in BOOKS:
            for parity, text in enumerate(_halves(Path(scratch) / book)):
                halves[parity].append(text)
        for name, parts in zip(("calibration", "same"), halves, strict=True):
            (out / f"{name}.txt").write_text("".join(parts))
        (out / "novel.txt").write_text(_novel(Path(scratch) / NOVELS, "emma"))


def _halves(book: Path) -> tuple[str, str]:
    """The chapters with even and with odd numbers; a paragraph that stands on several pages counts once."""
    seen: set[str] = set()
    chapters = []
    for page in sorted(book.glob("*.html")):
        raw = page.read_bytes()
        reader = Paragraphs()
        reader.feed(raw.decode("utf-8" if b"utf-8" in raw[:2000].lower() else "latin-1", "replace"))
        new = [line for line in dict.fromkeys(reader.found) if line not in seen]
        seen.update(new)
        if sum(map(len, new)) > 10 * LEAST:
            chapters.append("\n\n".join(new)[:CHAPTER] + "\n\n")
    return "".join(chapters[::2])[:BOOK], "".join(chapters[1::2])[:BOOK]


def _novel(database: Path, title: str) -> str:
    """One object of an R package's lazy-load database: its place is in .rdx, its lines in .rdb."""
    from rdata.conversion import convert
    from rdata.parser import parse_data

    index = convert(parse_data(gzip.decompress(database.with_suffix(".rdx").read_bytes())))
    start, size = (int(number) for number in index["variables"][title])
    piece = database.with_suffix(".rdb").read_bytes()[start : start + size]
    lines = zlib.decompress(piece[4:])  # after its length
    text = "\n".join(str(line) for line in convert(parse_data(lines)))
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    write_texts(parser.parse_args().out)
