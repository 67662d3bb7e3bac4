"""Sampling on a Dask cluster, with one task for each chain."""

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from logging.handlers import QueueHandler
from queue import SimpleQueue
from types import ModuleType
from typing import Any

import cloudpickle
import pymc as pm
from pymc.exceptions import SamplingError
from pymc.stats.convergence import log_warnings, run_convergence_checks
from pymc.step_methods.compound import BlockedStep, CompoundStep
from pymc.util import RandomGenerator, get_random_generator

from pymc_pmala.arguments import check_count, check_flag, check_seed, context_model, shown
from pymc_pmala.compat import concatenate_chains
from pymc_pmala.step.step_methods import PMALA

__all__ = ["sample"]

_log = logging.getLogger("pymc")
# A worker may have several threads, which share pytensor's compiler and PyMC's logger.
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
    """Draw each chain in a separate task on a Dask cluster.

    The draws agree up to rounding with those of ``pm.sample`` on one machine with the same
    arguments and seed. Each process compiles its own code, which may sum in a different order.

    Parameters
    ----------
    model : pm.Model
        The model. It is pickled together with ``step`` and sent to the cluster once.
    client : distributed.Client
        The cluster. Workers need this package, with the versions installed here. Each worker
        runs one chain at a time, so ``threads_per_worker=1`` distributes the chains best.
    step : callable or step method, default PMALA
        A class or function without arguments, which is called on the worker in the context of
        the model. It may return a list of step methods. A step method that already exists is
        pickled as it is.
    chains : int, default 4
    random_seed : int, sequence of int or numpy.random.Generator, optional
        As for ``pm.sample``.
    initvals : dict, or sequence of dict with one for each chain, optional
        As for ``pm.sample``.
    compute_convergence_checks : bool, default True
        Whether to check r-hat and the effective sample sizes of all chains together.
    **kwargs
        Passed to ``pm.sample``: ``draws``, ``tune``, ``idata_kwargs``, …. A ``callback`` is
        called on the worker.

    Returns
    -------
    InferenceData or DataTree
        The same type of object as ``pm.sample`` returns.

    Notes
    -----
    A chain is fetched as soon as it is finished, and PyMC logs how many have finished. If a worker
    dies, Dask reruns its unfinished chains on another worker, from the beginning and with the same
    seeds. A chain whose workers die more often than the cluster's
    ``distributed.scheduler.allowed-failures`` permits is given up with a warning. After an
    interrupt, the finished chains are returned, if there are any. Dask cancels the waiting chains
    but does not stop those that are running.

    Loading a pickle can run arbitrary code: only use clusters that you trust.
    """
    model = context_model(model)
    check_count("chains", chains)
    check_flag("compute_convergence_checks", compute_convergence_checks)
    check_seed("random_seed", random_seed)
    _check_step(step)
    _check_starts(initvals, chains)
    distributed = _import_distributed()
    if not hasattr(client, "submit"):
        raise TypeError(f"client must be a distributed.Client, but is {shown(client)}.")
    # A task rather than scattered data: Dask can rerun it if its worker dies.
    shipped = client.submit(bytes, cloudpickle.dumps((model, step)), pure=False)
    parent = get_random_generator(random_seed)
    futures = {}
    for chain in range(chains):
        start = initvals[chain] if isinstance(initvals, Sequence) else initvals
        options = kwargs | {"initvals": start, "random_seed": get_random_generator(parent)}
        futures[client.submit(_sample_chain, shipped, options, pure=False)] = chain
        # `pm.sample` spawns a child for each chain. The first child in the next task is the child
        # that follows this one.
        parent.spawn(1)
    idata = concatenate_chains(_collect(distributed, client, futures))
    if compute_convergence_checks:
        log_warnings(run_convergence_checks(idata, model))
    return idata


def _check_step(step: Any) -> None:
    """Check that step methods, or a function that creates them, were passed."""
    steps = step if isinstance(step, list | tuple) else [step]
    made = bool(steps) and all(isinstance(s, BlockedStep | CompoundStep) for s in steps)
    if not callable(step) and not made:
        raise TypeError(
            "step must be a class or function without arguments, or a step method, but is "
            f"{shown(step)}."
        )


def _check_starts(initvals: Any, chains: int) -> None:
    """Check that there is one starting point for all chains or one for each."""
    if initvals is None or isinstance(initvals, Mapping):
        return
    is_list = isinstance(initvals, Sequence) and len(initvals) == chains
    if not is_list or not all(v is None or isinstance(v, Mapping) for v in initvals):
        raise ValueError(
            f"initvals must be a dictionary or a list of {chains}, one for each chain, but is "
            f"{shown(initvals)}."
        )


def _import_distributed() -> ModuleType:
    try:
        import distributed
    except ImportError as error:
        raise ImportError(
            "pymc_pmala.distributed needs Dask: pip install 'pymc-pmala[dask]'."
        ) from error
    return distributed


def _sample_chain(shipped: bytes, options: dict[str, Any]) -> tuple[Any, list[logging.LogRecord]]:
    """Draw one chain on a worker; return it with the messages that PyMC logged."""
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
    """Collect PyMC's warnings for the user, instead of logging them on the worker."""
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
    """Return the finished chains by number."""
    finished: dict[int, Any] = {}
    began = time.perf_counter()
    try:
        for future in distributed.as_completed(list(futures)):
            chain = futures[future]
            try:
                finished[chain], records = future.result()
            except distributed.KilledWorker as error:
                _log.warning(
                    "Chain %d is given up because its workers keep dying: %s", chain, error
                )
                continue
            seconds = time.perf_counter() - began
            place = f"{len(finished)} of {len(futures)}"
            _log.info("Chain %d has finished, %s, after %.0f seconds.", chain, place, seconds)
            for record in records:
                record.msg = f"Chain {chain}: {record.msg}"
                logging.getLogger(record.name).handle(record)
            # The chain has been fetched. If the future were kept, Dask would rerun it after the
            # death of its worker.
            future.release()
    except KeyboardInterrupt:
        if not finished:
            raise
    finally:
        client.cancel([future for future, chain in futures.items() if chain not in finished])
    if not finished:
        raise SamplingError(
            "No chain has finished, because the workers keep dying. Check the logs of the workers."
        )
    return dict(sorted(finished.items()))
