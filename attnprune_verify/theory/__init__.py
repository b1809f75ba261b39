"""The paper's hypotheses and constants on an instance, and the repaired and sharp ones beside them."""
