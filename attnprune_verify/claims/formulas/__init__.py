"""Printed formulas: their letters, read back and evaluated on a case, written in LaTeX or in words."""
