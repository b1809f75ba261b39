"""Pruning any linear map, weights (out, in): metrics on its inputs and outputs, and the methods that use them.

A metric is apart from a pruning method: a quantiser could use the same ones.
"""
