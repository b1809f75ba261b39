"""Names of mistakes: known wrong formulas, the smallest instance that shows one, and code that repeats it."""
