"""One changed character in what an agent asks is seen, or listed (CONTRACT.md §16.7, §16.13).

Each text that a rule of a profile touches stands in a prompt; it is edited outside and inside.
"""

import re
from pathlib import Path

import pytest

from refold.engine.observed.volatile import VolatileRules
from refold.proxy.profiles import shipped
from tests.support.watched import ask, record, replayed, result, says, system, talk, user

PROFILES = {each.name: each for each in shipped()}
TOUCHED = {
    "Claude Code": (
        "cc_version=2.1.197.a3f;",
        "agentId: a21a536276f60d36a",
        "SendMessage with to: 'a21a536276f60d36a'",
        "duration_ms: 397",
        "<task-id>a9e3deefd1f3ae4ef</task-id>",
        "<duration_ms>986</duration_ms>",
        "tasks/a9e3deefd1f3ae4ef.output",
        "in background with ID: b1c2d3",
        "Today's date is 2026-11-22",
        "- Shell: bash",
        "- OS Version: Linux 6.18",
        ".claude/plans/survey-the-notes-swirling-pony.md",
        "Recent commits:\nf53a8dc",
        "[main f53a8dc] ",
        '"duration_api_ms":8213',
        '"totalDurationMs":2112',
        '"end_time":1795365203512',
        '"timestamp":"2026-11-22T16:33:20.798Z"',
        '"session_id":"f468db8b-b8c8-4b1a-aca5-c89411438081"',
        "tool-results/b2dwmfpm8.txt",
        "/4176a7d7-9356-4ed9-b504-642afa2d21e5/",
        "/4176a7d7-9356-4ed9-b504-642afa2d21e5.jsonl",
    ),
    "Codex": (
        "<current_date>2026-11-22</current_date>",
        "Wall time 0.1 seconds",
        '"wall_time_seconds":0.000011007',
        '"chunk_id":"c1c376"',
        '"original_token_count":16',
        "original token count: 50028",
        "[feature/x-1 (root-commit) f53a8dc] ",
        '"thread_id":"01a20431-c043-7a92-973a-11538bef12ad"',
        '"receiver_thread_ids":["01a20431-c043-7a92-973a-11538bef12ad"]',
    ),
    "opencode": (
        '<task id="ses_dfcbc3ea0ffenYyeUrKgZ80fUV"',
        "ses_df9c13d9affe0NephpXMWO3UvT",
        "tool-output/tool_2063434b0001bh02wBOIHQI3Dt",
        "[feature/x-1 (root-commit) f53a8dc] ",
        '"prt_204333b59001gzeGE93JNfgCRo"',
        '"timestamp":1795366796884',
        "Today's date: Sun Nov 22 2026",
    ),
    "Gemini CLI": (
        "Today's date is Sunday, November 22, 2026 ",
        "/.gemini/tmp/notes-1",
        "Process Group PGID: 4711",
        "[feature/x-1 (root-commit) f53a8dc] ",
        "/tool-outputs/session-121c6862-7ee5-447c-96ee-78670c7f50f6/shell_1795401775229_0.txt",
        '"totalLatencyMs": 2016',
        '"session_id": "121c6862-7ee5-447c-96ee-78670c7f50f6"',
        '"timestamp":"2026-11-22T17:12:31.648Z"',
        '"tool_id":"read_file__read_file_1795367552645_0"',
    ),
    "aider": ("Commit cc53533 ",),
}
EACH = [(name, text) for name, texts in TOUCHED.items() for text in texts]


@pytest.mark.parametrize("name", PROFILES)
def test_each_rule_of_a_profile_has_a_text_here(name: str) -> None:
    """And each text a rule: so that none is added, or goes, without being looked at."""
    rules, texts = PROFILES[name].volatile_texts, TOUCHED.get(name, ())

    assert all(any(re.fullmatch(rule, text) for text in texts) for rule in rules)
    assert all(any(re.fullmatch(rule, text) for rule in rules) for text in texts)


@pytest.mark.parametrize("name", TOUCHED)
def test_each_rule_of_a_profile_holds_in_a_long_text(name: str) -> None:
    """Such as the output of a command: 200 kB of numbers, with quotes, as JSON has it."""
    rules, lines = VolatileRules(texts=PROFILES[name].volatile_texts), '\\n12345\\t"x" [a]' * 10_000
    texts = " | ".join(TOUCHED[name])

    assert rules.text(f"{lines} {texts} {lines}") == f"{lines} {rules.text(texts)} {lines}"


@pytest.mark.parametrize(("name", "text"), EACH)
def test_no_edit_is_hidden_but_what_is_listed(name: str, text: str, tmp_path: Path) -> None:
    """Around a text that is another at each run: seen; inside of it: seen, or listed."""
    prompt = f"Be brief. {text} Be kind."
    said = talk(system(prompt), user("Go."), says("done"))
    log = record(tmp_path / "a.jsonl", said, profile=PROFILES[name])
    start, end = prompt.index(text), prompt.index(text) + len(text)
    inside = [at for at in (start, (start + end) // 2, end - 2, end - 1) if prompt[at] != " "]

    for at in (start - 2, end + 1, *inside):
        other = "e" if prompt[at] != "e" else "a"
        if prompt[at].isdigit():
            other = str((int(prompt[at]) + 1) % 10)
        edited = f"{prompt[:at]}{other}{prompt[at + 1 :]}"
        report = replayed(log, [ask(system(edited), user("Go."))])

        assert not report.identical or (report.ignored_count and at in inside), edited
        if at not in inside:
            assert not report.identical, edited
            assert report.divergences[0].texts, "the words are shown"


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


@pytest.mark.parametrize("name", TOUCHED)
def test_a_changed_word_is_told(name: str, tmp_path: Path) -> None:
    """As the first difference, with the words."""
    said = talk(system("Be brief and kind."), user("Go."), says("done"))
    log = record(tmp_path / "a.jsonl", said, profile=PROFILES[name])

    report = replayed(log, [ask(system("Be brief and bold."), user("Go."))])

    assert "[-kind.-]{+bold.+}" in str(report)
