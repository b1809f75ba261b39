"""Names for the mistakes of a kernel."""
