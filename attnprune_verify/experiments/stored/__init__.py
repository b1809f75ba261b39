"""Finished runs that ship with the package, so that sentences about them can be judged without hours of work."""
