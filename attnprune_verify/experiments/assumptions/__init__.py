"""What the theorem would need on a real model."""
