"""Judging of a claim: trials on cases, attacks, verdicts and the cache that keeps them."""
