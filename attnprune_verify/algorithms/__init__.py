"""Programs that produce pruning masks: gradient descent on the attention error, its rounding, and its rivals."""
