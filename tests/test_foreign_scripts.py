"""Programs that know nothing of Refold do their work against the local upstream alone.

The control experiment of everything that records or replays such programs: with nothing between a
script and the models it prints what is expected, asks what is expected, and ends well.
"""

import subprocess
from pathlib import Path

import attrs
import pytest

from tests.support import foreign
from tests.support.foreign import SCRIPTS, Script
from tests.support.upstream import PLACEHOLDER_KEY, Upstream

WATCHED = ("pydantic_delegate.py", "openai_stream.py")
"""Scripts that are watched while they work; starting one twice costs seconds of imports."""
SLOW = ("agents_handoff.py", "anthropic_stream.py", "node_agent.mjs")
"""Scripts that import for seconds."""
EACH = pytest.mark.parametrize("script", SCRIPTS.values(), ids=list(SCRIPTS))


def ends_well(script: Script, process: subprocess.Popen[str], upstream: Upstream) -> None:
    """Assert that the script prints what the answers say, asks what it should, and ends 0."""
    output, errors = process.communicate()

    assert (process.returncode, output, errors) == (0, script.output, "")
    assert sorted(request.rule for request in upstream.received) == sorted(script.rules)
    assert all(PLACEHOLDER_KEY in str(request.headers) for request in upstream.received)
    assert upstream.hung_up == 0


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] if name in SLOW else [])
        for name in SCRIPTS
        if name not in WATCHED
    ],
)
def test_a_script_does_its_work_alone(name: str, pytestconfig: pytest.Config) -> None:
    """Base URLs and a key in its environment are all that it needs."""
    script = SCRIPTS[name]
    folder = foreign.folder_of(script, pytestconfig)

    with Upstream() as upstream, foreign.start(script, folder, upstream) as process:
        ends_well(script, process, upstream)


@pytest.mark.long
def test_a_second_agent_is_asked_twice_at_once(pytestconfig: pytest.Config) -> None:
    """Both requests of the guide are open before either is answered."""
    script = SCRIPTS["pydantic_delegate.py"]
    folder = foreign.folder_of(script, pytestconfig)

    with Upstream() as upstream:
        upstream.use("guide-", hold=True)
        with foreign.start(script, folder, upstream) as process:
            upstream.wait_for_open(2)
            upstream.release()
            ends_well(script, process, upstream)


@pytest.mark.long
def test_a_script_prints_while_the_answer_comes(pytestconfig: pytest.Config) -> None:
    """The first piece is on standard output while the upstream still holds the rest."""
    script = SCRIPTS["openai_stream.py"]
    folder = foreign.folder_of(script, pytestconfig)
    piece = "Let me lo"

    with Upstream() as upstream:
        upstream.use("weather-asks", hold_after=2)
        with foreign.start(script, folder, upstream) as process:
            assert process.stdout
            first = process.stdout.read(len(piece))
            held = upstream.open_now
            upstream.release()
            ends_well(attrs.evolve(script, output=script.output[len(piece) :]), process, upstream)

    assert (first, held) == (piece, 1)


def test_a_script_fails_where_nothing_listens(pytestconfig: pytest.Config) -> None:
    """After its end the upstream answers nobody; a script that needs it says so."""
    script = SCRIPTS["curl_agent.sh"]
    folder = foreign.folder_of(script, pytestconfig)
    with Upstream() as upstream:
        pass

    with foreign.start(script, folder, upstream) as process:
        output, errors = process.communicate()

    assert process.returncode != 0
    assert "connect" in errors
    assert output == ""


@EACH
def test_a_changed_copy_asks_something_else(script: Script, tmp_path: Path) -> None:
    """One word of SYSTEM differs, and nothing else of the script."""
    before = (foreign.FOREIGN / script.name).read_text()

    after = (foreign.changed_copy(script, tmp_path) / script.name).read_text()

    (line,) = set(after.splitlines()) - set(before.splitlines())
    assert "SYSTEM" in line
    assert line.replace("at length", "briefly") in before


@pytest.mark.long
@pytest.mark.parametrize("name", ["curl_agent.sh", foreign.NODE])
def test_a_changed_copy_is_answered_all_the_same(
    name: str, pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    """No rule of the traffic looks at the word that differs."""
    script = SCRIPTS[name]
    original = foreign.folder_of(script, pytestconfig)
    folder = foreign.changed_copy(script, tmp_path, original=original)

    with Upstream() as upstream, foreign.start(script, folder, upstream) as process:
        ends_well(script, process, upstream)

    assert all("at length" in request.raw.decode() for request in upstream.received)


@EACH
def test_a_script_knows_nothing_of_refold(script: Script) -> None:
    """And is a page at most."""
    text = (foreign.FOREIGN / script.name).read_text()

    assert "refold" not in text.lower()
    assert len(text.splitlines()) < 60
