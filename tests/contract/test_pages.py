"""What a page and the commands beside it promise (CONTRACT.md §14.16)."""

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from refold.cli.group import refold
from refold.engine.models.scripted import ScriptedModel
from refold.engine.ports.ports import Delegation
from refold.engine.program.run import PlainRun
from refold.engine.runners.recording import record

SECRET = "what nobody else may read <b>"
USAGE = {"input_tokens": 9, "output_tokens": 1, "cost_usd_micros": 20_000}


def _refold(*arguments: object) -> Result:
    return CliRunner().invoke(refold, [str(each) for each in arguments])


def _asks(run: PlainRun, given: Any) -> str:
    answer = run.model([{"role": "user", "content": given}])
    if "fail" in given:
        raise ValueError(given)
    return str(answer.message["content"])


def _leads(run: PlainRun, given: Any) -> list[str]:
    run.model([{"role": "user", "content": given}])
    return [run.delegate(Delegation(program=_asks, input=text)).status for text in (SECRET, "fail")]


def _recorded(folder: Path, *, said: str = SECRET) -> Path:
    folder.mkdir()
    model = ScriptedModel([{"text": said, "usage": USAGE}] * 3)
    return record(_leads, "begin", log=folder / "a.jsonl", model=model).log


def _document(text: str) -> Any:
    found = re.search(r'id="page">([^<]*)<', text)
    assert found is not None
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


def _page(log: Path, *more: object, to: str = "html") -> str:
    target = log.with_name(f"page.{to}")
    assert _refold("export", log, "--to", to, "-o", target, *more).exit_code == 0
    return target.read_text(encoding="utf-8")


def test_14_16_a_page_holds_the_logs_and_what_the_commands_say(tmp_path: Path) -> None:
    """Byte for byte, and with what `show` counts; nothing of it is markup."""
    log = _recorded(tmp_path / "a")

    text = _page(log)
    shown = json.loads(_refold("show", log, "--json").stdout)

    found = re.findall(r'data-log="([^"]+)">([^<]*)<', text)
    logs = [log, log.with_name("a.1.jsonl"), log.with_name("a.2.jsonl")]
    assert [(name, gzip.decompress(base64.b64decode(each))) for name, each in found] == [
        (str(number), each.read_bytes()) for number, each in enumerate(logs)
    ]
    assert _document(text)["totals"] == shown["totals"]
    assert SECRET not in text
    assert "connect-src &#x27;none&#x27;" in text


def test_14_16_a_second_run_stands_beside_it_and_content_can_be_left_out(tmp_path: Path) -> None:
    log, other = _recorded(tmp_path / "a"), _recorded(tmp_path / "b", said="other")

    beside = _document(_page(log, "--diff", other))
    bare = _page(log, "--without-content")

    first = beside["diff"]["causes"][0]
    assert first["entries"] == [["0", 1], ["0~", 1]]  # of the calls
    assert SECRET not in json.dumps(_document(bare))
    assert " data-log=" not in bare


def test_14_16_other_forms_have_events_and_a_summary_without_markup(tmp_path: Path) -> None:
    log = _recorded(tmp_path / "a")

    events = json.loads(_page(log, to="perfetto"))["traceEvents"]
    summary = _page(log, to="markdown")

    assert {each["cat"] for each in events if each["ph"] == "X"} == {"run", "model", "child"}
    assert SECRET not in summary
    assert "| 3 | 1 | 1 | 0 | 3 | 30 | $0.0600 |" in summary


def test_14_16_totals_are_own_and_with_all_below(tmp_path: Path) -> None:
    """In text and document; `--failed`, `ls --diff` and `why` say what belongs to them."""
    log, other = _recorded(tmp_path / "a"), _recorded(tmp_path / "b", said="other")

    totals = json.loads(_refold("show", log, "--json").stdout)["totals"]
    failed = _refold("show", log, "--failed").stdout
    rows = json.loads(_refold("ls", log, other, "--diff", log, "--json").stdout)["runs"]
    (run,) = json.loads(_refold("ls", tmp_path / "a", "--status", "completed", "--json").stdout)[
        "runs"
    ]
    why = json.loads(_refold("why", log, -1, "--json").stdout)["causes"]

    assert totals["own"] == USAGE
    assert totals["all"] == {name: 3 * count for name, count in USAGE.items()}
    assert "2 subagents: 1 completed, 1 failed" in failed
    assert "30 tokens, $0.0600 (its own: 10 tokens, $0.0200)" in failed
    assert [row["cost_usd_micros"] for row in rows] == [60_000, 60_000]
    assert [bool(row["differences"]) for row in rows] == [False, True]
    assert run["program"] == "_leads"
    assert all(type(each["wall_us"]) is int for each in why)
