"""Enter the reason for pins that changed: ``python -m tests.repinned "the reason"``."""

import sys

from tests.repinned.ledger import enter

if len(sys.argv) != 2:
    sys.exit('usage: python -m tests.repinned "the reason"')
try:
    changed = enter(sys.argv[1])
except ValueError as error:
    sys.exit(f"error: {error}")
print(f"{len(changed)} changed: {', '.join(changed[:5])}{', ...' if len(changed) > 5 else ''}")
