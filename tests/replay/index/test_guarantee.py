"""What re-executes programs refuses a watched command's log, and the other way round."""

from collections.abc import Callable
from pathlib import Path

import pytest

import refold
from refold import explore, resume, sensitivity
from refold.engine.errors import LogObserved
from refold.engine.runners.recording import record as record_program
from refold.replay.bulk.bulk import replay_row
from refold.replay.index.guarantee import is_observed
from refold.replay.observed.record import read_record
from tests.support.watched import record, says, talk, user

TALK = talk(user("Hello"), says("Hello yourself."))


async def program(_run: object, _input: object) -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    "use",
    [
        lambda log: refold.reexecute(log, program),
        lambda log: refold.drift(log, program),
        lambda log: refold.fork(log, 1, program, into=log.parent / "f.jsonl"),
        lambda log: explore(log, program),
        lambda log: sensitivity(log, program),
    ],
    ids=["reexecute", "drift", "fork", "explore", "sensitivity"],
)
def test_what_runs_a_program_again_refuses_a_commands_log(
    use: Callable[[Path], object], tmp_path: Path
) -> None:
    """And says what to do instead."""
    log = record(tmp_path / "a.jsonl", TALK)

    with pytest.raises(LogObserved, match=r"refold replay .* -- COMMAND"):
        use(log)


def test_a_command_that_broke_off_cannot_be_resumed(tmp_path: Path) -> None:
    """Nor re-executed to where it broke off."""
    log = record(tmp_path / "a.jsonl", TALK)
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-1]))

    with pytest.raises(LogObserved):
        resume(log, program)
    with pytest.raises(LogObserved):
        refold.reexecute(log, program)


def test_a_programs_log_is_no_commands(tmp_path: Path) -> None:
    """There are no requests to be matched."""
    log = record_program(program, log=tmp_path / "a.jsonl").log

    assert not is_observed(log)
    with pytest.raises(LogObserved, match="leave out -- COMMAND"):
        read_record(log)


def test_among_many_logs_it_is_a_row_of_its_own(tmp_path: Path) -> None:
    """The others are re-executed as ever."""
    log = record(tmp_path / "a.jsonl", TALK)

    row = replay_row(log, lambda path, _: refold.reexecute(path, program))

    assert row.result == "command needed"
    assert "needs -- COMMAND" in row.message
