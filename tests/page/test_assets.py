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

import pytest

from refold.cli.commands.inspect.view import FolderOfRuns
from refold.engine.errors import LogError
from refold.engine.models.scripted import FunctionModel
from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from refold.engine.state.digests import state_json
from refold.page.document import page
from refold.page.html import page_html
from refold.page.server import Runs, Server
from refold.replay.audit.refolding import state
from refold.replay.audit.verify import verify
from refold.replay.run.opened_run import OpenedRun
from refold.tools.contract.tool_types import tool
from tests.support.browsing import Browser, exported, ids
from tests.support.editing import record_edits
from tests.support.growing import count, family, growing
from tests.support.shown_runs import HOSTILE

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


CHECKED = "return !document.querySelector('[data-answer=intact]').innerText.includes('checking')"


def _open(browser: Browser, page: Path, place: str = "", **how: Any) -> None:
    browser.open(page, place, **how)
    browser.until(lambda: browser.run(CHECKED))


def test_nothing_in_the_page_writes_markup() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in ASSETS.glob("*.js"))

    for word in (
        "innerHTML =",
        "outerHTML",
        "insertAdjacent",
        "document.write",
        "eval(",
        "Function(",
    ):
        assert word not in text


# --- the badge -------------------------------------------------------------------------------


def test_the_page_checks_its_logs_itself(browser: Browser, desk_page: Path) -> None:
    _open(browser, desk_page)

    assert browser.text("[data-answer=intact]") == "intact"
    assert browser.text("[data-answer=complete]") == "complete"
    browser.click(".verdict summary")
    assert "in 78 logs itself" in browser.text(".verdict .panel")
    assert "Not signed" in browser.text("[data-answer=authentic]")
    assert "kernel" in browser.text("[data-answer=guarantee]")
    assert browser.complaints() == []


def test_one_byte_changed_turns_the_badge_and_names_the_entry(
    browser: Browser, desk_page: Path, tmp_path: Path
) -> None:
    _open(browser, _with_a_byte_changed(desk_page, 5, 3, tmp_path / "changed.html"))

    browser.reads("[data-answer=intact]", "not intact: entry 3 of clerk #5")
    browser.click(".verdict summary")
    browser.click(".verdict .panel li a")
    browser.reads(".drawer", "Not intact: it does not match its hash")


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
        ("cut off", "intact", "not complete: broke off", "torn tail"),
        ("unsealed", "intact", "not complete: broke off", "desk has no recorded end"),
        ("child missing", "intact", "not complete", "child log missing"),
        ("blob missing", "not intact: entry 1 of desk.jsonl", "complete", "blob missing"),
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
    _open(browser, exported(_broken(desk_log, tmp_path, how), tmp_path))

    assert intact in browser.text("[data-answer=intact]")
    assert complete in browser.text("[data-answer=complete]")
    browser.click(".verdict summary")
    assert said in browser.text(".verdict .panel")
    if lost := {"cut off": "torn", "child missing": "missing"}.get(how):
        agents = page(tmp_path / "copy" / desk_log.name).document["agents"]
        key = next(each["key"] for each in agents if each["log_state"] == lost)
        browser.run("location.hash = `agent=${encodeURIComponent(arguments[0])}`", key)
        browser.reads("main .note", f"its log is {lost}")
    assert len(browser.all(".outline .who")) > 15
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


# --- a run -----------------------------------------------------------------------------------


def test_everything_red_is_one_key_away(browser: Browser, desk_page: Path) -> None:
    _open(browser, desk_page)

    assert "77 subagents: 75 completed, 2 failed" in browser.text(".top .sums")
    seen = []
    for key in ("f", "f", "f", "F"):
        browser.press(key)
        browser.settled("return location.hash")
        step = browser.text(".step.here")
        seen.append((browser.text("main h2"), "no warehouse" in step))
    assert seen == [
        ("clerk #23", False),
        ("clerk #23", True),
        ("clerk #58", False),
        ("clerk #23", True),
    ]
    assert "order 23 is in no warehouse" in browser.text("main .box.bad")


def test_the_outline_folds_and_moves_by_keys(browser: Browser, desk_page: Path) -> None:
    _open(browser, desk_page)
    right, left, down = "\ue014", "\ue012", "\ue015"

    browser.run("document.querySelector('.outline .list').focus()")
    assert len(browser.all(".outline .who")) > 5
    browser.press(left)
    browser.until(lambda: len(browser.all(".outline .who")) == 1)
    browser.press(right, down, down)
    browser.reads("main h2", "clerk #2")
    browser.run("document.activeElement.blur()")
    browser.press("j")
    browser.reads("main h2", "clerk #3")


_CHANGED = """
    const [list, done] = arguments, rows = new Set(), box = document.querySelector(list);
    let moved = 0;
    const seen = new MutationObserver((found) => {
        for (const { target, type } of found)
            if (target.matches?.('.space')) moved += type === 'childList';
            else rows.add((target.closest ? target : target.parentElement).closest('.item'));
    });
    seen.observe(box, { childList: true, subtree: true, attributes: true, characterData: true });
    box.scrollTop += 60;
    setTimeout(() => (seen.disconnect(), done([moved, rows.size])), 300);
"""


@pytest.mark.parametrize("rows", [".lanes .list", ".outline .list", ".drawer .list"])
def test_scrolling_changes_only_the_rows_that_come(
    browser: Browser, desk_page: Path, rows: str
) -> None:
    """A frame that moved or drew all rows took 10 to 28 ms of CPU; it takes 4 to 6."""
    _open(browser, desk_page, "#log=0&seq=2&tab=entries")
    browser.until(lambda: len(browser.all(f"{rows} .item")) > 12)
    browser.run("document.querySelector(arguments[0]).scrollTop = 300", rows)
    browser.settled(f"return document.querySelector('{rows} .space').innerHTML")

    moved, changed = browser.driver.execute_async_script(_CHANGED, rows)

    assert moved == 0
    assert 0 < changed <= 5


def test_an_agent_shows_what_it_was_told_and_answered_and_its_calls(
    browser: Browser, desk_page: Path
) -> None:
    _open(browser, desk_page)
    browser.click(".outline .who", 3)
    browser.reads("main h2", "clerk #3")
    assert "say where order 3 is" in browser.text(".box.task")
    assert "I have read: Order 3 is" in browser.text(".box.answered")
    assert "order_status" in browser.text(".step .name")


def test_the_timeline_draws_who_was_busy_and_sums_what_is_selected(
    browser: Browser, desk_page: Path
) -> None:
    from selenium.webdriver import ActionChains  # noqa: PLC0415 - an extra

    _open(browser, desk_page)
    assert browser.run("return document.querySelectorAll('.bars path.tool[d^=M]').length") > 5
    assert browser.all(".bars .critical")
    whole = browser.text(".legend")
    lanes = browser.all(".lanes .list")[0]
    drag = ActionChains(browser.driver).move_to_element_with_offset(lanes, 0, 0).click_and_hold()
    drag.move_by_offset(200, 20).release().perform()
    browser.until(lambda: browser.all(".chosen"))
    assert browser.text(".legend") != whole
    assert "agents" in browser.text(".legend")
    assert "from=" in browser.driver.current_url
    browser.press("\ue00c")
    browser.until(lambda: not browser.all(".chosen"))
    browser.click(".bars", 3)
    browser.until(lambda: browser.text("main h2") == "clerk #3")


def test_an_image_is_shown_where_its_entry_is(browser: Browser, desk_page: Path) -> None:
    _open(browser, desk_page, "#log=0&seq=1")

    browser.until(lambda: browser.all(".drawer img"))
    assert browser.run("return document.querySelector('.drawer img').naturalWidth") == 192


def test_the_log_tells_why_with_times_and_what_it_led_to(browser: Browser, desk_page: Path) -> None:
    _open(browser, desk_page, "#log=23&seq=2")

    browser.reads(".drawer h2", "tool.returned")
    browser.reads("[data-chain=why]", "answers")
    assert "started by" in browser.text("[data-chain=why]")
    assert " before" in browser.text("[data-chain=why]")
    assert "run.finished" in browser.text("[data-chain=led]")
    browser.press("c")
    browser.reads(".drawer h2", "tool.called")
    browser.press("j", "k")
    browser.click(".raw summary")
    browser.reads(".drawer .raw", '"kind":"tool.called"')
    browser.click("[data-tab=entries]")
    browser.reads(".drawer .pick", "4 entries")
    browser.press("\ue00c")
    browser.until(lambda: not browser.all(".drawer"))


def test_the_state_is_that_of_the_commands(
    browser: Browser, desk_page: Path, desk_log: Path
) -> None:
    _open(browser, desk_page, "#log=0&seq=12&tab=state")

    browser.until(lambda: browser.all(".states .member"))
    rows = "[...document.querySelectorAll('.states > .members > .member')]"
    pairs = browser.run(f"return {rows}.map((e) => [...e.children].map((c) => c.innerText))")
    states = state_json(state(desk_log, 12))
    atoms = {name: json.loads(text) for name, text in pairs if isinstance(states[name], int | None)}
    assert len(atoms) > 5
    assert atoms == {name: states[name] for name in atoms}


def test_files_of_a_command_are_told_with_who_changed_them_and_their_diffs(
    browser: Browser, tmp_path: Path
) -> None:
    log = record_edits(tmp_path, "r", {"new": "two"})
    target = tmp_path / "r.html"
    target.write_text(page_html(page(log, files=True)), encoding="utf-8")
    _open(browser, target, width=1024)

    browser.click(".files summary")
    browser.reads(".files .panel", "~ a.py +1 -1")
    assert browser.texts(".files .panel ins")[0].strip() == "+two"
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")


# --- the query -------------------------------------------------------------------------------


def test_a_query_finds_places_marks_them_and_opens_them_where_they_stand(
    browser: Browser, desk_page: Path
) -> None:
    _open(browser, desk_page)

    browser.press("/", *"order 23 is in")
    browser.reads(".places", "places")
    browser.until(lambda: browser.text(".places mark").lower().startswith("order 23 is in"))
    url = browser.settled("return location.href")
    assert "text=order" in url
    browser.press("\ue007")  # Enter
    browser.reads("main h2", "clerk #23")
    assert browser.all("main mark")
    there = browser.run("return location.hash")
    _open(browser, desk_page, there)
    assert browser.text("main h2") == "clerk #23"
    browser.press("\ue00c")
    browser.until(lambda: not browser.all(".places"))


def test_a_filter_holds_in_outline_timeline_and_places(browser: Browser, desk_page: Path) -> None:
    _open(browser, desk_page)

    _choose(browser, "[data-filter=status]", "failed")
    browser.until(lambda: len(browser.all(".outline .who")) == 3)
    assert len(browser.all(".lane")) == 3
    assert "4 places in 2 agents" in browser.text(".places p").replace("\n", " ")
    _choose(browser, "[data-filter=status]", "")
    _choose(browser, "[data-filter=tool]", "order_status")
    browser.reads(".places p", "77 places")


def _choose(browser: Browser, selector: str, value: str) -> None:
    browser.run(
        "const it = document.querySelector(arguments[0]); it.value = arguments[1];"
        "it.dispatchEvent(new Event('change', { bubbles: true }))",
        selector,
        value,
    )


# --- a run that waits, or whose replay diverged ----------------------------------------------


def test_a_run_that_asked_says_what_and_gives_the_command(browser: Browser, tmp_path: Path) -> None:
    async def asks(run: Run, text: str) -> str:
        return str(await run.ask(text))

    log = record(asks, "May I publish it?", log=tmp_path / "a.jsonl").log
    with contextlib.ExitStack() as stack, _served(browser, FolderOfRuns(tmp_path, stack)):
        browser.reads(".runrow", "May I publish it?")
        browser.click(".runrow a")
        browser.reads(".ask", "Question: May I publish it?")
        browser.reads("[data-answer=complete]", "waits for you")
        browser.click(".ask .copy")
        browser.until(lambda: browser.run("return document.body.dataset.copied"))
        assert "--answer '0#1=true'" in browser.run("return document.body.dataset.copied")
        assert browser.texts(".ask .copy") == ["Copied", "Copy: no", "Copy: other"]
        assert "following" not in browser.text(".crumbs")
        log.write_bytes(log.read_bytes().splitlines(keepends=True)[0])
        browser.reads("[data-answer=complete]", "not complete: broke off")


# --- two runs, and runs that are served ------------------------------------------------------


def test_two_runs_differ_by_cause_with_changed_words_marked(
    browser: Browser, diff_page: Path
) -> None:
    _open(browser, diff_page)

    browser.reads(".causes", "root > clerk[5] > model")
    assert "tool calls 77 → 70" in browser.text(".compared .sums")
    place = [text.startswith("root > clerk[5]") for text in browser.texts(".cause")].index(True)
    browser.click(".cause", place)
    browser.reads(".sides ins", "late")
    browser.click("article button.small")
    browser.reads(".drawer h2", "model.answered")
    browser.press("\ue00c", "d")
    assert browser.text("[data-answer=intact]") == "intact"
    assert browser.complaints() == []


def test_what_was_left_out_is_said_and_not_taken_for_checked(
    browser: Browser, desk_log: Path, tmp_path: Path
) -> None:
    target = tmp_path / "without.html"
    target.write_text(page_html(page(desk_log, content=False)), encoding="utf-8")
    for place in ("", "#log=23&seq=2", "#log=23&seq=2&tab=state"):
        browser.open(target, place)
        browser.reads("[data-answer=intact]", "not checked here")
        assert "undefined" not in browser.text("body")
        assert "no warehouse" not in browser.text("body")
    browser.open(target, "#log=23&seq=2")
    browser.reads(".drawer", "Content was left out of this page")
    assert browser.complaints() == []


def test_a_comparison_without_content_has_places_and_sizes(
    browser: Browser, tmp_path: Path
) -> None:
    async def says(_run: Run, text: str) -> str:
        return text

    logs = [record(says, text, log=tmp_path / f"{text}.jsonl").log for text in ("one", "other")]
    target = tmp_path / "both.html"
    target.write_text(page_html(page(*logs, content=False)), encoding="utf-8")
    browser.open(target)

    browser.reads(".side", "(3 bytes left out)")
    assert "(5 bytes left out)" in browser.text(".sides")
    assert browser.complaints() == []


def test_print_shows_every_agent_on_light_ground(browser: Browser, desk_page: Path) -> None:
    _open(browser, desk_page, dark=True)
    browser.command("Emulation.setEmulatedMedia", media="print")
    size = {"width": 700, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    try:
        browser.command("Emulation.setDeviceMetricsOverride", **size)
        browser.run("dispatchEvent(new Event('beforeprint'))")
        browser.until(lambda: len(browser.all(".outline .who")) == 78)
        assert len(browser.all(".lane")) == 78
        # Only rows in the flow move whole to the next sheet.
        rows = "return [...document.querySelectorAll('.who')]"
        assert set(browser.run(f"{rows}.map((r) => getComputedStyle(r).position)")) == {"static"}
        right = "(e) => e.getBoundingClientRect().right"
        ends = f"return [...document.querySelectorAll('.lane .life')].map({right})"
        assert all(end <= 700 for end in browser.settled(ends))
        controls = "[...document.querySelectorAll('button:not(.pill), select, input')]"
        assert browser.run(f"return {controls}.filter((e) => e.offsetHeight).length") == 0
        ground = "return getComputedStyle(document.documentElement).backgroundColor"
        assert browser.run(ground) == "rgb(255, 255, 255)"
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


def test_runs_are_found_by_status_and_words_and_two_are_compared(
    browser: Browser, desk_log: Path
) -> None:
    """All of them at once; those with failed children are a status of their own."""
    many = [
        {"id": f"r{n}", "path": f"runs/r{n}.jsonl", "status": "completed", "program": "nightly"}
        for n in range(500)
    ]
    with _served(browser, _Runs(desk_log, *many)):
        browser.reads(".top", "502 runs")
        assert len(browser.all(".runrow")) < 60
        assert "$12.35" in browser.text(".runrow .cost")
        browser.press("/", *"DESK.js")
        browser.reads(".top", "1 of 502 runs")
        browser.press("\ue00c")
        browser.reads(".top", "502 runs")
        browser.click("[data-status=completed]")
        browser.reads(".top", "501 of 502 runs")
        browser.click("[data-status='']")
        browser.click(".runrow input")
        browser.click(".runrow input", 1)
        browser.reads("a.button", "Compare the two")
        assert "other=two" in browser.run("return document.querySelector('a.button').href")


def test_two_runs_of_a_folder_are_compared_in_the_browser(
    browser: Browser, desk_log: Path, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.jsonl").write_bytes(desk_log.read_bytes())
    with contextlib.ExitStack() as stack, _server(FolderOfRuns(tmp_path, stack)) as server:
        browser.visit(f"{server.url}&log=one.jsonl&other=two.jsonl")
        browser.reads(".compared", "one.jsonl ↔ two.jsonl")
        browser.driver.get("about:blank")


def test_a_growing_log_is_followed(browser: Browser, survey_log: Path, tmp_path: Path) -> None:
    log = tmp_path / "survey.jsonl"
    lines = survey_log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:3]))
    with _served(browser, _Runs(log)):
        browser.reads(".top", "2 runs")
        browser.click(".runrow a")
        browser.click("main .title button")
        browser.reads(".drawer .pick", "3 entries")
        assert "not complete: broke off" in browser.text("[data-answer=complete]")
        with log.open("ab") as grown:
            grown.write(b"".join(lines[3:6]))
        browser.reads(".drawer .pick", "6 entries")
        browser.until(lambda: browser.text("[data-answer=intact]") == "intact")
        assert browser.complaints() == []


# --- a page that follows ---------------------------------------------------------------------

_PLACES = (
    "",
    "log=LOG&seq=2",
    "log=LOG&seq=2&tab=state",
    "log=LOG&seq=2&tab=entries",
    "text=count",
)
_WATCH = """
    window.words = new Set();
    const look = () => window.words.add(document.querySelector('[data-answer=intact]')?.innerText);
    const all = { childList: true, subtree: true, characterData: true };
    new MutationObserver(look).observe(document.body, all);
    look();
"""
_SOUND = {"checking", "intact so far", "intact"}


def _words(browser: Browser) -> set[str]:
    """Return what the badge has said."""
    return {word.split(" …")[0] for word in browser.run("return [...window.words]") if word}


def _checked(browser: Browser) -> int:
    """Return how many entries the page has checked; 0 while it has not."""
    text = browser.run("return document.querySelector('.verdict .panel')?.textContent ?? ''")
    found = re.search(r"has checked ([\d,]+) entr", text)
    return int(found[1].replace(",", "")) if found else 0


def _until_checked(browser: Browser, entries: int) -> None:
    browser.until(lambda: _checked(browser) == entries, f"{entries} entries checked")


def _drawn(browser: Browser, log: str) -> list[str]:
    """Return the whole page where an entry, a query or nothing is chosen."""
    found = []
    for place in _PLACES:
        browser.run("location.hash = arguments[0]", f"#{place.replace('LOG', log)}")
        found.append(browser.settled("return document.querySelector('#app').innerHTML"))
    return found


def _same_as_opened_now(browser: Browser, server: Server, entries: int) -> None:
    """A page that has followed is the page that is opened at the end, the badge included."""
    kept = server.page(server.runs.log("one")).page.document
    browser.until(lambda: browser.run("return Number(document.body.dataset.made)") == kept["made"])
    log = kept["logs"][-1]["id"]
    followed = _drawn(browser, log)
    browser.visit(f"{server.url}&log=one")
    _until_checked(browser, entries)
    assert _drawn(browser, log) == followed


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
        browser.until(lambda: browser.all(".verdict"))
        browser.run(_WATCH)
        for there in rest():
            _until_checked(browser, there)
        assert _words(browser) <= _SOUND
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
        browser.until(lambda: browser.all(".verdict"))
        browser.run(_WATCH)
        writer.join()
        entries = sum(report.entries for report in verify(log).logs)
        _until_checked(browser, entries)
        assert _words(browser) <= _SOUND
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
            run, verdict = OpenedRun(log), verify(log)
        except LogError:  # the root's first line is gone: there is nothing to show
            continue
        _open(browser, exported(log, folder))
        answers = browser.text("[data-answer=intact]"), browser.text("[data-answer=complete]")
        assert (answers[0] == "intact") == verdict.intact, (seed, answers, verdict.damage)
        assert (answers[1] == "complete") == verdict.complete, (seed, answers, verdict.damage)
        cells = "['.sign .unseen', '.name'].map((c) => e.querySelector(c).textContent)"
        rows = browser.run(f"return [...document.querySelectorAll('.who')].map((e) => {cells})")
        told = [(e.status.replace("_", " "), e.node.name or "rejected") for e in run.agents]
        assert sorted((status, name.split(" ")[0]) for status, name in rows) == sorted(told)
        assert browser.complaints() == []


# --- hostile content -------------------------------------------------------------------------


def _is_inert(browser: Browser, images: int = 0) -> None:
    assert browser.run("return window.hit ?? null") is None
    assert browser.run("return ({}).polluted ?? null") is None
    found = "return document.querySelectorAll('#app script, #app iframe, #app img').length"
    assert browser.run(found) == images
    shown = browser.run("return document.body.innerText + document.querySelector('#app').innerHTML")
    for hidden in "\x1b\x07\u202e\u2066\u200b\U000e0041":
        assert hidden not in shown
    assert browser.complaints() == []


def test_hostile_content_is_text_in_every_view(browser: Browser, hostile_page: Path) -> None:
    for place in ("", "#text=script", *(f"#log=0&seq={seq}" for seq in (0, 1, 2, 4, 7))):
        for tab in ("", "&tab=state", "&tab=entries") if "seq" in place else ("",):
            _open(browser, hostile_page, place + tab)
            browser.run("for (const each of document.querySelectorAll('details')) each.open = true")
            browser.reads("#app", "<script>window.hit=1</script>")
            _is_inert(browser)


def test_hostile_content_is_text_where_two_runs_are_compared(
    browser: Browser, hostile_log: Path, desk_log: Path, tmp_path: Path
) -> None:
    for one, other in ((hostile_log, desk_log), (desk_log, hostile_log)):
        _open(browser, exported(one, tmp_path, other))
        browser.reads(".causes", "root")
        for number in range(len(browser.all(".cause"))):
            browser.click(".cause", number)
            _is_inert(browser)


def test_hostile_content_is_text_on_the_start_page(browser: Browser, desk_log: Path) -> None:
    names = dict.fromkeys(("path", "status", "program", "agent", "title", "question"), HOSTILE)
    with _served(browser, _Runs(desk_log, names | {"id": HOSTILE, "models": [HOSTILE]})):
        browser.reads(".runs", "<script>window.hit=1</script>")
        _is_inert(browser)


def test_a_text_has_the_direction_of_its_first_letter(browser: Browser, tmp_path: Path) -> None:
    async def asks(run: Run, text: str) -> Any:
        return (await run.model([{"role": "user", "content": text}])).message["content"]

    said = "# שלם\n\nשם **דבר** אחד.\n\n- אחת\n- שבע"
    model = FunctionModel(lambda _request: said, "clerk")
    log = record(asks, "מהי בירת צרפת?", log=tmp_path / "a.jsonl", model=model).log
    _open(browser, exported(log, tmp_path))

    direction = "(e) => getComputedStyle(e).direction"
    shown = f"return [...document.querySelectorAll('.md > *, .md li')].map({direction})"
    assert set(browser.run(shown)) == {"rtl"}
    assert browser.run("return getComputedStyle(document.body).direction") == "ltr"


def test_a_long_question_of_a_run_that_waits_fits_a_phone(browser: Browser, tmp_path: Path) -> None:
    async def asks(run: Run, text: str) -> str:
        return str(await run.ask(text))

    log = record(asks, "May I publish it to all of them? " * 20, log=tmp_path / "a.jsonl").log
    _open(browser, exported(log, tmp_path), width=360)

    assert browser.run(_CUT) == []


def test_controls_stand_as_escapes(browser: Browser, hostile_page: Path) -> None:
    browser.open(hostile_page, "#log=0&seq=0")

    browser.reads(".drawer", "\\x1b[2J\\u202egnp.exe")
    browser.reads(".drawer", "</script><script>window.hit=1</script>")


def test_a_value_of_10_mb_is_cut_and_more_comes_on_demand(
    browser: Browser, hostile_page: Path
) -> None:
    browser.open(hostile_page, "#log=0&seq=8")

    browser.reads(".drawer", "Show more (9,99")
    before = browser.run("return document.querySelector('.drawer .data pre').textContent.length")
    browser.click(".drawer .data button.more")
    longer = "return document.querySelector('.drawer .data pre').textContent.length > 40000"
    browser.until(lambda: browser.run(longer))
    assert before < 5_000


# --- how it looks ----------------------------------------------------------------------------

_CUT = Path(__file__).with_name("layout.js").read_text(encoding="utf-8")
_VIEWS = ("", "#text=order", "#log=23&seq=2", "#log=0&seq=12&tab=state", "#log=0&seq=2&tab=entries")


@pytest.mark.parametrize("width", [360, 640, 1280, 2560])
def test_no_text_overlaps_or_is_cut(
    browser: Browser, desk_log: Path, desk_page: Path, diff_page: Path, width: int
) -> None:
    """640 px is what a window of 1,280 px has at a zoom of 200 %."""
    for shown, place in [*((desk_page, each) for each in _VIEWS), (diff_page, "")]:
        _open(browser, shown, place, width=width)
        assert browser.run(_CUT) == [], place
    with _served(browser, _Runs(desk_log)):
        browser.reads(".top", "2 runs")
        assert browser.run(_CUT) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 640])
def test_no_fault_of_accessibility(
    browser: Browser,
    desk_log: Path,
    desk_page: Path,
    diff_page: Path,
    theme: str,
    width: int,
    tmp_path_factory: Any,
) -> None:
    """By axe-core, of npm, in a temporary folder; at zooms of 100 and 200 %."""
    folder = tmp_path_factory.getbasetemp() / "axe"
    core = folder / "node_modules/axe-core/axe.min.js"
    if not core.is_file():
        npm = shutil.which("npm") or pytest.skip("needs npm")
        folder.mkdir(exist_ok=True)
        got = subprocess.run([npm, "install", "--silent", "axe-core@4"], cwd=folder, check=False)
        if got.returncode or not core.is_file():
            pytest.skip("axe-core could not be installed")
    axe = core.read_text(encoding="utf-8")
    for shown, place in [*((desk_page, each) for each in _VIEWS), (diff_page, "")]:
        _open(browser, shown, place, dark=theme == "dark", width=width)
        assert _faults(browser, axe) == [], place
    with _served(browser, _Runs(desk_log)):
        browser.reads(".top", "2 runs")
        assert _faults(browser, axe) == []


def _faults(browser: Browser, axe: str) -> list[Any]:
    browser.command("Runtime.evaluate", expression=axe)
    found: list[Any] = browser.driver.execute_async_script(
        "const done = arguments[0]; axe.run().then((r) => done(r.violations"
        ".map((v) => [v.id, v.nodes[0].html])))"
    )
    return found
