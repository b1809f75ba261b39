"""Every statement of the paper as a claim with a computed verdict, and repaired or new statements beside them.

`core` says what a claim is, `statements/` holds them in the paper's order, `falsifier` attacks, `judge` decides.
"""
