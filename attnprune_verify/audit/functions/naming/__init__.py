"""Names for the mistakes of a function."""
