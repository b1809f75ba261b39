"""Instances, right results, and the distance from them that right code may have."""
