"""Real numbers on the command line, as floats that are not silently 0 or infinite."""

import math
from decimal import Decimal
from typing import Any

import click


class _Number(click.types.FloatParamType):
    """A float; a nonzero number that float64 turns into 0 or an infinity is refused, since another would be judged."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if isinstance(value, str) and (number == 0 or math.isinf(number)):
            exact = Decimal(value.replace("_", ""))
            if exact.is_finite() and exact != 0:
                self.fail(f"must be 0 or from 4.94e-324 to 1.8e+308 in size; got {value!r:.60}", param, ctx)
        return number


NUMBER = _Number()
"""The type of every option that takes a real number."""
