"""Options and fixtures that all tests share."""

import os
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")

# Before pytest-xdist starts its workers: on its first import of the day ArviZ 0.23 writes a
# file into the user's cache, in a way that fails when two processes do it at once.
import arviz  # noqa: F401
import pytest


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="also run the tests marked slow")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--slow"):
        return
    skip = pytest.mark.skip(reason="slow: run with --slow")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)


def _folder(variable: str, name: str) -> Path:
    """A folder of reference data: an environment variable's, or the one beside the clone."""
    default = Path(__file__).parents[2] / "shared" / name
    folder = Path(os.environ.get(variable, default))
    if not folder.is_dir():
        pytest.skip(f"{folder} is not a folder; set {variable}")
    return folder


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """CSV files of the paper's data sets."""
    return _folder("PMALA_DATA", "data")


@pytest.fixture(scope="session")
def posteriordb_folder() -> Path:
    """Reference posteriors."""
    return _folder("PMALA_POSTERIORDB", "posteriordb")
