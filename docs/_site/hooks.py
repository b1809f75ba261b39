"""Hooks of mkdocs: the generated pages, runs what pages show, turns formulas into MathML."""

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))

import fences  # noqa: E402  # beside this file
import generated  # noqa: E402
import mathml  # noqa: E402

_PLAYED: dict[str, str] = {}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Run what the pages show, and add what nobody types.

    A page that shows what does not happen ends the build.
    """
    from attnprune_verify.report.claims_html import render_page

    generated.judged()  # first: commands on the pages then find the verdicts kept
    for page in list(files.documentation_pages()):
        drawn: dict[str, bytes] = {}
        try:
            _PLAYED[page.src_uri] = fences.played(page.content_string, page.src_uri, drawn)
        except fences.PageFailed as error:
            raise PluginError(str(error)) from error
        for name, content in drawn.items():
            files.append(File.generated(config, f"{Path(page.src_uri).parent.as_posix()}/{name}", content=content))
    for path, text in generated.pages():
        files.append(File.generated(config, path, content=text))
    files.append(File.generated(config, "claims_graph.html", content=render_page(generated.judged())))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The page as it ran."""
    return _PLAYED.get(page.file.src_uri, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Draw the formulas; a column without a name has no header; a docstring's "::" before an example is a colon."""
    html = html.replace("<p>::</p>\n", "").replace("::</p>", ":</p>")
    return mathml.with_mathml(re.sub(r"<th( [^>]*)?></th>", r"<td\1></td>", html))
