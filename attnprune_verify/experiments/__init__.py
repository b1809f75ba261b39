"""Experiments: the synthetic figure, repeated under every reading of its text."""
