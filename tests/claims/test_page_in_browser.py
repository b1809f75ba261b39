"""The page in a real headless Chromium: the graph is drawn, a click shows a statement, the console stays silent."""

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attnprune_verify.claims.judging.falsifier import Effort
from attnprune_verify.claims.run import run_claims
from attnprune_verify.report.claims_html import render_page

DRIVER, BROWSER = shutil.which("chromedriver"), shutil.which("chromium")

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(DRIVER is None or BROWSER is None, reason="needs the packages chromium and chromium-driver"),
]

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,1000",
]

SIZES = """return [...document.querySelectorAll('.node')].map(node => {
  const frame = node.querySelector('.frame').getBBox();
  const ends = [...node.querySelectorAll('text')].map(text => text.getBBox()).map(box => box.x + box.width);
  return [node.dataset.id, Math.max(...ends), frame.x + frame.width];
})"""
CROSSINGS = """const boxes = [...document.querySelectorAll('svg text')].map(text => [text.textContent, text.getBBox()]);
const found = [];
for (const line of document.querySelectorAll('.edge, .repair'))
  for (let at = 0; at <= line.getTotalLength(); at += 4) {
    const point = line.getPointAtLength(at);
    for (const [label, box] of boxes)
      if (point.x > box.x && point.x < box.x + box.width && point.y > box.y && point.y < box.y + box.height)
        found.push(label);
  }
return [...new Set(found)];"""


class Browser:
    """The few WebDriver calls the test needs."""

    def __init__(self, port: int, profile: Path) -> None:
        self.root = f"http://127.0.0.1:{port}"
        options = {"binary": BROWSER, "args": [*FLAGS, f"--user-data-dir={profile}"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        answer = self.call("/session", {"capabilities": {"alwaysMatch": wanted}})
        self.root += f"/session/{answer['sessionId']}"

    def call(self, path: str, body: dict[str, Any] | None = None, method: str = "POST") -> Any:
        data = None if method != "POST" else json.dumps(body or {}).encode()
        request = urllib.request.Request(self.root + path, data=data, method=method)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=600) as response:
            return json.loads(response.read())["value"]

    def run(self, script: str) -> Any:
        return self.call("/execute/sync", {"script": script, "args": []})

    def click(self, selector: str) -> None:
        element = self.call("/element", {"using": "css selector", "value": selector})
        self.call(f"/element/{next(iter(element.values()))}/click")


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    driver = subprocess.Popen([str(DRIVER), f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=600).close()
                break
            except (urllib.error.URLError, ConnectionError):
                assert driver.poll() is None, "chromedriver did not start"
                time.sleep(0.1)
        opened = Browser(port, tmp_path / "profile")
        yield opened
        opened.call("", method="DELETE")
    finally:
        driver.terminate()
        driver.wait()


def test_graph_click_and_silence(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "claims.html"
    page.write_text(render_page(run_claims(Effort(0, 0, 0, 0))), encoding="utf-8")
    browser.call("/url", {"url": page.as_uri()})
    assert browser.run("return document.querySelectorAll('svg .node').length") > 140
    widths = browser.run("return [...document.querySelectorAll('.node')].map(n => n.getBoundingClientRect().width)")
    assert min(widths) > 100
    sizes = browser.run(SIZES)
    assert [id_ for id_, text, box in sizes if text + 4 > box] == [], "labels longer than their boxes"
    assert browser.run(CROSSINGS) == [], "lines that cross a label or a title"
    wide = "return document.querySelector('#graph').scrollWidth - document.querySelector('#graph').clientWidth"
    assert browser.run(wide) <= 0, "the graph scrolls sideways"
    assert browser.run("return document.querySelector('#detail h2').textContent") == "PL inequality"

    browser.click('.node[data-id="thm:lip_grad_l"]')
    shown = browser.run("return document.getElementById('detail').innerText")
    assert "Lipschitz constant of the gradient" in shown and "30 d n^{7/2} R^6" in shown and "rerun(" in shown
    assert browser.run("return document.querySelectorAll('.edge.up').length") == 5

    press = "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: '%s', bubbles: true}))"
    browser.run("document.querySelector('.node[tabindex=\"0\"]').focus()")
    assert browser.run("return document.activeElement.dataset.id") == "thm:lip_grad_l"
    for key in ("ArrowRight", "ArrowUp", "ArrowLeft", "ArrowDown"):
        before = browser.run("return document.activeElement.dataset.id")
        browser.run(press % key)
        assert browser.run("return document.activeElement.dataset.id") not in ("", None, before), key
        assert browser.run("return document.querySelectorAll('.node[tabindex=\"0\"]').length") == 1
    browser.run(press % "Enter")
    assert browser.run("return document.querySelector('#detail .id').textContent").startswith(
        browser.run("return document.activeElement.dataset.id")
    )
    browser.click('.node[data-id="thm:lip_grad_l"]')

    browser.run("document.querySelector('#detail a[href=\"#fix%3Alip_grad_l\"]').click()")
    assert "sharp" in browser.run("return document.querySelector('#detail h2').textContent")

    browser.click('button[data-verdict="refuted"]')
    faded = browser.run("return document.querySelectorAll('.node.faded').length")
    assert 100 < faded < browser.run("return document.querySelectorAll('.node').length")

    log = browser.call("/se/log", {"type": "browser"})
    assert [entry["message"] for entry in log] == []
