"""The rivals of the paper's method: magnitude, Wanda, SparseGPT, and two trivial masks to be measured against."""
