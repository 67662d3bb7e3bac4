"""How the memory is kept from filling with stack traces while graphs are built and compiled."""

from collections.abc import Iterator
from contextlib import contextmanager

from pytensor import config

__all__ = ["no_stack_traces"]


@contextmanager
def no_stack_traces() -> Iterator[None]:
    """Keep pytensor from recording where variables were made; a context, or a decorator.

    It copies these lists from variable to variable when it rewrites, which can fill the memory:
    use it wherever graphs are built or compiled.
    """
    with config.change_flags(traceback__limit=0):
        yield
