"""Every kind of entry reads as one line, also when its data is not what its kind says."""

from pathlib import Path
from typing import Any

import attrs
import pytest

from refold.cli.output.entries import (
    KIND_WIDTH_OBSERVED,
    compact,
    kind_width,
    origin_of,
    print_entry,
)
from refold.engine.events.events import KINDS
from refold.engine.log.reader import read_entries
from tests.support.loops import for_each
from tests.support.watched import record, says, talk, user

MESSAGE = {"content": "yes", "tool_calls": [{"name": "t", "arguments": {}}]}
FAULT = {"code": "raised", "message": "m"}
ENDED = {"status": "failed", "reason": "error", "error": FAULT}
LIMIT = {"limit": "max_depth", "allowed": 1, "observed": 2, "scope": "child"}
DATA: dict[str, tuple[dict[str, Any], str]] = {
    "run.started": ({"program": "p", "depth": 0, "input": 1}, "p depth 0  input 1"),
    "tool.called": ({"tool": "t", "arguments": {"a": "x"}, "effect": "pure"}, "t(a=x)"),
    "tool.returned": ({"status": "error", "error": FAULT}, "error raised: m"),
    "model.asked": (
        {"model": "m", "added": [{"role": "user", "content": "go"}, {}], "base": 2},
        "m 2 messages added to 2  user: go",
    ),
    "model.answered": ({"status": "ok", "message": MESSAGE}, "ok t() yes"),
    "child.started": ({"delegation": {"program": "p", "brief": "b"}, "number": 3}, "p #3: b"),
    "child.finished": ({"outcome": {"status": "completed", "summary": "s"}}, "completed s"),
    "timer.fired": ({"virtual_us": 1_500_000, "length_us": 20_000}, "after 1.5 s, 0.02 s long"),
    "clock.read": ({"time_us": 0, "virtual_us": 0}, "1970-01-01T00:00:00.000+00:00"),
    "value.drawn": ({"source": "uuid", "name": "", "value": "u"}, "uuid  u"),
    "input.asked": ({"question": "why?"}, "why?"),
    "input.given": ({"answer": "so"}, "so"),
    "effect.cancelled": ({"kind": "tool"}, "tool"),
    "effect.late": ({"kind": "tool", "status": "ok"}, "tool: ok"),
    "limit.hit": (LIMIT, "max_depth: 1 allowed, 2 child"),
    "session.changed": ({"event": "E", "data": {"a": 1}}, 'E {"a":1}'),
    "session.seeded": ({"snapshot": [1]}, '{"snapshot":[1]}'),
    "session.restored": ({"snapshot": [1]}, '{"snapshot":[1]}'),
    "tokens.granted": ({"tokens": 5, "to": ""}, "5 to this run"),
    "patch.marked": ({"id": "v2"}, "v2"),
    "note.added": ({"text": "n", "data": [1]}, "n [1]"),
    "run.resumed": ({"attempt": 2}, "attempt 2"),
    "run.finished": (ENDED, "failed (error) raised: m"),
}  # fmt: skip


@attrs.frozen
class Row:
    kind: str
    data: Any
    seq: int = 7
    call: str | None = "0#1"
    meta: Any = attrs.field(factory=lambda: {"mono_us": 3000})


@for_each("kind", KINDS)
def test_each_kind_says_in_a_few_words_what_happened(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data, words = DATA[kind]

    print_entry(Row(kind, data), 1000)

    said = capsys.readouterr().out
    assert said == f"    7      2.0  0#1      {kind:<14} {words}\n"


@pytest.mark.parametrize("kind", [*KINDS, "x-other", "unknown"])
@pytest.mark.parametrize(
    "data", [{}, {"tool": 1}, {"outcome": None}, {"delegation": []}, {"time_us": 10**18}]
)
def test_data_that_is_not_what_its_kind_says_is_shown_all_the_same(
    kind: str, data: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    print_entry(Row(kind, data, call=None, meta=[]), 0)

    assert capsys.readouterr().out.count("\n") == 1


def test_long_values_are_cut() -> None:
    assert compact("x" * 1000, 10) == "xxxxxxxxx…"
    assert compact({"a": [1]}) == '{"a":[1]}'


def test_a_text_that_is_kept_beside_the_log_is_its_size() -> None:
    blob = {"$blob": "ab" * 32, "bytes": 41_000}

    assert compact(blob) == "(41 kB of text)"
    assert compact({"a": [{"b": blob}], "c": 1}) == '{"a":[{"b":"(41 kB of text)"}],"c":1}'
    assert compact({**blob, "other": 1}).startswith('{"$blob":"abab')


def test_kinds_of_a_watched_command_need_more_room(survey_log: Path, tmp_path: Path) -> None:
    watched = record(tmp_path / "a.jsonl", talk(user("Hello"), says("Hi.")))

    for log in (survey_log, watched):
        longest = max(len(entry.kind) for entry in read_entries(log))
        assert longest <= kind_width(log)
    assert kind_width(survey_log) < kind_width(watched)


@for_each("meta", [None, {}, {"mono_us": "soon"}])
def test_an_entry_without_a_time_is_at_zero(meta: Any) -> None:
    assert origin_of(meta) == 0


@pytest.mark.parametrize(
    ("kind", "data", "words"),
    [
        ("model.answered", {"status": "error", "error": FAULT}, "error raised: m"),
        (
            "x-refold.tools",
            {"tools": [{"name": "a"}, {"function": {"name": "b"}}, {"type": "search"}]},
            "3 tools: a, b, ?",
        ),
        (
            "x-refold.folder",
            {"when": "start", "tree": "[]\n"},
            "start 1 file that differs from git",
        ),
        ("x-refold.folder", {"when": "start", "tree": {"$blob": "x"}}, "start many"),
        (
            "x-refold.folder",
            {"when": "change", "changes": "[]\n[]\n", "calls": ["0/1#2"]},
            "change 2 changes  0/1#2",
        ),
        ("x-refold.folder", {"when": "lost", "why": "no room"}, "lost no room"),
    ],
)
def test_what_is_answered_with_a_failure_and_what_is_offered(
    kind: str, data: Any, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_entry(Row(kind, data), 1000, KIND_WIDTH_OBSERVED)

    assert capsys.readouterr().out.endswith(f"{words}\n")


def test_a_value_that_no_log_can_hold_is_shown_all_the_same() -> None:
    assert compact({"a": 2**70}) == "{'a': 1180591620717411303424}"
