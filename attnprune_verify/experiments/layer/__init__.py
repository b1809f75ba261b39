"""Pruning the attention layers of a real model, as Section 6.2 does."""
