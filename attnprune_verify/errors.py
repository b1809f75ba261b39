"""The exceptions of the package."""


class InvalidInput(ValueError):
    """An argument, a file or a folder breaks a rule.

    The message states the rule, then the values that broke it. ``except InvalidInput`` catches every refusal of the
    package. Until 0.4 what is refused by a public function is an `InvalidInstance`, from then on only X, W, M, mask,
    lam and what is made of them.

    Examples
    --------
    >>> raise InvalidInput("--reading must be one of full, causal; got 'ful'")
    Traceback (most recent call last):
        ...
    attnprune_verify.errors.InvalidInput: --reading must be one of full, causal; got 'ful'
    """


class InvalidInstance(InvalidInput):
    """An input breaks a rule of the problem.

    The message states the rule, then the values that broke it.

    Examples
    --------
    >>> raise InvalidInstance("lam must be >= 0; got -1.0")
    Traceback (most recent call last):
        ...
    attnprune_verify.errors.InvalidInstance: lam must be >= 0; got -1.0
    """
