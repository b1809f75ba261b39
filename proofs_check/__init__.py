"""Evidence that can be re-checked by a stranger.

`python -m proofs_check [FILE ...]`     re-checks certificates with the standard library only (`checker/`);
`python -m proofs_check.steps`          replays every displayed step of the paper's proofs (`steps/`);
`python -m proofs_check.producer`       makes the certificates again, byte for byte (`producer/`, python-flint);
`python -m proofs_check.evidence`       writes the one index of it, which the package carries;
`make -C proofs_check/coq`              compiles the formal proofs.

Nothing here imports `attnprune_verify`: numbers must not certify themselves.
"""
