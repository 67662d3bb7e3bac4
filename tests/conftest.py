"""Options and fixtures that all tests share."""

import logging
import os
import sys
from pathlib import Path

# For `benchmarks`, which is not installed; last, so that an installed package is the one tested.
sys.path.append(str(Path(__file__).parents[1]))

os.environ.setdefault("MPLBACKEND", "Agg")

# Before pytest-xdist starts its workers: on its first import of the day ArviZ 0.23 writes a
# file into the user's cache, in a way that fails when two processes do it at once.
import arviz  # noqa: F401
import pytest

from pymc_pmala.compile import functions


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="also run the tests marked slow")
    parser.addoption("--long", action="store_true", help="also run the tests marked long")


def pytest_collection_modifyitems(config, items):
    for marker in ("slow", "long"):
        if config.getoption(f"--{marker}"):
            continue
        skip = pytest.mark.skip(reason=f"{marker}: run with --{marker}")
        for item in items:
            if marker in item.keywords:
                item.add_marker(skip)


def _folder(variable: str, name: str) -> Path:
    """A folder of reference data: an environment variable's, or the one beside the clone."""
    default = Path(__file__).parents[2] / "shared" / name
    folder = Path(os.environ.get(variable, default))
    if not folder.is_dir():
        pytest.skip(f"{folder} is not a folder; set {variable}")
    return folder


@pytest.fixture(autouse=True)
def pymc_speaks():
    """What a command of ours silences, in the test that runs it, is heard again in the next."""
    logger = logging.getLogger("pymc")
    level = logger.level
    yield
    logger.setLevel(level)


@pytest.fixture(autouse=True)
def pytensor_compiles_as_before():
    """A test that left pytensor interpreting would make every later one of its process slow."""
    before = functions.get_mode(None)
    yield
    assert functions.get_mode(None) is before


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """CSV files of the paper's data sets."""
    return _folder("PMALA_DATA", "data")


@pytest.fixture(scope="session")
def posteriordb_folder() -> Path:
    """Reference posteriors."""
    return _folder("PMALA_POSTERIORDB", "posteriordb")
