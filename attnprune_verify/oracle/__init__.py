"""Independent twins of the reference functions: none of them imports `attnprune_verify.model`.

`loops` (index by index), `autodiff` (autograd on the literal definition), `taylor` (slope of the Taylor remainder),
`multiprecision` (mpmath) and `ball` (python-flint, rigorous). `running_error` bounds the rounding error of a correct
floating-point implementation, and `verdict` combines all of these into a judgement.
"""
