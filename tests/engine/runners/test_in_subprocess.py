"""Children in processes of their own (CONTRACT.md §7.3); what all runners share is elsewhere.

The contract suite is `tests/contract/test_runners.py`.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest

from refold.engine.ports.ports import Delegation, Reference
from refold.engine.program.run import Run
from refold.engine.runners.in_subprocess import STUB, InSubprocess
from refold.engine.runners.recording import record
from refold.engine.secrets.vault import Vault
from tests.engine.conftest import Make, ended
from tests.support import child_programs
from tests.support.child_programs import bare, kinds, named, seeing
from tests.support.loops import some


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_a_child_sees_only_what_it_is_given(
    request_for: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No variable beyond the allowlist, no descriptor of ours, a session of its own."""
    for name in ("AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "MY_SETTING"):
        monkeypatch.setenv(name, "x")
    names = ["AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "MY_SETTING", "PATH"]

    runner = InSubprocess(environment=["MY_SETTING"])
    outcome = ended(runner.run(request_for(named("looks"), names)))

    assert outcome.ok, outcome.error
    assert outcome.output["environment"] == ["MY_SETTING", "PATH"]
    assert outcome.output["descriptors"] <= 8
    assert outcome.output["leads"] is True
    assert outcome.output["isolated"] is True
    assert outcome.output["collects"] is True
    assert outcome.output["spared"] > 10_000, "each look, and the end, went through all imports"


@pytest.mark.long
def test_memory_is_capped(request_for: Make) -> None:
    """`limit`, and the parent lives."""
    runner = InSubprocess(memory_bytes=200 << 20)

    outcome = ended(runner.run(request_for(named("eats"), 600)))

    assert outcome.error is not None
    assert (outcome.status, outcome.error.code) == ("limit", "memory_bytes")


def test_the_last_words_of_a_crash_are_in_its_message(request_for: Make) -> None:
    """What it wrote to standard error, the end of it."""
    outcome = ended(InSubprocess().run(request_for(Reference("no.such.module", "x"))))

    assert outcome.error is not None
    assert outcome.status == "failed"
    assert "no.such" in outcome.error.message


def test_no_half_of_a_secret_is_left_of_last_words(request_for: Make) -> None:
    """It is taken out before the line is cut: what is left of it would not be found."""
    request = request_for(named("complains"), "k3y-of-the-shop-that-is-long")
    request = attrs.evolve(request, vault=Vault(secrets={"KEY": "k3y-of-the-shop-that-is-long"}))

    outcome = ended(InSubprocess().run(request))

    assert outcome.error is not None
    assert ".[redacted" in outcome.error.message
    assert "k3y" not in outcome.error.message


def test_the_stub_imports_only_what_starts_fast() -> None:
    """Until it has read its envelope it cannot find Refold, and need not."""
    code = Path(STUB).read_text(encoding="utf-8").split("def main")[0]

    assert "refold" not in code.partition('"""')[2].partition('"""')[2]


SCRIPT = """
import attrs
import refold
from refold import Session
from refold.engine.ports.ports import Delegation
from refold.engine.ports.ports import Reference
from refold.engine.session import append_all


@attrs.frozen
class Finding:
    text: str


def empty():
    session = Session()
    session.register(Finding, Finding, append_all)
    return session


async def hand_on(run, given):
    run.session.dispatch(Finding(given[0]))
    if not given[1:]:
        return [each.text for each in run.session.select_all(Finding)]
    child = Delegation(program=hand_on, input=given[1:], session=run.session.clone())
    outcome = await run.delegate(child)
    return outcome.output or str(outcome.error)


if __name__ == "__main__":
    given = ["parent", "child", "grandchild"]
    session = empty()
    session.factory = Reference(__name__, "empty", {})
    ended = refold.record(hand_on, given, session=session, runner="subprocess", log="run.jsonl")
    print(ended.output, ended.error)
"""


@pytest.mark.long
def test_a_script_may_refer_to_itself_by_its_name(tmp_path: Path) -> None:
    """Its `__main__` is the stub in the child: the file that runs is referred to instead.

    In the child, its name is one that only the child knows: what that starts gets the file, too.
    """
    (tmp_path / "script.py").write_text(SCRIPT)

    ended = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert ended.stdout == "['parent', 'child', 'grandchild'] None\n", ended.stderr


@pytest.mark.parametrize(
    ("make", "factory", "expected"),
    some(
        1,
        [
            (seeing, "seeing", ["Seen"]),
            (bare, None, []),
            (seeing, None, "a session with a factory: Session(factory="),
            (seeing, "bare", "has no reducer for Seen: register all"),
        ],
    ),
)
def test_a_childs_session_has_the_reducers_of_its_parents(
    tmp_path: Path, make: Any, factory: str | None, expected: Any
) -> None:
    """One that lacks some would take what the child tells it, and lose it."""

    async def parent(run: Run, _given: Any) -> Any:
        child = Delegation(program=kinds, session=run.session.clone())
        outcome = await run.delegate(child)
        return outcome.output if outcome.ok else str(outcome.error)

    session = make()
    session.factory = Reference(child_programs.__name__, factory, {}) if factory else None
    log = tmp_path / "run.jsonl"

    found = record(parent, log=log, session=session, runner="subprocess").output

    assert expected in found if isinstance(expected, str) else found == expected
