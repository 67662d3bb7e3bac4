"""Which version of the package this is, and which machine code in a cache belongs to it."""

from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["__version__", "cache_version"]

try:
    __version__ = version("pymc-pmala")
except PackageNotFoundError:
    # A clone on the path, installed nowhere.
    __version__ = "unknown"

_COMPILED = ("compile/numba/*.py", "factorization/banded.py")
"""Where the source of what numba compiles is written, or made."""


@cache
def cache_version(variant: int = 0) -> int:
    """A number that is another for another version of the package, or for other source code.

    pytensor's cache trusts the key that it is given: code compiled from an older source would be
    run by a newer package if both had the same key.

    Parameters
    ----------
    variant : int
        Tells functions of one Op apart, where pytensor's key does not.
    """
    text = sha256(f"{__version__} {variant}".encode())
    here = Path(__file__).parent
    for file in sorted(path for pattern in _COMPILED for path in here.glob(pattern)):
        text.update(file.read_bytes())
    return int.from_bytes(text.digest()[:8])
