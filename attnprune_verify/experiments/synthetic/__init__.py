"""The experiment of Section 6.1 on synthetic data."""
