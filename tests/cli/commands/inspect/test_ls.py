"""`refold ls` lists root runs, the newest last, and whatever else lies there does not trip it."""

import datetime as dt
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import refold
from refold.cli.output import words
from refold.engine.errors import OptionRefused
from refold.engine.events.events import ModelAnswered
from refold.engine.events.outcome import Usage
from refold.engine.log.pack import pack
from refold.engine.log.reader import read_entries
from refold.engine.observed.journal import ObservedLog
from refold.engine.observed.observer import Observer
from refold.engine.ports.clock import fixed_at
from refold.engine.runners.recording import record
from refold.engine.secrets.vault import Vault
from tests.support.loops import for_each
from tests.support.stores import folder_store, record_run
from tests.support.watched import ask, says, user

Invoke = Callable[..., Result]


async def _nothing(_: Any, __: Any) -> None:
    """Do nothing."""


@pytest.fixture
def folder(survey_log: Path, tmp_path: Path) -> Path:
    shutil.copytree(survey_log.parent, tmp_path / "runs")
    return tmp_path / "runs"


def _runs(folder: Path, invoke: Invoke) -> list[dict[str, Any]]:
    said = invoke("ls", folder, "--json")
    assert said.exit_code == 0
    runs: list[dict[str, Any]] = json.loads(said.stdout)["runs"]
    return runs


def test_a_root_is_listed_once_with_its_children_counted(folder: Path, invoke: Invoke) -> None:
    (run,) = _runs(folder, invoke)

    entries = len((folder / "survey.jsonl").read_bytes().splitlines())
    assert (run["program"], run["status"]) == ("survey_tree", "completed")
    first = json.loads((folder / "survey.jsonl").read_bytes().splitlines()[0])
    began = dt.datetime.fromtimestamp(first["meta"]["wall_us"] // 1_000_000, dt.UTC)
    assert dt.datetime.fromisoformat(run["started"]) == began
    assert (run["entries"], run["runs"]) == (entries, 4)
    assert run["bytes"] == sum(path.stat().st_size for path in folder.glob("*.jsonl"))


def test_people_read_a_run_on_one_line_its_log_before_the_rest(
    folder: Path, invoke: Invoke
) -> None:
    place, heads, line = invoke("ls", folder).stdout.splitlines()
    (run,) = _runs(folder, invoke)

    assert heads.split() == ["started", "status", "run", "below", "time", "what"]
    assert line.startswith(run["started"].replace("T", " ")[5:16] + "  completed  ")
    assert place == f"{folder}:"
    numbers, _, what = line.partition("  survey  ")[2].partition("survey_tree")
    assert numbers.split(None, 1) == ["3", f"{words.seconds(run['duration_ms'])}  "]
    assert what.startswith('  {"title":"a tree",')


def test_a_run_has_a_short_name_that_commands_take(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the list fits 80 columns up to there."""
    monkeypatch.chdir(tmp_path)
    made = record(_nothing).log
    record(_nothing, log=tmp_path / "runs" / "mine.jsonl")
    shutil.copytree("runs", "others")

    rows = invoke("ls").stdout.splitlines()[1:]
    place, _, *elsewhere = invoke("ls", "others").stdout.splitlines()

    names = [row.split()[3] for row in rows]
    assert names == [made.stem[-6:], "mine"] == [row.split()[3] for row in elsewhere]
    assert place == "others:"
    assert all(row.index("_nothing") < 60 for row in (*rows, *elsewhere))
    for name in names:
        assert invoke("show", name).exit_code == 0
        assert invoke("show", f"others/{name}").exit_code == 0


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["--status", "completed"], 1),
        (["--status", "running", "--status", "failed"], 0),
        (["--text", "survey_tree"], 1),
        (["--since", "1970-01-01"], 1),
        (["--since", "2999-01-01"], 0),
        (["--since", "40000d"], 1),
        (["--since", "0m"], 0),
        (["--text", "SURVEY"], 1),
        (["--text", "nothing like it"], 0),
    ],
)
def test_filters_leave_the_runs_that_they_name(
    words: list[str], count: int, folder: Path, invoke: Invoke
) -> None:
    runs = json.loads(invoke("ls", folder, *words, "--json").stdout)["runs"]

    assert len(runs) == count
    assert count or "no run matches (1 in" in invoke("ls", folder, *words).stdout


def test_a_status_that_no_run_can_have_is_refused(folder: Path, invoke: Invoke) -> None:
    """Or a slip of the pen would read as: nothing failed."""
    said = invoke("ls", folder, "--status", "fail")

    assert said.exit_code == 2
    assert "'failed', 'timed_out'" in said.stderr


def test_a_file_that_cannot_be_read_is_told_of_where_runs_are_picked(
    tmp_path: Path, invoke: Invoke
) -> None:
    """It may be the run that was asked for."""
    (tmp_path / "a.jsonl").write_bytes(b"{}\n")

    assert "1 file could not be read" in invoke("ls", tmp_path, "--status", "failed").stderr
    assert invoke("ls", tmp_path).stderr == ""
    assert invoke("ls", tmp_path, "--status", "unreadable").stderr == ""


def test_a_time_that_is_none_is_refused(folder: Path, invoke: Invoke) -> None:
    said = invoke("ls", folder, "--since", "yesterday")

    assert said.exit_code == 2
    assert "expected 30m, 12h, 7d" in said.stderr


def test_a_run_without_an_end_that_nobody_writes_broke_off(folder: Path, invoke: Invoke) -> None:
    log = folder / "survey.jsonl"
    log.write_bytes(log.read_bytes()[:-3])

    (run,) = _runs(folder, invoke)

    assert (run["status"], run["duration_ms"]) == ("broke_off", None)


def test_a_packed_log_is_listed_too(folder: Path, invoke: Invoke) -> None:
    pack(folder / "survey.jsonl", folder / "report.refold")

    assert [run["runs"] for run in _runs(folder, invoke)] == [4, 4]


@pytest.mark.parametrize("content", [b"", b"x" * 100, b"\n", b"{}\n", b"\x00" * 999, b"[1]\n[2]\n"])
def test_what_is_no_log_is_said_to_be_unreadable(
    content: bytes, tmp_path: Path, invoke: Invoke
) -> None:
    (tmp_path / "odd.jsonl").write_bytes(content)
    (tmp_path / "odd.refold").write_bytes(content)
    (tmp_path / "notes.txt").write_text("no log")

    assert [run["status"] for run in _runs(tmp_path, invoke)] == ["unreadable", "unreadable"]
    assert invoke("ls", tmp_path).exit_code == 0


@pytest.mark.parametrize(
    "ended",
    [
        {"usage": {"input_tokens": [4], "output_tokens": 1}},
        {"usage": {"input_tokens": "many"}},
        {"usage": {"prices": ["a table"], "requests": 1}},
        {"usage": [1]},
        {"models": [{"a": 1}]},
        {"models": 3},
    ],
)
def test_a_log_with_members_of_other_types_keeps_no_other_from_the_list(
    ended: dict[str, Any], folder: Path, invoke: Invoke
) -> None:
    """Whoever writes a log can write anything, and a folder may hold logs of others."""
    first, *_, last = (folder / "survey.jsonl").read_bytes().splitlines()
    data = json.loads(last)
    data["data"] |= ended
    started = json.loads(first)
    started["data"]["labels"] = {"a": 1}
    (folder / "odd.jsonl").write_bytes(
        b"".join(json.dumps(each).encode() + b"\n" for each in (started, data))
    )

    said = invoke("ls", folder)

    assert (said.exit_code, "  survey  " in said.stdout) == (0, True)


def test_an_empty_folder_and_none_at_all_say_what_to_do(tmp_path: Path, invoke: Invoke) -> None:
    empty, missing = invoke("ls", tmp_path), invoke("ls", tmp_path / "no")

    assert (empty.exit_code, missing.exit_code) == (0, 2)
    assert "refold demo" in empty.stdout
    assert "refold demo" in missing.stderr


def test_where_there_is_no_folder_the_logs_that_lie_here_are_named(
    folder: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`refold ls` looks below `runs/`, and a log may be recorded anywhere."""
    monkeypatch.chdir(folder)

    assert "`refold ls .` lists those here" in invoke("ls").stderr


def test_the_size_of_a_packed_log_is_that_of_its_file(folder: Path, invoke: Invoke) -> None:
    packed = pack(folder / "survey.jsonl", folder / "report.refold")

    sizes = {run["log"]: run["bytes"] for run in _runs(folder, invoke)}

    assert sizes[str(packed)] == packed.stat().st_size
    assert sizes[str(folder / "survey.jsonl")] > packed.stat().st_size


def test_runs_of_one_second_stand_in_the_order_of_their_starts(
    tmp_path: Path, invoke: Invoke
) -> None:
    for name, at_us in (("c", 1_700_000_000_100_000), ("a", 1_700_000_000_900_000)):
        record(_nothing, None, log=tmp_path / f"{name}.jsonl", clock=fixed_at(at_us))

    assert [Path(run["log"]).stem for run in _runs(tmp_path, invoke)] == ["c", "a"]


def test_an_agent_is_listed_by_its_name(tmp_path: Path, invoke: Invoke) -> None:
    given = {"agent": {"name": "lead"}}
    log = record("agent", given, log=tmp_path / "a.jsonl").log

    assert " lead (agent) " in invoke("ls", tmp_path).stdout
    assert " lead (agent)" in invoke("show", log).stdout.splitlines()[0]
    assert [run["program"] for run in _runs(tmp_path, invoke)] == ["agent"]


def test_logs_and_folders_are_listed_together_and_sorted(folder: Path, invoke: Invoke) -> None:
    """Each once, with the sum of them."""
    log = folder / "survey.jsonl"
    refold.record(_nothing, log=folder / "quick.jsonl")
    listed = json.loads(invoke("ls", log, folder, "--sort", "time", "--json").stdout)["runs"]
    said = invoke("ls", log, folder, "--sort", "time").stdout.splitlines()

    assert [Path(run["log"]).name for run in listed] == ["quick.jsonl", "survey.jsonl"]
    assert said[-1].startswith("2 runs: 0 tokens, $0.00, ")


def test_failed_children_and_default_limits_are_counted(tmp_path: Path, invoke: Invoke) -> None:
    async def child(_run: refold.Run, n: int) -> None:
        if n:
            raise ValueError("bad input")

    async def deep(run: refold.Run, n: int) -> None:
        await run.delegate(refold.Delegation(program=deep, input=n + 1))

    async def program(run: refold.Run, _input: Any) -> None:
        for n in (0, 1, 2):
            await run.delegate(refold.Delegation(program=child, input=n))
        await run.delegate(refold.Delegation(program=deep, input=0))
        run.cancel(await run.start(refold.Delegation(program=child, input=0)))

    record(program, log=tmp_path / "a.jsonl")

    (row,) = _runs(tmp_path, invoke)
    assert (row["failed_children"], row["refused"]) == (2, 0)
    assert "  2 failed  " in invoke("ls", tmp_path).stdout


def test_what_a_limit_refuses_that_nobody_set_is_told(tmp_path: Path, invoke: Invoke) -> None:
    async def deep(run: refold.Run, n: int) -> Any:
        return (await run.delegate(refold.Delegation(program=deep, input=n + 1))).status

    log = tmp_path / "a.jsonl"
    limits = refold.Limits(max_depth=1)
    assert record(deep, 0, log=tmp_path / "b.jsonl", limits=limits).warnings == ()

    async def leads(run: refold.Run, _input: Any) -> Any:
        return (await run.delegate(refold.Delegation(program=deep, input=8))).status

    recording = record(leads, log=log)
    lowest = log.with_name("a" + ".1" * 8 + ".jsonl")

    assert recording.warnings == ()  # of another run
    assert "1 child run refused by the default limit max_depth" in invoke("show", lowest).stdout


@pytest.mark.long
def test_a_recording_warns_of_what_it_refused(tmp_path: Path) -> None:
    async def child(_run: refold.Run, _input: Any) -> None: ...

    async def program(run: refold.Run, _input: Any) -> None:
        children = [await run.start(refold.Delegation(program=child)) for _ in range(1001)]
        await run.join(*children)

    warnings = record(program, log=tmp_path / "a.jsonl", durability="fast").warnings

    refused = "1 child run refused: the default limit of 1000 was reached; to raise it, pass"
    assert [each.startswith(refused) for each in warnings].count(True) == 1


def test_show_and_why_name_the_line_that_raised(tmp_path: Path, invoke: Invoke) -> None:
    def program(_run: refold.PlainRun, _input: Any) -> None:
        json.loads("{")

    where = f"test_ls.py:{program.__code__.co_firstlineno + 1}"
    record(program, log=tmp_path / "a.jsonl")

    assert where in invoke("show", tmp_path / "a.jsonl").stdout
    assert where in invoke("why", tmp_path / "a.jsonl", -1).stdout


def test_a_store_lists_its_runs_by_name(tmp_path: Path, invoke: Invoke) -> None:
    """What it cannot answer without fetching them is refused."""
    url = folder_store(tmp_path / "store")
    log = record_run(tmp_path / "runs" / "audit.jsonl")
    assert invoke("push", log, url).exit_code == 0
    (tmp_path / "store" / "runs" / "broken.json").write_bytes(b"[]")

    one, every = invoke("ls", f"{url}/audit.jsonl"), invoke("ls", url, "--json")

    assert one.exit_code == 0
    assert "stored  audit.jsonl  3 files" in one.stdout
    assert every.exit_code == 3
    rows = {row["run"]: row["status"] for row in json.loads(every.stdout)["runs"]}
    assert rows == {"audit.jsonl": "stored", "broken.jsonl": "refused"}
    assert invoke("ls", url, "--status", "failed").exit_code == 2


def test_a_cost_that_is_not_known_of_all_answers_is_at_least_that(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One answer that was cut off does not hide what the others cost."""
    monkeypatch.chdir(tmp_path)
    asked = ask(user("Go."))
    answers = [
        ModelAnswered("error", says("a"), Usage(requests=1), error={"code": "cut", "message": "."}),
        ModelAnswered("ok", says("b"), Usage(output_tokens=1, cost_usd_micros=210_000)),
    ]
    Path("runs").mkdir()
    with ObservedLog(Path("runs/a.jsonl"), program="p", input=None, vault=Vault()) as log:
        observer = Observer(log)
        for each in answers:
            observer.answered(observer.asked(asked), each)
        log.seal("completed", "done")

    assert "at least $0.2100 (1 answer not counted)" in invoke("ls").stdout
    (run,) = json.loads(invoke("ls", "--json").stdout)["runs"]
    assert run["priced"] == {"usd_micros": 210_000, "unpriced": 1}


def test_notable_lists_what_has_something_notable_in_its_tree(folder: Path, invoke: Invoke) -> None:
    """A log that cannot be searched is named: its run may be one of them."""

    async def child(_run: refold.Run, _given: Any) -> str:
        return ""

    async def program(run: refold.Run, _given: Any) -> None:
        await run.delegate(refold.Delegation(program=child))

    record(program, log=folder / "empty.jsonl")
    (folder / "survey.2.jsonl").unlink()

    said = invoke("ls", folder, "--notable")

    assert said.exit_code == 0
    assert [line.split()[3] for line in said.stdout.splitlines()[2:]] == ["empty"]
    assert "survey.jsonl: 1 log of it cannot be searched" in said.stderr


async def _ordering(_run: Any, order: dict[str, str]) -> str:
    if order["what"] == "none":
        raise ValueError("nothing is left of it")
    return f"sent {order['what']}"


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a run that completed, one that failed and one with large texts."""
    monkeypatch.chdir(tmp_path)
    for name, what, labels in (
        ("sent", "A-117", {"customer": "Zoë & Co"}),
        ("failed", "none", None),
        ("large", "x" * 100_000 + "needle", {"team": "blue", "customer": "b"}),
    ):
        log = tmp_path / "runs" / f"{name}.jsonl"
        refold.record(_ordering, {"what": what}, log=log, seed=1, labels=labels)
    return tmp_path / "runs"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a-117", ["sent"]),
        ("sent A-117", ["sent"]),
        ("nothing is left", ["failed"]),
        ("valueERROR", ["failed"]),
        ("team=blue", ["large"]),
        ("zoë", ["sent"]),
        ("customer=", ["sent", "large"]),
        ("needle", ["large"]),
        ("sent x", ["large"]),
        ("A-118", []),
    ],
)
def test_a_text_is_found_in_input_output_error_and_labels(
    text: str, found: list[str], orders: Path, invoke: Invoke
) -> None:
    """§14.10: in large texts, too, which are stored beside the log."""
    runs = json.loads(invoke("ls", orders, "--text", text, "--json").stdout)["runs"]

    assert [Path(each["log"]).stem for each in runs] == found


def test_a_run_is_listed_with_its_labels_input_and_error(orders: Path, invoke: Invoke) -> None:
    sent, failed, large = _runs(orders, invoke)
    lines = invoke("ls", orders).stdout.splitlines()

    assert sent["labels"] == {"customer": "Zoë & Co"}
    assert sent["input"] == '{"what":"A-117"}'
    assert (sent["error"], failed["error"]) == ("", "raised: ValueError: nothing is left of it")
    assert "  customer=Zoë & Co  " in lines[2]
    assert '  {"what":"A-117"}' in lines[2]
    assert "  raised: ValueError: nothing is left of it" in lines[3]
    assert len(large["input"]) <= 80


def test_labels_change_nothing_but_the_list(orders: Path) -> None:
    """§14.10: neither what a run is, nor its digests, nor what a replay or `diff` says."""
    (orders.parent / "other").mkdir()
    other = orders.parent / "other" / "sent.jsonl"
    refold.record(_ordering, {"what": "A-117"}, log=other, seed=1, labels={"k": "v"})
    plain = orders.parent / "other" / "plain.jsonl"
    refold.record(_ordering, {"what": "A-117"}, log=plain, seed=1)
    starts, ends = (
        [json.loads(log.read_bytes().splitlines()[at])["data"] for log in (other, plain)]
        for at in (0, -1)
    )

    assert [each.pop("labels", None) for each in starts] == [{"k": "v"}, None]
    assert [each.pop("nonce") for each in starts] != ["", ""]
    assert starts[0] == starts[1]
    assert ends[0] == ends[1], "both digests"
    assert refold.reexecute(other, _ordering).identical
    assert refold.diff(other, plain).identical
    forked = refold.fork(other, 0, _ordering, into=orders.parent / "other" / "fork.jsonl")
    assert next(read_entries(forked.log)).data["labels"] == {"k": "v"}
    assert refold.verify(forked.log).complete


@for_each("labels", ["k", {"k": 1}, {"": "v"}, {"k": ""}, [("k", "v")]])
def test_labels_of_another_form_are_refused(labels: Any, tmp_path: Path) -> None:
    with pytest.raises(OptionRefused, match="a dict of strings by name"):
        refold.record(_ordering, {}, log=tmp_path / "a.jsonl", labels=labels)

    assert not (tmp_path / "a.jsonl").exists()


def test_a_watched_run_is_found_by_its_labels_and_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    monkeypatch.chdir(tmp_path)
    words = "record --workspace none --log runs/a.jsonl --label order=A-117 --label x=y=z -- true"

    assert invoke(*words.split()).exit_code == 0
    (run,) = _runs(tmp_path / "runs", invoke)
    assert (run["labels"], run["input"]) == ({"order": "A-117", "x": "y=z"}, "true")
    assert invoke("verify", "runs/a.jsonl").exit_code == 0


@pytest.mark.parametrize("label", ["k", "=v", "k=", "a=c"])
def test_a_label_without_name_or_text_or_given_twice_is_refused(label: str, invoke: Invoke) -> None:
    refused = invoke("record", "--label", "a=b", "--label", label, "--", "true")

    assert refused.exit_code == 2
    assert f"'{label}': expected NAME=TEXT" in refused.stderr


def test_logs_beside_an_empty_folder_are_pointed_at(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`record(log="x.jsonl")` does not write to runs/, which `ls` lists by default."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    assert "`refold demo` records" in invoke("ls").stdout
    assert invoke("ls", "none").stderr.startswith("refold: none: no such log or folder; ")

    (tmp_path / "x.jsonl").touch()

    assert "no runs in runs; `refold ls .` lists those here" in invoke("ls").stdout


def test_runs_of_folders_below_an_empty_one_are_pointed_at(tmp_path: Path, invoke: Invoke) -> None:
    below = tmp_path / "recordings" / "test_agent"
    below.mkdir(parents=True)
    (below / "a.jsonl").touch()

    done = invoke("ls", tmp_path / "recordings")

    assert f"`refold ls {below}` lists those below" in done.stdout
