"""Step methods inside the contract of PyMC."""
