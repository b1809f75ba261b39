"""Calls of a kernel in the process in which it runs."""
