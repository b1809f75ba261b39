"""Renew the digests: ``python -m tests.repinned``; the reason for a change stands in the body of its commit."""

from tests.repinned.ledger import renew

changed = renew()
print(f"{len(changed)} changed: {', '.join(changed[:5])}{', ...' if len(changed) > 5 else ''}")
