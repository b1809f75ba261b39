"""Whole models: every linear map pruned block by block, from and to a folder in Hugging Face's layout."""

from attnprune_verify.whole_model.folder import prune_model

__all__ = ["prune_model"]
