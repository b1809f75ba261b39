"""The exceptions of the package."""

__all__ = ["InvalidInstance"]


class InvalidInstance(ValueError):
    """An input breaks a rule of the problem.

    The message states the rule, then the values that broke it.

    Examples
    --------
    >>> raise InvalidInstance("lam must be >= 0; got -1.0")
    Traceback (most recent call last):
        ...
    attnprune_verify.errors.InvalidInstance: lam must be >= 0; got -1.0
    """
