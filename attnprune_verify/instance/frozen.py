"""Objects that do not change after their validation, so that a checked rule stays true."""

from typing import Any, NoReturn, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

_T = TypeVar("_T", bound=np.generic)


def frozen(array: NDArray[_T]) -> NDArray[_T]:
    """A read-only copy."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy


class Frozen:
    """Attributes are set once, by `_keep`; arrays become read-only copies."""

    def _keep(self, **attributes: object) -> Self:
        for name, value in attributes.items():
            if isinstance(value, np.ndarray) and value.flags.writeable:
                value = frozen(value)
            object.__setattr__(self, name, value)
        return self

    def __setattr__(self, name: str, value: object) -> NoReturn:
        kind = type(self).__name__
        raise AttributeError(f"{_a(kind)} does not change after its validation; make a new one to set {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{_a(type(self).__name__)} does not change after its validation; it keeps {name!r}")

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Copies and pickles carry arrays that can be written to: they become read-only again."""
        self._keep(**state)


def _a(kind: str) -> str:
    return f"{'an' if kind[0] in 'AEIOU' else 'a'} {kind}"
