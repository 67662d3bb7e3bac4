"""Langevin samplers for PyMC that adapt to the local geometry of the posterior."""

from pymc_pmala import distributed
from pymc_pmala.information import Information, register_information
from pymc_pmala.interweaving import Standardisation, location_scale, register_standardisation
from pymc_pmala.kernel.build import make_kernel
from pymc_pmala.kernel.kernel import Info, Kernel, Noise, State
from pymc_pmala.step.step_methods import MALA, MMALA, PMALA, SimplifiedMMALA
from pymc_pmala.tools.compare import Comparison, SamplerFigures, compare
from pymc_pmala.tools.estimates import posterior_expectation, posterior_mean
from pymc_pmala.tools.explain import MetricExplanation, explain_metric
from pymc_pmala.tools.local_geometry import LocalGeometry, local_geometry
from pymc_pmala.tools.plots import plot_metric, plot_tuning
from pymc_pmala.version import __version__

__all__ = [
    "MALA",
    "MMALA",
    "PMALA",
    "Comparison",
    "Info",
    "Information",
    "Kernel",
    "LocalGeometry",
    "MetricExplanation",
    "Noise",
    "SamplerFigures",
    "SimplifiedMMALA",
    "Standardisation",
    "State",
    "__version__",
    "compare",
    "distributed",
    "explain_metric",
    "local_geometry",
    "location_scale",
    "make_kernel",
    "plot_metric",
    "plot_tuning",
    "posterior_expectation",
    "posterior_mean",
    "register_information",
    "register_standardisation",
]
