"""Chains as tasks on a Dask cluster: `pm.sample` on many machines."""

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from logging.handlers import QueueHandler
from queue import SimpleQueue
from types import ModuleType
from typing import Any

import cloudpickle
import pymc as pm
from pymc.exceptions import SamplingError
from pymc.stats.convergence import log_warnings, run_convergence_checks
from pymc.util import RandomGenerator, get_random_generator

from pymc_pmala.compat import concatenate_chains
from pymc_pmala.step.step_methods import PMALA

__all__ = ["sample"]

_log = logging.getLogger("pymc")
# A worker may have several threads; compilation and PyMC's logger belong to the process.
_one_at_a_time = threading.Lock()


def sample(
    model: pm.Model,
    *,
    client: Any,
    step: Any = PMALA,
    chains: int = 4,
    random_seed: RandomGenerator = None,
    initvals: Any = None,
    compute_convergence_checks: bool = True,
    **kwargs: Any,
) -> Any:
    """Draw each chain in a task of its own on a Dask cluster.

    The draws are those of ``pm.sample`` with the same arguments and seed on one machine, to
    rounding: another process compiles anew and may add up in another order.

    Parameters
    ----------
    model : pm.Model
        Sent to the cluster once, pickled with ``step``.
    client : distributed.Client
        The cluster. Workers need this package and the versions installed here, and run one
        chain at a time each: ``threads_per_worker=1`` spreads the chains best.
    step : callable or step method, default PMALA
        A class or function without arguments, called on the worker in the model's context;
        for several methods it returns their list. A step made already is pickled as it is.
    chains : int, default 4
    random_seed : int, sequence of int or numpy.random.Generator, optional
        As for ``pm.sample``.
    initvals : dict, or sequence of one for each chain, optional
        As for ``pm.sample``.
    compute_convergence_checks : bool, default True
        Check r-hat and effective sizes of all chains together.
    **kwargs
        Passed to ``pm.sample``: ``draws``, ``tune``, ``idata_kwargs``, …. A ``callback`` is
        called on the worker.

    Returns
    -------
    InferenceData or DataTree
        What ``pm.sample`` returns.

    Notes
    -----
    A finished chain is fetched at once. If a worker dies, Dask runs its unfinished chains
    again elsewhere, from their beginning and with their seeds; a chain whose workers die more
    often than the cluster's ``distributed.scheduler.allowed-failures`` is given up with a
    warning. After an interrupt the finished chains are returned, if there are any; Dask
    does not stop a chain that is running, only those that wait.

    Pickles run code when they are read: use clusters that you trust.
    """
    distributed = _import_distributed()
    # A task, not scattered data: what it returns can be made again after its worker's death.
    shipped = client.submit(bytes, cloudpickle.dumps((model, step)), pure=False)
    parent = get_random_generator(random_seed)
    futures = {}
    for chain in range(chains):
        start = initvals[chain] if isinstance(initvals, Sequence) else initvals
        options = kwargs | {"initvals": start, "random_seed": get_random_generator(parent)}
        futures[client.submit(_sample_chain, shipped, options, pure=False)] = chain
        # `pm.sample` spawns a child for each chain: the next task's first is this one's next.
        parent.spawn(1)
    idata = concatenate_chains(_collect(distributed, client, futures))
    if compute_convergence_checks:
        log_warnings(run_convergence_checks(idata, model))
    return idata


def _import_distributed() -> ModuleType:
    try:
        import distributed
    except ImportError as error:
        raise ImportError(
            "pymc_pmala.distributed needs Dask: pip install 'pymc-pmala[dask]'."
        ) from error
    return distributed


def _sample_chain(shipped: bytes, options: dict[str, Any]) -> tuple[Any, list[logging.LogRecord]]:
    """One chain, on a worker, and what PyMC has to say about it."""
    with _one_at_a_time, _recorded() as messages:
        model, step = cloudpickle.loads(shipped)
        with model:
            idata = pm.sample(
                step=step() if callable(step) else step,
                chains=1,
                cores=1,
                progressbar=False,
                compute_convergence_checks=False,
                **options,
            )
    return idata, [messages.get() for _ in range(messages.qsize())]


@contextmanager
def _recorded() -> Iterator[SimpleQueue]:
    """PyMC's warnings, kept for the user instead of written where the worker runs."""
    messages: SimpleQueue = SimpleQueue()
    handler = QueueHandler(messages)
    handler.setLevel(logging.WARNING)
    handlers, propagate = _log.handlers, _log.propagate
    _log.handlers, _log.propagate = [handler], False
    try:
        yield messages
    finally:
        _log.handlers, _log.propagate = handlers, propagate


def _collect(distributed: ModuleType, client: Any, futures: dict[Any, int]) -> dict[int, Any]:
    """The chains that come to an end, by number."""
    finished: dict[int, Any] = {}
    try:
        for future in distributed.as_completed(list(futures)):
            chain = futures[future]
            try:
                finished[chain], records = future.result()
            except distributed.KilledWorker as error:
                _log.warning("Chain %d is given up, its workers keep dying: %s", chain, error)
                continue
            for record in records:
                record.msg = f"Chain {chain}: {record.msg}"
                logging.getLogger(record.name).handle(record)
            # Here it is safe; where it was made, it would be made again after a death.
            future.release()
    except KeyboardInterrupt:
        if not finished:
            raise
    finally:
        client.cancel([future for future, chain in futures.items() if chain not in finished])
    if not finished:
        raise SamplingError("No chain has come to an end: the workers keep dying.")
    return dict(sorted(finished.items()))
