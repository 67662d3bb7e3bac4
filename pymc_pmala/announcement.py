"""A message to users who wait."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["announced_if_slow"]

_log = logging.getLogger("pymc")
PATIENCE = 2.0
"""Seconds after which a user asks whether anything is happening."""


@contextmanager
def announced_if_slow(message: str, patience: float | None = None) -> Iterator[None]:
    """Log a message, as PyMC does, if what happens inside takes longer than a few seconds."""
    timer = threading.Timer(PATIENCE if patience is None else patience, _log.info, [message])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
