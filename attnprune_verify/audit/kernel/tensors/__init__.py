"""Bounds and the reference on anyone's arrays: the audit's truth and error analysis, without its instances."""
