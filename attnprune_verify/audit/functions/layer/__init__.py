"""Audit of real attention layers: instances, true values, formulas, and a layer's form in the subject's process."""
