"""`--executor dask:ADDRESS`: what takes the logs of an audit, in place of this machine.

To add a kind: a branch in `executor_of`.  How logs are spread is `replay.bulk.executors`'s.
Rules: CONTRACT.md §14.13.
"""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import click

from refold.engine.errors import ExtraMissing, UsageError

if TYPE_CHECKING:
    from concurrent.futures import Executor

_CONNECT_SECONDS: Final = 10

executor_option: Final = click.option(
    "--executor", metavar="dask:ADDRESS",
    help="Use the workers of a Dask scheduler; they need the logs under the same paths.",
)  # fmt: skip


@contextlib.contextmanager
def executor_of(text: str | None) -> Iterator["Executor | None"]:
    """Give the executor that `text` names, for as long as the block lasts; `None` for none.

    Raises:
        UsageError: nothing of that name is known, no scheduler answers, or it has no workers.
        ExtraMissing: Dask is not installed.
    """
    if text is None:
        yield None
        return
    kind, _, address = text.partition(":")
    if kind != "dask" or not address:
        raise UsageError(
            f"--executor: expected dask:ADDRESS, such as dask:tcp://scheduler:8786, found {text!a}"
        )
    try:
        from distributed import Client  # noqa: PLC0415 - an extra, and slow to import
    except ImportError:
        raise ExtraMissing("distributed", "dask") from None
    try:
        client = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"--executor: cannot reach a Dask scheduler at {address}: {error}"
        ) from error
    with client:
        if not client.nthreads():
            raise UsageError(
                f"--executor: the scheduler at {address} does not have any workers: start "
                f"one with dask worker {address}"
            )
        yield client.get_executor()
