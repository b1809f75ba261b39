"""The quantities of an instance from which the constants are made, certified."""
