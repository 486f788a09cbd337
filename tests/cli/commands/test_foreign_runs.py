"""The command line over logs of watched commands: shown, replayed, forked, compared, refused."""

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from syrupy.assertion import SnapshotAssertion

from refold.engine.log.reader import read_entries
from refold.engine.runners.recording import record as record_program
from refold.proxy.profiles import profile_of
from refold.replay.observed.record import read_record
from tests.support.folders import git
from tests.support.forging import forged, in_input
from tests.support.loops import some
from tests.support.schemas import validate
from tests.support.traffic import Reply, Rule
from tests.support.upstream import PLACEHOLDER_KEY, Upstream
from tests.support.watched import record, result, says, system, talk, user

Invoke = Callable[..., Result]

SCRIPT = """
import json, os, urllib.request

SYSTEM = "You are the weather desk. Be brief."

def ask(*messages):
    body = json.dumps({"model": "gpt-5", "messages": messages}).encode()
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    headers = {"content-type": "application/json", "authorization": "Bearer KEY"}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as answer:
        return json.load(answer)["choices"][0]["message"]

messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Oslo?"}]
while (said := ask(*messages)).get("tool_calls"):
    messages.append(said)
    for call in said["tool_calls"]:
        city = json.loads(call["function"]["arguments"])["city"]
        content = {"Oslo": "snow", "Rome": "sun"}[city]
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
print(said["content"])
""".replace("KEY", PLACEHOLDER_KEY)

TALK = talk(
    system("You are the weather desk. Be brief."),
    user("Oslo?"),
    says("", ("c1", "weather", {"city": "Oslo"})),
    result("c1", "snow"),
    says("It snows."),
)
PRINTED = {"exit_code": 0, "stdout": "It snows.\n", "stdout_bytes": 10}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with a script, its record, and another that asks otherwise."""
    monkeypatch.chdir(tmp_path)
    Path("agent.py").write_text(SCRIPT)
    Path("other.py").write_text(SCRIPT.replace("Be brief.", "Be short."))
    record(Path("a.jsonl"), TALK, output=PRINTED)
    return tmp_path


def checked(name: str, said: Result) -> Any:
    """Return a document that is as its schema says."""
    document = json.loads(said.stdout)
    validate(document, name)
    return document


@pytest.mark.usefixtures("folder")
def test_all_changes_are_listed_in_one_replay_and_nothing_is_kept_of_it(invoke: Invoke) -> None:
    """In text, JSON and JUnit; a log of answers that nobody gave is not made."""
    Path("other.py").write_text(
        SCRIPT.replace("Be brief.", "Be short.").replace('"snow"', '"rain"')
    )
    way = ["--on-miss", "recorded", "--junit", "a.xml"]
    said = invoke("replay", "a.jsonl", *way, "--json", "--", sys.executable, "other.py")
    document = checked("replay-command", said)
    into = ["--into", "b.jsonl", "--", sys.executable, "other.py"]
    refused = invoke("replay", "a.jsonl", *way[:2], *into)

    assert (said.exit_code, refused.exit_code) == (1, 2)
    assert [one["texts"][0]["what"] for one in document["divergences"]] == [
        "message 0 (system)",
        "message 3 (tool)",
    ]
    assert (document["identical"], document["answered_otherwise"], document["served"]) == (
        False, 2, 0,
    )  # fmt: skip
    told = "answered as recorded, although the request changed"
    assert all(told in one["cause"] for one in document["divergences"])
    assert Path("a.xml").read_text().count(told) == 3
    assert "cannot be used with --into" in refused.stderr
    assert not Path("b.jsonl").exists()


def test_a_command_is_replayed_from_its_record(folder: Path, invoke: Invoke) -> None:
    """What it prints is on standard output, what is said of it on standard error."""
    said = invoke("replay", "a.jsonl", "--", sys.executable, "agent.py")

    assert said.exit_code == 0, said.output
    assert "identical: 2 of 2 recorded requests served, in 1 conversation" in said.stderr
    assert "guarantee: matched" in said.stderr
    assert folder.joinpath("a.jsonl").exists()


def test_a_changed_prompt_is_told_with_its_conversation(
    folder: Path, invoke: Invoke, snapshot: SnapshotAssertion
) -> None:
    """The text that people get."""
    said = invoke("replay", "a.jsonl", "--", sys.executable, "other.py")

    told = said.stderr[said.stderr.index("2 differences") :]
    assert said.exit_code == 1
    assert told.replace(str(folder), "") == snapshot


@pytest.mark.long
def test_the_document_of_a_replay_is_as_its_schema_says(folder: Path, invoke: Invoke) -> None:
    """Identical, diverged, and with what was ignored."""
    del folder
    command = ("--", sys.executable)
    same = checked("replay-command", invoke("replay", "a.jsonl", "--json", *command, "agent.py"))
    other = checked("replay-command", invoke("replay", "a.jsonl", "--json", *command, "other.py"))
    rule = ("--volatile", "text:Be (brief|short)")
    more = ("--volatile", "order:Report of", "--volatile", "output:words")
    ignored = invoke("replay", "a.jsonl", "--json", *rule, *more, *command, "other.py")

    assert (same["identical"], other["identical"]) == (True, False)
    assert other["divergences"][0]["category"] == "args_changed"
    document = checked("replay-command", ignored)
    assert document["identical"]
    assert document["ignored_count"] == 2
    assert document["ignored"][0]["rule"] == "Be (brief|short)"
    assert document["rules"] == {
        "volatile_texts": ["Be (brief|short)"],
        "unordered": ["Report of"],
        "output": ["words"],
    }


@pytest.mark.parametrize(
    ("option", "refused"),
    [
        (("--limit", "jobs=5"), "--limit has no effect with -- COMMAND"),
        (("--program", "a:b"), "--program has no effect with -- COMMAND"),
        (("--source", "model=live"), "--source has no effect with -- COMMAND"),
    ],
)
def test_no_option_is_without_effect(
    option: tuple[str, ...], refused: str, folder: Path, invoke: Invoke
) -> None:
    """What a command's replay does not do is refused before it begins."""
    said = invoke("replay", "a.jsonl", *option, "--", sys.executable, "agent.py")

    assert (said.exit_code, said.stdout) == (2, "")
    assert refused in said.stderr
    assert not folder.joinpath("r.xml").exists()


def test_all_differences_are_told_on_request(folder: Path, invoke: Invoke) -> None:
    """Eight are enough otherwise."""
    del folder
    talks = [talk(system(f"Desk {n}."), user("Oslo?"), says("Yes.")) for n in range(10)]
    record(Path("many.jsonl"), [one for each in talks for one in each])
    command = ("--", sys.executable, "-c", "")

    few = invoke("replay", "many.jsonl", *command).stderr
    every = invoke("replay", "many.jsonl", "--all", *command).stderr

    assert "to list every difference, add --all" in few
    assert "more" not in every
    assert every.count("where  ") == few.count("where  ") + int(re.findall(r"(\d+) more", few)[0])


@pytest.mark.parametrize(
    ("edit", "printed", "live"),
    some(1, [("0/1#1=No idea.", "No idea.", 0), ('0/1#2={"city":"Rome"}', "The sun shines.", 1)]),
)
def test_a_fork_goes_on_live_from_an_edited_answer(
    edit: str, printed: str, live: int, folder: Path, invoke: Invoke
) -> None:
    """An answer's text; a tool call's arguments, after which a model is asked."""
    rule = Rule(name="sun", when={"results": ["sun"]}, then=Reply(text="The sun shines."))
    with Upstream([rule]) as upstream:
        words = ["fork", "a.jsonl", "--set", edit, "--into", "f.jsonl", "--json"]
        words += ["--upstream", upstream.openai_url, "--", sys.executable, "agent.py"]
        said = invoke(*words)

    document = checked("fork", said)
    assert said.exit_code == 0, said.output
    assert document["output"]["stdout"] == f"{printed}\n"
    assert len(upstream.received) == live
    assert (document["origin"], document["at"]) == ("a.jsonl", 4)
    assert invoke("verify", "f.jsonl").exit_code == 0
    assert "forked at entry 4" in invoke("ls", ".", "--tree").stdout
    again = invoke("replay", folder / "f.jsonl", "--", sys.executable, "agent.py")
    assert again.exit_code == 0, again.output
    starts = [next(iter(read_entries(folder / name))).data for name in ("a.jsonl", "f.jsonl")]
    listed = [each["rules"].get("redaction") for each in starts]
    assert listed[0] == listed[1]  # a placeholder is not a secret of the new run


def test_the_end_of_a_command_leads_to_its_last_answer(folder: Path, invoke: Invoke) -> None:
    """The log has no cause of the end itself, as Refold does not control the command."""
    said = invoke("why", "a.jsonl", "-1")

    _, _, number = said.stderr.partition("of its last answer: refold why a.jsonl ")
    answered = invoke("why", "a.jsonl", number.strip())
    assert (said.exit_code, answered.exit_code) == (0, 0)
    assert "model.answered" in answered.stdout.splitlines()[1]
    assert "run.started" in answered.stdout
    assert folder.is_dir()


@pytest.mark.parametrize(
    ("is_said", "verb"),
    some(1, [(False, "resume"), (True, "fork"), (True, "resume"), (False, "replay")]),
)
def test_a_request_never_leads_to_a_provider_in_place_of_the_recorded_server(
    verb: str,
    is_said: bool,  # noqa: FBT001 - a parameter of the test
    folder: Path,
    invoke: Invoke,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A recording with `--upstream`, which the address of no log can replace (§16.1)."""
    for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)
    (folder / "fails.py").write_text(f"{SCRIPT}\nraise SystemExit(3)\n")
    (folder / "asks.py").write_text(SCRIPT.replace("Oslo?", "Rome?"))
    rule = Rule(name="sun", when={}, then=Reply(text="The sun shines."))
    words = {"fork": ["--at", "1"]}.get(verb, ["--on-miss", "live"])
    with Upstream([rule]) as upstream:
        server = ["--upstream", f"openai={upstream.openai_url}"]
        invoke("record", *server, "--log", "r.jsonl", "--", sys.executable, "fails.py")
        more = [*words, *server * is_said, "--into", "f.jsonl"]
        said = invoke(verb, "r.jsonl", *more, "--", sys.executable, "asks.py")

    assert len(upstream.received) == 1 + is_said, said.output
    if not is_said:
        assert "pass --upstream OPENAI_BASE_URL=URL" in said.stderr


@pytest.mark.parametrize("as_json", some(1, [True, False]))
def test_a_fork_whose_command_fails_is_five(
    as_json: bool,  # noqa: FBT001 - a parameter of the test
    folder: Path,
    invoke: Invoke,
) -> None:
    """What it printed is in its document; else it stays standard output's, and the rest is said."""
    (folder / "fails.py").write_text(f"{SCRIPT}\nprint('x' * 40_000)\nraise SystemExit(3)\n")
    words = ["fork", "a.jsonl", "--set", "0/1#1=No idea.", "--into", "f.jsonl"]
    more = ["--json"] if as_json else []

    said = invoke(*words, *more, "--", sys.executable, "fails.py")

    assert said.exit_code == 5
    if as_json:
        document = checked("fork", said)
        assert (document["status"], document["output"]["exit_code"]) == ("failed", 3)
        assert document["output"]["stdout"].endswith("x\n")
        assert "No idea." in said.stderr
    else:
        told = "failed  forked from a.jsonl at entry 4: 1 request served, 0 live\n"
        assert told in said.stderr
        assert "1 log: f.jsonl; refold show f.jsonl\n" in said.stderr
        assert " differences: " in said.stderr
        assert said.stdout.startswith("No idea.\n")


def test_without_a_place_a_fork_is_a_fresh_log_in_runs(folder: Path, invoke: Invoke) -> None:
    words = ["fork", "a.jsonl", "--set", "0/1#1=No idea.", "--json"]
    said = invoke(*words, "--", sys.executable, "agent.py")

    log = folder / checked("fork", said)["log"]
    assert said.exit_code == 0, said.output
    assert log.parent.name == "runs"
    assert "-agent-py-fork-" in log.name
    assert invoke("verify", log).exit_code == 0


@pytest.mark.long
def test_a_fork_goes_on_with_another_model(folder: Path, invoke: Invoke) -> None:
    """By the same API, from the entry on; the command still names its own, in a replay, too."""
    rule = Rule(name="snow", when={"results": ["snow"]}, then=Reply(text="Snow, says another."))
    command = ["--", sys.executable, "agent.py"]
    with Upstream([rule]) as upstream:
        words = ["fork", "a.jsonl", "--at", "5", "--model", "gpt-5-mini", "--into", "f.jsonl"]
        said = invoke(*words, "--json", "--upstream", upstream.openai_url, *command)
        (received,) = upstream.received

    document = checked("fork", said)
    assert said.exit_code == 0, said.output
    assert document["output"]["stdout"] == "Snow, says another.\n"
    assert received.body["model"] == "gpt-5-mini"
    asked = [turn.asked for turn in read_record(folder / "f.jsonl").turns]
    assert [each.model for each in asked] == ["gpt-5", "gpt-5-mini"]
    again = invoke("replay", folder / "f.jsonl", *command)
    assert again.exit_code == 0, again.output


def test_a_fork_of_a_changed_command_says_so(folder: Path, invoke: Invoke) -> None:
    """What is kept before the entry was asked otherwise."""
    del folder
    words = ("--", sys.executable, "-c", "print('nothing asked')")

    said = invoke("fork", "a.jsonl", "--at", "5", "--into", "f.jsonl", *words)

    assert said.exit_code == 1
    assert "the command's requests differ from the recorded ones before entry 5\n" in said.stderr
    assert "> request 1 (gpt-5)\n" in said.stderr


@pytest.mark.parametrize("option", ["--program", "--tools"])
def test_a_fork_takes_no_program_with_a_command(option: str, folder: Path, invoke: Invoke) -> None:
    """One or the other is run."""
    del folder

    said = invoke("fork", "a.jsonl", "--at", "5", option, "x.py:x", "--", "true")

    assert said.exit_code == 2


@pytest.mark.parametrize(
    "words",
    [
        ("replay", "a.jsonl"),
        ("replay", "a.jsonl", "--program", "agent.py:x"),
        ("replay", "a.jsonl", "--live"),
        ("fork", "a.jsonl", "--at", "1"),
        ("explore", "a.jsonl"),
        ("explore", "a.jsonl", "--results"),
        ("resume", "a.jsonl"),
    ],
)
def test_what_runs_programs_says_how_to_run_the_command(
    words: tuple[str, ...], folder: Path, invoke: Invoke
) -> None:
    """The line to type is in the refusal; the log's end does not hide it."""
    lines = (folder / "a.jsonl").read_bytes().splitlines(keepends=True)
    if words[0] == "resume":  # else it says that the log is sealed
        (folder / "a.jsonl").write_bytes(b"".join(lines[:-1]))

    said = invoke(*words)

    assert said.exit_code == 2
    assert "refold replay a.jsonl -- COMMAND" in said.stderr


def test_a_command_refuses_a_programs_log(folder: Path, invoke: Invoke) -> None:
    """There is nothing to match."""
    record_program(_nothing, log=folder / "p.jsonl")

    said = invoke("replay", "p.jsonl", "--", "true")

    assert said.exit_code == 2
    assert "leave out -- COMMAND, and pass --program" in said.stderr


async def _nothing(_run: object, _input: object) -> None:
    """Do nothing."""


@pytest.mark.long
def test_many_logs_list_it_as_one_that_needs_its_command(folder: Path, invoke: Invoke) -> None:
    """And re-execute the others."""
    (folder / "p.py").write_text("async def nothing(run, given): ...\n")
    record_program("p.py:nothing", log=folder / "p.jsonl")

    said = invoke("replay", ".", "--program", "nothing=p.py:nothing", "--json")

    found = {row["log"]: row["result"] for row in checked("replays", said)["logs"]}
    assert found == {"a.jsonl": "command needed", "p.jsonl": "identical"}


def test_it_is_shown_as_a_tree_that_names_its_guarantee(
    folder: Path, invoke: Invoke, snapshot: SnapshotAssertion
) -> None:
    """Conversations below the command; and as its schema says."""
    del folder
    shown = invoke("show", "a.jsonl").stdout

    assert "guarantee: matched" in shown
    assert "└─ completed main " in shown
    assert "2 requests, 30 tokens, cost \u2013; tools: weather \u00d71" in shown
    document = checked("show", invoke("show", "a.jsonl", "--json"))
    assert (document["guarantee"], document["children"][0]["requests"]) == ("matched", 2)
    lines = invoke("show", "a.jsonl", "--events").stdout.splitlines()
    assert [re.sub(r"^ +\d+ +[\d.]+ +", "", line) for line in lines[2:]] == snapshot


def test_ls_says_that_it_is_matched(folder: Path, invoke: Invoke) -> None:
    """And its document, too."""
    del folder

    assert " · matched · " in invoke("ls", ".").stdout
    assert checked("ls", invoke("ls", ".", "--json"))["runs"][0]["guarantee"] == "matched"


def test_one_without_an_end_is_shown_without_advice_to_resume(folder: Path, invoke: Invoke) -> None:
    """For nobody can."""
    log = folder / "a.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-2]))

    said = invoke("show", "a.jsonl")

    assert said.exit_code == 0
    assert "resume" not in said.output


def test_other_commands_read_it_as_any_log(folder: Path, invoke: Invoke) -> None:
    """State, causes, pack, diff with itself."""
    del folder

    for words in (["show", "--at=-1"], ["why"], ["show", "--events"], ["verify"]):
        more = ["4"] if words == ["why"] else []
        assert invoke(*words, "a.jsonl", *more).exit_code == 0, words
    assert invoke("export", "a.jsonl", "--to", "refold").exit_code == 0
    assert "guarantee: matched" in invoke("show", "a.refold").stdout
    assert invoke("diff", "a.jsonl", "a.refold").exit_code == 0
    other = invoke("replay", "a.refold", "--", sys.executable, "other.py").stderr
    assert "(entry 2 of a.refold:a.jsonl)" in other
    packed = invoke("replay", "a.refold")
    assert "refold replay a.refold -- COMMAND" in packed.stderr


@pytest.mark.parametrize(
    ("change", "code"),
    [("cut", 3), ("torn", 3), ("edited", 3), ("swapped", 3), ("wire edited", 3)],
)
def test_damage_is_found_wherever_it_is(
    change: str, code: int, folder: Path, invoke: Invoke
) -> None:
    """Also in the wire, which no digest covers: the chain does."""
    log = folder / "a.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    match change:
        case "cut":
            lines = lines[:-1]
        case "torn":
            lines[-1] = lines[-1][:-9]
        case "edited":
            lines = [line.replace(b"It snows", b"It rains") for line in lines]
        case "swapped":
            lines[3], lines[4] = lines[4], lines[3]
        case _:
            at = next(at for at, line in enumerate(lines) if b"x-refold.wire" in line)
            lines[at] = lines[at].replace(b'"at_ms":[0]', b'"at_ms":[1]')
    log.write_bytes(b"".join(lines))

    assert invoke("verify", "a.jsonl").exit_code == code


def test_kinds_stand_in_one_column(folder: Path, invoke: Invoke) -> None:
    """Wide enough for `x-refold.conversation`, of all entries and of the last ones."""
    del folder

    for words in (["show", "--events"], ["show", "--events", "-n10"]):
        _guarantee, heading, *lines = invoke(*words, "a.jsonl").stdout.splitlines()
        kind, what = heading.index("kind"), heading.index("what")
        assert {line[what - 1] for line in lines} == {" "}, words
        assert "x-refold.conversation" in {line[kind : what - 1].strip() for line in lines}


def test_nobody_limits_a_command(folder: Path, invoke: Invoke) -> None:
    """So nothing is said to be left, as it is of a program."""
    del folder

    lines = invoke("show", "a.jsonl", "--at", -1).stdout.splitlines()

    assert not [line for line in lines if line.startswith("  left")]
    assert "  model      2 requests, 30 tokens" in lines


def test_tokens_of_a_conversation_are_said_to_be_those_of_all_below(
    folder: Path, invoke: Invoke
) -> None:
    """With all details, too."""
    del folder
    calls = says("", ("c", "delegate_to_digger", {"brief": "Dig here"}))
    first, last = talk(system("Lead"), user("Go"), calls, result("c", "dug"), says("done"))
    record(Path("b.jsonl"), [first, *talk(user("Dig here"), says("dug")), last])

    for words in (["show", "b.jsonl"], ["show", "b.jsonl", "--details"]):
        shown = invoke(*words).stdout
        own = "2 requests, 30 tokens, cost \u2013"
        assert shown.count(f"{own}; with its subagents: 45 tokens, cost \u2013") == 1, shown
        assert shown.count("with its subagents") == 1


def test_a_fork_ignores_what_is_another_each_time(folder: Path, invoke: Invoke) -> None:
    """What is kept of the record is matched by the rules that are given, which the new log has."""
    del folder
    words = ["fork", "a.jsonl", "--at", "-1", "--into", "f.jsonl", "--json"]
    command = ["--", sys.executable, "other.py"]

    said = invoke(*words, "--volatile", "text:Be (brief|short)", *command)

    assert said.exit_code == 0, said.output
    assert checked("fork", said)["output"]["stdout"] == "It snows.\n"
    first = json.loads(Path("f.jsonl").read_bytes().splitlines()[0])
    assert first["data"]["rules"]["volatile_texts"] == ["Be (brief|short)"]


def test_a_volatile_path_that_no_request_has_is_noted(folder: Path, invoke: Invoke) -> None:
    """Misspelt, it would never ignore anything."""
    del folder
    paths = ("model:*/messages/0/content", "model:*/messages/0/contents", "model:gpt-0/tools")
    words = [word for path in paths for word in ("--volatile", path)]

    said = invoke("replay", "a.jsonl", *words, "--", sys.executable, "agent.py")

    assert said.exit_code == 0, said.stderr
    noted = [line for line in said.stderr.splitlines() if "matches nothing" in line]
    assert [path in line for path, line in zip(paths[1:], noted, strict=True)] == [True, True]


def test_a_replay_tells_whose_profile_it_went_by_and_what_was_ignored(
    folder: Path, invoke: Invoke
) -> None:
    log = record(folder / "p.jsonl", TALK, output=PRINTED, profile=profile_of([], "aider"))
    rule = ("--volatile", "text:Be (brief|short)")

    said = invoke("replay", log, *rule, "--", sys.executable, "other.py")

    assert said.exit_code == 0, said.stderr
    assert "profile: aider\n" in said.stderr
    assert "ignored: 2 values that changed\n" in said.stderr


# --- what a command carries out itself -----------------------------------------------------------

ANNOUNCED = "this recording contains 1 tool call that COMMAND will execute: weather 1"
DOUBT = "a.jsonl was probably not recorded on this machine"


@pytest.mark.usefixtures("folder")
def test_what_a_command_will_carry_out_is_listed_and_nothing_runs(invoke: Invoke) -> None:
    """With a command or without; a program's log has none; `--json` has the whole arguments."""
    said = invoke("show", "a.jsonl", "--effects")
    plain = invoke("show", "--effects", "a.jsonl")
    record(Path("long.jsonl"), talk(user("Hi"), says("", ("c", "x", {"a": "b" * 1000}))))
    long = invoke("show", "--effects", "long.jsonl", "--json")
    record_program(lambda run, _given: run.note("a"), log="p.jsonl")

    assert (said.exit_code, said.stdout.splitlines()) == (
        0,
        [ANNOUNCED, '  weather {"city":"Oslo"}  (main, 0/1#1)'],
    )
    assert plain.stdout == said.stdout
    assert not Path("started").exists()
    (call,) = checked("effects", long)["calls"]
    assert call["arguments"] == {"a": "b" * 1000}
    assert "bbb…" in invoke("show", "--effects", "long.jsonl").stdout
    assert "does not execute tool calls" in invoke("show", "--effects", "p.jsonl").stdout


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("what", some(1, [["replay"], ["fork", "--at", "-1"]]))
def test_it_is_announced_before_the_command_starts(what: list[str], invoke: Invoke) -> None:
    """Where nobody sits at a terminal, on standard error, and the command runs."""
    said = invoke(*what, "a.jsonl", "--", sys.executable, "agent.py")

    assert said.exit_code == 0, said.output
    assert said.stderr.splitlines()[0] == ANNOUNCED
    assert DOUBT not in said.stderr


def at_terminal(keys: str, *arguments: str, **more: str) -> tuple[int, str]:
    """Run `refold` at a terminal with these keys typed; return how it ends, and what is shown."""
    ours, its = pty.openpty()
    os.write(ours, keys.encode())
    process = subprocess.Popen(
        [sys.executable, "-m", "refold", *arguments],
        stdin=its, stderr=its, stdout=subprocess.PIPE, env={**os.environ, **more},
    )  # fmt: skip
    os.close(its)
    shown = b""
    with contextlib.suppress(OSError):  # how a terminal ends
        while content := os.read(ours, 4096):
            shown += content
    process.communicate()
    os.close(ours)
    return process.returncode, shown.decode()


@pytest.mark.parametrize("what", some(1, [["replay"], ["fork", "--at", "-1"], ["explore"]]))
def test_what_was_recorded_elsewhere_does_not_run_without_a_sandbox(
    what: list[str], folder: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the user is sure, or git tracks the record in the folder where one stands."""
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    command = [*what, "a.jsonl", "--", "touch", "started"]

    refused = invoke(*command)
    assert (refused.exit_code, Path("started").exists()) == (2, False)
    assert refused.stderr.index(ANNOUNCED) < refused.stderr.index("nothing was run")
    assert "add --yes" in refused.stderr

    invoke(*what, "--yes", *command[len(what) :])
    assert Path("started").exists()

    Path("started").unlink()
    git(folder, "init", "-q")
    assert invoke(*command).exit_code == 2
    git(folder, "add", "a.jsonl")
    invoke(*command)
    assert Path("started").exists()


@pytest.mark.long
def test_what_was_recorded_here_is_replayed_at_a_terminal(folder: Path) -> None:
    """By its head, wherever the log is now: packed, too; changed, it is another one."""
    state = {"XDG_STATE_HOME": str(folder / "state")}
    at_terminal("", "record", "--workspace", "none", "--log", "own.jsonl", "--", "true", **state)
    Path("own.jsonl").rename("moved.jsonl")
    at_terminal("", "export", "--to", "refold", "moved.jsonl", "-o", "packed.refold", **state)
    forged(Path("moved.jsonl"), Path("forged.jsonl"), in_input(typed_at=True))

    for log, is_asked in (("moved.jsonl", False), ("packed.refold", False), ("forged.jsonl", True)):
        _, shown = at_terminal("n\n", "replay", log, "--", "touch", "started", **state)
        is_refused = "nothing was run" in shown
        assert (is_refused, Path("started").exists()) == (is_asked, not is_asked), shown
        Path("started").unlink(missing_ok=True)


@pytest.mark.parametrize(
    "option",
    [("--copy", "keep:k"), ("--copy", "network"), ("--copy", "hooks")],
)
@pytest.mark.parametrize("command", ["replay", "fork", "resume"])
def test_an_option_of_the_copy_is_refused_in_place(
    command: str, option: tuple[str, ...], invoke: Invoke
) -> None:
    said = invoke(command, "a.jsonl", "--copy=none", *option, "--", "true")

    assert said.exit_code == 2
    assert "contradict each other" in said.stderr


@pytest.mark.usefixtures("folder")
def test_each_answer_fails_once_and_what_the_command_makes_of_it_is_told(invoke: Invoke) -> None:
    """It gives up, asks again, or asks something new; the number of runs is said before."""
    command = [sys.executable, "agent.py"]
    Path("agent.py").write_text(
        SCRIPT.replace("def ask(", "def once(").replace(
            "\nmessages = [",
            """
def ask(*messages):
    try:
        return once(*messages)
    except urllib.error.HTTPError as error:
        if error.code != 500:
            raise SystemExit(7)
        last = messages[-1]["role"] == "tool"
        return once(*messages[: None if last else 1])

messages = [""",
        )
    )
    retried = invoke("explore", "a.jsonl", "--json", "--", *command)
    refused = invoke("explore", "a.jsonl", "--json", "--fault", "http_429", "--", *command)
    wrong = invoke("explore", "a.jsonl", "--fault", "htp_429", "--", *command)
    none = invoke("explore", "a.jsonl", "--only", "no such", "--", *command)

    answers = checked("explore-command", retried)["answers"]
    assert [each["made"] for each in answers] == ["went on", "asked again"]
    assert "message 1 (user) is missing now" in answers[0]["question"]
    answers = checked("explore-command", refused)["answers"]
    assert [(each["made"], each["exit_code"]) for each in answers] == [("gave up", 7)] * 2
    assert "2 answers to fail: 2 runs of the command" in retried.stderr
    assert (wrong.exit_code, none.exit_code) == (2, 2)
    assert "did you mean 'http_429'?" in wrong.stderr
    assert "--only no such: no answered request is there; requests are at " in none.stderr
