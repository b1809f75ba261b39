"""Finished runs that ship with the package, so that what is said about them needs no hours of work."""
