"""Every displayed step of the paper's proofs, replayed exactly: one module per proof, named after its label.

A step is an identity or an inequality. Identities between rational functions of the softmax weights are compared as
exact fractions on many instances (or as formulas, by sympy, where exp itself is differentiated); inequalities are
compared exactly, roots through their squares. A step that fails is recorded with an exact instance. `python -m
proofs_check.steps` prints the table; exit 0 when it came out as recorded.
"""
