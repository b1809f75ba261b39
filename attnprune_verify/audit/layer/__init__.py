"""Real attention layers as subjects are asked about them: instances, truths, formulas, and how a layer travels."""
