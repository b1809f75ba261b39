"""Numbers in a form for readers."""

import math

_WRITTEN_OUT = 1e6
"""Above, an exponent has itself too many digits to be written out."""


def scientific(value: float, log10: float | None = None, digits: int = 3) -> str:
    """Return a number in few digits; a number that over- or underflows is printed from its decimal logarithm.

    Examples
    --------
    >>> scientific(0.04), scientific(3.2e22), scientific(0.0), scientific(float("inf"))
    ('0.04', '3.2e+22', '0', 'inf')
    >>> scientific(0.0, -512.3), scientific(float("inf"), 447.3)
    ('5.01e-513', '2e+447')
    >>> scientific(0.0, -5.2e306)
    '10^(-5.2e+306)'
    """
    underflow = abs(value) < 1e-300 or math.isinf(value)
    if log10 is not None and math.isfinite(log10) and underflow:
        if abs(log10) > _WRITTEN_OUT:
            return f"10^({log10:.{digits}g})"
        exponent = math.floor(log10)
        mantissa = f"{10 ** (log10 - exponent):.{digits}g}"
        return f"{mantissa}e{exponent:+d}"
    return f"{value:.{digits}g}"
