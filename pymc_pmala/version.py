"""The version of the package, and of the machine code that it caches."""

from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["__version__", "cache_version"]

try:
    __version__ = version("pymc-pmala")
except PackageNotFoundError:
    # The package is on the path but not installed.
    __version__ = "unknown"

_COMPILED = ("compile/numba/**/*.py", "compile/blocked.py", "factorization/banded.py")
"""Files that contain or generate the source code compiled by numba."""


@cache
def cache_version(variant: int = 0) -> int:
    """Return a number that identifies the version of the package and of its source code.

    pytensor's cache relies on the key that it is given: if it did not change, a newer version of
    the package would run code compiled from an older source.

    Parameters
    ----------
    variant : int
        Distinguishes functions of the same Op for which pytensor's key is the same.
    """
    text = sha256(f"{__version__} {variant}".encode())
    here = Path(__file__).parent
    for file in sorted(path for pattern in _COMPILED for path in here.glob(pattern)):
        text.update(file.read_bytes())
    return int.from_bytes(text.digest()[:8])
