"""What of a record is served when its command runs again, and what is asked (§16.21)."""

from pathlib import Path
from typing import Any

import attrs
import pytest

from refold.engine.errors import LogObserved, NothingToResume, UsageError
from refold.replay.resume.observed_resume import resumable_record
from tests.support.fixtures import LOGS
from tests.support.proxied import question, recorded, said
from tests.support.upstream import Manner, Upstream
from tests.support.watched import Exchange, ask, record, says, talk, user


def _broken(log: Path, *, exit_code: int = 1) -> None:
    """Record one whole answer, and one question that is cut off twice."""
    with (
        Upstream() as upstream,
        recorded(log, upstream.openai_url, exit_code=exit_code) as base,
    ):
        said(base, question("Hello"))
        upstream.manner = Manner(cut_after=20)
        for _ in range(2):
            with pytest.raises(Exception, match="IncompleteRead"):
                said(base, question("Hello again"))


@pytest.mark.long
def test_a_plan_says_what_is_served_and_asked_and_counts_a_retry_once(tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    _broken(log, exit_code=0)

    resumed = resumable_record(log)

    assert str(resumed) == "1 answer from the log, 1 to request"
    assert len(resumed.again.turns) == 2
    assert not resumed.is_cut
    assert resumed.origin["at"] == resumed.served.entries - 1


def test_what_failed_and_was_asked_again_with_success_is_not_asked(tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    with Upstream() as upstream, recorded(log, upstream.openai_url) as base:
        upstream.manner = Manner(cut_after=20)
        with pytest.raises(Exception, match="IncompleteRead"):
            said(base, question("Hello"))
        upstream.manner = Manner()
        said(base, question("Hello"))

    with pytest.raises(NothingToResume, match="nothing to resume: the command succeeded"):
        resumable_record(log)


MENDED = {
    "cut": Exchange(ask(user("Go."), stream=True), None, error="cut"),
    "error": Exchange(ask(user("Go."), stream=True), None, error="http_500"),
}


@pytest.mark.parametrize("failure", MENDED)
@pytest.mark.parametrize("at", range(3))
def test_a_failure_that_the_client_mended_is_served_and_a_last_one_is_asked(
    failure: str, at: int, tmp_path: Path
) -> None:
    """Wherever it came, the client got on by another request: only what is missing is asked."""
    turns = talk(user("Go."), says("a"), user("On."), says("b"), user("On."), says("c"))
    failed = attrs.evolve(turns[at].asked, parameters={"stream": True})
    turns.insert(at, attrs.evolve(MENDED[failure], asked=failed))
    last = attrs.evolve(
        MENDED["error"], asked=ask(*turns[-1].asked.messages, says("c"), user("On."))
    )

    resumed = resumable_record(record(tmp_path / "a.jsonl", [*turns, last]))
    with pytest.raises(NothingToResume):
        resumable_record(record(tmp_path / "b.jsonl", turns))

    assert str(resumed) == "4 answers from the log, 1 to request"
    assert [turn.key for turn in resumed.again.turns] == [resumed.again.turns[-1].key]


@pytest.mark.parametrize("exit_code", [1, 137])
def test_a_command_that_failed_is_resumed_though_all_was_answered(
    tmp_path: Path, exit_code: int
) -> None:
    """It may have been killed before it asked on."""
    log = tmp_path / "run.jsonl"
    with Upstream() as upstream, recorded(log, upstream.openai_url, exit_code=exit_code) as base:
        said(base, question("Hello"))

    assert str(resumable_record(log)) == "1 answer from the log, 0 to request before it goes on"


def test_a_command_that_completed_with_a_call_without_a_result_is_resumed(tmp_path: Path) -> None:
    """Some exit with 0 when they were interrupted."""
    log = record(tmp_path / "a.jsonl", talk(user("Go."), says("", ("c", "read", {}))))

    assert resumable_record(log).is_cut


@pytest.mark.parametrize(
    ("tool", "parameters"),
    [("final_result", {}), ("read", {"tool_choice": {"name": "read"}})],
)
def test_a_call_that_is_the_answer_itself_is_not_missing(
    tool: str, parameters: dict[str, Any], tmp_path: Path
) -> None:
    asked = talk(user("Go."), says("", ("c", tool, {})), **parameters)

    with pytest.raises(NothingToResume):
        resumable_record(record(tmp_path / "a.jsonl", asked))


def test_a_call_that_the_conversation_went_on_without_is_not_missing(tmp_path: Path) -> None:
    call = says("", ("c", "read", {}))
    log = record(tmp_path / "a.jsonl", talk(user("Go."), call, user("Never mind."), says("Ok.")))

    with pytest.raises(NothingToResume):
        resumable_record(log)


def test_an_agent_is_named_as_show_does_or_by_its_scope(tmp_path: Path) -> None:
    """One name of several agents is refused, with the scopes that tell them apart."""
    log = tmp_path / "run.jsonl"
    with Upstream() as upstream, recorded(log, upstream.openai_url) as base:
        for _ in range(2):
            said(base, question("Hello"))
        said(base, question("Hello", system="You are the weather desk of the sea."))
        for text in ("Good morning", "Good night"):
            said(base, question(text), headers={"x-refold-conversation": "greeter"})

    for name in ("conversation 3", "0/3"):
        resumed = resumable_record(log, retry=name)
        assert [turn.scope for turn in resumed.again.turns] == ["0/3"]
        assert len(resumed.served.turns) == 4
    with pytest.raises(UsageError, match=r"several agents .*: 0/4 .*, 0/5 "):
        resumable_record(log, retry="greeter")
    with pytest.raises(UsageError, match=r"no agent has this name: 0/1 .*0/3"):
        resumable_record(log, retry="nobody")


def test_a_log_of_a_program_is_refused() -> None:
    log = LOGS / "plainly.jsonl"
    with pytest.raises(LogObserved):
        resumable_record(log)
