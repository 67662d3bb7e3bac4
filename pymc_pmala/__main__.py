"""Run the demonstration with ``python -m pymc_pmala``; see `pymc_pmala.tools.demo`."""

import sys

from pymc_pmala.tools.demo import main

if __name__ == "__main__":
    sys.exit(main())
