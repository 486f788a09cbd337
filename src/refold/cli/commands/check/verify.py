"""`refold verify`: are logs intact and complete?  Three answers, never one (CONTRACT.md §5).

One log is described in full; of several, each root log is a row, with its problems below.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from refold.cli.arguments.logs import OpenedLog, first_entry, opened_log
from refold.cli.arguments.options import argument, declared, option
from refold.cli.arguments.outputs import force_option, output_option
from refold.cli.arguments.run_names import PLACE
from refold.cli.output import output, words
from refold.cli.output.exit_codes import DAMAGED, DIFFERS, FINE
from refold.engine.errors import LogMissing, LogUnsupported, RefoldError, StoreFailed
from refold.engine.log.names import SUFFIX, root_of, tree
from refold.engine.values import Value
from refold.page.output_files import OutputFile
from refold.replay.audit.verify import OTHER_HEAD, LogReport, Verification, unread, verify
from refold.replay.index.guarantee import OBSERVED
from refold.store.place import ObjectStore, StoredRun

if TYPE_CHECKING:
    from refold.cli.output.printed import SalvagedLog
    from refold.store.kept_heads import HeadsFile


NOT_KEPT: Final = "none kept"
GONE: Final = "missing"
_HEAD_DIGITS: Final = 64


def is_folder(log: Path | StoredRun) -> bool:
    """Return whether an argument names several runs: a folder, or a store."""
    return log.is_dir() if isinstance(log, Path) else not log.name


@attrs.frozen
class KeptHeads(Value):
    """The heads that are kept elsewhere: one, those in a store or in a file, or none."""

    hash: str = ""
    store: ObjectStore | None = None
    file: "HeadsFile | None" = None

    @classmethod
    def of(cls, place: str) -> "KeptHeads":
        """Return a head, or those at a URL or in a file; an empty place for none.

        Raises:
            UsageError: it is a part of a head.
        """
        if "://" in place:
            return cls(store=ObjectStore(place))
        text = place.strip().lower()
        if not text or (not text.strip("0123456789abcdef") and not Path(place).exists()):
            if len(text) not in (0, _HEAD_DIGITS):
                raise click.UsageError(
                    f"a head has {_HEAD_DIGITS} hex digits; this one has {len(text)}"
                )
            return cls(hash=text)
        from refold.store.kept_heads import HeadsFile  # noqa: PLC0415 - only with --heads

        return cls(file=HeadsFile(Path(place)))

    def verified(self, log: OpenedLog, folder: Path | None, trust: Path | None) -> "VerifiedRun":
        """Verify a log, found below a folder, with the head that is kept of it."""
        try:
            head = self._head(log.given, folder)
        except LogMissing:
            return VerifiedRun(verify(log.path, trust=trust), log, NOT_KEPT)
        found = verify(log.path, expect_head=head or None, trust=trust)
        is_other = any(damage.what == OTHER_HEAD for damage in found.root.damage)
        return VerifiedRun(found, log, head and ("other" if is_other else "same"))

    def _head(self, log: Path | StoredRun, folder: Path | None) -> str:
        if self.file is not None:
            return self.file.head(log if isinstance(log, Path) else Path(log.name), folder)
        if self.store is None:
            return self.hash
        from refold.store.manifest import head_in  # noqa: PLC0415 - only with a store

        return head_in(self.store, Path(log.name).name)


def _stored(store: StoredRun, kept: ObjectStore | None) -> list[StoredRun]:
    """Return the runs of a store, and those that heads are kept of."""
    from refold.store.manifest import HEADS, runs_in  # noqa: PLC0415 - only with a store

    names = {*runs_in(ObjectStore(store.url)), *(runs_in(kept, HEADS) if kept is not None else ())}
    return [StoredRun(store.url, name) for name in sorted(names)]


@attrs.frozen
class VerifiedRun(Value):
    """One tree, and its results."""

    verification: Verification
    log: OpenedLog
    """As it is named; a packed one is closed by now."""
    expected: str = ""
    """Whether its head is the kept one: `same`, `other`, `none kept`, `missing`; empty if no head
    was asked for."""

    @property
    def is_fine(self) -> bool:
        """Whether it is intact and complete."""
        return self.verification.intact and self.verification.complete

    def is_sound(self, *, is_signed: bool) -> bool:
        """Whether it is, and a trusted key signed it if that is asked for."""
        return self.is_fine and (self.verification.authentic is True or not is_signed)


def verified_below(
    places: Sequence[Path | StoredRun], kept: KeptHeads, trust: Path | None
) -> list[VerifiedRun]:
    """Return the results for each root log; an unreadable one does not stop the others.

    Raises:
        LogMissing: a path does not exist, or has no logs.
    """
    from refold.replay.bulk.bulk import find_logs  # noqa: PLC0415 - imports what executes programs

    paths = [each for each in places if isinstance(each, Path)]
    folders = [each for each in paths if each.is_dir()]
    found_logs = find_logs(paths) if paths else []
    if kept.file is not None:
        found_logs += [log for each in folders for log in kept.file.logs(each)]
    logs: dict[Path | StoredRun, Path | None] = {
        log: next((each for each in folders if log.is_relative_to(each)), None)
        for log in found_logs
    }
    for place in places:
        if isinstance(place, StoredRun):
            logs |= dict.fromkeys([place] if place.name else _stored(place, kept.store))
    found: list[VerifiedRun] = []

    def verified(given: Path | StoredRun) -> VerifiedRun:
        try:
            with opened_log(given) as log:
                return kept.verified(log, logs[given], trust)
        except StoreFailed:  # no run would be read any more
            raise
        except (RefoldError, click.UsageError) as error:
            expected = GONE if isinstance(error, LogMissing) else ""
            return VerifiedRun(_unread(given, error), OpenedLog(Path(given), given), expected)

    with output.progress(lambda: f"verifying {len(found) + 1:,} of {len(logs):,} logs"):
        results: Iterator[VerifiedRun] = map(verified, logs)
        if any(isinstance(each, StoredRun) for each in logs):
            from refold.store.push import at_once  # noqa: PLC0415 - few logs lie in a store

            results = at_once(verified, logs)
        for result in results:
            found.append(result)  # noqa: PERF402 - progress is how many there are
    return found


def _unread(log: Path | StoredRun, error: RefoldError | click.UsageError) -> Verification:
    """Return the result for a file that cannot be judged."""
    what = error.what if isinstance(error, LogUnsupported) else "not a log"
    found = error.format_message() if isinstance(error, click.UsageError) else str(error)
    return unread(str(log), found, what)


def kept_line(one: VerifiedRun, folders: Sequence[Path]) -> bytes:
    """Return the line of a sound log in a list of heads."""
    from refold.store.kept_heads import KeptHead  # noqa: PLC0415 - only with --write-heads

    given, root = one.log.given, one.verification.root
    name = given.name
    if isinstance(given, Path):
        folder = next((each for each in folders if given.is_relative_to(each)), given.parent)
        name = Path(os.path.relpath(given, folder)).as_posix()
    with opened_log(given) as log:
        run = str(first_entry(log.path).data.get("run_id", ""))
    return KeptHead(name, run, root.entries, root.head).encoded()


_SHOWN: Final = 10
"""Places of damage that people are shown of one tree."""


@declared("verify")
@force_option
def command(
    *,
    logs: tuple[Path | StoredRun, ...] = argument(PLACE, "LOG…", nargs=-1, required=True),
    heads: str = option(
        "Expected head of a single LOG, or a file or store with heads; reports logs that were "
        "replaced or removed.",
        "HASH|FILE|URL",
    ),
    write_heads: OutputFile | None = output_option(
        "Write the heads of all sound logs to this file, for --heads.  Keep it where the writers "
        "of the logs cannot change it.",
        kind="heads",
    ),
    out: Path | None = option(
        "Copy the valid entries of a single LOG, and of its children, to a new log.",
        "--salvage OUT",
    ),
    trust: Path | None = option(
        "Require a signature by a key in this file, in the format of ssh-keygen's allowed signers."
    ),
) -> int:
    """Check logs, including the logs of their descendants.

    Nothing is executed.  To detect a log that was replaced, store the head that is printed by a
    recording, or those of many logs with --write-heads, and pass them as --heads.

    LOG can also be a folder, to check all root logs below it, or the URL of a store, to check all
    of its runs.

    Examples:
      refold verify runs/audit.jsonl
      refold verify runs
      refold verify runs/*.jsonl --json
      refold verify runs/audit.jsonl --heads 5859a211…
      refold verify s3://bucket/audits --heads s3://elsewhere/heads
      refold verify runs --write-heads /elsewhere/heads.txt
      refold verify runs --heads /elsewhere/heads.txt --trust allowed_signers
      refold verify runs/audit.jsonl --salvage runs/salvaged.jsonl

    intact     the chain of hashes is unbroken, the entries are consistent, and
               the logs of parents and children match
    complete   the log has its end, or its head is the expected one
    authentic  signed by a key in the file of --trust
    expected   with --heads: the kept head is the same, other, or none was kept; a
               log that is listed there, or has logs of children, can be missing
    digest     equal for runs that did the same, with the children they joined

    A salvaged log ends with an entry x-refold.salvaged.  It is intact but not
    complete.  LOG and the files beside it do not change.

    Exit code: 0 all intact and complete, with --trust authentic · 1 --heads has
    no head of a log · 3 damaged, missing, without an end, another head, or with
    --trust not authentic.
    """
    is_many = len(logs) > 1 or is_folder(logs[0])
    kept = KeptHeads.of(heads)
    for name, value in {"--heads HASH": kept.hash, "--salvage": out}.items():
        if value and is_many:
            raise click.UsageError(f"{name} needs exactly one LOG")
    if is_many:
        found = verified_below(logs, kept, trust)
    else:
        with opened_log(logs[0]) as log, output.progress(f"verifying {logs[0]}"):
            found = [kept.verified(log, None, trust)]
            if not output.is_json():
                describe(found[0])
                _advise(found[0], is_salvaged=out is not None)
    if write_heads is not None:
        folders = [each for each in logs if isinstance(each, Path) and each.is_dir()]
        write_heads.write(b"".join(kept_line(each, folders) for each in found if each.is_fine))
    salvaged = None if out is None else _salvaged(found[0], out)
    if output.is_json():
        more = {} if salvaged is None else {"salvaged": salvaged.as_json()}
        output.document(_document_of_all(found) | more)
    elif is_many:
        _describe_many(found, is_signed=trust is not None)
    if not all(each.is_sound(is_signed=trust is not None) for each in found):
        return DAMAGED
    return DIFFERS if any(each.expected == NOT_KEPT for each in found) else FINE


def _advise(one: VerifiedRun, *, is_salvaged: bool) -> None:
    """Print how to save the valid entries of a damaged log, if there are any."""
    given, is_damaged = one.log.given, any(each.broken for each in one.verification.logs)
    if is_salvaged or not is_damaged or not isinstance(given, Path):
        return
    from refold.engine.log.salvaging import prefix_of  # noqa: PLC0415 - for damaged logs

    found = [prefix_of(path) for path in tree(one.log.path) if path.is_file()]
    if not found or not found[0].entries:
        output.hint("no entry is valid: use a copy of the log, if there is one")
    elif any(each.wrong is not None for each in found):
        new = output.folder_beside(given) / f"salvaged-{root_of(given.with_suffix(SUFFIX)).name}"
        line = output.command("verify", given, "--salvage", new)
        output.hint(f"to save the valid entries: {line}")


def _salvaged(one: VerifiedRun, out: Path) -> "SalvagedLog":
    """Copy the valid entries of a log to a new one, and print it.

    Raises:
        LogDamaged: none is valid.
    """
    from refold.cli.output.printed import SalvagedLog  # noqa: PLC0415 - rarely
    from refold.engine.log.salvaging import salvage  # noqa: PLC0415 - the same

    with opened_log(one.log.given) as log:
        new = salvage(log.path, out)
    made = SalvagedLog(
        log=output.shown_path(new.log),
        entries=new.source.entries,
        head=new.head,
        children=sum(1 for child in new.children if child.entries),
        blobs=new.blobs,
        contents=new.contents,
        is_sealed=new.source.is_sealed,
    )
    if not output.is_json():
        kept = words.counted(made.entries, "entry", "entries")
        below = words.counted(made.children, "child log")
        output.line(("salvaged", "green"), f"  {made.log}: {kept}, {below}")
        output.line(f"  head {made.head}")
    return made


def _document_of_all(found: Sequence[VerifiedRun]) -> dict[str, Any]:
    documents = [each.log.named(each.verification.as_json(), "logs", "damage") for each in found]
    whole = Verification(tuple(log for each in found for log in each.verification.logs))
    logs = [log for each in documents for log in each["logs"]]
    rows = [
        {"log": output.shown_path(each.log.given), "expected": each.expected}
        for each in found
        if each.expected
    ]
    more = {"expected_heads": rows} if rows else {}
    return {"logs": logs, **{name: getattr(whole, name) for name in whole.computed}, **more}


def _describe_many(found: Sequence[VerifiedRun], *, is_signed: bool) -> None:
    """Print a row a root log, then the problems of those that have any."""
    has_heads = any(each.expected for each in found)
    names = ["intact", "complete", *(["authentic"] if is_signed else [])]
    names += [*(["expected head"] if has_heads else []), "logs", "entries", "log"]
    rows: list[list[output.Part]] = [[*names]]
    for each in found:
        tree = each.verification
        answers = [_answer(tree.intact), _answer(tree.complete)]
        answers += [_authentic(tree)] if is_signed else []
        answers += [_expected(each.expected)] if has_heads else []
        counts = f"{_read(tree):>4,}", f"{sum(log.entries for log in tree.logs):>7,}"
        guarantee = f" · {tree.root.guarantee}" if tree.root.guarantee else ""
        rows.append([*answers, *counts, f"{output.shown_path(each.log.given)}{guarantee}"])
    output.table(rows)
    bad = [each for each in found if not each.is_sound(is_signed=is_signed)]
    for each in bad:
        output.line()
        describe(each)
    fine = words.counted(len(found) - len(bad), "root log")
    rest = f", {len(bad):,} not" if bad else ""
    how = "intact, complete and authentic" if is_signed else "intact and complete"
    output.line()
    output.line((f"{fine} {how}{rest}", "bold red" if bad else "green"))
    _tell_contents([log for each in found for log in each.verification.logs])


def describe(one: VerifiedRun) -> None:
    """Print the three answers for one tree, and its problems."""
    verification, log, expected = one.verification, one.log, one.expected
    entries = sum(report.entries for report in verification.logs)
    read, all_logs = _read(verification), words.counted(len(verification.logs), "log")
    output.line((output.shown_path(log.given), "bold"))
    if expected == GONE:
        output.line("  expected   ", _expected(expected), f"  {verification.damage[0].found}")
        return
    logs = all_logs if read == len(verification.logs) else f"{read:,} of {all_logs} could be read"
    what = f"{logs}, {words.counted(entries, 'entry', 'entries')}"
    output.line("  intact     ", _answer(verification.intact), f"  {what}")
    output.line("  complete   ", _answer(verification.complete), f"  {_ends(verification, log)}")
    output.line("  authentic  ", _authentic(verification), f"  {_signed(verification)}")
    if expected:
        output.line("  expected   ", _expected(expected), "  compared with --heads")
    if verification.root.guarantee:
        output.line(f"  guarantee  {verification.root.guarantee}: {OBSERVED}")
    if verification.head:
        output.line(f"  head       {verification.head}")
    if verification.tree_digest:
        output.line(f"  digest     {verification.tree_digest}")
    _tell_contents(verification.logs)
    left = [each for each in verification.logs if not each.is_joined]
    if left and verification.tree_digest:
        what = words.counted(len(left), "cancelled run")
        output.line((f"  left out   {what}: how far they got depends on timing", "dim"))
    for each in left[:_SHOWN] if verification.tree_digest else ():
        output.line(f"    {log.shown(each.path)}  {each.tree_digest or '-'}")
    for damage in verification.damage[:_SHOWN]:
        output.line(
            (f"  {log.shown(damage.path)}:{damage.line}", "red"),
            f" (byte {damage.byte}): {words.damage(damage.what)}",
        )
        output.line(f"    expected {damage.expected}")
        output.line(f"    found    {damage.found}")
    rest = len(verification.damage) - _SHOWN
    if rest > 0:
        output.line((f"  and {words.counted(rest, 'more place')}: to list them, use --json", "dim"))


def _tell_contents(logs: Sequence[LogReport]) -> None:
    """Print how many contents of files were not looked at: a sound log says nothing of them."""
    if missing := sum(each.contents_missing for each in logs):
        what = words.counted(missing, "content of a file", "contents of files")
        output.line((f"  files      {what} not here, but needed for a copy of the folder", "dim"))
    if unread := sum(each.contents_unchecked for each in logs):
        what = words.counted(unread, "content of a file", "contents of files")
        output.line((f"  files      {what} not checked: git is not installed", "bold red"))


def _read(verification: Verification) -> int:
    """Return the number of logs that were read: only those can be called intact."""
    return sum(report.entries > 0 for report in verification.logs)


def _answer(is_so: bool) -> tuple[str, str]:  # noqa: FBT001 - the answer itself
    return ("yes", "green") if is_so else ("NO ", "bold red")


def _expected(state: str) -> tuple[str, str]:
    return (state, {"same": "green", NOT_KEPT: "yellow"}.get(state, "bold red"))


def _authentic(verification: Verification) -> tuple[str, str]:
    answer = verification.authentic
    return ("-  ", "dim") if answer is None else _answer(answer)


def _signed(verification: Verification) -> str:
    """Return the state of the signature, and the number of logs that it does not cover."""
    open_ = sum(each.authentic is None for each in verification.logs)
    rest = (
        f"; it does not cover {words.counted(open_, 'log')} below"
        if verification.root.authentic and open_
        else ""
    )
    return f"{verification.signature.what}{rest}"


def _ends(verification: Verification, log: OpenedLog) -> str:
    root = verification.root
    unsealed = [report for report in verification.logs if not report.complete]
    if not unsealed:
        return "every log has its end, or its parent needs none"
    for report in unsealed:
        if report.broken is not None:
            which = "the log" if report is root else Path(log.shown(report.path)).name
            return f"unknown: {which} is damaged at line {report.broken.line}"
    if any(damage.what == OTHER_HEAD for damage in root.damage):
        return "its head differs from the expected one"
    if root in unsealed:
        from refold.replay.index.standing import standing_text  # noqa: PLC0415 - most logs have an end

        return f"no seal: {standing_text(Path(root.path))}"
    return f"{words.counted(len(unsealed), 'child log')} missing, or without an end"
