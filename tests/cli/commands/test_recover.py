"""`refold recover`: what is left of a log, and what can be kept of it (CONTRACT.md §4.5)."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from click.testing import Result

from refold import Delegation, Run, record
from refold.cli.schema.documents import schema
from tests.support.child_programs import add, dies

Invoke = Callable[..., Result]


@pytest.fixture
def log(survey_log: Path, tmp_path: Path) -> Path:
    """A survey's logs, to be damaged."""
    shutil.copytree(survey_log.parent, tmp_path / "runs")
    return tmp_path / "runs" / survey_log.name


def _damage(log: Path, line: int) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    lines[line - 1] = lines[line - 1].replace(b'"meta"', b'"mete"')
    log.write_bytes(b"".join(lines))


def test_sound_logs_are_sealed_and_nothing_is_to_be_done(log: Path, invoke: Invoke) -> None:
    said = invoke("recover", log)

    assert said.exit_code == 0
    assert said.stdout.count("\n  sealed") == 4
    assert said.stderr == ""
    assert invoke("recover", log, "--salvage", log.with_name("new.jsonl")).exit_code == 2


def test_a_torn_tail_is_told_with_what_it_began(log: Path, invoke: Invoke) -> None:
    """And the way on is named; the log is not touched."""
    log.write_bytes(log.read_bytes()[:-20])
    before = log.read_bytes()

    said = invoke("recover", log)

    assert said.exit_code == 3
    assert "torn" in said.stdout
    assert "a cut run.finished" in said.stdout
    assert "expected" not in said.stdout  # that is said of damage
    assert f"without the torn tail: refold resume {log}" in said.stderr
    assert log.read_bytes() == before


def test_of_a_log_without_an_end_no_tail_is_taken_off(log: Path, invoke: Invoke) -> None:
    """What is cut at the end of a line has none."""
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))

    assert f"to resume the run: refold resume {log}" in invoke("recover", log).stderr


def test_bytes_behind_a_seal_are_damage(log: Path, invoke: Invoke) -> None:
    """No crash leaves them."""
    with log.open("ab") as file:
        file.write(b"\x1b[2Jmore")

    said = invoke("recover", log)

    assert said.exit_code == 3
    assert "damaged" in said.stdout
    assert "\x1b" not in said.stdout


def test_what_verifies_of_a_damaged_log_becomes_a_log(log: Path, invoke: Invoke) -> None:
    """One that verifies as intact and not complete, shows what it is, and replays to its end."""
    _damage(log, 8)
    told = invoke("recover", log)
    assert re.search(r"line 8 \(byte \d+\): .*\n    expected .+\n    found    .+\n", told.stdout)
    advised = told.stderr.split("--salvage ")[1].strip()

    said = invoke("recover", log, "--salvage", advised, "--json")

    assert said.exit_code == 0
    document = json.loads(said.stdout)
    jsonschema.validate(document, schema("recover"))
    assert document["salvaged"]["entries"] == 7
    assert document["logs"][0]["state"] == "damaged"
    for holder in (document["salvaged"], document["logs"][0]):
        head, holder["head"] = holder["head"], "x"
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(document, schema("recover"))
        holder["head"] = head
    verified = json.loads(invoke("verify", advised, "--json").stdout)
    assert (verified["intact"], verified["complete"]) == (True, False)
    assert "x-refold.salvaged" in invoke("tail", advised).stdout
    assert invoke("replay", advised).exit_code == 0
    assert invoke("recover", advised).exit_code == 3


def test_a_packed_log_is_salvaged_too(log: Path, invoke: Invoke, tmp_path: Path) -> None:
    """Its files are named as it was given."""
    _damage(log.with_name("survey.2.jsonl"), 3)
    packed = tmp_path / "report.refold"
    assert invoke("pack", log, "-o", packed).exit_code == 3

    told = invoke("recover", packed)
    made = invoke("recover", packed, "--salvage", tmp_path / "out" / "kept.jsonl")

    assert f"{packed}:survey.2.jsonl" in told.stdout
    assert (told.exit_code, made.exit_code) == (3, 0)
    assert "3 child logs" in made.stdout
    verified = json.loads(invoke("verify", tmp_path / "out" / "kept.jsonl", "--json").stdout)
    assert (verified["intact"], verified["complete"]) == (True, False)


def test_a_log_of_which_nothing_verifies_gets_no_advice_to_salvage_it(
    log: Path, invoke: Invoke
) -> None:
    """The advice would only fail."""
    _damage(log, 1)

    said = invoke("recover", log)

    assert said.exit_code == 3
    assert "no entry is valid" in said.stderr
    assert "--salvage" not in said.stderr


def test_logs_that_chain_and_do_not_fit_together_are_no_sound_ones(
    log: Path, invoke: Invoke
) -> None:
    """Two children's logs changed places: each verifies by itself."""
    one, other = log.with_name("survey.1.jsonl"), log.with_name("survey.2.jsonl")
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)

    said = invoke("recover", log)

    assert said.exit_code == 3
    assert said.stdout.count("\n  damaged") == 2
    assert "another child" in said.stdout
    assert f"refold verify {log}" in said.stderr


def test_a_missing_log_of_a_child_is_told(log: Path, invoke: Invoke) -> None:
    """Who asks what is left wants to know what is not."""
    log.with_name("survey.3.jsonl").unlink()

    said = invoke("recover", log, "--json")

    assert "found    " in invoke("recover", log).stdout
    jsonschema.validate(json.loads(said.stdout), schema("recover"))
    assert said.exit_code == 3
    assert json.loads(said.stdout)["logs"][-1]["state"] == "missing"


def test_a_child_that_broke_off_and_was_joined_is_sound(log: Path, invoke: Invoke) -> None:
    """Its parent holds its head: there is nothing to go on with."""

    async def above(run: Run, _: object) -> str:
        return (await run.delegate(Delegation(program=dies, input="exit"))).status

    faulty = record(above, log=log.with_name("below.jsonl"), tools=[add], runner="subprocess")
    assert faulty.output == "failed"

    said = invoke("recover", faulty.log)

    assert said.exit_code == 0
    assert "\n  joined  3 entries verify" in said.stdout
    assert said.stderr == ""


@pytest.mark.parametrize("words", [["none.jsonl"], ["."]])
def test_what_is_no_log_is_usage(words: list[str], invoke: Invoke) -> None:
    assert invoke("recover", *words).exit_code == 2


@pytest.mark.parametrize("command", ["recover", "diff", "verify", "show", "ls", "pack"])
def test_a_hole_in_a_childs_log_keeps_no_command_busy(
    command: str, log: Path, invoke: Invoke
) -> None:
    """A child's log says that it has terabytes: nothing reads them, or packs them."""
    whole = shutil.copytree(log.parent, log.parent.with_name("whole")) / log.name
    os.truncate(log.with_name(f"{log.stem}.1.jsonl"), 2**42)

    said = invoke(command, log.parent if command == "ls" else log, *[whole] * (command == "diff"))

    codes = {"recover": 3, "verify": 3, "pack": 2}
    assert said.exit_code == codes.get(command, 0)
    if command == "pack":
        assert f"of them in {log.stem}.1.jsonl" in said.stderr
        assert not list(log.parent.glob("*.refold*"))
