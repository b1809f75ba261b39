"""The audit of the paper's functions, and of the layer's."""
