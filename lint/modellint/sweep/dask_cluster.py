"""A sweep on dask.distributed: the same tasks on the workers of a scheduler, or of a cluster on this machine's loopback."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import time
from collections.abc import Callable, Generator, Mapping
from typing import Any
from urllib.parse import urlsplit

from modellint.run import UsageError
from modellint.sweep.task_execution import run

Results = Generator[tuple[str, str | None], None, None]
RETRIES = 2
"""How often dask begins a task again that failed; of lost workers it keeps its own count (`allowed-failures`, 3)."""
PATIENCE = 120.0
"""Seconds that a lost scheduler may take to come back."""
_INSTALL = "needs dask.distributed: pip install 'modellint[distributed]'"


def check_address(address: str) -> None:
    """Refuse a scheduler that would be spoken to in the clear off the loopback. Raises ``UsageError``."""
    parts = urlsplit(address)
    if parts.scheme not in ("tcp", "tls", "ws", "wss") or not parts.hostname:
        raise UsageError(f"--scheduler {address}: not the address of a scheduler, such as tls://10.0.0.5:8786")
    if parts.scheme in ("tls", "wss"):
        return
    host = parts.hostname
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost"
    if not is_loopback:
        raise UsageError(
            f"--scheduler {address}: off the loopback a scheduler is spoken to over TLS: give tls://, with the certificates in "
            "dask's settings, distributed.comm.tls"
        )


def results_of_cluster(tasks: Mapping[str, str], workers: int, told: Callable[[str], None]) -> Results:
    """The rows of tasks as they end, from so many worker processes on the loopback. Raises ``UsageError`` without dask."""
    distributed = _distributed("--workers")
    with (
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            # What a target may use, its own limit says.
            memory_limit=0,
            # A lost worker is told of by its tasks. What a worker logs as an error is mostly that the cluster closed before it.
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        told(f"dashboard: {client.dashboard_link}")
        yield from _gathered(distributed, client, tasks)


def results_of_scheduler(
    tasks: Mapping[str, str], address: str, told: Callable[[str], None], patience: float = PATIENCE
) -> Results:
    """The rows of tasks as they end, from the workers of a scheduler.

    A scheduler that is gone may come back for ``patience`` seconds: what it had not answered is asked again. Raises ``UsageError``
    without dask, and where there is no scheduler.
    """
    distributed = _distributed("--scheduler")
    from distributed.comm.core import CommClosedError

    left, deadline, reason = dict(tasks), None, ""
    while left:
        try:
            with distributed.Client(address, set_as_default=False, timeout="10s") as client:
                if deadline is None:
                    told(f"dashboard: {client.dashboard_link}")
                for key, rows in _gathered(distributed, client, left):
                    del left[key]
                    # Whatever happened before is over.
                    deadline = time.monotonic() + patience
                    yield key, rows
        except (OSError, CommClosedError, _Gone) as error:
            reason = str(error).partition("\n")[0]
            if deadline is None:
                raise UsageError(f"--scheduler {address}: no answer: {reason}") from None
            if time.monotonic() > deadline:
                raise UsageError(
                    f"--scheduler {address}: gone for {patience:g} s: {reason}; --resume goes on"
                ) from None
            told(f"the scheduler is gone, waiting for it: {reason}")
            time.sleep(1.0)


class _Gone(Exception):
    """The scheduler is gone, or has forgotten the tasks."""


def _gathered(distributed: Any, client: Any, tasks: Mapping[str, str]) -> Results:
    """Submit tasks, and give their rows as they end; None for a task whose workers were lost again and again."""
    futures = {client.submit(run, text, pure=False, retries=RETRIES): key for key, text in tasks.items()}
    for future in distributed.as_completed(futures, loop=client.loop):
        key = futures.pop(future)
        if future.status == "finished":
            yield key, future.result()
            continue
        if future.status in ("cancelled", "lost", "pending"):
            raise _Gone("it has forgotten the tasks")
        error = future.exception()
        if not isinstance(error, distributed.KilledWorker):
            raise UsageError(f"a worker cannot serve the tasks: {type(error).__name__}: {error}") from None
        yield key, None
        with contextlib.suppress(Exception):
            future.release()


def _distributed(option: str) -> Any:
    try:
        import distributed
    except ImportError:
        raise UsageError(f"{option} {_INSTALL}") from None
    # A lost scheduler is told of in a line of ours, and waited for.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    return distributed
