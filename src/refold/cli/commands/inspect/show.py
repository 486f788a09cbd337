"""`refold show`: the delegation tree of a run, its entries one by one, or one entry whole."""

import contextlib
from collections.abc import Iterable
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

import attrs
import click

from refold.cli.arguments.logs import OpenedLog, continuing, opened_log
from refold.cli.arguments.options import POSITIVE, argument, declared, option, with_options
from refold.cli.arguments.run_list import runs_of
from refold.cli.arguments.run_names import RUNS, one_run
from refold.cli.commands.inspect.show_entries import show_entries
from refold.cli.output import output, words
from refold.cli.output.entries import compact, error_text
from refold.cli.output.exit_codes import DAMAGED, FINE
from refold.cli.output.trees import print_tree
from refold.engine.children.tree_digest import tree_digest_of
from refold.engine.encoding.canonical import loads, text_of_json
from refold.engine.errors import EntryMissing, LogLocked, RefoldError
from refold.engine.log.beside import blob_gaps
from refold.engine.log.blobs import BlobStore
from refold.engine.log.damage import Damage
from refold.engine.log.lock import refuse_if_locked
from refold.engine.log.names import blobs_of, root_of
from refold.engine.log.reader import read_entries, scan, whole_data
from refold.engine.models.prices import Prices
from refold.engine.values import Value
from refold.replay.index.kept_folds import KeptFolds, LogFold, entries_at, fold_log, keeping
from refold.replay.index.standing import STANDINGS
from refold.replay.run.opened_run import OpenedRun
from refold.replay.run.reading import Reading
from refold.replay.run.run_node import CANCELLED, COMPLETED, RunNode, below, totals
from refold.replay.run.turns import Turn

_DIFF_STYLES: Final = {"+": "green", "-": "red", "@": "cyan"}
_THERE: Final = frozenset({"read", "torn", "none"})
"""States of a log that is there, or need not be."""
_WORDS: Final = {
    "foreign": "another run's",
    "damaged": "damaged: see `{}`",
}


@attrs.frozen(kw_only=True, field_transformer=with_options)
class _Tree(Value):
    """Which part of the tree is shown, and with what."""

    details: bool = option("Add limits, tools, call keys and files to the tree.")
    failed: bool = option("Show only runs that did not complete, with their parents.")
    notable: bool = option(
        "Show only completed runs that look suspicious, such as those that made no calls or whose "
        "last call failed."
    )
    prices: bool = option(
        "Compute costs that were not recorded, by the price table that is installed."
    )

    def part(self, node: RunNode) -> RunNode | None:
        """Return the runs that are shown, below their parents; `None` if there are none."""
        if not (self.failed or self.notable):
            return node
        parts = map(self.part, node.children)
        found = tuple(each for each in parts if each is not None)
        is_shown = (self.failed and node.status != COMPLETED) or (self.notable and node.notable)
        return attrs.evolve(node, children=found) if found or is_shown else None

    def print(self, node: RunNode) -> None:
        """Print runs that are shown; of those that failed, the first is marked."""
        first = _first_failed(node) if self.failed else None
        print_tree(node, details=self.details, marked=(first, "  failed first"))


@declared("show")
def command(
    *,
    logs: tuple[Path, ...] = argument(RUNS, "LOG…", nargs=-1, required=True),
    is_events: bool = option("List the entries, one per line."),
    count: int | None = option(
        "With --events: only the last N; only the end of a long log is read.", "-n", type=POSITIVE
    ),
    follow: bool = option("With --events: print new entries until the run ends.", "-f", "--follow"),
    entry: int | None = option("Print entry N as JSON, with large texts; -1 is the last."),
    number: int | None = option(
        "Print the prompt of an agent's request N, with what changed since the one before, and "
        "the answer; -1 is the last.",
        "--turn",
    ),
    agent: str = option(
        "With --turn: the agent's name or scope in the tree; by default the main agent.", "NAME"
    ),
    against: int | None = option("With --turn: compare with turn M instead.", "M"),
    at: int | None = option("Show the state after entry N; -1 is the last."),
    to: int | None = option("With --at: show what changed up to the state after this."),
    is_files: bool = option(
        "Show what each call of a recorded command changed in its folder, as a diff."
    ),
    is_effects: bool = option(
        "List the tool calls that a replay of a recorded command would execute."
    ),
    tree: _Tree,
) -> int:
    """Show the delegation tree of a run, and the status of each subagent.

    LOG can be a child's log, such as runs/audit.2.jsonl, or a log in a store,
    such as s3://bucket/audits/audit.jsonl.  With --failed or --notable, it can
    be a folder or several logs, to show that part of all of these runs.

    Examples:
      refold show runs/audit.jsonl
      refold show runs/audit.jsonl --details
      refold show runs/audit.jsonl --failed
      refold show runs/audit.2.jsonl --events
      refold show runs/audit.jsonl --events -n 10 --follow
      refold show runs/audit.jsonl --entry 12
      refold show runs/audit.jsonl --turn 3 --agent reader   what its model saw
      refold show runs/audit.jsonl --at 12           the state after entry 12
      refold show runs/audit.jsonl --at 12 --to -1   how it changed to the end
      refold show report.refold --json

    Exit code: 0 shown · 1 the digest of the state differs from the recorded one ·
    3 shown, but a child's log or a large text is missing, damaged or from another
    run, as standard error reports: refold verify LOG.
    """
    lists = (is_events, is_files, is_effects, *(each is not None for each in (entry, number, at)))
    refused = {
        "use only one of --events, --entry, --turn, --at, --files and --effects": sum(lists) > 1,
        "--agent and --against need --turn": number is None and (agent or against is not None),
        "-n and --follow need --events": not is_events and (count is not None or follow),
        "--follow cannot be used with --json": follow and output.is_json(),
        "--to needs --at": at is None and to is not None,
        "--details, --failed, --notable and --prices need the whole tree": any(lists)
        and tree != _Tree(),
        "--files prints diffs; for the recorded change, use --entry N --json": is_files
        and output.is_json(),
    }
    for why in (why for why, is_refused in refused.items() if is_refused):
        raise click.UsageError(why)
    if (len(logs) > 1 or logs[0].is_dir()) and (tree.failed or tree.notable):
        if output.is_json():
            raise click.UsageError("--json shows one run")
        return _parts(logs, tree)
    if len(logs) > 1:
        raise click.UsageError("to show several runs, add --failed or --notable")
    log = one_run(logs[0])
    if at is not None:
        from refold.cli.commands.inspect import show_state  # noqa: PLC0415 - few ask for it

        if to is None:
            return show_state.show_state(log, at)
        return show_state.show_changes(log, at, to)
    if is_events:
        with opened_log(log) as opened:
            show_entries(opened, count, follow=follow)
        return FINE
    if is_effects:
        from refold.cli.commands.foreign_runs import show_effects  # noqa: PLC0415 - wire formats

        with opened_log(log) as opened:
            return show_effects(opened)
    with opened_log(log) as opened, continuing(opened) as kept, output.progress(f"reading {log}"):
        if entry is not None:
            output.document(_entry(opened, entry))
        elif number is not None:
            return _turn(opened, agent, number, against)
        elif is_files:
            _changes(opened.path)
        else:
            return _show_tree(opened, kept, tree)
    return FINE


def _parts(logs: Iterable[Path], part: _Tree) -> int:
    """Show the failed or notable part of each run; a damaged run is a line."""
    code, count = FINE, 0
    for run in runs_of(logs):
        try:
            with opened_log(run.path) as opened:
                tree = OpenedRun(opened.path).tree
                gaps = log_gaps(opened, tree)
        except RefoldError as error:
            gaps, tree = (str(error),), None
        for gap in gaps:
            code = DAMAGED
            output.line(("damaged", "red"), f"  {run.log}: {gap}")
        if shown := tree and part.part(tree):
            count += 1
            output.line((run.log, "bold"))
            part.print(shown)
    what = "failed" if part.failed else "notable"
    output.line((f"{words.counted(count, 'run')} with a {what} part", "dim"))
    return code


def _turn(log: OpenedLog, name: str, number: int, against: int | None) -> int:
    """Show a turn of an agent, compared with the one before or another."""
    run = OpenedRun(log.path)
    agent = run.agent(name, "--agent") if name else run.main
    all_of = [each for each in agent.turns if each.n]

    def one(option: str, at: int) -> Turn:
        if not 1 <= at <= len(all_of):
            found = words.counted(len(all_of), "turn")
            raise click.UsageError(f"{option} {at}: the agent {agent.name} has {found}")
        return all_of[at - 1]

    chosen = one("--turn", number if number >= 0 else len(all_of) + 1 + number)
    told = chosen
    if against is not None:
        told = chosen.since(one("--against", against) if against else None)
    node = agent.node
    who = {"agent": agent.name, "scope": node.scope, "log": log.shown(node.log or log.path)}
    whole = told.as_json() | {"messages": [*told.messages], "answer": told.answer}
    document = who | {"turns": len(all_of), "turn": whole}
    return output.answer(document, lambda: print_turn(told, agent.name, len(all_of)))


def _changes(log: Path) -> None:
    """Show the diff of each change, and the calls that can have made it."""
    tools = {
        each.call: each.data["tool"] for each in read_entries(log) if each.kind == "tool.called"
    }
    from refold.replay.observed.folder import folder_at, folder_diffs  # noqa: PLC0415 - rarely

    folder_at(log)  # refuses a log without a folder
    for seq, calls, _, diff in folder_diffs(log):
        told = ", ".join(f"{call} {tools.get(call, '')}" for call in calls)
        output.line((f"entry {seq}", "cyan"), f"  by {told or 'no call'}", cut=True)
        for line in diff:
            output.line((line, _DIFF_STYLES.get(line[:1], "")))


def _show_tree(log: OpenedLog, kept: KeptFolds, part: _Tree) -> int:
    """Show the delegation tree; report missing logs, and return the exit code."""
    prices = Prices() if part.prices else None
    tree = OpenedRun(log.path, prices=prices).tree
    known = {path: fold.marked() for path, fold in kept.folds.items() if isinstance(fold, Reading)}
    blobs = blob_gaps(log.path, known)
    if blobs and kept.skipped:  # a text may have been there that is not now
        kept.skipped.clear()
        with keeping(None):
            tree = OpenedRun(log.path, prices=prices).tree
    shown = part.part(tree)
    if output.is_json():
        document = (shown or attrs.evolve(tree, children=())).as_json()
        whole: dict[str, Any] = {"totals": totals(tree), "tree_digest": _digest(log, tree)}
        if kept.skipped:
            whole["verified"] = False
        if prices is not None:
            whole["priced_now"] = {"answers": prices.answers, "prices": prices.table}
        output.document(log.named(document, "children") | whole)
    else:
        if shown is not None:
            part.print(shown)
        _print_totals(tree)
        if prices is not None:
            answers = words.counted(prices.answers, "answer")
            if prices.answers or not prices.unknown:
                line = f"cost of {answers} computed now, not recorded: {prices.table}"
                output.line((line, "dim"))
            for name in prices.unknown:
                output.line((f"no price for model {name!r}: {prices.table}", "yellow"))
        elif _lacks_cost(tree):
            line = output.command("show", log.given, "--prices")
            output.hint(f"no cost was recorded; to compute it now: {line}")
        if part.details and (digest := _digest(log, tree)):
            output.line((f"digest {digest}", "dim"))
        _print_open_ends(log, tree)
    gaps = gaps_of(log, tree, blobs)
    for gap in gaps:
        output.complain(gap)
    return DAMAGED if gaps else FINE


def _lacks_cost(tree: RunNode) -> bool:
    """Return whether the cost of an answer was not recorded though its provider is known."""
    if not tree.usage.tokens or tree.usage.cost_usd_micros is not None:
        return False
    return bool(tree.guarantee) or any(":" in name for node in below(tree) for name in node.models)


def _digest(log: OpenedLog, tree: RunNode) -> str:
    """Return the tree digest; empty where the run has no end, or a log is missing or damaged."""
    return tree_digest_of(log.path) if tree.reason else ""


def gaps_of(log: OpenedLog, tree: RunNode, blobs: list[Damage]) -> tuple[str, ...]:
    """Return which logs and large texts of a run are not there to be shown and counted."""
    texts = (f"{log.shown(gap.path)}:{gap.line}: {gap.what}" for gap in blobs)
    return (*log_gaps(log, tree), *texts)


def log_gaps(log: OpenedLog, tree: RunNode) -> tuple[str, ...]:
    """Return which logs of a run cannot be read."""
    return tuple(
        f"{log.shown(node.log)}: its log is {state.format(output.command('verify', log.given))}"
        for node in below(tree)
        for state in [_WORDS.get(node.log_state, node.log_state)]
        if node.log_state not in _THERE
    )


def _print_open_ends(log: OpenedLog, tree: RunNode) -> None:
    """For a run without an end and without a writer, print its needs."""
    if tree.status not in STANDINGS or tree.guarantee:
        return  # nobody can go on with a command that has ended
    found = scan(log.path)
    if found.ended or found.damage is not None or found.entries == 0:
        return
    with contextlib.suppress(LogLocked):
        refuse_if_locked(log.path)
        from refold.cli.arguments.hints import Given, next_line  # noqa: PLC0415 - few are unfinished
        from refold.cli.commands.record.resume import describe_ends  # noqa: PLC0415 - the same
        from refold.replay.resume.open_ends import open_ends  # noqa: PLC0415 - the same

        output.line()
        is_here, root = log.path == log.given, root_of(log.path)
        again = next_line("resume", root, Given()) if is_here else ""
        describe_ends(open_ends(log.path), again)


def _first_failed(tree: RunNode) -> RunNode | None:
    """Return the run that failed before the others did; `None` if fewer than two failed."""
    fine = (COMPLETED, CANCELLED)
    ended = [each for each in below(tree) if each.ended_us and each.status not in fine]
    return min(ended, key=lambda each: each.ended_us or 0) if len(ended) > 1 else None


def _print_totals(tree: RunNode) -> None:
    """Print how the runs below ended, and what all of it used up."""
    told = totals(tree)
    counts = ", ".join(
        f"{count:,} {output.status(status)[0]}" for status, count in told["statuses"].items()
    )
    word = "conversation" if tree.guarantee else "subagent"
    parts = [f"{words.counted(told['subagents'], word)}: {counts}"] if counts else []
    if told["unseen"]:
        ends = ", ".join(f"{count:,} {status}" for status, count in told["unseen"].items())
        unseen = words.counted(sum(told["unseen"].values()), "delegation")
        parts.append(f"{unseen} without a conversation: {ends}")
    if told["tools"]:
        failed = f" ({told['tools_failed']:,} failed)" if told["tools_failed"] else ""
        parts.append(f"{words.counted(told['tools'], 'tool call')}{failed}")
    if told["requests"]:
        is_apart = tree.children and tree.own_usage.requests
        whose = "beside the work" if tree.beside else "its own"
        apart = f" ({whose}: {words.spent(tree.own_usage, tree.own_priced)})" if is_apart else ""
        requests = words.requests(told["requests"], told["requests_failed"])
        parts.append(f"{requests}, {words.spent(tree.usage, tree.priced)}{apart}")
    if told["notable"]:
        parts.append(f"{told['notable']:,} notable")
    if parts:
        output.line((" · ".join(parts), "dim"))


def _entry(log: OpenedLog, at: int) -> dict[str, Any]:
    """Return one entry, its large texts in place.

    Raises:
        EntryMissing: the log has no such entry.
    """
    count = LogFold(log.path)
    fold_log(count, last=at if at >= 0 else None, torn_ok=True)
    seq = at if at >= 0 else count.entries + at
    if not 0 <= seq < count.entries:
        raise EntryMissing(str(log.given), at, count.entries)
    whole = islice(read_entries(log.path, torn_ok=True), seq, None)
    entry = next(chain(entries_at(log.path, [seq], count.end), whole))
    data = whole_data(entry, log.path, BlobStore(blobs_of(log.path)))
    return {**loads(entry.line), "data": data}


_STYLES: Final = {" ": "dim", "+": "green", "-": "red"}


def print_turn(turn: Turn, who: str, count: int) -> None:
    """Print a turn; `count` is how many the agent has."""
    since = f"since turn {turn.against}" if turn.against else "in all"
    counts = f"{turn.kept + turn.kept_at_end} kept, {len(turn.added)} added, "
    output.line(
        (f"{who} · turn {turn.n} of {count}", "bold"),
        f" · {turn.model or 'no model'} · entry {turn.entries[0]}",
        (f" · {counts}{len(turn.dropped)} dropped {since}", "dim"),
    )
    for sign, message in turn.marked():
        _print_message(sign, message)
    if turn.answer is not None:
        where = f"answered in entry {turn.entries[-1]}"
        tokens = turn.usage.get("output_tokens")
        used = f", {words.counted(tokens, 'token')}" if tokens else ""
        output.line((f"{where}{used}", "bold"))
        _print_message(" ", turn.answer)
    else:
        said = error_text(turn.error).strip()
        output.line((f"no answer: {turn.status}{said and f': {said}'}", "yellow"))


def _print_message(sign: str, message: dict[str, Any]) -> None:
    output.line((f"{sign} {message.get('role', '?')}", _STYLES[sign]))
    for line in text_of_json(message.get("content") or "").splitlines():
        output.line((f"{sign}     {line}", "" if sign == " " else _STYLES[sign]))
    for call in message.get("tool_calls") or ():
        named = call.get("function") or call
        output.line(f"{sign}     calls {named.get('name')} {compact(named.get('arguments'))}")
