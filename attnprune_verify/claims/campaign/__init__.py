"""Campaigns: statements attacked on very many small instances, each of which can be made again from its number."""
