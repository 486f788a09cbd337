"""The page in a real browser: from disk, with the network off, under its own policy."""

import base64
import contextlib
import gzip
import json
import random
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from refold.cli.commands.view import FolderOfRuns
from refold.engine.errors import LogError, ToolError
from refold.engine.events.call_key import scope_of
from refold.engine.log.reader import read_entries
from refold.engine.models.scripted import ScriptedModel
from refold.engine.ports.delegation import Delegation
from refold.engine.program.run import PlainRun, Run
from refold.engine.runners.recording import record
from refold.engine.state.digests import state_json
from refold.page.document import page
from refold.page.html import diverged_html, page_html
from refold.page.server import Runs, Server
from refold.replay.audit.refolding import state
from refold.replay.audit.verify import verify
from refold.replay.audit.why import why
from refold.replay.difference.causes import causes
from refold.replay.observed.folder import folder_diffs
from refold.replay.reexecute.reexecute import reexecute
from refold.replay.run.opened_run import OpenedRun, delegation_tree
from refold.replay.run.run_node import RunNode
from refold.tools.contract.tool_types import tool
from tests.support.browsing import Browser, exported, ids
from tests.support.editing import record_edits
from tests.support.fixtures import LOGS
from tests.support.growing import count, family, growing
from tests.support.shown_runs import HOSTILE, order_status
from tests.support.trees import Latency, random_tree, tools_with, tree_program

ASSETS = Path(__file__).parents[2] / "src/refold/page/assets"

pytestmark = pytest.mark.long


def _with_a_byte_changed(page: Path, log: int, seq: int, out: Path) -> Path:
    """Return a copy of a page in which one byte of one embedded line is another."""
    text = page.read_text(encoding="utf-8")
    found = re.search(rf'data-log="{ids(page)[log]}">([^<]*)<', text)
    assert found is not None
    lines = gzip.decompress(base64.b64decode(found[1])).splitlines(keepends=True)
    at = lines[seq].index(b'"data"')
    lines[seq] = lines[seq][:at] + b'"dbta"' + lines[seq][at + 6 :]
    packed = base64.b64encode(gzip.compress(b"".join(lines))).decode()
    out.write_text(text.replace(found[1], packed), encoding="utf-8")
    return out


def _names(browser: Browser) -> list[str]:
    return browser.texts(".tabs button")


def test_nothing_in_the_page_writes_markup() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in ASSETS.glob("*.js"))

    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacent",
        "document.write",
        "eval(",
        "Function(",
    ):
        assert word not in text


# --- the badge -------------------------------------------------------------------------------


def test_the_page_checks_its_logs_itself(browser: Browser, desk_page: Path) -> None:
    browser.open(desk_page)

    browser.reads("[data-answer=intact]", "intact")
    browser.until(lambda: "checking" not in browser.text("[data-answer=intact]"))
    assert browser.text("[data-answer=intact]") == "✓ intact"
    assert browser.text("[data-answer=complete]") == "✓ complete"
    assert "not signed" in browser.text("[data-answer=authentic]")
    assert "kernel" in browser.text("[data-answer=guarantee]")
    browser.click(".verdict summary")
    assert "in 78 logs itself" in browser.text(".verdict .panel")
    assert browser.complaints() == []


def test_one_byte_changed_turns_the_badge_and_names_the_entry(
    browser: Browser, desk_page: Path, tmp_path: Path
) -> None:
    browser.open(_with_a_byte_changed(desk_page, 5, 3, tmp_path / "changed.html"))

    browser.reads("[data-answer=intact]", "not intact: entry 3 of clerk #5")
    browser.click(".verdict summary")
    browser.click(".verdict .panel li a")
    browser.reads(".inspector", "Not intact: it does not match its hash")


def _broken(desk_log: Path, folder: Path, how: str) -> Path:
    """Return a copy of a run that something befell."""
    log = shutil.copytree(desk_log.parent, folder / "copy") / desk_log.name
    lines = log.read_bytes().splitlines(keepends=True)
    match how:
        case "cut off":
            log.write_bytes(b"".join(lines[:-1]) + lines[-1][:-9])
        case "unsealed":
            log.write_bytes(b"".join(lines[:-1]))
        case "child missing":
            log.with_name("desk.5.jsonl").unlink()
        case _:
            shutil.rmtree(next(log.parent.glob("*.blobs")))
    return log


@pytest.mark.parametrize(
    ("how", "intact", "complete", "said"),
    [
        ("cut off", "✓ intact", "not complete: broke off", "torn tail"),
        ("unsealed", "✓ intact", "not complete: broke off", "desk has no recorded end"),
        ("child missing", "✓ intact", "not complete", "child log missing"),
        ("blob missing", "not intact: entry 1 of desk.jsonl", "✓ complete", "blob missing"),
    ],
)
def test_what_befell_a_log_is_said_with_its_place(
    browser: Browser,
    desk_log: Path,
    tmp_path: Path,
    how: str,
    intact: str,
    complete: str,
    said: str,
) -> None:
    """As `verify` says it; what can be shown is shown."""
    browser.open(exported(_broken(desk_log, tmp_path, how), tmp_path))

    browser.until(lambda: "checking" not in browser.text("[data-answer=intact]"))
    assert intact in browser.text("[data-answer=intact]")
    assert complete in browser.text("[data-answer=complete]")
    browser.click(".verdict summary")
    assert said in browser.text(".verdict .panel")
    lost = {"cut off": "its log is torn", "child missing": "its log is missing"}.get(how, "")
    assert lost in browser.text(".treeview")
    assert ("its log is" in browser.text(".treeview")) == bool(lost)
    assert len(browser.all(".treeview .row.tree")) > 20
    assert browser.complaints() == []


def test_without_webcrypto_it_says_so(browser: Browser, desk_page: Path) -> None:
    found = browser.command(
        "Page.addScriptToEvaluateOnNewDocument",
        source="Object.defineProperty(globalThis, 'crypto', { value: {} })",
    )
    try:
        browser.open(desk_page)
        browser.reads("[data-answer=intact]", "not checked here")
    finally:
        browser.command("Page.removeScriptToEvaluateOnNewDocument", **found)


# --- what it shows ---------------------------------------------------------------------------


def test_failed_subagents_are_counted_and_one_key_away(browser: Browser, desk_page: Path) -> None:
    browser.open(desk_page)

    assert "77 subagents: 75 completed, 2 failed" in browser.text(".top .sums")
    browser.press("f")
    browser.reads(".inspector", "order 23 is in no warehouse")
    assert "clerk" in browser.text(".treeview .row.on")
    assert "#23" in browser.text(".treeview .row.on")
    browser.press("f")
    browser.reads(".inspector h2", "tool.returned")
    assert "#23" in browser.text(".treeview .row.on")
    browser.press("f")
    browser.reads(".inspector", "order 58 is in no warehouse")
    browser.press("F")
    browser.reads(".inspector h2", "tool.returned")
    browser.press("F")
    browser.reads(".inspector h2", "run.finished")
    assert "#23" in browser.text(".treeview .row.on")


def test_the_tree_folds_and_moves_by_keys(browser: Browser, desk_page: Path) -> None:
    browser.open(desk_page)
    right, left, down = "\ue014", "\ue012", "\ue015"

    browser.click(".treeview .row.tree")
    assert len(browser.all(".treeview .row.tree")) > 5
    browser.press(left)
    assert len(browser.all(".treeview .row.tree")) == 1
    browser.press(right, down, down)
    assert "#2" in browser.text(".treeview .row.on")


def test_lanes_show_calls_waiting_and_the_critical_path(browser: Browser, desk_page: Path) -> None:
    browser.open(desk_page, "#/lanes")

    browser.until(lambda: browser.all(".lane .mark.tool"))
    assert browser.all(".lane .mark.model")
    assert browser.all(".lane .mark.wait")
    assert browser.all(".lane .critical")
    assert "of 60.0 s" in browser.text(".lane .took")
    before = browser.text(".span")
    browser.click("[aria-label='Zoom in (+)']")
    assert browser.text(".span") != before
    browser.run("document.querySelectorAll('.mark.tool')[0].dispatchEvent(new Event('click'))")
    browser.reads(".inspector h2", "tool.called")


def test_a_thread_shows_messages_tools_and_images(browser: Browser, desk_page: Path) -> None:
    browser.open(desk_page, "#/log/0/1/thread")

    browser.reads(".messages", "You run a desk.")
    browser.until(lambda: browser.all(".messages img"))
    assert browser.run("return document.querySelector('.messages img').naturalWidth") == 192
    assert "say where order 1 is" in browser.text(".messages")
    browser.open(desk_page, "#/log/3/1/thread")
    browser.reads(".messages", "order_status")
    browser.reads(".messages", "Order 3 is")


def test_the_inspector_tells_why_with_times_and_what_it_led_to(
    browser: Browser, desk_page: Path
) -> None:
    browser.open(desk_page, "#/log/23/2")

    browser.reads(".inspector h2", "tool.returned")
    why, led = browser.texts(".inspector .chain")
    assert "answers\n1 tool.called" in why
    assert "started by" in why
    assert " before" in why
    assert "run.finished" in led
    browser.press("c")
    browser.reads(".inspector h2", "tool.called")
    assert browser.driver.current_url.endswith(f"#/log/{ids(desk_page)[23]}/1/entries")
    browser.click(".inspector .part summary", -1)
    browser.reads(".inspector", '"kind":"tool.called"')


def test_the_inspector_shows_the_files_of_a_run_and_the_diff_of_a_call(
    browser: Browser, tmp_path: Path
) -> None:
    """Contents only where they were asked for."""
    log = record_edits(tmp_path, "r", {"new": "two <b>"})
    pages = {name: tmp_path / f"{name}.html" for name in ("plain", "full")}
    for name, made in pages.items():
        made.write_text(page_html(page(log, files=name == "full")), encoding="utf-8")
    _, (call,), _, _ = next(folder_diffs(log, has_diffs=False))
    edit = next(each.seq for each in read_entries(log) if each.call == call)

    browser.open(pages["full"])
    browser.click(".treeview .row.tree")
    browser.reads(".inspector", "+ pkg/new.py +1 -0")
    for name, made in pages.items():
        browser.open(made, f"#/log/0/{edit}")
        browser.reads(".inspector", f"~ a.py +1 -1, by {call}")
        assert ("+two <b>" in browser.text(".inspector pre")) is (name == "full")


def test_the_scrubber_shows_the_state_and_what_changed(browser: Browser, desk_page: Path) -> None:
    browser.open(desk_page, "#/log/0/3/state")

    browser.reads(".states", "/children_started")
    assert "What changed" in browser.text(".states")
    browser.press("\ue014")
    browser.reads(".now", "4 of")
    browser.click("[aria-label='Entry before']")
    browser.reads(".now", "3 of")


def test_search_finds_in_all_logs_and_filters_by_tool_and_status(
    browser: Browser, desk_page: Path
) -> None:
    browser.open(desk_page)
    browser.until(lambda: "checking" not in browser.text("[data-answer=intact]"))

    browser.press("/", *"order 58 is in no", "\ue007")
    browser.reads(".entriesview", "3 of ")
    assert "no warehouse" in browser.text(".entriesview .row")
    rows = browser.run("return document.querySelector('.entriesview').textContent")
    assert "failed raised: " in rows
    assert "failed failed" not in rows
    browser.press("\ue00c")
    browser.run(
        "const s = document.querySelector('[data-filter=status]'); s.value = 'failed';"
        "s.dispatchEvent(new Event('change'))"
    )
    browser.click("[data-view=tree]")
    browser.until(lambda: len(browser.all(".treeview .row.tree")) == 3)


def test_a_link_leads_to_its_entry_and_theme_keys_and_help_work(
    browser: Browser, desk_page: Path
) -> None:
    browser.open(desk_page, "#/log/7/4")

    browser.reads(".inspector", "clerk #7, entry 4")
    assert _names(browser) == ["Tree", "Lanes", "Thread", "Entries", "State"]
    ground = "return getComputedStyle(document.documentElement).backgroundColor"
    light = browser.run(ground)
    browser.press("t")
    assert browser.run(ground) != light
    browser.press("t", "?")
    browser.reads("dialog", "Keys")
    browser.press("\ue00c", "\ue00c")
    assert not browser.all(".inspector.open")


def test_a_watched_command_shows_its_conversations(browser: Browser, tmp_path: Path) -> None:
    """In tree, lanes and threads, each with what was said in it; and what is guaranteed."""
    kept = LOGS
    log = shutil.copytree(kept, tmp_path / "kept") / "watched.jsonl"
    browser.open(exported(log, tmp_path))

    assert "7 conversations: 6 completed, 1 cancelled" in browser.text(".top .sums")
    assert "matched" in browser.text("[data-answer=guarantee]")
    levels = "return [...document.querySelectorAll('.row.tree')].map((e) => e.ariaLevel).join('')"
    assert browser.run(levels) == "12332222"
    browser.click("[data-view=lanes]")
    browser.until(lambda: browser.all(".lane .mark.model"))
    assert len(browser.all(".lane")) == 7
    assert not browser.all(".marks .critical")
    browser.click("[data-view=tree]")
    browser.run("document.querySelectorAll('.row.tree')[2].click()")
    browser.click("[data-view=thread]")
    browser.reads(".messages", "Find a place to walk above the city")
    assert "Plan a day in Bergen" not in browser.text(".messages")
    assert browser.complaints() == []


def test_each_conversation_of_a_watched_command_can_be_chosen(
    browser: Browser, tmp_path: Path
) -> None:
    """The main one is open at first; each shows what was said in it, and nothing of the others."""
    kept = LOGS
    log = shutil.copytree(kept, tmp_path / "kept") / "watched.jsonl"
    document = page(log).document
    browser.open(exported(log, tmp_path), "#/thread")

    browser.until(lambda: browser.all(".message"))
    main = "return document.querySelector('[aria-label=Conversation]').value"
    assert browser.run(main) == str(document["main"])
    scopes = {entry.seq: scope_of(entry.call or "") for entry in read_entries(log)}
    talks = {talk["scope"] for talk in document["threads"]}
    shown = "return [...document.querySelectorAll('.message')].map((e) => Number(e.dataset.seq))"
    for number, talk in enumerate(document["threads"]):
        _choose(browser, "[aria-label=Conversation]", str(number))
        found = {scopes[seq] for seq in browser.settled(shown)} & talks
        assert found == {talk["scope"]}


def test_a_run_that_asked_no_model_has_a_thread_of_its_own(
    browser: Browser, desk_page: Path
) -> None:
    """What it was given, did and ended with; and no entry of another's is marked for it."""
    browser.open(desk_page, "#/log/23/2/thread")

    browser.reads(".messages", "order 23 is in no warehouse")
    chosen = "return document.querySelector('[aria-label=Conversation]').selectedOptions[0].text"
    assert browser.run(chosen) == "clerk #23"
    assert len(browser.all(".message.on")) == 1
    assert browser.text(".message.on").startswith("tool")


def test_filters_look_in_all_logs_and_in_every_conversation(
    browser: Browser, desk_page: Path, tmp_path: Path
) -> None:
    """What they leave is in other logs, and of other conversations; one log can be chosen."""
    kept = LOGS
    log = shutil.copytree(kept, tmp_path / "kept") / "watched.jsonl"
    browser.open(desk_page, "#/entries")
    browser.until(lambda: "checking" not in browser.text("[data-answer=intact]"))
    _choose(browser, "[data-filter=tool]", "order_status")
    browser.reads(".entriesview", "154 of ")
    _choose(browser, "[aria-label=Log]", ids(desk_page)[23])
    browser.reads(".entriesview", "2 of 4 entries")
    _choose(browser, "[data-filter=tool]", "")
    browser.reads(".entriesview", "4 entries")

    browser.open(exported(log, tmp_path), "#/entries")
    browser.until(lambda: "checking" not in browser.text("[data-answer=intact]"))
    agents = browser.run(
        "return [...document.querySelectorAll('[data-filter=agent] option')].map((e) => e.value)"
    )
    for agent in filter(None, agents):
        _choose(browser, "[data-filter=agent]", agent)
        browser.reads(".entriesview", " of ")
        browser.until(lambda: not browser.text(".entriesview").startswith("0 of"))


def test_a_run_that_asked_waits_for_you_on_its_page_and_on_the_start_page(
    browser: Browser, tmp_path: Path
) -> None:
    async def asks(run: Run, text: str) -> str:
        return str(await run.ask(text))

    log = record(asks, "May I?", log=tmp_path / "a.jsonl").log
    with contextlib.ExitStack() as stack, _served(browser, FolderOfRuns(tmp_path, stack)):
        browser.reads(".runrow[role=option]", "waits for you")
        browser.click(".runrow[role=option]")
        browser.reads("[data-answer=complete]", "! waits for you")
        browser.reads(".sums", "waits for you")
        assert "following" not in browser.text(".sums")
        log.write_bytes(log.read_bytes().splitlines(keepends=True)[0])
        browser.reads("[data-answer=complete]", "not complete: broke off")


def _other_desk(run: PlainRun, _orders: int) -> None:
    """Ask first what no other desk asks."""
    run.model([{"role": "user", "content": "Who am I?"}])


def test_where_a_replay_diverged_stands_above_all(
    browser: Browser, desk_log: Path, tmp_path: Path
) -> None:
    report = reexecute(desk_log, _other_desk, tools=[order_status])
    target = tmp_path / "diverged.html"
    target.write_text(diverged_html(desk_log, report.causes), encoding="utf-8")
    browser.open(target)

    browser.reads(".top .pinned", "Its replay diverged: desk, entry 1")
    browser.reads(".top .pinned", "Who am I?")
    browser.click(".top .pinned a")
    browser.reads(".inspector", "desk, entry 1")
    assert browser.run(_CUT) == []
    assert browser.complaints() == []


def test_many_runs_that_diverge_alike_are_one_box_above_the_tabs(
    browser: Browser, desk_log: Path, tmp_path: Path
) -> None:
    """Each is named, and the tabs stay in the window."""
    document = page(desk_log).document
    (divergence,) = reexecute(desk_log, _other_desk, tools=[order_status]).divergences
    logs = [desk_log.with_name(each["name"]) for each in document["logs"][1:]]
    alike = [attrs.evolve(divergence, log=str(log), seq=1) for log in logs]
    target = tmp_path / "many.html"
    target.write_text(diverged_html(desk_log, causes([divergence, *alike])), encoding="utf-8")
    browser.open(target)

    browser.reads(".top .pinned", "The same in 77 more runs")
    assert browser.run(_CUT) == []
    below = "return document.querySelector('.tabs').getBoundingClientRect().bottom"
    assert browser.run(below) < 600
    browser.click(".top .pinned summary")
    assert len(browser.all(".top .pinned li a")) == 77
    assert browser.run(below) < 600


# --- two runs, and runs that are served ------------------------------------------------------


def test_two_runs_stand_side_by_side_with_the_first_difference_pinned(
    browser: Browser, diff_page: Path
) -> None:
    browser.open(diff_page)

    browser.reads(".pinned", "They first differ here")
    assert "root > clerk[5] > model" in browser.text(".pinned")
    assert "Tool calls\t77\t70" in browser.text(".sums table, table.sums")
    assert "Its children differ" not in browser.text(".compareview")
    browser.click(".pinned a")
    browser.reads(".difference", "It is late.")
    browser.reads(".inspector", "clerk #5")
    before = len(browser.all(".pairrow"))
    browser.click(".compareview input[type=checkbox]")
    assert len(browser.all(".pairrow")) > before
    browser.until(lambda: browser.text("[data-answer=intact]") == "✓ intact")
    assert browser.complaints() == []


def test_what_was_left_out_is_said_and_not_taken_for_checked(
    browser: Browser, desk_log: Path, tmp_path: Path
) -> None:
    target = tmp_path / "without.html"
    target.write_text(page_html(page(desk_log, content=False)), encoding="utf-8")
    for view in ("tree", "lanes"):
        browser.open(target, f"#/{view}")
        browser.reads("[data-answer=intact]", "not checked here")
    for view in ("entries", "thread", "state"):
        browser.open(target, f"#/log/23/2/{view}")
        browser.reads("[data-answer=intact]", "not checked here")
        browser.reads(".inspector", "Content was left out of this page")
        assert "undefined" not in browser.text("body")
        assert "no warehouse" not in browser.text(".inspector")
    assert browser.complaints() == []


def test_keys_work_wherever_the_focus_is(browser: Browser, desk_page: Path) -> None:
    """Views, zoom, rows and entries, without a click before."""
    browser.open(desk_page, "#/lanes")
    browser.until(lambda: browser.all(".lane .mark.tool"))

    whole = browser.text(".span")
    browser.press("+")
    assert browser.text(".span") != whole
    browser.press("0")
    assert browser.text(".span") == whole
    browser.press("4", "\ue015")
    browser.reads(".inspector", "desk, entry 0")
    browser.press("j", "j", "k", "c")
    browser.reads(".inspector", "desk, entry 0")
    browser.press("\ue010")
    browser.reads(".inspector h2", "run.finished")
    browser.open(desk_page)
    browser.press("j", "j")
    browser.reads(".treeview .row.on", "#1")


def test_a_filter_holds_in_the_view_that_one_goes_to(browser: Browser, desk_page: Path) -> None:
    browser.open(desk_page)
    browser.until(lambda: "checking" not in browser.text("[data-answer=intact]"))

    _choose(browser, "[data-filter=status]", "failed")
    browser.until(lambda: len(browser.all(".treeview .row.tree")) == 3)
    browser.press("2")
    browser.until(lambda: len(browser.all(".lane")) == 2)
    browser.press("4")
    browser.reads(".entriesview", "6 of ")
    assert browser.text(".entriesview select").startswith("All 78 logs")
    browser.press("3")
    assert not browser.run("return document.querySelector('[data-filter=status]').offsetHeight")


def test_print_shows_every_row_on_light_ground(browser: Browser, desk_page: Path) -> None:
    browser.open(desk_page, dark=True)
    browser.command("Emulation.setEmulatedMedia", media="print")
    try:
        browser.run("dispatchEvent(new Event('beforeprint'))")
        assert len(browser.all(".treeview .row.tree")) == 78
        assert browser.run("return document.documentElement.scrollHeight") > 2_000
        # Only rows in the flow move whole to the next sheet.
        rows = "return [...document.querySelectorAll('.row.tree')]"
        assert set(browser.run(f"{rows}.map((r) => getComputedStyle(r).position)")) == {"static"}
        assert not browser.run("return document.querySelector('.filters').offsetHeight")
        ground = "return getComputedStyle(document.documentElement).backgroundColor"
        assert browser.run(ground) == "rgb(255, 255, 255)"
    finally:
        browser.command("Emulation.setEmulatedMedia", media="")


def test_printed_lanes_are_as_wide_as_the_sheet_and_nothing_is_a_button(
    browser: Browser, desk_page: Path
) -> None:
    browser.open(desk_page, "#/lanes")
    browser.until(lambda: browser.all(".lane .mark.tool"))
    browser.command("Emulation.setEmulatedMedia", media="print")
    size = {"width": 700, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    try:
        browser.command("Emulation.setDeviceMetricsOverride", **size)
        right = "(e) => e.getBoundingClientRect().right"
        ends = f"return [...document.querySelectorAll('.lane .life')].map({right})"
        assert all(end <= 700 for end in browser.settled(ends))
        controls = "[...document.querySelectorAll('button:not(.link), select, input')]"
        assert browser.run(f"return {controls}.filter((e) => e.offsetHeight).length") == 0
    finally:
        browser.command("Emulation.setEmulatedMedia", media="")


_ROW: dict[str, Any] = {
    "agent": "",
    "models": ["clerk"],
    "started_us": 1_795_344_042_392_452,
    "duration_ms": 61_000,
    "subagents": 77,
    "failed": 2,
    "tokens": "1,267,000",
    "cost_usd_micros": 12_345_678,
}


class _Runs:
    def __init__(self, log: Path, *more: dict[str, Any]) -> None:
        self._log, self._more = log, more

    def rows(self) -> list[dict[str, Any]]:
        desk = {"id": "one", "path": "desk.jsonl", "status": "completed", "program": "desk"}
        bad = {"id": "two", "path": "b.jsonl", "status": "failed", "program": "bad", "failed": 0}
        return [_ROW | desk, _ROW | bad, *(_ROW | each for each in self._more)]

    def log(self, run: str) -> Path:
        return {"one": self._log}[run]


@contextlib.contextmanager
def _server(runs: Runs) -> Iterator[Server]:
    with Server(runs, "t0ken") as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


@contextlib.contextmanager
def _served(browser: Browser, runs: Runs) -> Iterator[None]:
    """Show the start page of some runs."""
    with _server(runs) as server:
        browser.visit(server.url)
        yield
        browser.driver.get("about:blank")


def test_runs_are_found_by_status_and_words(browser: Browser, desk_log: Path) -> None:
    """All of them at once; those with failed children are a status of their own."""
    many = [
        {"id": f"r{n}", "path": f"runs/r{n}.jsonl", "status": "completed", "program": "nightly"}
        for n in range(500)
    ]
    with _served(browser, _Runs(desk_log, *many)):
        browser.reads(".start", "502 runs")
        assert len(browser.all(".runrow[role=option]")) < 60
        assert "1,267,000" in browser.text(".runrow .tokens")
        assert "$12.35" in browser.text(".runrow .cost")
        _choose(browser, "[aria-label=Status]", "with failed")
        browser.reads(".start", "501 of 502 runs")
        browser.press("/", *"DESK.js")
        browser.reads(".start", "1 of 502 runs")
        _choose(browser, "[aria-label=Status]", "failed")
        browser.reads(".start", "0 of 502 runs")
        browser.reads(".list", "No run matches.")


def test_print_says_how_many_rows_it_leaves_out(browser: Browser, desk_log: Path) -> None:
    run = {"path": "runs/r.jsonl", "status": "completed"}
    many = [{"id": f"r{n}", **run} for n in range(2_000)]
    with _served(browser, _Runs(desk_log, *many)):
        browser.reads(".start", "2,002 runs")
        browser.run("dispatchEvent(new Event('beforeprint'))")
        assert len(browser.all(".runrow[role=option]")) == 2_000
        browser.reads(".space", "The first 2,000 of 2,002 are printed")
        browser.run("dispatchEvent(new Event('afterprint'))")
        assert "are printed" not in browser.text(".space")


def _choose(browser: Browser, selector: str, value: str) -> None:
    browser.run(
        "const it = document.querySelector(arguments[0]); it.value = arguments[1];"
        "it.dispatchEvent(new Event('change'))",
        selector,
        value,
    )


def test_the_start_page_lists_runs_and_a_growing_log_is_followed(
    browser: Browser, survey_log: Path, tmp_path: Path
) -> None:
    log = tmp_path / "survey.jsonl"
    lines = survey_log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:3]))
    with _served(browser, _Runs(log)):
        browser.reads(".start", "2 runs")
        browser.press("/", *"desk.js")
        browser.reads(".start", "1 of 2 runs")
        browser.click(".runrow[role=option]")
        browser.click("[data-view=entries]")
        browser.reads(".entriesview", "3 entries")
        assert "not complete: broke off" in browser.text("[data-answer=complete]")
        with log.open("ab") as grown:
            grown.write(b"".join(lines[3:6]))
        browser.reads(".entriesview", "6 entries")
        browser.until(lambda: browser.text("[data-answer=intact]") == "✓ intact")
        assert browser.complaints() == []


def test_a_column_comes_with_the_first_value_of_it(
    browser: Browser, survey_log: Path, tmp_path: Path
) -> None:
    """A run that has called nothing yet has no column of calls, until it has."""
    log = tmp_path / "survey.jsonl"
    lines = survey_log.read_bytes().splitlines(keepends=True)
    log.write_bytes(lines[0])
    with _served(browser, _Runs(log)):
        browser.click(".runrow[role=option]")
        browser.reads(".treeview .head", "Run")
        assert "Calls" not in browser.text(".treeview .head")
        with log.open("ab") as grown:
            grown.write(b"".join(lines[1:6]))
        browser.reads(".treeview .head", "Calls")
        assert browser.complaints() == []


# --- a page that follows ---------------------------------------------------------------------

_VIEWS = ("tree", "lanes", "thread", "entries", "state")
_WATCH = """
    window.words = new Set();
    const look = () => window.words.add(document.querySelector('[data-answer=intact]')?.innerText);
    new MutationObserver(look).observe(document.body, { childList: true, subtree: true });
    look();
"""


def _checked(browser: Browser) -> int:
    """Return how many entries the page has checked; 0 while it has not."""
    text = browser.run("return document.querySelector('.panel')?.textContent ?? ''")
    found = re.search(r"has checked ([\d,]+) entr", text)
    return int(found[1].replace(",", "")) if found else 0


def _until_checked(browser: Browser, entries: int) -> None:
    browser.until(lambda: _checked(browser) == entries, f"{entries} entries checked")


def _logs_of(browser: Browser) -> list[str]:
    """Return the ids of the logs of the page."""
    script = "return [...document.querySelectorAll('.stateview select option')].map((e) => e.value)"
    browser.run("location.hash = '#/state'")
    return list(browser.settled(script))


def _drawn(browser: Browser, place: str) -> list[str]:
    """Return the whole page in each view, where an entry or nothing is chosen."""
    found = []
    for view in _VIEWS:
        browser.run("location.hash = arguments[0]", f"#/{place}{view}")
        found.append(browser.settled("return document.querySelector('#app').innerHTML"))
    return found


def _same_as_opened_now(browser: Browser, server: Server, entries: int) -> None:
    """A page that has followed is the page that is opened at the end, the badge included."""
    last = server.page(server.runs.log("one")).page.document["made"]
    browser.until(lambda: browser.run("return Number(document.body.dataset.made)") == last)
    place = f"log/{_logs_of(browser)[-1]}/2/"
    followed = _drawn(browser, ""), _drawn(browser, place)
    browser.visit(f"{server.url}&log=one#/state")
    _until_checked(browser, entries)
    assert (_drawn(browser, ""), _drawn(browser, place)) == followed


@pytest.mark.parametrize("seed", range(6))
def test_a_page_that_has_followed_is_one_that_is_opened_at_the_end(
    browser: Browser, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever order the logs were written in; and it never says of a sound one that it is not."""
    monkeypatch.setattr("refold.page.server._LOOK_SECONDS", 0.01)
    monkeypatch.setattr("refold.page.server._REST", 0)
    rng = random.Random(seed)
    recorded = record(family, 3, log=tmp_path / "there" / "one.jsonl", tools=[count]).log
    (tmp_path / "here").mkdir()
    with growing(recorded, tmp_path / "here", rng) as (log, rest), _server(_Runs(log)) as server:
        browser.visit(f"{server.url}&log=one")
        browser.until(lambda: browser.all(".tabs"))
        browser.run(_WATCH)
        browser.click(f"[data-view={_VIEWS[seed % len(_VIEWS)]}]")
        for there in rest():
            _until_checked(browser, there)
        words = browser.run("return [...window.words]")
        assert {word.split(" …")[0] for word in words} <= {
            "· checking",
            "✓ intact so far",
            "✓ intact",
        }
        _same_as_opened_now(browser, server, there)
        assert browser.complaints() == []


def test_a_run_that_is_recorded_now_is_intact_so_far_until_its_end(
    browser: Browser, tmp_path: Path
) -> None:
    """The same by a real writer, at many calls a second, with children of children."""
    at_once = threading.Event()

    @tool(effect="reads")
    def count(n: int) -> int:
        at_once.wait(0.01 if n else 0)
        return n

    log = tmp_path / "one.jsonl"
    writer = threading.Thread(
        target=record, args=(family, 60), kwargs={"log": log, "tools": [count]}, daemon=True
    )
    writer.start()
    browser.until(lambda: log.exists() and b"\n" in log.read_bytes())
    with _server(_Runs(log)) as server:
        browser.visit(f"{server.url}&log=one")
        browser.until(lambda: browser.all(".tabs"))
        browser.run(_WATCH)
        writer.join()
        entries = sum(report.entries for report in verify(log).logs)
        _until_checked(browser, entries)
        words = {word.split(" …")[0] for word in browser.run("return [...window.words]")}
        assert words <= {"· checking", "✓ intact so far", "✓ intact"}
        _same_as_opened_now(browser, server, entries)


# --- what the commands say -------------------------------------------------------------------


def _befallen(log: Path, rng: random.Random, how: str) -> None:
    """Do to one log of a tree what can befall it."""
    logs = sorted(log.parent.glob("*.jsonl"))
    hit, children = rng.choice(logs), [each for each in logs if each != log]
    content = hit.read_bytes()
    lines = content.splitlines(keepends=True)
    match how:
        case "torn":
            hit.write_bytes(content[: rng.randrange(len(content))])
        case "cut at a line":
            hit.write_bytes(b"".join(lines[: rng.randrange(len(lines))]))
        case "a byte changed":
            at = rng.randrange(len(content))
            hit.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        case "a line gone":
            del lines[rng.randrange(len(lines))]
            hit.write_bytes(b"".join(lines))
        case "more behind its end":
            hit.write_bytes(content + rng.choice([b"{", b"{}\n", lines[-1]]))
        case "zeros behind its end":
            hit.write_bytes(b"".join(lines[:-1]) + b"\0" * 2048)
        case "another's log" if len(children) > 1:
            one, other = rng.sample(children, 2)
            one.write_bytes(other.read_bytes())
        case "gone" if children:
            rng.choice(children).unlink()
        case _:
            hit.write_bytes(content)


_BEFALLS = (
    "nothing", "torn", "cut at a line", "a byte changed", "a line gone", "more behind its end",
    "zeros behind its end", "another's log", "gone",
)  # fmt: skip


@pytest.mark.parametrize("how", _BEFALLS)
def test_page_verify_and_show_agree_on_every_log(
    browser: Browser, tmp_path: Path, how: str
) -> None:
    """Badge, statuses and times are those of the commands, whatever befell a log of the tree."""
    for seed in range(8):
        rng = random.Random(f"{how}{seed}")
        folder = tmp_path / str(seed)
        log = record(family, 2, log=folder / "a.jsonl", tools=[count]).log
        _befallen(log, rng, how)
        try:
            told, verdict = OpenedRun(log).tree, verify(log)
        except LogError:  # the root's first line is gone: there is nothing to show
            continue
        browser.open(exported(log, folder))
        browser.until(lambda: "checking" not in browser.text("[data-answer=intact]"))
        answers = browser.text("[data-answer=intact]"), browser.text("[data-answer=complete]")
        assert (answers[0] == "✓ intact") == verdict.intact, (seed, answers, verdict.damage)
        assert (answers[1] == "✓ complete") == verdict.complete, (seed, answers, verdict.damage)
        nodes = [node for _, node in _depth_first(told, 1)]
        cells = "['.status :last-child', '.time'].map((c) => e.querySelector(c)?.textContent ?? '')"
        rows = browser.run(
            f"return [...document.querySelectorAll('.row.tree')].map((e) => {cells})"
        )
        assert [status for status, _ in rows] == [node.status.replace("_", " ") for node in nodes]
        browser.click("[data-view=lanes]")
        browser.until(lambda: browser.all(".lane"))
        took = "[...document.querySelectorAll('.lane .took')].map((e) => e.firstChild.data)"
        there = [at for at, node in enumerate(nodes) if node.entries]
        lanes = dict(zip(there, browser.run(f"return {took}"), strict=True))
        assert {at: rows[at][1] or lanes[at] for at in there} == lanes
        assert browser.complaints() == []


# --- what the commands say of the rest -------------------------------------------------------


@pytest.mark.parametrize("which", ["watched", "everything", 3, 152, 4711])
def test_the_page_reads_as_the_commands_do(
    browser: Browser, tmp_path: Path, which: str | int
) -> None:
    """Tree, lanes, badge, thread, why and state: of kept logs, and of random programs."""
    if isinstance(which, str):
        kept = LOGS
        log = shutil.copytree(kept, tmp_path / "kept") / f"{which}.jsonl"
    else:
        tree, tools = random_tree(which, children=True), tools_with(Latency(which))
        log = record(tree_program, tree, log=tmp_path / "a.jsonl", tools=tools).log
    target = exported(log, tmp_path)
    nodes = list(_depth_first(delegation_tree(log), 1))
    browser.open(target)

    browser.until(lambda: "checking" not in browser.text("[data-answer=intact]"))
    verdict = verify(log)
    assert (browser.text("[data-answer=intact]") == "✓ intact") == verdict.intact
    assert (browser.text("[data-answer=complete]") == "✓ complete") == verdict.complete
    row = "[e.ariaLevel, e.querySelector('strong').innerText, e.querySelector('.status').innerText]"
    rows = browser.run(f"return [...document.querySelectorAll('.row.tree')].map((e) => {row})")
    assert [(int(level), name) for level, name, _ in rows] == [
        (level, node.name or "rejected") for level, node in nodes[: len(rows)]
    ]
    assert [said.split()[-1] for *_, said in rows] == [
        node.status.replace("_", " ").split()[-1] for _, node in nodes[: len(rows)]
    ]
    browser.click("[data-view=lanes]")
    there = [node.name for _, node in nodes if node.scope or (node.entries and not node.guarantee)]
    names = browser.text(".lane .name").split("\n")
    assert [name.split(" #")[0] for name in names] == there[: len(names)]
    _entries_read_as_told(browser, target, log)


def _depth_first(node: RunNode, level: int) -> Iterator[tuple[int, RunNode]]:
    yield level, node
    for child in node.children:
        yield from _depth_first(child, level + 1)


def _entries_read_as_told(browser: Browser, target: Path, log: Path) -> None:
    kinds = [entry.kind for entry in read_entries(log)]
    for seq in {1, len(kinds) // 2, len(kinds) - 1}:
        browser.open(target, f"#/log/0/{seq}/state")
        browser.reads(".now", f"{seq} of {len(kinds) - 1} {kinds[seq]}")
        chain = (
            "[...document.querySelectorAll('.chain')].slice(0, 1).flatMap((e) => [...e.children])"
        )
        links = f"{chain}.filter((e) => !e.matches('.beside') && e.querySelector('a'))"
        found = browser.run(f"return {links}.map((e) => e.querySelector('.kind').innerText)")
        told = [f"{each.seq} {each.kind}" for each in why(log, seq)[1:] if each.is_main]
        if "Nothing: this is the start of the run." not in browser.text(".inspector"):
            assert [each.split(" ", each.count(" ") - 1)[-1] for each in found] == told[:12]
        after = "[...document.querySelectorAll('.states > .members > .member')]"
        pairs = browser.run(f"return {after}.map((e) => [...e.children].map((c) => c.innerText))")
        states = state_json(state(log, seq))
        atoms = [name for name, _ in pairs if isinstance(states[name], int | None)]
        assert len(atoms) > 5
        assert {name: json.loads(value) for name, value in pairs if name in atoms} == {
            name: states[name] for name in atoms
        }
    browser.open(target, f"#/log/0/{len(kinds) - 1}/thread")
    browser.reads(".messages", "end")
    seqs = browser.run(
        "return [...document.querySelectorAll('.message')].map((e) => e.dataset.seq)"
    )
    told_of = ("tool.returned", "model.answered", "child.finished", "run.finished")
    if "watched" not in log.name:
        assert [int(seq) for seq in seqs if kinds[int(seq)] in told_of] == [
            seq for seq, kind in enumerate(kinds) if kind in told_of
        ]


# --- hostile content -------------------------------------------------------------------------


@pytest.mark.parametrize("view", ["tree", "lanes", "thread", "entries", "state"])
def test_hostile_content_is_text_in_every_view(
    browser: Browser, hostile_page: Path, view: str
) -> None:
    for seq in (0, 1, 2, 4, 7):
        browser.open(hostile_page, f"#/log/0/{seq}/{view}")
        browser.reads(".inspector", "Data")
        browser.run("for (const each of document.querySelectorAll('details')) each.open = true")
        assert browser.run("return window.hit ?? null") is None
        assert browser.run("return ({}).polluted ?? null") is None
        assert (
            browser.run("return document.querySelectorAll('#app script, #app iframe').length") == 0
        )
        shown = browser.run("return document.body.innerText + document.body.innerHTML.length")
        for hidden in "\x1b\x07\u202e\u2066\u200b\U000e0041":
            assert hidden not in shown
        assert browser.complaints() == []


def _is_inert(browser: Browser) -> None:
    assert browser.run("return window.hit ?? null") is None
    assert browser.run("return document.querySelectorAll('#app script, #app img').length") == 0
    shown = browser.run("return document.body.innerText")
    for hidden in "\x1b\x07\u202e\u2066\u200b\U000e0041":
        assert hidden not in shown
    assert browser.complaints() == []


def test_hostile_content_is_text_where_two_runs_are_compared(
    browser: Browser, hostile_log: Path, desk_log: Path, tmp_path: Path
) -> None:
    for one, other in ((hostile_log, desk_log), (desk_log, hostile_log)):
        browser.open(exported(one, tmp_path, other))
        browser.until(lambda: len(browser.all(".pairrow")) > 2)
        for row in range(3):
            browser.run("document.querySelectorAll('.pairrow')[arguments[0]].click()", row)
        browser.reads(".compareview", "<script>window.hit=1</script>")
        _is_inert(browser)


def test_hostile_content_is_text_on_the_start_page(browser: Browser, desk_log: Path) -> None:
    names = dict.fromkeys(("path", "status", "program", "agent"), HOSTILE)
    with _served(browser, _Runs(desk_log, names | {"id": HOSTILE, "models": [HOSTILE]})):
        browser.reads(".start", "<script>window.hit=1</script>")
        _is_inert(browser)


def test_controls_stand_as_escapes(browser: Browser, hostile_page: Path) -> None:
    browser.open(hostile_page, "#/log/0/0")

    browser.reads(".inspector", "\\x1b[2J\\u202egnp.exe")
    browser.reads(".inspector", "</script><script>window.hit=1</script>")


def test_a_value_of_10_mb_is_cut_and_more_comes_on_demand(
    browser: Browser, hostile_page: Path
) -> None:
    browser.open(hostile_page, "#/log/0/8")

    browser.reads(".inspector", "Show more (9,99")
    before = browser.run("return document.querySelector('.inspector pre').textContent.length")
    browser.click(".inspector .part button.quiet")
    after = browser.run("return document.querySelector('.inspector pre').textContent.length")
    assert before < 2_000
    assert 40_000 < after < 100_000


def test_large_texts_are_listed_by_what_they_begin_with(browser: Browser, tmp_path: Path) -> None:
    """They lie beside the log, and their digests say nothing."""
    text = "It was a dark and stormy night. " * 4_000

    def tells(run: PlainRun, _input: None) -> str:
        run.model([{"role": "user", "content": [{"type": "text", "text": f"Once: {text}"}]}])
        run.annotate(text)
        return text

    model = ScriptedModel([f"Then: {text}"])
    browser.open(
        exported(record(tells, log=tmp_path / "t.jsonl", model=model).log, tmp_path), "#/entries"
    )

    browser.until(lambda: browser.text(".entriesview").count("a dark and stormy night.") > 3)
    shown = browser.text(".entriesview")
    assert "+1: Once: It was a dark" in shown
    assert "\nThen: It was a dark" in shown
    assert "$blob" not in shown
    assert browser.complaints() == []


# --- how it looks ----------------------------------------------------------------------------

_CUT = Path(__file__).with_name("layout.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [360, 640, 1280, 2560])
def test_no_text_overlaps_or_is_cut(browser: Browser, desk_page: Path, width: int) -> None:
    """640 px is what a window of 1,280 px has at a zoom of 200 %."""
    for place in ("", "#/lanes", "#/log/0/8/thread", "#/log/23/2/entries", "#/log/0/12/state"):
        browser.open(desk_page, place, width=width)
        browser.until(lambda: "checking" not in browser.text("[data-answer=intact]"))
        assert browser.run(_CUT) == [], place


@pytest.mark.parametrize("width", [360, 1280, 2560])
def test_no_text_overlaps_or_is_cut_beside_another_run_and_on_the_start_page(
    browser: Browser, desk_log: Path, diff_page: Path, width: int
) -> None:
    for place in ("", "#/log/5/3/compare"):
        browser.open(diff_page, place, width=width)
        browser.until(lambda: "checking" not in browser.text("[data-answer=intact]"))
        assert browser.run(_CUT) == [], place
    with _served(browser, _Runs(desk_log)):
        browser.reads(".start", "2 runs")
        assert "77 (2 failed)" in browser.text(".runrow .calls")
        assert browser.run(_CUT) == []


@tool
def even(n: int) -> int:
    """Refuse odd numbers."""
    if n % 2:
        raise ToolError("odd", f"{n} is odd")
    return n


def test_how_many_of_many_calls_failed_is_read_whole(browser: Browser, tmp_path: Path) -> None:
    def many(run: PlainRun, calls: int) -> None:
        for n in range(calls):
            with contextlib.suppress(ToolError):
                run.tool(even, n=n)

    log = record(many, 2_500, log=tmp_path / "many.jsonl", tools=[even]).log
    browser.open(exported(log, tmp_path))

    browser.reads(".tree .calls", "2,500 (1,250 failed)")
    assert browser.run(_CUT) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_serious_fault_of_accessibility(
    browser: Browser,
    desk_log: Path,
    desk_page: Path,
    diff_page: Path,
    theme: str,
    tmp_path_factory: Any,
) -> None:
    """By axe-core, of npm, in a temporary folder."""
    folder = tmp_path_factory.getbasetemp() / "axe"
    core = folder / "node_modules/axe-core/axe.min.js"
    if not core.is_file():
        npm = shutil.which("npm") or pytest.skip("needs npm")
        folder.mkdir(exist_ok=True)
        got = subprocess.run([npm, "install", "--silent", "axe-core"], cwd=folder, check=False)
        if got.returncode or not core.is_file():
            pytest.skip("axe-core could not be installed")
    axe = core.read_text(encoding="utf-8")
    places = ("", "#/lanes", "#/log/0/8/thread", "#/log/23/2/entries", "#/log/0/12/state")
    for shown, place in [*((desk_page, each) for each in places), (diff_page, "#/log/0/1/compare")]:
        browser.open(shown, place, dark=theme == "dark")
        browser.until(lambda: "checking" not in browser.text("[data-answer=intact]"))
        assert _faults(browser, axe) == [], place
    with _served(browser, _Runs(desk_log)):
        browser.reads(".start", "2 runs")
        assert _faults(browser, axe) == []


def _faults(browser: Browser, axe: str) -> list[Any]:
    browser.command("Runtime.evaluate", expression=axe)
    found: list[Any] = browser.driver.execute_async_script(
        "const done = arguments[0]; axe.run().then((r) => done(r.violations"
        ".filter((v) => ['serious', 'critical'].includes(v.impact))"
        ".map((v) => [v.id, v.nodes[0].html])))"
    )
    return found


async def _speechless(_run: Run, _input: Any) -> str:
    return ""


def test_what_a_subagent_did_stands_before_its_task(browser: Browser, tmp_path: Path) -> None:
    """And it is counted, and found by a search."""

    async def lead(run: Run, _input: None) -> None:
        for brief in ("Count the words.", "Count the lines."):
            await run.delegate(Delegation(program=_speechless, brief=brief))

    log = record(lead, None, log=tmp_path / "a.jsonl").log
    browser.open(exported(log, tmp_path))

    browser.reads(".tree[aria-level='2'] .brief", "its answer is empty · Count the words.")
    assert "2 notable" in browser.text(".sums")
