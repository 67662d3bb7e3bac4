"""Options with which numba compiles all functions of this package.

They are part of the source that salts the cache keys: numba's cache does not know of options.
"""

from typing import Any

__all__ = ["NJIT_OPTIONS"]

NJIT_OPTIONS: dict[str, Any] = {
    # Fast maths adds up in an order that depends on what the compile cache holds: a chain resumed
    # tomorrow, or in another process, would differ from today's in its last digits.
    "fastmath": False,
    # Division by zero gives infinity, as everywhere in pytensor.
    "error_model": "numpy",
}
"""Always set explicitly: numba lets a function inherit options from whatever calls it first."""
