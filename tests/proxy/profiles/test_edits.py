"""One changed character in what an agent asks is seen, or listed at its place (§16.13, §16.17).

Each text that a profile's place lets be another one stands in a file that the agent reads, and at
its place.
"""

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from refold.engine.observed.binding import Bindings, ValuePlace, ids_in, places_of
from refold.engine.observed.profile import Profile
from refold.engine.wire.apis import read_request
from refold.engine.wire.parts.exchange import Asked
from refold.proxy.profiles import shipped
from refold.replay.compare.diff import diff
from tests.support.loops import for_each, some
from tests.support.watched import (
    Exchange,
    ask,
    record,
    replayed,
    result,
    says,
    system,
    talk,
    user,
)

PROFILES = {each.name: each for each in shipped()}
TOUCHED = {
    "smolagents": ("[Step 1: Duration 0.27 seconds", "'id': '4176a7d7-9356'"),
    "GitHub Copilot CLI": ("<shellId: 4 completed", "(model: gpt-5-mini) count 8s\n"),
    "Claude Code": (
        f'"device_id":"{"0dcc15c9" * 8}"',
        "cc_version=2.1.197.a3f;",
        "agentId: a21a536276f60d36a",
        "SendMessage with to: 'a21a536276f60d36a'",
        "duration_ms: 397",
        "subagent_tokens: 15773",
        "<task-id>a9e3deefd1f3ae4ef</task-id>",
        "<duration_ms>986</duration_ms>",
        "tasks/a9e3deefd1f3ae4ef.output",
        "in background with ID: b1c2d3",
        "Today's date is 2026-11-22",
        "- Shell: bash",
        "- OS Version: Linux 6.18",
        ".claude/plans/survey-the-notes-swirling-pony.md",
        "tool-results/b2dwmfpm8.txt",
        '"duration_api_ms":8213',
        '"totalDurationMs":2112',
        '"end_time":1795365203512',
        '"timestamp":"2026-11-22T16:33:20.798Z"',
        '"session_id":"f468db8b-b8c8-4b1a-aca5-c89411438081"',
    ),
    "Codex": (
        "<current_date>2026-11-22</current_date>",
        "Wall time 0.1 seconds",
        '"wall_time_seconds":0.000011007',
        '"chunk_id":"c1c376"',
        "Chunk ID: c1c376",
        '"original_token_count":16',
        "original token count: 50028",
        '"thread_id":"01a20431-c043-7a92-973a-11538bef12ad"',
        '["01a20431-c043-7a92-973a-11538bef12ad"',
    ),
    "opencode": (
        '<task id="ses_dfcbc3ea0ffenYyeUrKgZ80fUV"',
        "ses_df9c13d9affe0NephpXMWO3UvT",
        "tool-output/tool_2063434b0001bh02wBOIHQI3Dt",
        '"prt_204333b59001gzeGE93JNfgCRo"',
        '"timestamp":1795366796884',
        "Today's date: Sun Nov 22 2026",
    ),
    "Gemini CLI": (
        "Today's date is Sunday, November 22, 2026 ",
        "/.gemini/tmp/notes-1",
        "Process Group PGID: 4711",
        "Background PIDs: 4711, 4712",
        "/tool-outputs/session-121c6862-7ee5-447c-96ee-78670c7f50f6/",
        "/tool-outputs/session-121c6862-7ee5-447c-96ee-78670c7f50f6/shell_1795401775229_0.txt",
        '"totalLatencyMs": 2016',
        '"session_id": "121c6862-7ee5-447c-96ee-78670c7f50f6"',
        '"timestamp":"2026-11-22T17:12:31.648Z"',
        '"tool_id":"read_file__read_file_1795367552645_0"',
    ),
    "aider": (
        "# aider chat started at 2026-11-23 18:16:57",
        "# 2026-11-23 18:16:58.939168",
        "\nHTTPSConnectionPool(host='raw.githubusercontent.com', port=443): no 1\nAider v0.86.2",
        "Cost: $0.00059 message",
    ),
    "Qwen Code": (
        "Process Group PGID: 4711",
        "Background shell started.\nid: bg_12ab34cd",
        "\npid: 4711\noutput file: ",
        "/shell-bg_12ab34cd.output",
        f"/.qwen/tmp/{'0dcc15c9' * 8}/",
    ),
}
EACH = [(name, text) for name, texts in TOUCHED.items() for text in texts]
ELSEWHERE = (
    "[main abc1234] Change a",
    "/4176a7d7-9356-4ed9-b504-642afa2d21e5/x",
    "commit 0123abcd0123abcd0123abcd0123abcd0123abcd",
    "Date:   Mon Nov 23 10:00:00 2026 +0000",
    "listening on 127.0.0.1:8123",
    "build 20261122.4 took 12.5 s",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
)


def _places(name: str) -> tuple[ValuePlace, ...]:
    return places_of(PROFILES[name].places)[0]


def _value_in(place: ValuePlace, text: str) -> tuple[int, int] | None:
    return next(place.spans(text), None)


def _other(text: str, at: int) -> str:
    letter = (
        str((int(text[at]) + 1) % 10) if text[at].isdigit() else "e" if text[at] != "e" else "a"
    )
    return f"{text[:at]}{letter}{text[at + 1 :]}"


@pytest.mark.parametrize("profile", shipped(), ids=lambda each: each.name)
def test_no_shipped_rule_ignores_text_anywhere(profile: Profile) -> None:
    """Each names a role or a tool; none is refused, and each has a text here."""
    places, left_out = places_of(profile.places)
    texts = TOUCHED.get(profile.name, ())

    assert profile.volatile_texts == ()
    assert left_out == ()
    assert all(place.where for place in places)
    assert all(any(_value_in(place, text) for text in texts) for place in places)
    assert all(any(_value_in(place, text) for place in places) for text in texts)


@pytest.mark.parametrize(
    ("name", "text"),
    some(
        14,
        [
            *(each for first in range(3) for each in EACH[first::3]),  # of each agent by default
            *((n, t) for n in TOUCHED for t in ELSEWHERE),
        ],
    ),
)
def test_each_edit_of_a_file_that_an_agent_reads_is_noticed(
    name: str, text: str, tmp_path: Path
) -> None:
    """Whatever it looks like: at each letter and digit of it."""
    call = says("", ("c1", "Read", {"path": "conf.txt"}))

    def told(found: str) -> list[dict[str, object]]:
        return [user("Go."), call, result("c1", f"timeout 5\n{found}\nthe last word")]

    log = record(tmp_path / "a.jsonl", talk(*told(text), says("done")), profile=PROFILES[name])
    first = ask(user("Go."))

    assert replayed(log, [first, ask(*told(text))]).identical
    for at in [at for at, letter in enumerate(text) if letter.isalnum()][:: max(1, len(text) // 8)]:
        report = replayed(log, [first, ask(*told(_other(text, at)))])
        assert not report.identical, _other(text, at)
        assert report.divergences[0].texts, "the words are shown"


@for_each("name, place", [(name, place) for name in TOUCHED for place in _places(name)])
def test_at_its_place_a_value_may_be_another_one(
    name: str, place: ValuePlace, tmp_path: Path
) -> None:
    """It is bound, or listed with its words; what stands around it is compared."""
    text = next(text for text in TOUCHED[name] if _value_in(place, text))
    where = min(place.where)
    span = _value_in(place, text)
    assert span is not None
    digits = [at for at in range(*span) if text[at].isdigit()] or [span[1] - 1]
    edited = _other(text, digits[-1])
    tool = where.removeprefix("result:")

    def told(found: str) -> list[dict[str, object]]:
        if where == "user":
            return [user("Go."), says("", ("c1", "x", {})), result("c1", ""), user(found)]
        if where == "system":
            return [system(found), user("Go.")]
        if where == "assistant":
            return [user("Go."), says(found), user("on")]
        return [user("Go."), says("", ("c1", tool, {})), result("c1", found)]

    if where.startswith("file:"):
        assert Bindings([place]).is_same_file(f"below/{where[5:]}", text, edited)
        assert not Bindings([place]).is_same_file("other.md", text, edited)
        assert not Bindings([place]).is_same_file(where[5:], text, f"{edited} more")
        return
    if where == "parameters":
        said = talk(user("Go."), says("done"), metadata=text)
        log = record(tmp_path / "a.jsonl", said, profile=PROFILES[name])
        again = [replayed(log, [ask(user("Go."), metadata=e)]) for e in (edited, f"{text} more")]
        assert [each.identical for each in again] == [True, False]
        assert again[0].ignored
        return
    if where == "printed":
        ends = [{"exit_code": 0, "stdout": found, "stdout_bytes": 9} for found in (text, edited)]
        log = record(tmp_path / "a.jsonl", [], output=ends[0], profile=PROFILES[name])
        assert replayed(log, [], output=ends[1]).identical
        assert not replayed(log, [], output=ends[1] | {"stdout": f"{edited} more"}).identical
        return
    log = record(tmp_path / "a.jsonl", talk(*told(text), says("done")), profile=PROFILES[name])
    report = replayed(log, [ask(*told(edited))])
    around = replayed(log, [ask(*told(f"{text} more"))])

    same = [one for one in report.divergences if one.category != "unconsumed"]
    assert not [one for one in same if one.now], str(report)
    assert "bound: 1 " in str(report) or report.ignored, str(report)
    assert not around.identical


def test_events_of_parallel_agents_of_adk_stand_in_any_order(tmp_path: Path) -> None:
    """Listed; what they say is compared, and so is where they stand among other messages."""
    told = "For context: below is a transcript of what another agent did, quoted between <<<"
    events = [user(f"{told}[{name}] said: six") for name in ("one", "two")]
    said = talk(user("go on"), *events, user("Now."), says("done"))
    log = record(tmp_path / "a.jsonl", said, profile=PROFILES["Google ADK"])

    moved = replayed(log, [ask(user("go on"), *reversed(events), user("Now."))])
    apart = replayed(log, [ask(user("go on"), events[0], user("Now."), events[1])])
    other = user(events[1]["content"].replace("six", "four"))
    changed = replayed(log, [ask(user("go on"), other, events[0], user("Now."))])

    assert moved.identical
    assert "order of parallel results" in str(moved)
    assert not apart.identical
    assert "[-six-]{+four+}" in str(changed)


@pytest.mark.parametrize(("name", "tool"), [("Claude Code", "Glob"), ("opencode", "grep")])
def test_files_that_a_tool_lists_stand_in_any_order(name: str, tool: str, tmp_path: Path) -> None:
    """They are told by when they changed, or as threads find them: listed; each is compared."""
    go, asks = user("Go."), says("", ("c", tool, {"pattern": "*"}))
    said = talk(go, asks, result("c", "a.txt\nb.txt\nc/d.txt"), says("done"))
    log = record(tmp_path / "a.jsonl", said, profile=PROFILES[name])

    moved = replayed(log, [ask(go), ask(go, asks, result("c", "c/d.txt\na.txt\nb.txt"))])
    changed = replayed(log, [ask(go), ask(go, asks, result("c", "c/e.txt\na.txt\nb.txt"))])

    assert moved.identical
    assert "order of the lines of a listing" in str(moved)
    assert moved.ignored_count == 1
    assert moved.rules["unordered_lines"] == list(PROFILES[name].unordered_lines)
    shown = [line.strip() for line in str(changed).splitlines()]
    assert [line for line in shown if line.startswith(("-", "+"))] == ["-c/d.txt", "+c/e.txt"]


@for_each("name", TOUCHED)
def test_a_changed_word_is_told(name: str, tmp_path: Path) -> None:
    """As the first difference, with the words."""
    said = talk(system("Be brief and kind."), user("Go."), says("done"))
    log = record(tmp_path / "a.jsonl", said, profile=PROFILES[name])

    report = replayed(log, [ask(system("Be brief and bold."), user("Go."))])

    assert "[-kind.-]{+bold.+}" in str(report)


# --- look-alikes, as clients of all wire formats say them ------------------------------------

WAS = {"folder": "/home/ann/proj", "home": "/home/ann", "date": "2026-11-22", "host": "ann-laptop"}
NOW = {"folder": "/srv/copy", "home": "/root", "date": "2027-01-03", "host": "build-7f3a"}
U = "121c6862-7ee5-447c-96ee-78670c7f50f"
SHA = "0123abcd" * 5
LOOK_ALIKES = (
    ("/home/ann/proj-old/a", "/srv/copy-old/a"),
    ("/home/ann/proj.bak", "/srv/copy.bak"),
    ("/home/ann/project", "/srv/copyect"),
    ("/home/ann/proj/a.txt", "/srv/copy/b.txt"),
    ("/home/ann/proj/a.txt", "/srv/copy/a.txt/"),
    ("/home/ann/proj", "/root"),
    ("/mnt/home/ann/proj", "/mnt/srv/copy"),
    ("%2Fhome%2Fann%2Fproj-2", "%2Fsrv%2Fcopy-2"),
    ("on 2026-11-22", "on 2027-01-04"),
    ("at 2026-11-22T10:00:00Z", "at 2027-01-03T10:00:00Z"),
    ("22.11.2026", "03.01.2027"),
    ("Date:   Sun Nov 22 10:00:00 2026 +0000", "Date:   Sun Jan  3 10:00:00 2027 +0000"),
    ("10:00:01", "10:00:02"),
    ("3 minutes ago", "4 minutes ago"),
    (f"{U}1", f"{U}2"),
    (f"session {U}0", f"session {U}1"),
    (f"{U}0", f"{U}9 "),
    (f"{U}0", f"{U}8"),
    (f"id={U}0{U}0", f"id={U}9{U}0"),
    ("ses_dfcbc3ea0ffenYyeUrKgZ80fUV", "ses_dfcbc3ea0ffenYyeUrKgZ80fUW"),
    ("agentId: a21a536276f60d36a", "agentId: b21a536276f60d36a"),
    ("toolu_01AbCdEfGhIjKlMnOp", "toolu_01AbCdEfGhIjKlMnOq"),
    ("550e8400", "550e8401"),
    (SHA, SHA[:-1] + "e"),
    (f"commit {SHA}", f"commit {SHA[:-1]}e"),
    (f"{SHA[:7]} Add a", "0123abe Add a"),
    (f"[main {SHA[:7]}] Add a", "[main 0123abe] Add a"),
    (f"sha256:{SHA}{SHA[:24]}", f"sha256:{SHA}{SHA[:23]}f"),
    (f"index {SHA[:7]}..89efdc7", f"index {SHA[:7]}..89efdc8"),
    (f"{SHA}  a.txt", f"{SHA[:-1]}e  a.txt"),
    ("x-request-id: 9f8e7d6c5b4a", "x-request-id: 9f8e7d6c5b4b"),
    ("authorization: Basic aaa", "authorization: Basic aab"),
    ("duration_ms: 500", "duration_ms: 50000"),
    ("port 8080", "port 8081"),
    ("1764000000", "1764000001"),
    ("1.0", "1"),
    ("-0", "0"),
    ("true", "True"),
    ("version 2.1.197", "version 2.1.198"),
    ("- Shell: bash", "- Shell: fish"),
    ("deploy-prod.md", "deploy-test.md"),
    ("a b", "a  b"),
    ("a", "a\n"),
    ("é", "e\u0301"),
    ("ann-laptop2", "build-7f3a2"),
    ("[id]", "[commit]"),
    ("\\/home\\/ann\\/proj2", "\\/srv\\/copy2"),
)


def _bodies(read: str, session: str) -> dict[str, dict[str, Any]]:
    """Return a request in each wire format: an agent is told what a file says that it reads."""
    given = {"command": "cat notes"}
    chat = [
        system("Work."), user("Read."),
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "type": "function",
             "function": {"name": "Bash", "arguments": json.dumps(given)}}]},
        {"role": "tool", "tool_call_id": "c1", "content": read},
    ]  # fmt: skip
    called = {"type": "function_call", "call_id": "c1", "name": "Bash"}
    responses = [
        user("Read."), {**called, "arguments": json.dumps(given)},
        {"type": "function_call_output", "call_id": "c1", "output": read},
    ]  # fmt: skip
    messages = [
        user("Read."),
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "c1", "name": "Bash", "input": given}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": read}]},
    ]  # fmt: skip
    generate = [
        {"role": "user", "parts": [{"text": "Read."}]},
        {"role": "model", "parts": [{"functionCall": {"name": "Bash", "args": given}}]},
        {"role": "user", "parts": [
            {"functionResponse": {"name": "Bash", "response": {"output": read}}}]},
    ]  # fmt: skip
    who = {"metadata": {"user_id": session}}
    top = {"systemInstruction": {"parts": [{"text": "Work."}]}}
    return {
        "/chat/completions": {"model": "m", "messages": chat, **who},
        "/responses": {"model": "m", "instructions": "Work.", "input": responses, **who},
        "/v1/messages": {
            "model": "m",
            "max_tokens": 9,
            "system": "Work.",
            "messages": messages,
            **who,
        },
        "/v1beta/models/m:generateContent": {"contents": generate, **top},
    }


def _asked(path: str, read: str, session: str) -> Asked:
    asked = read_request("POST", path, json.dumps(_bodies(read, session)[path]).encode())
    return attrs.evolve(asked, ids=ids_in([("session-id", session)]))


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(each, marks=[pytest.mark.long] * bool(n))
        for n, each in enumerate(_bodies("", ""))
    ],
)
def test_each_look_alike_is_noticed_in_each_wire_format(path: str, tmp_path: Path) -> None:
    """By a replay, which pytest has too, and by a diff; what is bound is the same."""
    bound = [
        ("in /home/ann/proj", "in /srv/copy"), ("on 2026-11-22.", "on 2027-01-03."),
        ("ann-laptop:", "build-7f3a:"), (f"{U}0", f"{U}9"),
    ]  # fmt: skip
    passed = []
    for n, (before, after) in enumerate([*bound, *LOOK_ALIKES]):
        pair = [_asked(path, before, f"{U}0"), _asked(path, after, f"{U}9")]
        logs = [
            record(
                tmp_path / f"{side}{n}.jsonl", [Exchange(asked, says("Done."))],
                folders={name: here[name] for name in ("folder", "home")},
                noted={name: here[name] for name in ("date", "host")},
            )
            for side, asked, here in zip("ab", pair, (WAS, NOW), strict=True)
        ]  # fmt: skip
        told = replayed(logs[0], [pair[1]], here=NOW).identical, diff(*logs).identical
        passed += [(before, after, *told)] if any(told) else []

    assert [each[:2] for each in passed] == bound
    assert all(each[2:] == (True, True) for each in passed)
