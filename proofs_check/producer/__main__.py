"""`python -m proofs_check.producer`: write every certificate again."""

import sys

from proofs_check.__main__ import CERTIFICATES
from proofs_check.producer.collection import all_documents
from proofs_check.producer.document import write


def main() -> int:
    kept = set()
    for name, document in all_documents():
        path = CERTIFICATES / f"{name}.json"
        write(document, path)
        kept.add(path)
    for stale in set(CERTIFICATES.glob("*.json")) - kept:
        stale.unlink()
    print(f"{len(kept)} certificates written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
