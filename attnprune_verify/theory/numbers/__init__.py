"""The arithmetics of the theory: floats, fractions, lanes, balls, and certified eigenvalues."""
