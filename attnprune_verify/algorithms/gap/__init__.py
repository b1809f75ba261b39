"""How far a pruning mask is at most from the best one: bounds from convexity, with the masks they are compared with."""
