"""The commands that README.md marks `run`: ``python -m tests.meta.readme_commands`` writes anew what they print."""

import os
import re
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
FENCE = re.compile(r"^```console run( exit=1)?\n\$ (.*)\n((?:(?!```).*\n)*)```$", re.MULTILINE)


def printed(command: str, exits: int, folder: Path) -> str:
    """Return the output of the command in the folder, where this checkout's examples and tests are."""
    for name in ("examples", "tests"):
        if not (folder / name).exists():
            (folder / name).symlink_to(ROOT / name, target_is_directory=True)
    search = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": search}
    name, *rest = shlex.split(command)
    assert name == "attnprune-verify"
    words = [sys.executable, "-m", "attnprune_verify", *rest]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == exits, (command, done.stderr)
    return done.stdout


def sessions() -> list[tuple[str, int, str]]:
    """Return each command with its exit code and the output that README.md prints below it."""
    return [(command, bool(exits), output) for exits, command, output in FENCE.findall(README.read_text("utf-8"))]


def main(folder: Path) -> None:
    """Write the outputs into README.md."""
    text = README.read_text("utf-8")
    for command, exits, output in sessions():
        text = text.replace(f"{command}\n{output}```", f"{command}\n{printed(command, exits, folder)}```")
    README.write_text(text, "utf-8")


if __name__ == "__main__":
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as name:
        main(Path(name))
