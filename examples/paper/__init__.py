"""The experiments of Xifara et al. (2014), by one command: ``python -m examples.paper``."""
