"""The constants of the paper, and the repaired and sharp ones, as formulas in any arithmetic."""
