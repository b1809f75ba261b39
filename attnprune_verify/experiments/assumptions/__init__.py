"""The theorem's assumptions, measured on real models."""
