"""Which mistake is it? Known wrong formulas, the smallest instance that shows it, and code that repeats it."""
