"""Someone else's code: what a TARGET is, and the process it runs in."""
