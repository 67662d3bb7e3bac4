"""Which machine code in numba's cache is of this version of the package.

pytensor's cache trusts the key that it is given: code compiled from an older source would be run
by a newer package if both had the same key.
"""

from functools import cache
from hashlib import sha256
from pathlib import Path

from pymc_pmala.version import __version__

__all__ = ["cache_version"]

_COMPILED = ("numba_backend/*.py", "banded.py", "products.py", "solves.py")
"""Where the source of what numba compiles is written, or made."""


@cache
def cache_version(variant: int = 0) -> int:
    """A number that is another for another version of the package, or for other source code.

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
