"""Making the certificates with python-flint balls.

`python -m proofs_check.producer` writes all of them, byte for byte.

The checker shares no code with this package and uses another route to every number: closed-form gradients in Arb
here, fixed-point intervals and differentiated losses there.
"""
