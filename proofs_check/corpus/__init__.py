"""A public corpus of invalid certificates: `invalid/*.json`, each named after its trap, and README.md, their index.

`python -m proofs_check.corpus` writes both from the valid certificates and the functions here; `--check` compares.
"""
