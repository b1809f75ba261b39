"""One module per statement: `check(certificate)` returns a sentence saying what was verified, or raises Reject."""
