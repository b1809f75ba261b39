"""Judging the merge of partial results: a merge is attention over parts, whose logits are their log sum exp."""
