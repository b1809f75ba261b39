"""A case of a statement: its values, where they come from, and everything that is computed on it."""
