"""Campaigns: statements attacked on very many small instances; each instance can be drawn again from its number."""
