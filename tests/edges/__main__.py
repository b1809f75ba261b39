"""List the refusals that no test of a run tried on their edge: ``python -m tests.edges FOLDER`` (see `plugin`)."""

import sys
from pathlib import Path

from tests.edges.plugin import PACKAGES, ROOT, places

if __name__ == "__main__":
    found = {place for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")) for place in places(path)}
    tried = {path.name for path in Path(sys.argv[1]).iterdir()}
    print(*sorted(found - tried), f"{len(found & tried)} of {len(found)} refusals were tried on their edge", sep="\n")
