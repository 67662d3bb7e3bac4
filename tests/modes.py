"""How tests evaluate graphs of their own, a few times each."""

from pytensor.compile.mode import Mode

__all__ = ["INTERPRETED"]

INTERPRETED = Mode(linker="py", optimizer="fast_run").excluding("fusion", "inplace")
