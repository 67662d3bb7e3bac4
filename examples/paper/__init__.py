"""The experiments of Xifara et al. (2014); run them with ``python -m examples.paper``."""
