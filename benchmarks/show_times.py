"""Processor time of `attnprune-verify show ID`, for every id: nothing kept, and kept.

    python benchmarks/show_times.py [--every 10]

Each in a process of its own. Prints the slowest, and exits 1 if one is beyond its limit. A busy machine also makes
processor time longer (cores that share units, caches that are shared): `import numpy` is timed beside, to compare by.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile

from attnprune_verify.claims.registry import claims

LIMITS = {"nothing kept": 5.0, "kept": 0.5}


def seconds(arguments: list[str], cache: str) -> float:
    """User and system time of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "ATTNPRUNE_CACHE": cache},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="only every so many ids")
    parser.add_argument("ids", nargs="*")
    chosen = parser.parse_args()
    ids = chosen.ids or list(dict.fromkeys(claim.id for claim in claims()))[:: chosen.every]
    found: dict[str, list[tuple[float, str]]] = {name: [] for name in LIMITS}
    for id_ in ids:
        with tempfile.TemporaryDirectory() as cache:
            for name in LIMITS:
                found[name].append((seconds(["-m", "attnprune_verify", "show", id_, "--quiet"], cache), id_))
    print(f"import numpy: {min(seconds(['-c', 'import numpy'], '') for _ in range(3)):.2f} s")
    for name, times in found.items():
        times.sort(reverse=True)
        print(f"{name}: {len(times)} ids, median {times[len(times) // 2][0]:.2f} s, limit {LIMITS[name]} s")
        print("\n".join(f"  {taken:.2f} s  {id_}" for taken, id_ in times[:5]))
    return int(any(times[0][0] > LIMITS[name] for name, times in found.items()))


if __name__ == "__main__":
    sys.exit(main())
