"""Pruning the query and key weights of a real attention layer."""
