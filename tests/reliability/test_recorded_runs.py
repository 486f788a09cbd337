"""Runs that other systems recorded, re-enacted here: their sizes, texts, names and orders.

`REFOLD_CORPUS` names a folder of them; without it, a run of the same shapes that is made up here is
all there is.  By default the smallest file of each format is taken, with `-m long` all.
"""

import json
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import CliRunner, Result

import refold
from refold.cli.group import refold as command
from refold.engine.log.reader import read_entries
from refold.engine.models import FunctionModel
from tests.support.corpus import corpus
from tests.support.recorded_runs import (
    SUFFIXES,
    Call,
    Turn,
    model_of,
    program_of,
    recorded_run,
    tools_of,
)

MADE_UP: list[dict[str, Any]] = [
    {"type": "user", "text": "読んで \x1b[31mred\x1b[0m \u202e 👩\u200d👧 \ud83d"},
    {"id": "a", "name": "Read file", "input": {"path": "/x" * 200, "wide": 2**64}},
    {"id": "b", "name": "Bash", "input": {"command": "cat <<'E'\n\x00\x07\r\nE"}},
    {"id": "c", "name": "Bash", "input": {"command": "true", "n": 10**400}},
    {"tool_use_id": "b", "content": "\udcff binary \x1b]0;title\x07" * 3000},
    {"tool_use_id": "a", "content": [{"type": "image", "data": "A" * 90_000}, {"n": -0.0}]},
    {"tool_use_id": "c", "content": None},
    {"role": "assistant", "content": "# Now\n\n| a |\n|---|\n" + "潮" * 40_000},
    {"id": "d", "name": "2nd tool", "arguments": '{"q": [1e308, {"": null}]}'},
    {"call_id": "d", "output": {"$blob": "no", "bytes": 1}},
]
"""Tokens in the forms of several systems: what no log holds is among them."""
Edited = Callable[[list[Call]], list[Call]]
"""What became of the calls of one turn."""
SMALL_BYTES = 100_000
"""Of a file that is read by default."""


@pytest.fixture
def made_up(tmp_path: Path) -> Path:
    """Return a file of such a run, with a torn line in its middle."""
    path = tmp_path / "made-up.jsonl"
    lines = [json.dumps(each) for each in MADE_UP]
    path.write_text("\n".join([*lines[:5], '{"torn": ', *lines[5:]]))
    return path


def smallest_of_each(folder: Path) -> Iterator[Path]:
    """Yield the smallest file of each format that has a call, and is small."""
    for each in sorted(path for path in folder.iterdir() if path.is_dir()):
        sized = sorted((path.stat().st_size, path) for path in files_of(each))
        small = (path for size, path in sized if size < SMALL_BYTES)
        found = next((path for path in small if any(t.calls for t in recorded_run(path))), None)
        if found is not None:
            yield found


def files_of(folder: Path) -> list[Path]:
    """Return the files that may hold a run."""
    return sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES)


def call_of(*words: object) -> Result:
    """Run the command line."""
    return CliRunner().invoke(command, [str(word) for word in words])


@attrs.frozen
class Reenacted:
    """A run that was recorded twice, and what it was made of."""

    turns: list[Turn]
    log: Path
    again: Path


def reenacted(source: Path, folder: Path) -> Reenacted | None:
    """Record the run in `source` twice; `None` where it holds none."""
    turns = recorded_run(source)
    if not turns:
        return None
    logs = [folder / f"{name}.jsonl" for name in ("first", "again")]
    for log in logs:
        recording = refold.record(
            program_of(turns),
            source.name,
            tools=tools_of(turns),
            model=model_of(turns),
            log=log,
            durability="fast",
        )
        assert recording.ok, recording
    return Reenacted(turns, *logs)


def check(source: Path, folder: Path) -> None:
    """Record, verify, re-execute, compare and show the run in `source`."""
    run = reenacted(source, folder)
    if run is None:
        return
    verified = call_of("verify", run.log)
    assert verified.exit_code == 0, verified.output
    report = refold.reexecute(run.log, program_of(run.turns), tools=tools_of(run.turns))
    assert report.identical, report
    assert refold.diff(run.log, run.again).count == 0
    check_shown(run.log)
    check_edits(run)


def check_shown(log: Path) -> None:
    """What is shown is lines of printable text, and none without an end."""
    for words in (["show"], ["show", "--details"], ["show", "--events"], ["show", "--at", "-1"]):
        said = call_of(words[0], log, *words[1:])
        assert said.exit_code == 0, said.output
        assert all(line.isprintable() for line in said.stdout.split("\n")), words
        assert max(map(len, said.stdout.split("\n"))) < 40_000, words
    assert call_of("why", log, "-1", "--all").exit_code == 0


def check_edits(run: Reenacted) -> None:
    """A call more, less or changed is named as what it is, and where it is."""
    asked = {
        entry.data["arguments"]["call"]
        for entry in read_entries(run.log)
        if entry.kind == "tool.called"
    }
    at = [
        number
        for number, turn in enumerate(run.turns)
        if turn.calls and turn.calls[0].id in asked  # what no log holds is not
    ]
    if not at:
        return
    chosen = random.Random(1).choice(at)
    for edit, categories in EDITS.items():
        program = program_of(run.turns, partial(edited, edit, chosen))
        (found, *_) = refold.reexecute(run.log, program, tools=tools_of(run.turns)).divergences
        assert found.category in categories, found
        if "extra_call" not in categories:
            assert found.recorded["arguments"]["call"] == run.turns[chosen].calls[0].id, found


def edited(edit: Edited, chosen: int, number: int, calls: list[Call]) -> list[Call]:
    """Return the calls of a turn; of the chosen one, as they are now."""
    return edit(calls) if number == chosen else calls


def changed(calls: list[Call]) -> list[Call]:
    """Change an argument of the first."""
    return [attrs.evolve(calls[0], arguments={"changed": 1}), *calls[1:]]


def more(calls: list[Call]) -> list[Call]:
    """Make another call, too."""
    return [*calls, attrs.evolve(calls[0], id="more", arguments={"more": 1})]


def fewer(calls: list[Call]) -> list[Call]:
    """Leave out the first."""
    return calls[1:]


EDITS: dict[Edited, tuple[str, ...]] = {
    changed: ("args_changed",),
    more: ("extra_call",),
    fewer: ("missing_call", "unconsumed"),
}
"""By what the program does otherwise: the category."""


def test_a_made_up_run_of_all_shapes_is_as_any_other(made_up: Path, tmp_path: Path) -> None:
    """Parallel calls, results in another order, huge texts, controls, what no log holds."""
    assert [len(turn.calls) for turn in recorded_run(made_up)] == [3, 1]

    check(made_up, tmp_path)


def test_a_run_may_begin_with_a_long_conversation(tmp_path: Path) -> None:
    """More of it than a line holds, of messages none of which is large."""

    async def goes_on(run: refold.Run, messages: int) -> str:
        history = [{"role": "user", "content": f"{n} {'word ' * 1000}"} for n in range(messages)]
        reply = await run.model(history)
        last = await run.model([*history, reply.message, {"role": "user", "content": "And?"}])
        return str(last.message["content"])

    model = FunctionModel(lambda request: f"{len(request.messages)}")
    log = tmp_path / "a.jsonl"

    recording = refold.record(goes_on, 300, log=log, model=model, durability="fast")

    assert recording.output == "302", recording
    assert call_of("verify", log).exit_code == 0
    assert refold.reexecute(log, goes_on).identical


def test_a_run_of_each_format_is_as_any_other(tmp_path: Path) -> None:
    """Recorded twice without a difference, verified, replayed, shown, and edited."""
    for number, source in enumerate(smallest_of_each(corpus())):
        (folder := tmp_path / str(number)).mkdir()

        check(source, folder)


@pytest.mark.long
def test_all_recorded_runs_are_as_any_other(tmp_path: Path) -> None:
    """The same for all of the corpus."""
    for number, source in enumerate(files_of(corpus())):
        (folder := tmp_path / str(number)).mkdir()

        check(source, folder)
