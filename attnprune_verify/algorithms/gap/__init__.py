"""Bounds of how far a pruning mask is from the best one, by convexity, and the masks they are compared with."""
