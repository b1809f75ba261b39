"""Invalid certificates, each named after its trap: `parts.invalid()`, and as files `python -m proofs_check.corpus`."""
