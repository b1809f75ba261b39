"""Attention in eight bits under a declared recipe: its problems, relations without tolerance, and names."""
