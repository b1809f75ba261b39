"""Table 1 (Section 6.3): the effect of pruning on a whole model's next-token predictions."""
