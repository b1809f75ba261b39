"""Samples of an attention kernel, by purpose."""
