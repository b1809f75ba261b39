"""The pages of `--format html` in light colours and in dark ones: every text stands out from what it lies on.

`docs/_site/check_pages.mjs` looks at the pages themselves, in CI; this needs no browser.
"""

import re
from importlib import resources

import pytest

from attnprune_verify.report import audit_html

TEMPLATE = (resources.files("attnprune_verify.report") / "templates" / "claims.html").read_text(encoding="utf-8")
STYLES = {"claims": TEMPLATE.partition("<style>")[2].partition("</style>")[0], "audit": audit_html._STYLE}
ON = {
    "claims": {("ink", "soft", "mark"): ("page", "card"), ("ink",): ("plain",)},
    "audit": {("ink", "good", "bad", "unsure", "quiet"): ("page", "block")},
}
VERDICTS = ("holds", "refuted", "misstated", "ill-posed", "not-reproduced", "vacuous", "open")


def palette(style, scheme):
    """The variables as a reader sees them whose system prefers this scheme."""
    dark = re.search(r"@media \(prefers-color-scheme: dark\) \{ :root \{(.*?)\} \}", style, re.DOTALL)
    light = re.search(r"^:root \{(.*?)\}", style, re.DOTALL | re.MULTILINE)
    texts = [light[1], dark[1]] if scheme == "dark" else [light[1]]
    return {name: value for text in texts for name, value in re.findall(r"--([\w-]+): (#\w+);", text)}


def luminance(colour):
    """Relative luminance of WCAG 2.1."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_that_of_the_standard():
    assert contrast("#000", "#ffffff") == pytest.approx(21) and contrast("#777", "#777777") == 1
    assert contrast("#767676", "#fff") > 4.5 > contrast("#777", "#fff")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", STYLES)
def test_texts_stand_out(page, scheme):
    colours = palette(STYLES[page], scheme)
    assert "color-scheme: light dark" in STYLES[page]
    for texts, grounds in ON[page].items():
        for text in texts:
            for ground in grounds:
                assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    for verdict in VERDICTS if page == "claims" else ():
        assert contrast(colours[verdict], "#fff") >= 4.5, verdict
    assert (luminance(colours["page"]) < 0.05) == (scheme == "dark")


@pytest.mark.parametrize("page", STYLES)
def test_no_colour_is_fixed_outside_of_the_palette(page):
    """White on a verdict's colour is the same in both schemes."""
    rules = re.sub(r"--[\w-]+: #\w+;", "", STYLES[page])
    assert set(re.findall(r"#[0-9a-f]{3,8}\b(?=[;\s])(?![^{};]*\{)", rules)) <= {"#fff"}


def test_boxes_that_scroll_are_reached_with_the_keyboard():
    assert 'id="graph" role="region" aria-label="graph of the statements" tabindex="0"' in TEMPLATE
    assert 'if (tag === "pre") element.tabIndex = 0' in TEMPLATE
    assert audit_html._code("x < y") == '<pre tabindex="0">x &lt; y</pre>'
