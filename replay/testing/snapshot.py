"""Recordings as snapshots of syrupy: `assert recording == delegation_snapshot`, `== log_snapshot`.

A snapshot is a text without volatile values, in one readable file per test under `__snapshots__`,
so that a review shows the changes. It is the delegation tree (`replay.run.tree_text`), or the
event log.  The fixtures are in `refold.pytest_plugin`; this module is
imported on first use, because it needs syrupy (6 or 7).  The rules are CONTRACT.md §13.
"""

import difflib
import os
import re
from collections.abc import Callable, Iterator
from hashlib import sha256
from itertools import islice
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final

from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from refold.engine.encoding.canonical import Json, encode, encode_key
from refold.engine.errors import UsageError
from refold.engine.events.events import in_order, scope_of
from refold.engine.log.names import PACKED_SUFFIX, SUFFIX
from refold.engine.log.reader import Entry, read_entries
from refold.replay.compare.measured import Declared
from refold.replay.difference.volatile import is_volatile, stable, without_places, without_rest
from refold.replay.run.opened_run import OpenedRun
from refold.replay.run.run_node import RunNode
from refold.replay.run.tree_text import printable, render_text, scrubbed
from refold.replay.testing.structure import is_sampled, is_within, sampled_text, structure_text

_TOKENS: Final = re.compile(r"^ *tokens: \d+ in, \d+ out(, with all below)?\n", re.MULTILINE)
_COUNTED: Final = (
    "Only the token counts differ. They are in the snapshot, but are omitted "
    "by default, because providers change how they count. To include them, "
    "use @pytest.mark.refold(tokens=True)"
)
_NAME_MAX: Final = 180
"""Bytes of a file's name, of 255: suffixes follow, and syrupy's locks have longer names."""
_UNSAFE: Final = re.compile(r"[^\w.,+=@ -]")
_LINES_MAX: Final = 100
"""Lines of a difference that are shown; `-vv` has all of them."""


class _OneFile(SingleFileSnapshotExtension):
    """A file for each test, with a unique name.

    syrupy's own names omit characters that a file name may not have, and end at 255 characters. So
    two cases could share one file, and syrupy did not recognise it as theirs: `--snapshot-update`
    removed it if they failed.
    """

    _write_mode = WriteMode.TEXT

    @classmethod
    def get_snapshot_name(cls, *, test_location: Any, index: int | str = 0) -> str:
        """Return the name of the file, without suffix; with a hash where syrupy's is cut."""
        test = str(test_location.snapshot_name)
        name = super().get_snapshot_name(test_location=test_location)
        if name != test or len(test.encode()) > _NAME_MAX:
            kept = name.encode()[:_NAME_MAX].decode(errors="ignore")
            name = f"{kept}~{sha256(test.encode(errors='surrogatepass')).hexdigest()[:8]}"
        return (
            f"{name}[{_UNSAFE.sub('_', index)}]"
            if isinstance(index, str)
            else name + (f".{index}" if index else "")
        )

    @classmethod
    def matches_test_location(cls, *, test_location: Any, snapshot_location: str) -> bool:
        """Return whether a file is one of the test's."""
        name = cls.get_snapshot_name(test_location=test_location)
        stem = Path(snapshot_location).name.removesuffix(f".{cls.file_extension}")
        is_its = re.fullmatch(rf"{re.escape(name)}(\.\d+|\[.*\])?", stem)
        if test_location.basename != Path(snapshot_location).parent.name or not is_its:
            return super().matches_test_location(
                test_location=test_location, snapshot_location=snapshot_location
            )
        return bool(test_location.matches_snapshot_site(snapshot_location))


class DelegationSnapshotExtension(_OneFile):
    """Stores the delegation tree of a recording, of a log's path, or of a tree that was read."""

    file_extension = "delegation.txt"

    def serialize(self, data: Any, **_options: Any) -> str:
        """Return the text of `data`; syrupy's filters do not apply to it.

        Raises:
            UsageError: it is not a recording, a log's path or a tree.
            LogError: the log cannot be read.
        """
        return delegation_text(data)


def delegation_extension(*, tokens: bool, files: bool) -> type[DelegationSnapshotExtension]:
    """Return an extension that also has the tokens, or the files, of each run."""

    class WordOptions(DelegationSnapshotExtension):
        __qualname__ = "DelegationSnapshotExtension"  # with xdist, syrupy imports it by this name

        def serialize(self, data: Any, **_options: Any) -> str:
            return delegation_text(data, tokens=tokens, files=files)

    return WordOptions


class DelegationAssertion(SnapshotAssertion):
    """The fixture `delegation_snapshot`: `== delegation_snapshot(words=False)` has no words."""

    samples: dict[str, list[str]] | None = None
    """Where the structures of a test's recordings go, by snapshot, if it is recorded often."""
    is_last = True
    """Whether this recording is compared with the snapshot: of those before, it takes note."""
    _has_words = True

    def __call__(self, *, words: bool = True, **options: Any) -> SnapshotAssertion:
        """Return the assertion with options for one comparison, as syrupy takes them.

        Without `words`, a snapshot has neither tasks nor answers: a new recording changes it only
        if the delegation is another one.
        """
        self._has_words = words
        if not words:
            options["extension_class"] = self._bare()
        return super().__call__(**options)

    def _assert(self, data: Any) -> bool:
        is_taken, self._has_words = not self._has_words and not self.is_last, True
        if not is_taken:
            return bool(super()._assert(data))
        assert self.samples is not None
        self.samples.setdefault(str(self.index), []).append(delegation_text(data, words=False))
        self._executions += 1
        self._post_assert()
        return True

    def _bare(self) -> type[DelegationSnapshotExtension]:
        taken = (self.samples or {}).get

        class Bare(DelegationSnapshotExtension):
            __qualname__ = "DelegationSnapshotExtension"  # as above

            def serialize(_self, data: Any, **_options: Any) -> str:  # noqa: N805 - beside another
                text = delegation_text(data, words=False)
                before = taken(str(self.index), [])
                return sampled_text([*before, text]) if before else text

            def matches(_self, *, serialized_data: Any, snapshot_data: Any) -> bool:  # noqa: N805
                return is_within(snapshot_data, serialized_data)

        return Bare


class LogSnapshotExtension(_OneFile):
    """Stores the event logs of a recording, of a log's path, or of a tree that was read."""

    file_extension = "log.jsonl"

    def serialize(self, data: Any, **_options: Any) -> str:
        """Return the text of `data`; syrupy's filters do not apply to it.

        Raises:
            UsageError: it is not a recording, a log's path or a tree.
            LogError: a log cannot be read.
        """
        return log_text(data.log if isinstance(data, RunNode) else _log_of(data))


def delegation_text(
    data: Any, *, tokens: bool = False, files: bool = False, words: bool = True
) -> str:
    """Return the delegation tree of a recording, a log's path or a tree, as snapshot text.

    With `tokens`, it has each run's number of tokens; with `files`, the files that a watched
    command's conversations changed; without `words`, only who delegates to whom.

    Raises:
        UsageError: `data` is not a recording, a log's path or a tree.
        LogMissing: the log at the path does not exist.
        LogDamaged: its first entry does not verify.
    """
    if not isinstance(data, RunNode) and callable(tree := getattr(data, "tree", None)):
        data = tree()  # of a test that goes on: it knows more of it than its log
    if isinstance(data, RunNode) and not data.log:  # a conversation
        return render_text(data, files=files)
    run = OpenedRun(data.log if isinstance(data, RunNode) else _log_of(data))
    node = data if isinstance(data, RunNode) else run.unsettled
    if not words:
        return structure_text(node, run)
    declared = Declared(Path(node.log))
    text = render_text(node, files=files)
    text = run.steady.tree(text) if run.steady is not None else text
    return str(declared.value(text if tokens else _TOKENS.sub("", text)))


_EXPECTED: Final = (
    "expected a recording, the path of a log or a delegation tree, found {}; for other values, "
    "such as an output, use syrupy's own fixture `snapshot`"
)


def _log_of(data: Any) -> str | os.PathLike[str]:
    if isinstance(data, str) and not (data.endswith(SUFFIX) or PACKED_SUFFIX in data):
        raise UsageError(_EXPECTED.format(f"the text {data[:60]!r}"))
    log = data if isinstance(data, str | os.PathLike) else getattr(data, "log", None)
    if not isinstance(log, str | os.PathLike):
        raise UsageError(_EXPECTED.format(type(data).__name__))
    return log


def what_changed(stored: str | None, found: str, command: str) -> str:
    """Return the unified diff of two snapshots, or a note if none is stored yet.

    `stored` is the snapshot, a text that differs from `found`, or `None` without one; `command`
    stores a new one, and is empty if it is given elsewhere. Plain text, at most 100 lines of a
    diff.
    """
    if stored and is_sampled(stored) and not is_sampled(found):
        found = sampled_text([found])
    if stored is None:
        told = "there is no snapshot yet"
        return f"{told}: create one, and review it:\n  {command}" if command else told
    lines = difflib.unified_diff(
        stored.splitlines(), found.splitlines(), "the snapshot", "this run", n=2, lineterm=""
    )
    shown = list(islice(lines, _LINES_MAX))
    left = sum(1 for _ in lines)
    shown += [f"… {left} more lines: pytest -vv"] if left else []
    shown += [_COUNTED] if found == _TOKENS.sub("", stored) else []
    shown += [f"If this is intended, update the snapshot:\n  {command}"] if command else []
    return "\n".join(shown)


# --- the log as text ---------------------------------------------------------------------------


def log_text(log: str | PathLike[str]) -> str:
    """Return the run of `log`, and all below it, as JSON lines without volatile values.

    Each line is {run, call, kind, data}. `run` is the path from the root to a child, where `dig
    (0#1)` is the child that the call `0#1` started; the root has none. `call` is omitted if the
    entry has none. Ends with a newline.

    Raises:
        LogMissing: the log does not exist.
        LogDamaged: an entry does not verify.
    """
    opened, declared = OpenedRun(fspath(log)), Declared(Path(log))
    steady = opened.steady.value if opened.steady is not None else lambda data: data
    lines = _lines(opened.unsettled, "", declared, {}, steady)
    return "".join(f"{printable(line)}\n" for line in lines)


def _lines(
    node: RunNode,
    run: str,
    declared: Declared,
    above: dict[str, Any],
    steady: Callable[[Json], Json],
) -> Iterator[str]:
    if node.log_state == "read":
        entries = [entry for entry in read_entries(node.log) if not is_volatile(entry.kind)]
        for entry in sorted(entries, key=_sort_key):
            line: dict[str, Json] = {"run": run} if run else {}
            limits = above if entry.kind == "run.started" else node.limits
            line |= {"call": entry.call} if entry.call else {}
            line |= {
                "kind": entry.kind,
                "data": steady(_shown(entry, Path(node.log), declared, limits)),
            }
            if left_out := declared.places(Path(node.log), entry.call, entry.kind):
                line["not_compared"] = list(left_out)
            yield encode_key(line, is_sorted=False).decode()
    elif node.log_state != "none":
        yield encode({"run": run, "log": node.log_state}).decode()
    children = sorted(node.children, key=lambda child: in_order(child.call))
    for child in children:
        name = f"{child.name} ({child.call})"
        yield from _lines(child, f"{run} > {name}" if run else name, declared, node.limits, steady)


def _sort_key(entry: Entry) -> tuple[int, Any]:
    """Return what sorts entries: the first, then scope by scope, then the last."""
    if entry.kind == "run.finished":
        return 2, ()
    if not entry.call:
        return (0, ()) if entry.kind == "run.started" else (1, ())
    return 1, in_order(scope_of(entry.call))


def _shown(entry: Entry, log: Path, declared: Declared, limits: dict[str, Any]) -> Json:
    data = stable(entry.kind, declared.without(log, entry.kind, entry.call, entry.data))
    if entry.kind in ("run.started", "child.started"):
        data = without_rest(data, limits)
    match entry.kind:
        case "run.started":
            started: dict[str, Json] = {name: data[name] for name in ("program", "input")}
            tools = [offer["name"] for offer in data["tools"]]
            return started | {"limits": data["limits"], "tools": tools, "models": data["models"]}
        case "model.asked":
            asked: dict[str, Json] = {"model": data["model"]}
            return asked | {"added": data["added"], "parameters": data["parameters"]}
        case "run.finished":
            return _without_digests(without_places(data, scrubbed))
        case "tool.returned" | "model.answered":
            return without_places(data, scrubbed)
        case "child.finished":
            return data | {"outcome": without_places(data["outcome"], scrubbed)}
        case _:
            return data


def _without_digests(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if not name.endswith("_digest")}
