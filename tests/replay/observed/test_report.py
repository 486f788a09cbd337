"""A report names its guarantee in every form, and says what differs and what was ignored."""

from pathlib import Path
from typing import Any

import attrs
import pytest
from syrupy.assertion import SnapshotAssertion

from refold.engine.observed.volatile import VolatileRules
from refold.replay.explain.divergence import Divergence
from refold.replay.observed.matching import Matcher
from refold.replay.observed.record import read_record
from refold.replay.observed.report import joined, report_of
from tests.support.watched import ask, record, replayed, result, says, system, talk, user

TALK = talk(
    system("It is 2026-11-21. You are the weather desk."),
    user("Oslo?"),
    says("", ("c1", "weather", {"city": "Oslo"})),
    result("c1", "snow"),
    says("It snows."),
)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the record of one conversation."""
    monkeypatch.chdir(tmp_path)
    return record(Path("a.jsonl"), TALK)


def test_the_guarantee_stands_in_every_form(log: Path) -> None:
    """For it is weaker than that of a re-execution."""
    report = replayed(log, [one.asked for one in TALK])

    assert report.as_json()["guarantee"] == "matched"
    assert "guarantee: matched" in str(report)
    assert str(report).startswith("identical: 2 of 2 recorded requests served, in 1 conversation")


@pytest.mark.parametrize(
    "lack", [{"uncompared": "not a repository"}, {"unused": ("a.md",)}, {"unkept": "k: full"}]
)
def test_a_report_that_leaves_something_out_is_no_bare_identical(
    log: Path, lack: dict[str, Any]
) -> None:
    report = attrs.evolve(replayed(log, [one.asked for one in TALK]), **lack)

    assert str(report).startswith("identical: 2 of 2") == ("unkept" in lack)
    assert ("not kept: --copy keep:k: full" in str(report)) == ("unkept" in lack)


def test_a_place_that_lacks_something_is_not_called_different(log: Path) -> None:
    report = attrs.evolve(replayed(log, []), unfit="HOME is read-only: EINVAL")

    assert str(report).startswith("could not be replayed here: HOME is read-only: EINVAL; the")


def test_the_text_of_a_report(log: Path, snapshot: SnapshotAssertion) -> None:
    """A dated prompt, a tool that returned something else, another end; and what was ignored."""
    first, second = (one.asked for one in TALK)
    later = ask(system("It is 2026-11-22. You are the weather desk."), *first.messages[1:])
    other = ask(*later.messages, *second.messages[2:3], result("c1", "hail"))
    end = {"exit_code": 0, "stdout": "It hails.\n", "stdout_bytes": 10}

    plain = replayed(log, [later, other], output=end)
    dated = replayed(log, [later, other], output=end, rules=VolatileRules(texts=[r"\d{4}-\S+"]))

    assert str(plain) == snapshot
    assert str(dated) == snapshot


def test_a_record_without_an_end_says_nothing_of_it(log: Path) -> None:
    """It was cut off before."""
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))

    report = replayed(log, [one.asked for one in TALK], output={"exit_code": 1, "stdout": "x"})

    assert report.identical
    assert report.exit_code == 1


def test_an_output_of_which_more_was_cut_off_is_another(log: Path) -> None:
    """What is kept of it is the same, and how long it was is not."""
    end = {"exit_code": 0, "stdout": "done\n", "stdout_bytes": 6}

    (found,) = replayed(log, [one.asked for one in TALK], output=end).divergences

    assert [one.pointer for one in found.diff] == ["/arguments/stdout_bytes"]


def test_where_there_is_no_command_there_is_no_end(log: Path) -> None:
    """Requests are all that is compared; a rule for the output had nothing to do."""
    found = read_record(log)
    found.output = "ignored"
    matcher = Matcher(found)
    for one in TALK:
        matcher.take(one.asked, "0/1")

    report = report_of(found, matcher, live=0, output=None)

    assert report.identical
    assert report.exit_code is None
    assert report.rules == {}


def test_what_a_server_is_asked_otherwise_comes_before_what_follows(log: Path) -> None:
    """A tool that got other arguments may be why a model was not asked, and why the end differs."""
    asked = Divergence(category="args_changed", where="mcp weather > forecast#1", log=str(log))
    end = {"exit_code": 1, "stdout": "", "stdout_bytes": 0}

    nothing = replayed(log, [], output=end).divergences
    alone = replayed(log, [one.asked for one in TALK], output=end).divergences

    found = joined(nothing, [asked])
    assert [one.category for one in found] == ["args_changed", "unconsumed", "output_changed"]
    assert "although every request got its recorded answer" in alone[-1].cause
    assert "this may follow from the first difference" in joined(alone, [asked])[-1].cause
    assert joined(alone, []) == alone


def test_one_request_is_one(tmp_path: Path) -> None:
    """In the singular."""
    found = record(tmp_path / "one.jsonl", talk(user("Hello"), says("x")))

    assert "0 of 1 recorded request served, in 1 conversation" in str(replayed(found, []))


def test_a_rule_of_the_record_that_is_left_out_is_noted(tmp_path: Path) -> None:
    """An earlier version wrote a pattern that could take for ever: more is compared now."""
    rules = VolatileRules()
    object.__setattr__(rules, "texts", ("(s+)+x",))  # as that version made it
    log = record(tmp_path / "a.jsonl", talk(user("s" * 60), says("No.")), rules=rules)

    report = replayed(log, [ask(user("s" * 60))])

    assert report.identical
    assert report.rules == {}
    assert "(s+)+x" in report.notes[0]
    assert "--volatile text:" in report.notes[0]
    assert "note: the recorded volatile text" in str(report)
