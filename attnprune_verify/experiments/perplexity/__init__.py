"""Table 1 (Section 6.3): what pruning does to a whole model's next-token predictions."""
