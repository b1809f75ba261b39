"""Fences marked `run` are executed while the site is built, and their output is put into the page.

    ```console run             each line that starts with "$ " is a command; its output replaces what stood below it
    ```console run exit=1      the last command ends with 1
    ```console run lines=20    only the first 20 lines of its output are shown, and how many follow
    ```python run              a program; what it prints is shown below it
    ```python title="mine.py"  a file, written beside the commands that follow it

All fences of a page run in one folder of their own, in which `tests` and `benchmarks` are those of the checkout. A
command that ends otherwise than the page says is an error, so the build, and the test that runs the pages, fail.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["PageFailed", "played"]

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"^```(?P<language>\w+)(?P<words>[^\n]*)\n(?P<body>.*?)^```$", flags=re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"^\$ ((?:[^\n]*\\\n)*[^\n]*)", flags=re.MULTILINE)  # with the lines that a backslash continues
_LIMIT = 600  # seconds, of a command that does not end


class PageFailed(Exception):
    """A page says something that does not happen."""


def played(markdown: str, name: str = "page", pictures: dict[str, bytes] | None = None) -> str:
    """The page with the outputs of its commands; the pictures that they drew go into `pictures`."""
    if not re.search(r"^```\w+[^\n]* run\b", markdown, flags=re.MULTILINE):
        return markdown
    with tempfile.TemporaryDirectory(prefix="page-") as folder:
        for shared in ("tests", "benchmarks"):
            (Path(folder) / shared).symlink_to(ROOT / shared, target_is_directory=True)
        page = _FENCE.sub(lambda fence: _one(fence, Path(folder), name), markdown)
        if pictures is not None:
            drawn = (path for path in Path(folder).iterdir() if path.suffix in (".svg", ".png"))
            pictures.update({path.name: path.read_bytes() for path in drawn})
        return page


def _one(fence: re.Match[str], folder: Path, name: str) -> str:
    language, words, body = fence["language"], fence["words"], fence["body"]
    title = re.search(r'title="([^"]+)"', words)
    if title:
        (folder / title[1]).write_text(body, encoding="utf-8")
    options = dict(word.partition("=")[::2] for word in words.split() if not word.startswith("title="))
    if "run" not in options:
        return fence[0]
    least, code = int(options.get("lines") or 10**6), int(options.get("exit") or 0)
    if language == "python":
        output = _call([sys.executable, "-c", body], folder, name, body, code)
        shown = f"```python\n{body}```\n"
        return shown + (f"\n```text\n{_cut(output, least)}```" if output else "")
    commands = [command.rstrip("\n") for command in _COMMAND.findall(body)]
    if not commands:
        raise PageFailed(f"{name}: a command must begin with '$ ', what runs here has none:\n{body}")
    lines = []
    for number, command in enumerate(commands, 1):
        expected = code if number == len(commands) else 0
        output = _call(["bash", "-c", command], folder, name, command, expected)
        lines.append(f"$ {command}\n{_cut(output, least)}")
    return "```console\n" + "".join(lines) + "```"


def _call(command: list[str], folder: Path, name: str, shown: str, expected: int) -> str:
    here = str(Path(sys.executable).parent)
    environment = {**os.environ, "COLUMNS": "80", "PATH": here + os.pathsep + os.environ.get("PATH", "")}
    environment.pop("FORCE_COLOR", None)
    done = subprocess.run(
        command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL, timeout=_LIMIT, check=False,
    )  # fmt: skip
    if done.returncode != expected:
        raise PageFailed(
            f"{name}: a command must end with {expected}, this one ended with {done.returncode}:\n"
            f"{shown}\n{done.stdout}"
        )
    return done.stdout.replace(str(folder), ".").replace(str(ROOT), ".")


def _cut(output: str, most: int) -> str:
    lines = output.splitlines()
    if len(lines) > most:
        lines = [*lines[:most], f"... ({len(lines) - most} more lines)"]
    return "".join(line + "\n" for line in lines)


def main() -> int:
    """``python docs/_site/fences.py PAGE...`` runs pages and prints them."""
    if shutil.which("bash") is None:
        print("needs bash", file=sys.stderr)
        return 3
    for page in sys.argv[1:]:
        try:
            print(played(Path(page).read_text(encoding="utf-8"), page))
        except PageFailed as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
