"""Graph building without stack traces, to save memory."""

from collections.abc import Iterator
from contextlib import contextmanager

from pytensor import config

__all__ = ["no_stack_traces"]


@contextmanager
def no_stack_traces() -> Iterator[None]:
    """Keep pytensor from recording where variables are created; a context manager or decorator.

    pytensor copies stack traces from variable to variable during rewrites, which can fill the
    memory. Use this wherever graphs are built or compiled.
    """
    with config.change_flags(traceback__limit=0):
        yield
