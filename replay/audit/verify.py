"""Verifies a log and the logs of all runs below it; executes nothing (CONTRACT.md §5).

A log has three separate properties: *intact* (hash chain, schema, causal rules and links to parent
and children hold), *complete* (sealed by `run.finished`, or its head is anchored elsewhere) and
*authentic* (signed by a key that is trusted).  `engine.log` checks bytes and chains;
`replay.audit.causal` checks consistency. Files are found by the naming rule, never by a log's
content.
"""

import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from refold.engine import errors
from refold.engine.encoding.canonical import Json, loads
from refold.engine.encoding.document import Document
from refold.engine.errors import ProgramMissing
from refold.engine.events.codec import structure
from refold.engine.events.events import FOLDER, SALVAGED, Extension, Recorded, RunStarted, key_in
from refold.engine.events.outcome import ChildRef
from refold.engine.log import names
from refold.engine.log.beside import broken_packs
from refold.engine.log.blobs import DOLLAR, BlobBroken, BlobStore, is_marked, resolved
from refold.engine.log.damage import TORN_TAIL, Damage
from refold.engine.log.descriptors import holding
from refold.engine.log.line import Parts, parts_of, stored_hash
from refold.engine.log.names import signature_of
from refold.engine.log.reader import Entry, entry_of, open_log, read_lines, reading
from refold.engine.values import Value
from refold.engine.workspace.paths import as_text
from refold.replay.audit.causal import Causality, Problem, Start

if TYPE_CHECKING:
    from refold.engine.signing.signature import LogSignature
    from refold.engine.workspace.tree import TreeEntry

# --- the signature -----------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class SignatureReport(Document):
    """The state of a log's signature."""

    authentic: bool | None
    """`None`: unsigned, not signed to its end, or signed by an unknown key."""
    what: str
    """Why, in a few words."""
    entries: int = 0
    """How many entries are signed, from the first on."""
    key: str = ""
    """The key's fingerprint, as `ssh-keygen -l` prints it."""
    signer: str = ""
    """The names of the key in the file of allowed signers."""


UNSIGNED: SignatureReport = SignatureReport(authentic=None, what="not signed")


class SignatureCheck:
    """Judges the signature of one log, as its entries are read."""

    def __init__(self, path: Path, trust: Path | None) -> None:
        """Read the signature; `trust` is the file of allowed signers.

        Raises:
            ProgramMissing: `trust` is given, and `ssh-keygen` is missing or too old.
            KeyRefused: the file of allowed signers cannot be read.
        """
        self._trust = trust
        if trust is not None:
            from refold.engine.signing.signature import lines_of  # noqa: PLC0415 - few ask

            list(lines_of(trust))  # a wrong file is named though nothing is signed
        self._found: LogSignature | None = None
        self._verdict: SignatureReport | None = None
        self._last: Entry | None = None
        self.at = 0
        """The number of the last signed entry, from 1; 0 where nothing is signed."""
        if os.path.lexists(signature_of(path)):
            self._read(path, is_needed=trust is not None)

    def _read(self, path: Path, *, is_needed: bool) -> None:
        from refold.engine.signing.signature import read_log_signature  # noqa: PLC0415 - few logs have one

        try:
            self._found = read_log_signature(path)
            self.at = self._found.statement.entries if self._found else 0
        except ValueError as error:
            self._verdict = SignatureReport(authentic=False, what=str(error))
        except ProgramMissing as error:
            if is_needed:
                raise
            what = f"signed, but not checked: {error}"
            self._verdict = SignatureReport(authentic=None, what=what)

    def take(self, entry: Entry) -> None:
        """Take the last signed entry."""
        self._last = entry

    def report(self, run: str, entries: int) -> SignatureReport:
        """Return the verdict for a log of this run with so many sound entries."""
        if self._found is None:
            return self._verdict or UNSIGNED
        statement, wrong = self._found.statement, ""
        if statement.run != run:
            wrong = f"the signature belongs to a different run, {statement.run!a:.40}"
        elif self._last is None:
            wrong = (
                f"{statement.entries} entries were signed, but only {entries} of them are "
                "present and intact"
            )
        elif self._last.hash != statement.head:
            wrong = f"entry {self._last.seq} differs from the signed one"
        found = SignatureReport(
            authentic=False if wrong else None,
            what=wrong,
            entries=statement.entries,
            key=self._found.fingerprint,
        )
        return found if wrong else self._judged(found, entries)

    def _judged(self, found: SignatureReport, entries: int) -> SignatureReport:
        """Return the verdict for a log of which the signature is true."""
        is_part = found.entries < entries
        part = f" up to entry {found.entries - 1} of {entries - 1}" if is_part else ""
        if self._trust is None or self._found is None:
            what = f"signed{part} by {found.key}; --trust FILE names the owner of the key"
            return attrs.evolve(found, what=what)
        from refold.engine.signing.signature import signer_of  # noqa: PLC0415 - few ask

        time = _time(self._last)
        message = self._found.statement.encoded()
        signer = signer_of(message, self._found.armor, self._trust, time)
        if signer is None:
            return attrs.evolve(found, what=f"unknown signer {found.key}")
        found = attrs.evolve(found, signer=signer.names)
        ended = f"by its log, the run ended {_shown(time)}"
        if signer.refused:
            what = f"the key of {signer.names} was not valid: {signer.refused}; {ended}"
            return attrs.evolve(found, authentic=False, what=what)
        dated = f", valid then; {ended}" if signer.is_dated else ""
        what = f"signed{part} by {signer.names} ({found.key}{dated})"
        return attrs.evolve(found, authentic=None if part else True, what=what)


def _shown(time: datetime | None) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC" if time else "at an unknown time"


def _time(entry: Entry | None) -> datetime | None:
    """Return when an entry was written, according to the log; `None` if not recorded."""
    wall_us: Any = entry.meta.get("wall_us") if entry is not None else None
    try:
        return datetime.fromtimestamp(wall_us / 1_000_000, UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return None


# --- the verification --------------------------------------------------------------------------


DAMAGE_MAX: Final = 100
"""The maximum number of problems kept for one log."""

OTHER_HEAD: Final = "another head"
"""The problem of a log whose head differs from the one kept elsewhere."""
CONTENT_MISSING: Final = "content missing"
_CUT_SHORT: Final = "log cut short"
START_MISSING: Final = "start missing"
"""The problem of a log whose parent's log lost its last lines."""
_AT_END: Final = ("", TORN_TAIL)
"""What ends the reading where the entries end."""
LEAVES_INTACT: Final = frozenset({TORN_TAIL, OTHER_HEAD, _CUT_SHORT, START_MISSING})
"""The problems of a log whose entries are all valid."""


@attrs.frozen
class LogReport(Document):
    """The verification of one log."""

    path: str
    intact: bool
    complete: bool
    authentic: bool | None = attrs.field(default=None, kw_only=True)
    """`None`: no signature of a trusted key covers it."""
    entries: int
    """That verify, from the first on."""
    head: str
    """Hash of the last of them; empty for none."""
    damage: tuple[Damage, ...] = ()
    guarantee: str = ""
    """`matched` for a watched command's log; empty for a program's, or if not recorded."""
    tree_digest: str = ""
    """The digest of the run and its joined children (CONTRACT.md §6.2), computed from the logs;
    empty if one of them is not intact and complete."""
    is_joined: bool = True
    """Whether its parent joined the run and had not cancelled it; else how far it came is timing,
    and no other log's tree digest counts it."""
    signature: SignatureReport | None = None
    """Of the log that was asked for; it covers those below whose heads their parents hold."""
    contents_missing: int = 0
    """Contents of files that it names and that are rightly not here: its `.files` was left out, or
    they were lost before it was salvaged."""
    contents_unchecked: int = 0
    """Contents of files that nothing could look at, because git is not installed here; of their
    packs, only the digest at the end was."""

    @property
    def broken(self) -> Damage | None:
        """The first damage by which it is not intact; `None`: it is."""
        damage = (each for each in self.damage if each.what not in LEAVES_INTACT)
        return None if self.intact else next(damage)


@attrs.frozen
class Verification(Document):
    """The verification of a log and of all logs below it, parents first."""

    computed = ("intact", "complete", "authentic")

    logs: tuple[LogReport, ...]

    @property
    def root(self) -> LogReport:
        """The report of the log that was asked for."""
        return self.logs[0]

    @property
    def intact(self) -> bool:
        """Whether all logs are."""
        return all(log.intact for log in self.logs)

    @property
    def complete(self) -> bool:
        """Whether all logs are."""
        return all(log.complete for log in self.logs)

    @property
    def authentic(self) -> bool | None:
        """Whether all logs are; `None`: of one at least it is not known."""
        answers = [log.authentic for log in self.logs]
        return False if False in answers else None if None in answers else True

    @property
    def signature(self) -> SignatureReport:
        """The signature of the log that was asked for."""
        return self.root.signature or UNSIGNED

    @property
    def entries(self) -> int:
        """Entries of the log that was asked for."""
        return self.root.entries

    @property
    def head(self) -> str:
        """Head of the log that was asked for."""
        return self.root.head

    @property
    def tree_digest(self) -> str:
        """The digest of the requested run and its joined children."""
        return self.root.tree_digest

    @property
    def damage(self) -> tuple[Damage, ...]:
        """The problems of all logs, parents first."""
        return tuple(damage for log in self.logs for damage in log.damage)


@holding()
def verify(
    path: str | os.PathLike[str],
    *,
    expect_head: str | None = None,
    trust: str | os.PathLike[str] | None = None,
    beside: names.Folder | None = None,
) -> Verification:
    """Verify the log at `path` and all logs below it.

    `expect_head` is a head kept elsewhere: with it, an unsealed log can be complete, and a
    different head is damage.  `trust` is a file of allowed signers (ssh-keygen(1)): without it,
    nothing is authentic.  `beside` is the listing of the log's folder, if the caller already has
    it.  Damage is reported, never raised.

    Raises:
        ProgramMissing: `trust` is given, the log is signed, and `ssh-keygen` is missing or too old.
        LogMissing: the log at `path` does not exist.
        LogNameRefused: `path` does not end in `.jsonl`; a packed log is opened first.
        LogUnsupported: the log at `path` was written by a newer version.
        KeyRefused: the file of allowed signers cannot be read.
    """
    reports: list[LogReport] = []
    checks: dict[str, _Check] = {}
    path = names.log_path("verify", path)
    signature = SignatureCheck(path, None if trust is None else Path(trust))
    waiting = deque([(path, _Bond(head=expect_head, signature=signature))])
    folder = beside or _listed(path)
    while waiting:
        log, bond = waiting.popleft()
        check = _Check(log, bond)
        try:
            check.run()
        except (errors.LogMissing, errors.LogUnsupported) as error:
            if not reports:
                raise
            reports.append(_unread(log, error))
            continue
        reports.append(check.report())
        checks[str(log)] = check
        for log, own in check.below(folder):
            if own is None:
                reports.append(_without_entries(log, "child log missing", "no file"))
            else:
                waiting.append((log, own))
    logs = _with_trees(reports, checks)
    signed = signature.report(checks[str(path)].run_id, logs[0].entries)
    root, *below = _with_answers(logs, checks, authentic=signed.authentic)
    return Verification((attrs.evolve(root, signature=signed), *below))


def _with_answers(
    logs: tuple[LogReport, ...], checks: Mapping[str, "_Check"], *, authentic: bool | None
) -> Sequence[LogReport]:
    """Return the reports with the consequences of the first log's signature for each."""
    if authentic is None:
        return logs
    answers: dict[str, bool | None] = {}
    done: list[LogReport] = []
    for report in logs:
        answer: bool | None = authentic and report.intact
        if answer and done:
            check, above = checks.get(report.path), names.parent_of(Path(report.path))
            is_covered = check is not None and check.is_held and above is not None
            answer = answers[str(above[0])] if is_covered and above else None
        answers[report.path] = answer
        done.append(attrs.evolve(report, authentic=answer))
    return done


def _with_trees(
    reports: Sequence[LogReport], checks: Mapping[str, "_Check"]
) -> tuple[LogReport, ...]:
    """Return reports, parents first, with the tree digests that follow from all logs."""
    known: dict[str, str] = {}
    done: list[LogReport] = []
    for report in reversed(reports):
        if report.intact and report.complete:
            report = checks[report.path].with_tree(report, known)  # noqa: PLW2901 - the same, whole
        known[report.path] = report.tree_digest
        done.append(report)
    return tuple(reversed(done))


def _listed(path: Path) -> names.Folder:
    """List the logs beside `path`, before any is read: what starts later is named, not unnamed."""
    open_log(path).close()
    with reading(path):
        return names.listed(path.parent)


@attrs.frozen
class _Bond(Value):
    """Expectations about a log from its parent, or from the keeper of its head."""

    head: str | None = None
    start: Start | None = None
    parent: RunStarted | None = None
    is_unnamed: bool = False
    signature: SignatureCheck | None = None
    """Of the log that was asked for."""
    is_given_up: bool = False
    """Whether the run above was joined without an end: nobody waits for one of this run."""
    is_parent_open: bool = False
    """Whether the parent's log lacks an end and may omit runs that the parent started."""

    @property
    def anchor(self) -> ChildRef | None:
        """The head as the parent joined it."""
        return self.start.anchor if self.start is not None else None


_DEEP: Final = 1000
"""Brackets that may be nested, in a line as well."""
_RARE: Final = (Extension, RunStarted)


def _data_in(parts: Parts) -> Json:
    """Return the data in the parts of a line; `None` if it is not an object.

    It is parsed alone: the members around it have been checked already.
    """
    raw = parts[3]
    try:
        data: Json = loads(raw)
        if len(raw) > _DEEP and raw.count(b"{") + raw.count(b"[") > _DEEP:
            loads(b"[%b]" % raw)  # may be too deep for the line around it
    except ValueError:
        return None
    return data if data.__class__ is dict else None


class _Check:
    """Verifies one log."""

    def __init__(self, path: Path, bond: _Bond) -> None:
        self._path = path
        self._bond = bond
        self._blobs = BlobStore(names.blobs_of(path))
        self._causality = Causality()
        self._entries = 0
        self._line = b""
        """The last entry's line, and its offset."""
        self._last = 0
        self._is_anchored = False
        self._broken = ""
        """What ended the reading before the end of the file; empty for nothing."""
        self._damage: list[Damage] = []
        self._contents: dict[str, tuple[int, int, TreeEntry]] = {}
        """By digest: seq and offset of the first entry that names a file's content, and it."""
        self._may_miss = not os.path.lexists(names.files_of(path))
        """Whether contents may be missing: all of them were left out, or some lost in a salvage."""
        self._contents_missing = 0
        self._contents_unchecked = 0
        self._signed_at = bond.signature.at if bond.signature else 0

    def run(self) -> None:
        """Read the log to its end, or to where its chain breaks."""
        try:
            for seq, offset, lines in read_lines(self._path):
                self._take_lines(seq, offset, lines)
        except errors.LogDamaged as error:
            self._damage.append(Damage(*error.args))
            self._broken = error.what
        self._check_contents()
        self._add(self._entries + 1, self._last + len(self._line), *self._at_end())
        if self._bond.is_unnamed:
            self._add(1, 0, self._unnamed())

    def _take_lines(self, seq: int, offset: int, lines: Sequence[bytes]) -> None:
        """Take some lines, whose bytes have been verified.

        Raises:
            LogDamaged: one of them is not an entry.
        """
        anchor, take = self._bond.anchor, self._causality.take
        ends = {self._signed_at, anchor.events if anchor is not None else 0}
        known: Sequence[Parts | None] = parts_of(lines) or [None for _ in lines]
        for own, line in zip(known, lines, strict=True):
            parts, event = own, None
            if parts is not None and len(parts[3]) <= _DEEP and DOLLAR not in line:
                try:  # noqa: SIM105 - `suppress` costs as much as all that it surrounds
                    event = structure(parts[0], loads(parts[3]))
                except (ValueError, errors.EventMalformed, errors.LogUnsupported):
                    pass  # `_parted` says what is wrong
            if event is None:
                parts, event = self._parted(seq, offset, line)
            if parts is not None and event is not None:
                if problems := take(seq, parts, event, line):
                    self._add(seq + 1, offset, *problems)
                if event.__class__ in _RARE:
                    self._take_rare(seq, offset, event)
            self._line, self._last = line, offset
            seq += 1
            offset += len(line)
            self._entries = seq
            if seq in ends:
                self._take_end(seq)

    def _take_end(self, entries: int) -> None:
        """Look at the head after as many entries as the parent's anchor, or a signature, has."""
        anchor, signature = self._bond.anchor, self._bond.signature
        if anchor is not None and entries == anchor.events:
            self._is_anchored = self._head == anchor.head
        if signature is not None and entries == self._signed_at:
            signature.take(entry_of(self._line, str(self._path), entries - 1, self._last))

    @property
    def _head(self) -> str:
        return (stored_hash(self._line) or b"").decode()

    def _parted(self, seq: int, offset: int, line: bytes) -> tuple[Parts | None, Recorded | None]:
        """Return the parts of any line and its event; note what is wrong with it.

        Raises:
            LogDamaged: it is not an entry.
        """
        alone = parts_of([line])
        if alone is None or (data := _data_in(alone[0])) is None:
            entry_of(line, str(self._path), seq, offset)
            wrong = "no entry", "the members of an entry, in their order", "others"
            self._add(seq + 1, offset, wrong)
            return None, None
        parts, kind = alone[0], alone[0][0]
        try:
            if is_marked(line):
                data = self._whole(seq, offset, data)
            return parts, structure(kind, data)
        except BlobBroken as broken:
            self._add(seq + 1, offset, (broken.what, broken.expected, broken.found))
        except errors.EventMalformed as error:
            where = f"{kind} at {error.pointer or '(the data itself)'}: {error.expected}"
            self._add(seq + 1, offset, ("schema", where, error.found))
        except errors.LogUnsupported as error:
            self._add(seq + 1, offset, ("unknown kind", error.expected, error.found))
            return parts, Extension(kind, data)  # so that it counts, and nothing else is blamed
        return None, None

    def _take_rare(self, seq: int, offset: int, event: Recorded) -> None:
        if isinstance(event, RunStarted) and seq == 0:
            self._add(1, 0, *self._foreign(event))
        if not isinstance(event, Extension):
            return
        self._may_miss |= event.kind == SALVAGED
        is_whole = not self._damage or self._damage[-1].line <= seq
        if event.kind != FOLDER or not is_whole:
            return
        from refold.engine.workspace.entries import contents_named, read_entry  # noqa: PLC0415 - few logs have folders

        try:
            for entry in contents_named(read_entry(event.data)):
                self._contents.setdefault(entry.digest, (seq, offset, entry))
        except errors.FolderRefused as error:
            wrong = "folder", f"{error.path}: {error.expected}", error.found
            self._add(seq + 1, offset, wrong)

    def _check_contents(self) -> None:
        """Look at the contents of files that the log names (§16.16)."""
        broken = [*broken_packs(self._path)] if self._bond.parent is None else []
        for pack in broken:
            expected = f"{pack.name}: a pack of git that ends in its digest"
            self._add(1, 0, ("content damaged", expected, "another end"))
        if not self._contents:
            return
        from refold.engine.workspace.git import is_installed  # noqa: PLC0415 - few logs have folders
        from refold.engine.workspace.packing import missing_contents  # noqa: PLC0415 - the same

        if not is_installed():
            self._contents_unchecked = len(self._contents)
            return
        named = [entry for _, _, entry in self._contents.values()]
        try:
            missing = missing_contents(self._path, named, broken)
        except (errors.ContentMissing, errors.GitFailed) as error:
            self._add(1, 0, ("content unreadable", "packs that git takes in", error.why))
            return
        for entry, lost in missing:
            seq, offset, _ = self._contents[entry.digest]
            if self._may_miss and lost.what == CONTENT_MISSING:
                self._contents_missing += 1
            else:
                expected = f"{as_text(entry.path)}: {entry.size} bytes"
                self._add(seq + 1, offset, (lost.what, expected, lost.why))

    def _whole(self, seq: int, offset: int, data: Json) -> Json:
        """Return data with its large texts; for one that is missing, empty text.

        Raises:
            BlobBroken: a marker is malformed.
        """

        def text(name: str, size: int) -> str:
            try:
                return self._blobs.get(name, size)
            except BlobBroken as broken:
                self._add(seq + 1, offset, (broken.what, broken.expected, broken.found))
                return ""  # so that the rest of the entry is still looked at

        return resolved(data, text)

    def _add(self, line: int, byte: int, *problems: Problem) -> None:
        for what, expected, found in problems[: DAMAGE_MAX - len(self._damage)]:
            self._damage.append(Damage(str(self._path), line, byte, expected, found, what))

    # --- bonds to the parent -------------------------------------------------------------

    def _foreign(self, started: RunStarted) -> list[Problem]:
        """Return the mismatches of the first line with the child that its parent started (§5.4)."""
        start, parent = self._bond.start, self._bond.parent
        if start is None or parent is None:
            return []
        asked = {"run": parent.run_id, "call": start.call, "hash": start.hash}
        pairs = [
            ("parent", asked, started.parent),
            ("run id", start.run_id, started.run_id),
            ("root id", parent.root_id, started.root_id),
            ("depth", parent.depth + 1, started.depth),
            ("path", key_in(parent.path, start.call), started.path),
        ]
        return [
            (f"another child: {what}", f"{expected!a:.200}", f"{found!a:.200}")
            for what, expected, found in pairs
            if expected != found
        ]

    def _at_end(self) -> list[Problem]:
        """Return where the end is not the one that others have written down."""
        problems = []
        anchor, head = self._bond.anchor, self._bond.head
        if head is not None and head != self._head:
            problems.append((OTHER_HEAD, head, self._head or "none"))
        if anchor is not None and self._broken in _AT_END and not self._is_joined(anchor):
            what = _CUT_SHORT if self._entries < anchor.events else "another end"
            expected = f"{anchor.events} entries and the head {anchor.head[:12]}"
            problems.append((what, expected, f"{self._entries} and {self._head[:12] or 'none'}"))
        return problems

    def _unnamed(self) -> Problem:
        """Return why no start names this log: its parent's has no end, or it is nobody's child."""
        own, parent = self._causality.started, self._bond.parent
        above = own.parent if own else None
        if self._bond.is_parent_open and parent and above and above.get("run") == parent.run_id:
            expected = f"a child.started of the run {above.get('run')!a:.80} that names this log"
            return START_MISSING, expected, "none: that run's log has no end, or was cut off"
        return "unnamed child", "no log here: no child.started names it", "one"

    @property
    def run_id(self) -> str:
        """The run's id from its first line; empty without one."""
        started = self._causality.started
        return started.run_id if started is not None else ""

    @property
    def is_held(self) -> bool:
        """Whether the parent's log holds the head of this one."""
        return self._bond.anchor is not None and self._is_joined(self._bond.anchor)

    def _is_joined(self, anchor: ChildRef) -> bool:
        return self._entries == anchor.events and (self._is_anchored or not anchor.events)

    # --- children ------------------------------------------------------------------------

    def below(self, folder: names.Folder) -> Iterator[tuple[Path, _Bond | None]]:
        """Yield the logs of children with the expectations of this one; none for missing ones.

        Logs at a child's path that no start names come last.
        """
        found, known = folder.children(self._path), self._causality
        for number in known.starts.keys() - found.keys():  # those that were just made
            place = names.child_path(self._path, number)
            if os.path.lexists(place) and not place.is_symlink():
                found[number] = place
        for number, start in known.starts.items():
            if number in found:
                bond = _Bond(start=start, parent=known.started, is_given_up=self._is_given_up)
                yield found[number], bond
            elif self._needs_log(start):
                yield names.child_path(self._path, number), None
        nobodys = _Bond(
            parent=known.started,
            is_unnamed=not self._broken,
            is_parent_open=known.finished is None,
            is_given_up=self._is_given_up,
        )
        for number in sorted(found.keys() - known.starts.keys()):
            yield found[number], nobodys

    @property
    def _is_given_up(self) -> bool:
        """Whether the run need not end, and so none below it: its parent joined it as it is."""
        is_open = self._causality.finished is None
        return is_open and (self._bond.is_given_up or self.is_held)

    def _needs_log(self, start: Start) -> bool:
        if start.outcome is None:  # after a crash, the child may never have begun
            return self._causality.finished is not None
        return start.anchor is not None and start.anchor.events > 0

    def report(self) -> LogReport:
        """Return the verification result."""
        started, start = self._causality.started, self._bond.start
        is_ended = self._causality.finished is not None
        if self._bond.head is not None:
            is_complete = self._bond.head == self._head
        else:  # no crash tears a tail behind the last line, or behind the one that a parent holds
            is_whole = (is_ended or self.is_held) and self._broken != TORN_TAIL
            # Joined before it had an entry: there was no head to keep.
            is_nothing = start is not None and start.outcome is not None and start.anchor is None
            is_nothing = is_nothing and not self._entries
            is_complete = is_whole or is_nothing or self._bond.is_given_up
        return LogReport(
            path=str(self._path),
            intact=all(each.what in LEAVES_INTACT for each in self._damage),
            complete=is_complete and self._broken in _AT_END,
            entries=self._entries,
            head=self._head,
            damage=tuple(self._damage),
            contents_missing=self._contents_missing,
            contents_unchecked=self._contents_unchecked,
            guarantee=(started.guarantee or "") if started is not None else "",
            is_joined=not self._bond.is_unnamed and (start is None or start.is_counted),
        )

    def with_tree(self, report: LogReport, known: Mapping[str, str]) -> LogReport:
        """Return the report with the tree digest, and with any error of the one in the seal.

        `known` has the digests of logs below; if one is unknown, this log's is unknown too.
        """
        causality, digest = self._causality, self._causality.digest
        for number, start in causality.starts.items():
            if start.anchor is not None:
                path = str(names.child_path(self._path, number))
                digest.add_child(start.call, known.get(path, ""))
        tree = digest.tree_hexdigest()
        said = causality.finished.tree_digest if causality.finished else None
        if tree and said is not None and said != tree:
            self._add(self._entries, self._last, ("tree digest", tree, f"{said!a:.80}"))
            return self.report()
        return attrs.evolve(report, tree_digest=tree)


def _unread(path: Path, error: errors.LogMissing | errors.LogUnsupported) -> LogReport:
    """Return the report of a child's log that is there, and cannot be read or judged."""
    if isinstance(error, errors.LogUnsupported):
        return _without_entries(path, "newer format", error.found, intact=False)
    return _without_entries(path, "child log unreadable", error.why)


def unread(path: str, why: str, what: str) -> Verification:
    """Return the verification of a root's file that cannot be read."""
    found, expected = " ".join(why.split()), "a log that can be read"
    return Verification((_without_entries(path, what, found, expected, intact=False),))


def _without_entries(
    path: Path | str, what: str, found: str, expected: str = "the log of a child", *,
    intact: bool = True,
) -> LogReport:  # fmt: skip
    damage = Damage(str(path), 1, 0, expected, found, what)
    return LogReport(
        damage.path, intact=intact, complete=False, entries=0, head="", damage=(damage,)
    )
