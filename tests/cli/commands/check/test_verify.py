"""`refold verify` gives three answers a tree, and 3 where one of the first two is no."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

import refold
from refold.engine.log.lock import lock
from refold.engine.log.names import files_of
from refold.engine.log.pack import pack
from tests.replay.audit.test_verify import with_files
from tests.support.schemas import validate
from tests.support.stores import folder_store, record_run

Invoke = Callable[..., Result]


@pytest.fixture
def log(survey_log: Path, tmp_path: Path) -> Path:
    """Return a copy of the survey's logs, to be damaged."""
    shutil.copytree(survey_log.parent, tmp_path / "logs")
    return tmp_path / "logs" / survey_log.name


def test_a_sound_tree_is_fine(log: Path, invoke: Invoke) -> None:
    said = invoke("verify", log)

    assert said.exit_code == 0
    assert "intact     yes  4 logs" in said.stdout


def test_damage_says_where_what_was_expected_and_what_was_found(log: Path, invoke: Invoke) -> None:
    child = log.with_name("survey.2.jsonl")
    child.write_bytes(child.read_bytes().replace(b"completed", b"cOmpleted", 1))

    said = invoke("verify", log)

    assert said.exit_code == 3
    assert f"{child}:" in said.stdout
    assert "hash: the line was altered or replaced" in said.stdout
    assert "expected" in said.stdout
    assert "found" in said.stdout
    assert f"to save the valid entries: refold verify {log} --salvage " in said.stderr


def test_a_root_log_that_is_missing_beside_its_childrens_is_reported(
    log: Path, invoke: Invoke
) -> None:
    """As `refold ls` reports it, in the folder and below."""
    shutil.copytree(log.parent, log.parent / "below")
    assert invoke("verify", log.parent).exit_code == 0
    log.unlink()

    said = invoke("verify", log.parent)

    assert said.exit_code == 3
    assert f"{log}: No such file or directory, but other files of its run" in said.stdout
    assert "1 root log intact and complete, 1 not" in said.stdout


def test_an_unsealed_root_is_intact_and_not_complete(log: Path, invoke: Invoke) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-1]))

    document = json.loads(invoke("verify", log, "--json").stdout)

    assert document["logs"][0]["intact"]
    assert not document["logs"][0]["complete"]
    assert invoke("verify", log).exit_code == 3


def test_a_torn_tail_is_reported_with_its_place(log: Path, invoke: Invoke) -> None:
    content = log.read_bytes()
    log.write_bytes(content[:-10])

    said = invoke("verify", log, "--json")

    first = json.loads(said.stdout)["logs"][0]
    assert said.exit_code == 3
    assert [damage["what"] for damage in first["damage"]] == ["torn tail"]
    assert first["intact"]


def test_another_head_than_the_one_kept_elsewhere_is_found(log: Path, invoke: Invoke) -> None:
    head = json.loads(invoke("verify", log, "--json").stdout)["logs"][0]["head"]

    assert invoke("verify", log, "--heads", head).exit_code == 0
    assert invoke("verify", log, "--heads", "0" * 64).exit_code == 3
    assert invoke("verify", log, log, "--heads", head).exit_code == 2


def test_several_logs_make_one_document(log: Path, invoke: Invoke, tmp_path: Path) -> None:
    packed = pack(log, tmp_path / "packed.refold")

    document = json.loads(invoke("verify", log, packed, "--json").stdout)

    assert len(document["logs"]) == 8
    assert document["intact"]


def test_of_a_folder_each_root_log_is_a_row(log: Path, invoke: Invoke, tmp_path: Path) -> None:
    """As `replay` finds them, at any depth; the exit code is the worst of them."""
    folder = log.parent
    (folder / "below").mkdir()
    pack(log, folder / "below" / "report.refold")

    fine = invoke("verify", folder)
    log.with_name("cut.jsonl").write_bytes(
        b"".join(log.read_bytes().splitlines(keepends=True)[:-1])
    )
    log.with_name("junk.jsonl").write_text("junk\n")
    (folder / "below" / "junk.refold").write_text("junk")
    said = invoke("verify", folder, tmp_path / "logs" / "junk.jsonl")
    document = json.loads(invoke("verify", folder, "--json").stdout)

    assert fine.exit_code == 0, fine.output
    rows = [line.split() for line in fine.stdout.splitlines()[1:3]]
    assert [row[:3] for row in rows] == [["yes", "yes", "4"]] * 2
    assert [Path(row[4]).name for row in rows] == [log.name, "report.refold"]
    assert "2 root logs intact and complete\n" in fine.stdout
    assert said.exit_code == 3
    assert "2 root logs intact and complete, 3 not" in said.stdout
    assert "junk.refold: expected a packed log" in said.stdout
    assert "no seal" in said.stdout
    validate(document, "verify")
    assert not document["intact"]
    assert not document["complete"]
    assert len(document["logs"]) == 4 + 4 + 4 + 1 + 1


@pytest.mark.parametrize("what", ["not here", "not checked: git is not installed"])
def test_contents_that_were_not_looked_at_are_counted_for_a_folder_too(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """A row that says `yes` says nothing of them."""
    (tmp_path / "runs").mkdir()
    with_files(log := tmp_path / "runs" / "a.jsonl")
    if what == "not here":
        shutil.rmtree(files_of(log))
    else:
        monkeypatch.setenv("PATH", str(log.parent))

    for named in (log, log.parent):
        assert f"3 contents of files {what}" in invoke("verify", named).output


def test_of_a_folder_there_is_no_head(log: Path, invoke: Invoke, tmp_path: Path) -> None:
    """And a folder without a log is a mistake."""
    (tmp_path / "none").mkdir()

    assert invoke("verify", log.parent, "--heads", "0" * 64).exit_code == 2
    assert invoke("verify", tmp_path / "none").exit_code == 2


def test_a_packed_log_is_named_by_itself_and_not_by_where_it_was_unpacked(
    log: Path, invoke: Invoke, tmp_path: Path
) -> None:
    packed = pack(log, tmp_path / "report.refold")

    document = json.loads(invoke("verify", packed, "--json").stdout)

    assert document["logs"][1]["path"] == f"{packed}:survey.1.jsonl"


def test_a_damaged_archive_in_a_folder_is_of_no_newer_format(
    log: Path, invoke: Invoke, tmp_path: Path
) -> None:
    packed = pack(log, tmp_path / "report.refold")
    packed.write_bytes(packed.read_bytes()[:200])

    document = json.loads(invoke("verify", tmp_path, "--json").stdout)

    assert [each["what"] for each in document["logs"][0]["damage"]] == ["not a log"]


def test_a_log_that_is_not_there_is_usage(invoke: Invoke, tmp_path: Path) -> None:
    said = invoke("verify", tmp_path / "no.jsonl")

    assert said.exit_code == 2
    assert "refold ls" in said.stderr


def test_a_head_that_is_none_is_usage(log: Path, invoke: Invoke) -> None:
    short, other = (invoke("verify", log, "--heads", head) for head in ("0" * 16, "x" * 64))

    assert (short.exit_code, other.exit_code) == (2, 2)
    assert "a head has 64 hex digits; this one has 16" in short.stderr
    assert "xxx: No such file" in other.stderr


async def asks(run: refold.Run, text: str) -> str:
    return str(await run.ask(text))


@pytest.mark.long
def test_all_commands_name_the_question_for_which_a_run_waits(
    tmp_path: Path, invoke: Invoke
) -> None:
    """In the same words."""
    log = refold.record(asks, "Go?", log=tmp_path / "a.jsonl").log
    program = f"{__file__}:asks"
    words = (("verify", log), ("replay", log, "--program", program), ("ls", tmp_path),
             ("show", log), ("export", log, "--to", "markdown", "-o", "-"),
             ("ls", log, "--diff", log))  # fmt: skip

    for each in words:
        done = invoke(*each)
        told = "waits for you" if each[0] in ("ls", "show") else "waits for you: Go?"
        assert told in (done.stdout + done.stderr).replace("\\", ""), each


def test_what_is_wrong_with_the_end_is_said_as_it_is(log: Path, invoke: Invoke) -> None:
    """A seal that is there is not said to lack; what a damaged log's end is, nobody knows."""
    content = log.read_bytes()
    lines = content.splitlines(keepends=True)

    other = invoke("verify", log, "--heads", "0" * 64).stdout
    log.write_bytes(b"".join(lines[:-1]))
    unsealed = invoke("verify", log).stdout
    with log.open("r+b") as written:
        lock(written.fileno(), log)
        running = invoke("verify", log).stdout
    log.write_bytes(content.replace(lines[2], lines[2].replace(b'"seq":2', b'"seq":7'), 1))
    damaged = invoke("verify", log, "--heads", "0" * 64).stdout

    assert "complete   NO   its head differs from the expected one" in other
    assert "no seal" not in other + damaged
    assert "complete   NO   no seal: broke off" in unsealed
    assert "complete   NO   no seal: running" in running
    assert "complete   NO   unknown: the log is damaged at line 3" in damaged


def test_of_a_damaged_child_it_is_said_which_and_where(log: Path, invoke: Invoke) -> None:
    child = log.with_name("survey.2.jsonl")
    child.write_bytes(child.read_bytes().replace(b'"seq":1', b'"seq":7', 1))

    assert "unknown: survey.2.jsonl is damaged at line 2" in invoke("verify", log).stdout


def test_the_head_is_printed_whole(log: Path, invoke: Invoke) -> None:
    head = json.loads(invoke("verify", log, "--json").stdout)["logs"][0]["head"]

    assert head in invoke("verify", log).stdout.split()


# --- stores ----------------------------------------------------------------------------------


@pytest.fixture
def stored(log: Path, tmp_path: Path, invoke: Invoke) -> str:
    """A store with the survey, and its head in the folder `heads`."""
    url = folder_store(tmp_path / "store")
    heads = folder_store(tmp_path / "heads")
    assert invoke("push", log, url, "--heads", heads).exit_code == 0
    return url


def test_a_stored_run_is_verified_where_it_is(stored: str, tmp_path: Path, invoke: Invoke) -> None:
    """One, a child, or all; named by their URLs, and never by where they were fetched to."""
    heads = (tmp_path / "heads").as_uri()

    one = invoke("verify", f"{stored}/survey.jsonl", "--heads", heads)
    child = invoke("verify", f"{stored}/survey.1.jsonl", "--json")
    every = invoke("verify", stored, "--heads", heads)

    assert [each.exit_code for each in (one, child, every)] == [0, 0, 0]
    assert "intact     yes  4 logs" in one.stdout
    validate(json.loads(child.stdout), "verify")
    assert json.loads(child.stdout)["logs"][0]["path"] == f"{stored}/survey.1.jsonl"
    assert "1 root log intact and complete" in every.stdout


def test_a_byte_that_was_changed_in_a_store_is_found(
    stored: str, tmp_path: Path, invoke: Invoke
) -> None:
    """Whichever object it is in; one run that is damaged stops no other."""
    record_run(tmp_path / "more" / "other.jsonl")
    assert invoke("push", tmp_path / "more", stored).exit_code == 0

    for path in sorted((tmp_path / "store" / "objects").rglob("*/*")):
        content = path.read_bytes()
        path.write_bytes(content[:30] + bytes([content[30] ^ 1]) + content[31:])
        said = invoke("verify", stored)
        assert said.exit_code == 3
        assert path.name in said.stdout
        assert "1 root log intact and complete, 1 not" in said.stdout
        path.write_bytes(content)
    assert invoke("verify", stored).exit_code == 0


def test_a_run_that_was_written_anew_is_found_by_the_heads_elsewhere(
    stored: str, tmp_path: Path, invoke: Invoke
) -> None:
    """It is intact, whoever wrote it; and so are one that is gone and one that is new."""
    heads = (tmp_path / "heads").as_uri()
    shutil.rmtree(tmp_path / "store")
    record_run(tmp_path / "forged" / "survey.jsonl")
    assert invoke("push", tmp_path / "forged", folder_store(tmp_path / "store")).exit_code == 0

    assert invoke("verify", f"{stored}/survey.jsonl").exit_code == 0
    one = invoke("verify", f"{stored}/survey.jsonl", "--heads", heads)
    local = invoke("verify", tmp_path / "forged", "--heads", heads)
    (tmp_path / "store" / "runs" / "survey.json").rename(tmp_path / "store" / "runs" / "new.json")
    gone = invoke("verify", stored, "--heads", heads)

    assert [each.exit_code for each in (one, local, gone)] == [3, 3, 3]
    assert "another head" in one.stdout
    assert "another head" in local.stdout
    assert "0 root logs intact and complete, 2 not" in gone.stdout
    assert "no such run is stored" in gone.stdout


def test_a_run_whose_head_nobody_kept_is_not_fine(
    stored: str, tmp_path: Path, invoke: Invoke
) -> None:
    record_run(tmp_path / "more" / "other.jsonl")
    assert invoke("push", tmp_path / "more", stored).exit_code == 0

    said = invoke("verify", stored, "--heads", (tmp_path / "heads").as_uri())

    assert said.exit_code == 1
    assert "none kept" in said.stdout
    assert invoke("verify", "x.jsonl", "--heads", "0" * 16).exit_code == 2


def test_of_much_damage_a_few_places_are_shown(log: Path, invoke: Invoke) -> None:
    """And how many more there are; a child that is missing is counted where the root is sealed."""
    one, two, three = (log.with_name(f"survey.{number}.jsonl") for number in (1, 2, 3))
    one.unlink()
    missing = invoke("verify", log).stdout
    one.mkdir()
    unread = invoke("verify", log)
    rows = invoke("verify", log.parent)
    one.rmdir()
    for child in (two, three):
        child.unlink()
    several = invoke("verify", log).stdout

    assert "complete   NO   1 child log missing, or without an end" in missing
    assert "complete   NO   3 child logs missing, or without an end" in several
    assert "intact     yes  1 of 4 logs could be read, " in several
    for said in (missing, unread.stdout, rows.stdout):
        assert "intact     yes  3 of 4 logs could be read, " in said
    assert (unread.exit_code, rows.exit_code) == (3, 3)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two runs of one seed that did the same, and one that was given another number."""
    for name, number in (("one", 1), ("again", 1), ("other", 2)):
        record_run(tmp_path / "runs" / f"{name}.jsonl", number)
    return tmp_path / "runs"


# --- kept heads ------------------------------------------------------------------------------


@pytest.fixture
def folder(survey_log: Path, tmp_path: Path) -> Path:
    """A folder with a run, and the same in a folder below it."""
    shutil.copytree(survey_log.parent, tmp_path / "runs")
    shutil.copytree(survey_log.parent, tmp_path / "runs" / "july")
    return tmp_path / "runs"


def _expected(said: Result) -> dict[str, str]:
    rows = json.loads(said.stdout)
    validate(rows, "verify")
    return {Path(row["log"]).name: row["expected"] for row in rows["expected_heads"]}


def test_heads_are_the_same_other_missing_or_were_not_kept(folder: Path, invoke: Invoke) -> None:
    """A sound log of which no head is kept is not called damaged, whatever else is asked."""
    heads = folder.parent / "heads.txt"
    written = invoke("verify", folder, "--write-heads", heads)
    rows = [json.loads(line) for line in heads.read_text().splitlines()]
    assert written.exit_code == 0, written.output
    assert [row["log"] for row in rows] == ["survey.jsonl", "july/survey.jsonl"]
    same = invoke("verify", folder, "--heads", heads, "--json")
    twice = invoke("verify", folder / "survey.jsonl", "--heads", heads)
    (folder / "july").rename(folder / "august")
    heads.write_text(heads.read_text().replace(rows[0]["head"], rows[0]["head"][::-1]))
    told = invoke("verify", folder, "--heads", heads)
    found = invoke("verify", folder, "--heads", heads, "--json")
    pack(folder / "survey.jsonl", packed := folder / "new.refold")
    new = invoke("verify", packed, "--heads", heads)

    assert same.exit_code == 0
    assert set(_expected(same).values()) == {"same"}
    assert twice.exit_code == 2, "two logs of that name are listed"
    assert (told.exit_code, found.exit_code) == (3, 3)
    states = [row["expected"] for row in json.loads(found.stdout)["expected_heads"]]
    assert sorted(states) == ["missing", "none kept", "other"]
    assert re.search(r"yes +yes +none kept .*august", told.stdout)
    assert "its head differs from the expected one" in told.stdout
    assert re.search(r"july/survey.jsonl\n +expected +missing .*No such file", told.stdout)
    assert new.exit_code == 1
    assert re.search("intact +yes.*complete +yes.*expected +none kept", new.stdout, re.DOTALL)


def test_heads_are_written_of_sound_logs_alone(folder: Path, invoke: Invoke) -> None:
    log, heads = folder / "survey.jsonl", folder.parent / "heads.txt"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))

    said = invoke("verify", folder, "--write-heads", heads)

    assert said.exit_code == 3
    listed = heads.read_text().splitlines()
    assert [json.loads(line)["log"] for line in listed] == ["july/survey.jsonl"]


@pytest.mark.parametrize("line", ["x", "{}", '{"log":"a.jsonl","run":"b","entries":1,"head":"c"}'])
def test_a_file_without_heads_is_refused(folder: Path, invoke: Invoke, line: str) -> None:
    heads = folder.parent / "heads.txt"
    heads.write_text(f"{line}\n")

    said = invoke("verify", folder, "--heads", heads)

    assert said.exit_code == 2
    assert f"{heads}:1: expected a line of" in " ".join(said.output.split())


# --- salvaged logs ---------------------------------------------------------------------------


def _damage(log: Path, line: int) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    lines[line - 1] = lines[line - 1].replace(b'"meta"', b'"mete"')
    log.write_bytes(b"".join(lines))


def test_the_valid_entries_of_a_damaged_log_become_a_log(folder: Path, invoke: Invoke) -> None:
    """The advice works as printed; the new log is intact, not complete, and replays to its end."""
    log = folder / "survey.jsonl"
    _damage(log, 8)
    advised = invoke("verify", log).stderr.split("--salvage ")[1].strip()

    said = invoke("verify", log, "--salvage", advised, "--json")

    assert said.exit_code == 3
    document = json.loads(said.stdout)
    validate(document, "verify")
    assert document["salvaged"]["entries"] == 7
    verified = json.loads(invoke("verify", advised, "--json").stdout)
    assert (verified["intact"], verified["complete"]) == (True, False)
    assert "x-refold.salvaged" in invoke("show", advised, "--events").stdout
    assert invoke("replay", advised).exit_code == 0
    again = invoke("verify", log, "--salvage", advised)
    assert again.exit_code == 2, "nothing is replaced"


def test_a_packed_log_is_salvaged_too(folder: Path, invoke: Invoke, tmp_path: Path) -> None:
    """Its files are named as it was given."""
    _damage(folder / "survey.2.jsonl", 3)
    pack(folder / "survey.jsonl", packed := tmp_path / "report.refold")

    made = invoke("verify", packed, "--salvage", tmp_path / "out" / "kept.jsonl")

    assert f"{packed}:survey.2.jsonl" in made.stdout
    assert "3 child logs" in made.stdout
    verified = json.loads(invoke("verify", tmp_path / "out" / "kept.jsonl", "--json").stdout)
    assert (verified["intact"], verified["complete"]) == (True, False)


def test_a_log_without_a_valid_entry_is_not_to_be_salvaged(folder: Path, invoke: Invoke) -> None:
    """The advice would only fail."""
    _damage(folder / "survey.jsonl", 1)

    said = invoke("verify", folder / "survey.jsonl")
    asked = invoke("verify", folder / "survey.jsonl", "--salvage", folder / "new.jsonl")

    assert "no entry is valid" in said.stderr
    assert "--salvage" not in said.stderr
    assert (asked.exit_code, "salvaged" in asked.stdout) == (3, False)


@pytest.mark.parametrize("command", ["diff", "verify", "show", "ls", "export"])
def test_a_hole_in_a_childs_log_keeps_no_command_busy(
    command: str, folder: Path, invoke: Invoke
) -> None:
    """A child's log says that it has terabytes: nothing reads them, or packs them."""
    log = folder / "survey.jsonl"
    whole = shutil.copytree(log.parent, log.parent.with_name("whole")) / log.name
    os.truncate(log.with_name(f"{log.stem}.1.jsonl"), 2**42)
    given = [log.parent if command == "ls" else log, *[whole] * (command == "diff")]

    said = invoke(command, *given, *["--to", "refold"] * (command == "export"))

    assert said.exit_code == {"verify": 3, "export": 2}.get(command, 0)
    if command == "export":
        assert f"of them in {log.stem}.1.jsonl" in said.stderr
