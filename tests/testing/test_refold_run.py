"""`refold_run` records a test's runs, or replays them and says what differs (§13.12, §13.13)."""

from pathlib import Path

import attrs
import pytest

import refold
from refold.engine.errors import UsageError
from refold.replay.index.run_end import recording_of_log
from refold.replay.testing.recordings import Place
from refold.testing.refold_run import Mode, RefoldRun, Settings, folder_of
from tests.support.loops import some
from tests.support.suites import Suite

pytest_plugins = ["pytester"]


@pytest.fixture
def suite(pytester: pytest.Pytester) -> Suite:
    return Suite(pytester)


# --- what is recorded ------------------------------------------------------------------------


def test_without_a_recording_a_test_fails_with_the_command_that_makes_one(suite: Suite) -> None:
    """Nothing is recorded unless asked for, and nothing runs."""
    said = suite.fails()

    assert "recordings/test_it/test_dig.jsonl: no recording of this run." in said
    assert "pytest test_it.py::test_dig --refold-record=once" in said
    assert (suite.logs(), suite.calls()) == ([], [])


def test_once_records_and_from_then_on_nothing_is_executed(suite: Suite) -> None:
    """Neither tool nor child, in whichever of the modes that keep a recording."""
    suite.record("once")
    assert suite.calls() == ["search tin", "search gold"]

    for mode in ("none", "once", "new_episodes"):
        suite.passes(f"--refold-record={mode}")

    assert suite.calls() == []
    assert suite.logs() == ["test_dig.1.jsonl", "test_dig.jsonl"]


def test_a_replay_returns_what_the_recording_returned(tmp_path: Path) -> None:
    """Status, output, usage, head, digests; where it failed and how long it took is in no log."""
    live = _runs(tmp_path, "once")(_doubled, 4, tools=[_double])

    replayed = _runs(tmp_path, "none")(_doubled, 4, tools=[_double])

    assert live.log == tmp_path / "test_a.jsonl"
    assert replayed == attrs.evolve(live, duration_ms=0)


def test_once_replays_a_test_that_has_a_recording_and_new_records_what_is_missing(
    suite: Suite,
) -> None:
    """The difference between the two: a test's second run that was never recorded."""
    suite.record()
    suite.edit("test_it", "    assert", "    refold_run(dig, [], tools=[search])\n    assert")
    suite.calls()

    said = suite.fails("--refold-record=once")
    assert "test_dig-2.jsonl: no recording of this run. The test has other" in said
    assert "--refold-record=new_episodes" in said
    assert suite.calls() == []

    suite.record("new_episodes")
    assert suite.calls() == ["search gold"]
    assert "test_dig-2.jsonl" in suite.logs()


@pytest.mark.parametrize("mode", some(1, ["none", "once", "new_episodes"]))
def test_a_run_that_asks_for_more_than_was_recorded_fails_in_every_mode(
    mode: str, suite: Suite
) -> None:
    """`new` adds runs, never calls to a run."""
    suite.record()
    one_more = 'await run.tool("search", query="more")'
    suite.edit("agent", "    return [*found", f"    {one_more}\n    return [*found")
    suite.calls()

    said = suite.fails(f"--refold-record={mode}")

    assert "extra_call: a call is made that was not recorded" in said
    assert suite.calls() == []


def test_a_child_that_diverged_is_named_by_its_own_log(suite: Suite) -> None:
    suite.record()
    suite.edit("agent", 'return await run.tool("search", query=query)', "return query")

    said = suite.fails()

    assert "entry 1 of recordings/test_it/test_dig.1.jsonl" in said


def test_all_records_again_and_leaves_nothing_of_the_old_tree(suite: Suite) -> None:
    """Children that the new run does not have go with the old one."""
    suite.record()
    old = (suite.recordings / "test_dig.jsonl").read_bytes()
    suite.edit("agent", "    return [*found, outcome.output]", "    return [*found, outcome]")
    suite.edit("agent", "outcome = await", "outcome = 'found gold' if queries else await")

    suite.record("all")

    assert suite.logs() == ["test_dig.jsonl"]
    assert (suite.recordings / "test_dig.jsonl").read_bytes() != old
    suite.passes()


def test_rewrite_keeps_the_old_recording_of_a_run_that_breaks_off(suite: Suite) -> None:
    """The new one lies beside it, and the report says where."""
    suite.record()
    old = {path.name: path.read_bytes() for path in suite.recordings.iterdir()}
    suite.edit("agent", "    found = [", '    raise OSError("no network")\n    found = [')

    said = suite.fails("--refold-record=rewrite")

    now = {path.name: path.read_bytes() for path in suite.recordings.iterdir()}
    assert now.items() >= old.items()
    assert now.keys() - old.keys() == {"test_dig.failed.jsonl"}
    assert (
        "not used, because its run did not complete: recordings/test_it/test_dig.failed.jsonl"
        in said
    )
    assert "refold show recordings/test_it/test_dig.failed.jsonl" in said

    suite.edit("agent", '    raise OSError("no network")\n', "")
    suite.record("rewrite")
    assert "test_dig.failed.jsonl" not in suite.logs()


@pytest.mark.parametrize("mode", some(1, ["once", "new_episodes", "rewrite"]))
def test_a_run_that_is_meant_to_fail_is_kept_when_its_test_passes(mode: str, suite: Suite) -> None:
    """That it failed is what the test says."""
    suite.write(
        test_it="""
from agent import fails

def test_fails(refold_run):
    recording = refold_run(fails)
    assert recording.error.message == "LookupError: nothing there"
"""
    )

    suite.record(mode)

    assert suite.logs() == ["test_fails.jsonl"]
    suite.passes()


def test_a_run_that_waits_for_a_person_is_no_recording(suite: Suite) -> None:
    """It has no end that a replay could compare."""
    suite.write(
        test_it="""
async def asks(run, _):
    return await run.ask("How deep?")

def test_asks(refold_run):
    assert refold_run(asks).status == "suspended"
"""
    )

    said = suite.fails("--refold-record=once")

    assert "test_asks.failed.jsonl: not a valid recording, because the run has no end" in said
    assert suite.logs() == ["test_asks.failed.jsonl"]


def test_a_log_that_cannot_be_written_on_is_kept_beside(suite: Suite) -> None:
    """What there is can be looked at, and no replay takes it for a recording."""
    suite.write(
        test_it="""
from pathlib import Path
import refold

def cuts() -> int:
    (log,) = Path("recordings/test_it").iterdir()
    with log.open("r+b") as file:
        file.truncate(9)
    return 1

def program(run: refold.PlainRun, _: object) -> object:
    return run.tool("cuts")

def test_cuts(refold_run):
    refold_run(program, tools=[cuts])
"""
    )

    assert "LogPoisoned" in suite.fails("--refold-record=once")
    assert suite.logs() == ["test_cuts.failed.jsonl"]


def test_runs_of_a_test_are_counted_or_named(suite: Suite) -> None:
    """`<test>-2`, `<test>-<name>`; a case of a parametrised test has its id in the name."""
    suite.write(
        test_it="""
import pytest
from agent import dig, search

class TestDigging:
    @pytest.mark.parametrize("metal", ["tin", "a/b"])
    def test_dig(self, refold_run, metal):
        for _ in range(2):
            refold_run(dig, [metal], tools=[search])
        refold_run(dig, [], tools=[search], name="nothing")
"""
    )

    suite.record()

    roots = [name for name in suite.logs() if not name.endswith(".1.jsonl")]
    hashed = "c14cddc0"
    assert roots == [
        f"TestDigging.test_dig[{case}]{run}.jsonl"
        for case in (f"a_b~{hashed}", "tin")
        for run in ("-2", "-nothing", "")
    ]
    suite.passes()


def test_what_was_recorded_and_is_not_used_fails_the_test(suite: Suite) -> None:
    """A run that the test does not make any more; recording again removes it."""
    suite.edit("test_it", "    assert", "    refold_run(dig, [], tools=[search])\n    assert")
    suite.record()
    suite.edit("test_it", "    refold_run(dig, [], tools=[search])\n", "")

    said = suite.fails()
    assert "recordings that this test did not use: recordings/test_it/test_dig-2.jsonl" in said
    assert "pytest test_it.py::test_dig --refold-accept" in said

    suite.record("rewrite")
    assert suite.logs() == ["test_dig.1.jsonl", "test_dig.jsonl"]
    suite.passes()


def test_a_call_that_was_recorded_and_is_not_made_fails_the_test(suite: Suite) -> None:
    """Nothing recorded remains unused, within a run as well."""
    suite.record()
    suite.edit("agent", "for query in queries]", "for query in queries[1:]]")
    suite.edit("test_it", "assert recording.output", "assert True or recording.output")

    assert "missing_call: a recorded call is no longer made" in suite.fails()


# --- what is replayed ------------------------------------------------------------------------


def test_a_program_that_does_something_else_fails_with_what_and_where(suite: Suite) -> None:
    """And with what to do if that is meant."""
    suite.record()
    suite.edit("agent", 'brief="Dig."', 'brief="Dig deeper."')

    said = suite.fails()

    assert "args_changed: a call is made with different arguments where dig > digger#2" in said
    assert f"program {suite.folder}/agent.py:20" in said
    assert '/arguments/brief: "Dig." → "Dig deeper."' in said
    assert "(entry 3 of recordings/test_it/test_dig.jsonl)" in said
    assert "If the change is intended, record the test again" in said
    assert "pytest test_it.py::test_dig --refold-accept" in said


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        ('["tin"]', '["zinc"]', '/input/0: "tin" → "zinc"'),
        ("tools=[search]", "tools=[search, refold.tool(more)]", '/tools/0: added "more"'),
        *(
            pytest.param(*words, marks=pytest.mark.long)
            for words in (
                ("limits=None", "limits=refold.Limits(max_depth=2)", "/limits/max_depth: 8 → 2"),
                ("seed=7", "seed=8", "/seed:"),
                ("['Hm.']", "['Hm.'], name='other'", '/models/: "scripted" → "other"'),
            )
        ),
    ],
)
def test_a_test_that_asks_for_another_run_fails(
    old: str, new: str, difference: str, suite: Suite
) -> None:
    """Input, tools, limits, seed and models come from the test: no re-execution sees them."""
    suite.write(
        test_it="""
import refold
from refold.engine.models import ScriptedModel
from agent import dig, search

def more() -> int:
    return 1

def test_dig(refold_run):
    model = ScriptedModel(['Hm.'])
    refold_run(dig, ["tin"], tools=[search], model=model, seed=7, limits=None)
"""
    )
    suite.record()
    suite.passes()
    suite.edit("test_it", old, new)

    said = suite.fails()

    assert (
        "the test starts a different run than the one in recordings/test_it/test_dig.jsonl" in said
    )
    assert f"differs {difference}" in said


def test_a_recording_that_was_altered_is_no_recording(suite: Suite) -> None:
    """Where, what was expected and what was found; nothing is replayed by guess."""
    suite.record()
    child = suite.recordings / "test_dig.1.jsonl"
    child.write_bytes(child.read_bytes().replace(b"found gold", b"found lead"))

    assert "log_damaged: the log cannot be trusted" in suite.fails()


def test_a_recording_without_its_end_is_no_recording(suite: Suite) -> None:
    """It says nothing of how the run ended."""
    suite.record()
    log = suite.recordings / "test_dig.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))

    assert "the recording stops in the middle: expected run.finished" in suite.fails()


def test_a_run_with_a_session_gets_a_fresh_one_each_time(tmp_path: Path) -> None:
    """In both modes."""

    @attrs.frozen
    class Found:
        text: str

    def noting(run: refold.PlainRun, text: str) -> int:
        run.session.dispatch(Found(text))
        return len(run.session.select_all(Found))

    def session() -> refold.Session:
        made = refold.Session()
        made.register(Found)
        return made

    live = _runs(tmp_path, "once")(noting, "a", session=session())
    replayed = _runs(tmp_path, "none")(noting, "a", session=session())

    assert (live.output, replayed.output) == (1, 1)


def test_a_coroutine_may_record_and_replay(suite: Suite) -> None:
    """The kernel then has a thread of its own."""
    suite.write(
        test_it="""
import asyncio
from agent import dig, search

def test_dig(refold_run):
    async def test():
        return refold_run(dig, ["tin"], tools=[search]).output
    assert asyncio.run(test()) == ["found tin", "found gold"]
"""
    )

    suite.record()
    suite.passes()


# --- network ---------------------------------------------------------------------------------

_SWALLOWS = """
import socket

async def dig(run, queries):
    if Path("online").exists():
        try:
            socket.create_connection(("127.0.0.1", 9), timeout=1)
        except Exception:
            pass
    return await run.tool("search", query="tin")
"""


def test_a_replay_that_uses_the_network_fails_though_the_program_swallows_it(
    suite: Suite,
) -> None:
    """Host, port, file and line are named; the loopback is the network, too."""
    suite.write(agent=(suite.folder / "agent.py").read_text() + _SWALLOWS)
    suite.edit("test_it", '["found tin", "found gold"]', '"found tin"')
    suite.record()
    (suite.folder / "online").touch()

    said = suite.fails()

    assert (
        "the program used the network during the replay of recordings/test_it/test_dig.jsonl"
        in said
    )
    assert f"{suite.folder}/agent.py:31: network access to 127.0.0.1:9 would leave" in said
    assert "@pytest.mark.refold(network='loopback')" in said


@pytest.mark.parametrize("allowed", some(1, ["loopback", "any"]))
def test_a_marker_lets_a_replay_use_the_network(allowed: str, suite: Suite) -> None:
    """Said by the test that needs it."""
    suite.write(agent=(suite.folder / "agent.py").read_text() + _SWALLOWS)
    suite.edit("test_it", '["found tin", "found gold"]', '"found tin"')
    suite.record()
    (suite.folder / "online").touch()
    marker = f"import pytest\n\n@pytest.mark.refold(network={allowed!r})\ndef test_dig"
    suite.edit("test_it", "def test_dig", marker)

    suite.passes()


# --- how it is called ------------------------------------------------------------------------


def _double(number: int) -> int:
    """Double a number."""
    return 2 * number


def _doubled(run: refold.PlainRun, number: int) -> object:
    return run.tool("_double", number=number)


def _runs(folder: Path, mode: Mode) -> RefoldRun:
    command = "pytest test_a.py::test_a"
    place = Place(folder, "test_a")
    return RefoldRun(Settings(place=place, mode=mode, command=command, base=folder))


@pytest.mark.parametrize("mode", ["once", "none"])
def test_a_wrong_call_is_refused_in_both_modes_alike(mode: Mode, tmp_path: Path) -> None:
    """A misspelt option does not wait for the day that somebody records."""
    _runs(tmp_path, "once")(_doubled, 4, tools=[_double])
    runs = _runs(tmp_path, mode)

    with pytest.raises(TypeError, match="runer"):
        runs(_doubled, 4, tools=[_double], runer="subprocess")
    with pytest.raises(UsageError, match="names the log after the test"):
        runs(_doubled, 4, tools=[_double], log="a.jsonl")
    with pytest.raises(UsageError, match="not starting with a digit"):
        runs(_doubled, 4, tools=[_double], name="2nd")


def test_two_runs_of_a_test_have_two_names(tmp_path: Path) -> None:
    """One would take the other's recording."""
    runs = _runs(tmp_path, "once")
    runs(_doubled, 4, tools=[_double], name="first")

    with pytest.raises(UsageError, match="another run of this test has the same name"):
        runs(_doubled, 4, tools=[_double], name="first")


@pytest.mark.long
def test_an_interrupted_recording_leaves_nothing(suite: Suite) -> None:
    """Ctrl-C while it records: no file under a hidden name stays behind."""
    suite.edit(
        "agent", "    happened(f", "    __import__('signal').raise_signal(2)\n    happened(f"
    )

    ended = suite.run_apart("--refold-record=once")

    assert ended.ret == pytest.ExitCode.INTERRUPTED
    assert suite.logs() == []


def test_a_recording_keeps_what_its_log_says(tmp_path: Path) -> None:
    """A log that `refold.record` made reads the same as a recording."""
    made = refold.record(_doubled, 2, log=tmp_path / "a.jsonl", tools=[_double])

    assert recording_of_log(made.log, _doubled) == attrs.evolve(made, duration_ms=0)


def test_recordings_lie_beside_their_test_file() -> None:
    """Or where the marker says, taken from there."""
    test = Path("tests/deep/test_a.py")

    assert folder_of(test, "recordings") == Path("tests/deep/recordings/test_a")
    assert folder_of(test, "/elsewhere") == Path("/elsewhere/test_a")
