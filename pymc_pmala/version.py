"""Which version of the package this is."""

from importlib.metadata import PackageNotFoundError, version

__all__ = ["__version__"]

try:
    __version__ = version("pymc-pmala")
except PackageNotFoundError:
    # A clone on the path, installed nowhere.
    __version__ = "unknown"
