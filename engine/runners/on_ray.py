"""A child on a node of a Ray cluster, in a process of its own there (CONTRACT.md §7.6).

What runs there is what `in_subprocess` runs here, inside the same bounds; this file is the way to
it and back. A task of Ray takes the envelope to a node, starts the process and streams back the
growth of the logs, in pieces so small that they pass from process to process and are never in Ray's
object store. Messages to a running child (the end, more tokens) go by a second task to the same
node, which puts them into a file that the first one reads.

Ray is imported where a child is run, and nowhere else: replays need none.
"""

import contextlib
import importlib
import json
import os
import pickle
import re
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import wait
from functools import cache
from pathlib import Path
from queue import Empty
from typing import Any, Final, Self

from refold.engine.children.anchor import anchored
from refold.engine.children.tokens import served
from refold.engine.encoding.canonical import encode, loads
from refold.engine.errors import ExtraMissing, LogExists, UsageError
from refold.engine.events.outcome import Outcome, failed
from refold.engine.log.blobs import BlobStore
from refold.engine.log.descriptors import sync, unlock, write_all
from refold.engine.log.lock import lock
from refold.engine.log.names import PACKED_SUFFIX, SUFFIX, blobs_of
from refold.engine.log.pack import opened, pack
from refold.engine.log.recovery import sync_path
from refold.engine.log.writer import SYNCED_EACH
from refold.engine.ports.ports import CancelSignal, ChildRequest, Suspended
from refold.engine.ports.programs import with_sources
from refold.engine.process.bounds import Bounds, Captured, Ended, How
from refold.engine.process.start import child_environment
from refold.engine.recording.workers import Mailbox, on_thread
from refold.engine.runners.child_run import ADVICE, outcome_of_error
from refold.engine.runners.in_subprocess import InSubprocess, run_stub

_BELOW: Final = "REFOLD_ON_RAY"
"""Set for a child on Ray and for all below it."""
_PIECE: Final = 64 * 1024
"""Bytes that Ray hands on inside its messages: from 100 KB on it keeps them in its object store."""
_LOOK_SECONDS: Final = 0.1
_CONNECT_SECONDS: Final = 10.0
_connecting: Final = threading.Lock()

Item = tuple[Any, ...]
"""("at", node, mailbox) · ("log", name, offset, bytes) · ("blob", bytes) · ("tokens", has) ·
("ended", bytes of a pickled `Ended`, in pieces)."""


class RayRunner(InSubprocess):
    """Runs each child on a node of a Ray cluster, in a process of its own.

    Args:
        environment: Names of variables of this process that children get beyond the allowlist.
        memory_bytes: Resident bytes that a child and its descendants may use together.
        wait_seconds: How long a child may wait for a node that has room.
        options: What Ray is asked for, for each child: `num_cpus` (1), `resources`, `runtime_env`,
            `scheduling_strategy`, …  A child below one on Ray asks for no processor: it has its
            parent's, which waits.
    """

    name = "ray"
    entry = "refold.engine.runners.child:run_on_ray"

    def __init__(
        self,
        *,
        environment: Iterable[str] = (),
        memory_bytes: int | None = None,
        wait_seconds: float = 3600.0,
        **options: Any,
    ) -> None:
        super().__init__(environment=environment, memory_bytes=memory_bytes)
        self._wait_seconds = wait_seconds
        self._options = options

    def run(self, request: ChildRequest, /) -> Outcome | Suspended:
        """Return how the child ended, or that it waits for a person; blocks."""
        if refusal := self._refusal(request):
            return refusal
        return self._run(request, None)

    def _refusal(self, request: ChildRequest) -> Outcome | None:
        """Return why the child cannot be started at all; else Ray is connected."""
        log = request.log
        if log is None:
            return outcome_of_error(UsageError("a child run needs a place for its log"))
        if _marker(log).exists():
            message = "its node was lost, and nothing is known of it after the end of its log"
            return anchored(failed("failed", "node_lost", message), request)
        if request.resume is None and os.path.lexists(log):
            return outcome_of_error(LogExists(str(log)))
        try:
            ray = importlib.import_module("ray")
        except ImportError:
            return outcome_of_error(ExtraMissing("ray", "ray"))
        with _connecting:
            if ray.is_initialized():
                return None
            at = os.environ.get("RAY_ADDRESS", "")
            try:
                _check_answers(at)
                ray.init(log_to_driver=False)  # it says itself what it connects to, or starts
            except Exception as error:  # noqa: BLE001 - whatever Ray has to say
                advice = (
                    "set RAY_ADDRESS to the address of a cluster, or unset it to use one on "
                    "this machine"
                )
                message = f"no Ray cluster at {at or 'this machine'}: {error}; {advice}"
                return failed("failed", "runner_unavailable", message)
        return None

    def _bounded(self, envelope: bytes, request: ChildRequest, _tokens_fd: int | None) -> Ended:
        assert request.log is not None
        told = loads(envelope)
        # Apart, and small: what is secret stays out of the object store, which may lie on disk.
        values = {name: os.environ[name] for name in self._names(request) if name in os.environ}
        secret = encode({"vault": told.pop("vault"), "environment": values})
        asked = {"num_cpus": 0 if _BELOW in os.environ else 1} | self._options
        never_twice = {"max_retries": 0, "num_returns": "streaming"}
        task = _remote(_on_node).options(**asked | never_twice)
        marker = _marker(request.log)
        marker.touch(exist_ok=False)
        if SYNCED_EACH[request.durability] > 0:
            sync_path(marker.parent)
        bounds, asks = self._bounds(request), request.tokens is not None
        items = task.remote(encode(told), secret, _held(request), bounds, asks)
        ended = _Call(items, request).ended(self._wait_seconds, asked)
        if ended.how != "lost":
            marker.unlink()
        return ended


def _check_answers(address: str) -> None:
    """Raise OSError if nothing listens: Ray itself stops waiting after minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "/" not in host:
        socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()


def _marker(log: Path) -> Path:
    """Return the marker file: this child may be running on a node, or was lost with it."""
    return log.with_suffix(".ray")


@cache
def _remote(function: Callable[..., Any]) -> Any:
    return importlib.import_module("ray").remote(function)


def _held(request: ChildRequest) -> bytes:
    """Return the existing part of the child's logs if it continues; else nothing."""
    if request.log is None or not request.log.exists():
        return b""
    with tempfile.TemporaryDirectory() as folder:
        return pack(request.log, Path(folder) / f"held{PACKED_SUFFIX}").read_bytes()


class _Call:
    """One task of Ray, from here."""

    def __init__(self, items: Any, request: ChildRequest) -> None:
        self._ray = importlib.import_module("ray")
        self._items = items
        self._request = request
        self._began = time.monotonic()
        self._at: tuple[str, str] | None = None
        self._reply = bytearray()

    def ended(self, wait_seconds: float, asked: dict[str, Any]) -> Ended:
        """Take in all that comes, and return how the process ended."""
        self._request.cancel.on_set(self._cancel)
        errors = self._ray.exceptions
        try:
            with _Copy(self._request) as copy:
                if not self._ray.wait([self._items], timeout=wait_seconds)[0]:
                    self._ray.cancel(self._items)
                    has = self._ray.available_resources()
                    why = f"no node had room for {asked} within {wait_seconds:g} s; free: {has}"
                    return self._without("spawn_failed", why)
                for item in self._items:
                    self._take(self._ray.get(item), copy)
        except errors.TaskCancelledError:
            return self._without("cancelled", "")
        except errors.RayTaskError as error:  # raised by our side there, or before it was imported
            return self._without("spawn_failed", f"on the node: {error.cause}; {ADVICE}")
        except errors.RayError as error:
            first = str(error).partition("\n")[0]
            return self._without("lost", f"{type(error).__name__}: {first}")
        except BaseException:
            self._ray.cancel(self._items)
            raise
        if not self._reply:
            return self._without("cancelled" if self._request.cancel.is_set() else "lost", "")
        found: Ended = pickle.loads(self._reply)  # noqa: S301 - of a node; Ray pickles all there is
        return found

    def _take(self, item: Item, copy: "_Copy") -> None:
        match item:
            case ("at", node, mailbox):
                self._at = node, mailbox
            case ("log", name, offset, piece):
                copy.write(name, offset, piece)
            case ("blob", content):
                copy.blobs.put(content)
            case ("tokens", has) if self._request.tokens is not None:
                self._tell(f"{self._request.tokens(has, None, self._request.cancel.is_set)}\n")
            case (_, piece):
                self._reply += piece

    def _cancel(self) -> None:
        if self._at is None:  # it waits for a node
            self._ray.cancel(self._items)
        else:  # its process may clean up: Ray would cut that off
            self._tell(_END)

    def _tell(self, words: str) -> None:
        assert self._at is not None
        node, mailbox = self._at
        strategies = importlib.import_module("ray.util.scheduling_strategies")
        there = strategies.NodeAffinitySchedulingStrategy(node, soft=False)
        task = _remote(_deliver).options(num_cpus=0, max_retries=0, scheduling_strategy=there)
        task.remote(mailbox, words)

    def _without(self, how: How, error: str) -> Ended:
        duration = time.monotonic() - self._began
        return Ended(
            how=how, error=error, stdout=Captured(), stderr=Captured(), duration_seconds=duration
        )


class _Copy:
    """The logs of a child and of those below it, here, as they grow on the node."""

    def __init__(self, request: ChildRequest) -> None:
        assert request.log is not None
        self._log = request.log
        self._is_synced = SYNCED_EACH[request.durability] > 0
        self._new = 0 if request.resume is not None else os.O_EXCL
        self._files: dict[str, int] = {}
        self.blobs = BlobStore(blobs_of(self._log), sync=self._is_synced)

    def write(self, name: str, offset: int, piece: bytes) -> None:
        """Let the file `name` end with `piece`, which begins at `offset`."""
        descriptor = self._files.get(name) or self._opened(name)
        os.ftruncate(descriptor, offset)
        write_all(descriptor, piece)

    def _opened(self, name: str) -> int:
        own = re.escape(self._log.name.removesuffix(SUFFIX))
        if not re.fullmatch(rf"{own}(\.[1-9][0-9]*)*\.jsonl(\.torn-[0-9]+-[0-9a-f]{{8}})?", name):
            raise UsageError(f"the node sent a file that is not the child's: {name!a:.80}")
        place = self._log.with_name(name)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | self._new
        descriptor = self._files[name] = os.open(place, flags, 0o600)
        lock(descriptor, place)
        return descriptor

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._files.values():
            try:
                if self._is_synced:
                    sync(descriptor)
            finally:
                unlock(descriptor)
                os.close(descriptor)
        if self._files and self._is_synced:
            sync_path(self._log.parent)


# --- on the node -------------------------------------------------------------------------------

_END: Final = "end\n"


def _deliver(mailbox: str, words: str) -> None:
    """Put words where a child's task on this node reads them; it may have ended."""
    with contextlib.suppress(FileNotFoundError), Path(mailbox).open("a", encoding="ascii") as file:
        file.write(words)


def _on_node(
    envelope: bytes,
    secret: bytes,
    held: bytes,
    bounds: Bounds,
    asks: bool,  # noqa: FBT001 - by Ray
) -> Iterator[Item]:
    """Run a child's process here; yield what becomes of it and its logs."""
    context = importlib.import_module("ray").get_runtime_context()
    told, hidden = loads(envelope), loads(secret)
    with contextlib.ExitStack() as stack:
        made = tempfile.TemporaryDirectory(prefix="refold-", ignore_cleanup_errors=True)
        folder = Path(stack.enter_context(made))
        log, mailbox = folder / Path(told["log"]).name, folder / "mail"
        if held:
            packed = folder / f"held{PACKED_SUFFIX}"
            packed.write_bytes(held)
            log = stack.enter_context(opened(packed))
        letters = stack.enter_context(mailbox.open("a+", encoding="ascii"))
        logs = _Growing(log)
        yield "at", context.get_node_id(), str(mailbox)
        above = {
            "RAY_ADDRESS": context.gcs_address,
            "RAY_JOB_CONFIG_JSON_ENV_VAR": json.dumps({"runtime_env": dict(context.runtime_env)}),
            _BELOW: "1",
        }
        here = _as_here(told) | {"log": str(log), "vault": hidden["vault"]}
        environment = child_environment() | hidden["environment"] | above
        process = _Process(here, environment, bounds, asks=asks)
        stack.callback(process.leave)
        while not process.ended.done():
            for letter in letters:
                process.obey(letter)
            yield from process.wait()
            yield from logs.grown()
        yield from logs.grown(to_the_end=True)
        ended = pickle.dumps(process.ended.result())
        yield from (("ended", piece) for _, piece in _pieces(ended))


class _Process:
    """A child's process on this node, bounded on a thread of its own."""

    def __init__(
        self,
        envelope: dict[str, Any],
        environment: dict[str, str],
        bounds: Bounds,
        *,
        asks: bool,
    ) -> None:
        self._cancel = CancelSignal()
        self._said: Mailbox[Item] = Mailbox()
        self._given: Mailbox[int] = Mailbox()

        def run() -> Ended:
            with served(self._ask if asks else None) as tokens_fd:
                request = encode(envelope | {"tokens_fd": tokens_fd}) + b"\n"
                return run_stub(request, environment, bounds, self._cancel, tokens_fd)

        self.ended = on_thread(run)
        self.ended.add_done_callback(lambda _: self._said.put(()))

    def leave(self) -> None:
        """Leave nothing of it: Ray may end this task at any moment."""
        self._cancel.set()
        wait([self.ended])

    def obey(self, letter: str) -> None:
        if letter == _END:
            self._cancel.set()
        else:
            self._given.put(int(letter))

    def wait(self) -> Iterator[Item]:
        """Wait a moment for output of the process, or its end."""
        with contextlib.suppress(Empty):
            if said := self._said.get(timeout=_LOOK_SECONDS):
                yield said

    def _ask(self, has: int, _wants: int | None, gives_up: Callable[[], bool]) -> int:
        self._said.put(("tokens", has))
        while not gives_up():
            with contextlib.suppress(Empty):
                return self._given.get(timeout=_LOOK_SECONDS)
        return 0


class _Growing:
    """The growth of a child's logs: whole lines, because a torn one may still be cut."""

    def __init__(self, log: Path) -> None:
        self._folder = log.parent
        self._blobs = blobs_of(log)
        self._sent = {path.name: _whole(path.read_bytes()) for path in self._logs()}

    def _logs(self) -> list[Path]:
        return sorted(self._folder.glob(f"*{SUFFIX}*"))

    def grown(self, *, to_the_end: bool = False) -> Iterator[Item]:
        """Yield it, so that no line comes before the blobs and child lines that it names."""
        sizes = {path: path.stat().st_size for path in reversed(self._logs())}  # parents first
        for blob in BlobStore(self._blobs).files():
            if blob.name not in self._sent:
                self._sent[blob.name] = 0
                yield "blob", blob.read_bytes()
        for path, size in sorted(sizes.items()):
            begin = self._sent.get(path.name, 0)
            with path.open("rb") as file:
                file.seek(begin)
                new = file.read(max(0, size - begin))
            if not to_the_end:
                new = new[: _whole(new)]
            self._sent[path.name] = begin + len(new)
            yield from (("log", path.name, begin + at, piece) for at, piece in _pieces(new))


def _whole(content: bytes) -> int:
    return content.rfind(b"\n") + 1


def _pieces(content: bytes) -> Iterator[tuple[int, bytes]]:
    return ((at, content[at : at + _PIECE]) for at in range(0, len(content), _PIECE))


def _as_here(told: dict[str, Any]) -> dict[str, Any]:
    """Return an envelope with the paths of this node.

    A path that does not exist is taken relative to the working directory of Ray's worker, which is
    a copy of the parent's if `runtime_env` sets that.
    """
    there, here = told["cwd"], os.getcwd()  # noqa: PTH109 - as the envelope has it

    def path_of(path: str) -> str:
        if os.path.exists(path) or not Path(path).is_relative_to(there):  # noqa: PTH110 - any text
            return path
        return os.path.normpath(os.path.join(here, os.path.relpath(path, there)))  # noqa: PTH118

    def source_of(reference: dict[str, Any]) -> str:
        source: str = reference["source"]
        return path_of(source) if source.endswith(".py") else source

    references = ("program", "tools", "models", "session", "resume")
    found = {name: with_sources(told[name], source_of) for name in references}
    paths = [each for each in map(path_of, told["sys_path"]) if os.path.exists(each)]  # noqa: PTH110
    return told | found | {"cwd": path_of(there), "sys_path": list(dict.fromkeys(paths + sys.path))}
