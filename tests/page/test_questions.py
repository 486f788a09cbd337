"""What people ask of a run: the answer is on the screen after at most two clicks or keys.

Of the run of a program, and of a watched command.
"""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refold.cli.commands.inspect.view import FolderOfRuns
from refold.engine.errors import ToolError
from refold.engine.log.lock import lock
from refold.engine.models.scripted import FunctionModel
from refold.engine.ports.ports import Delegation
from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from refold.page.document import page
from refold.page.html import page_html
from refold.page.server import Server
from refold.proxy.profiles.claude_code import PROFILE as CLAUDE_CODE
from refold.tools.contract.tool_types import tool
from tests.support.browsing import Browser
from tests.support.editing import record_edits
from tests.support.watched import Exchange, result, says, system, talk, user
from tests.support.watched import record as watch

pytestmark = pytest.mark.long

_MODULES = ("auth", "billing", "cart", "search")
_SYSTEM = "You review Python with care. " * 200
"""So long that what follows it would be on no first screen."""


@tool(effect="reads")
async def read(module: str) -> str:
    """Read a module."""
    if module == "search":
        raise ToolError("missing", "search.py is not there")
    return f"def {module}(x): return x"


def _answer(request: Any) -> Any:
    said = str(request.messages[-1]["content"])
    name = next((each for each in _MODULES if each in said), "all")
    usage = {"input_tokens": 200, "output_tokens": 50, "cost_usd_micros": 20_000}
    return {"text": f"# {name}\n\nIt **needs work** in one place.", "usage": usage}


async def reviewer(run: Run, module: str) -> str:
    """Read one module, and review it."""
    text = await run.tool("read", module=module)
    asked: list[dict[str, Any]] = [{"role": "system", "content": _SYSTEM}]
    asked += [{"role": "user", "content": f"Review {module}: {text}"}]
    answer = await run.model(asked)
    assert answer.message is not None
    asked += [answer.message, {"role": "user", "content": "Be brief."}]
    return str((await run.model(asked)).message["content"])


async def shop(run: Run, _task: str) -> str:
    """Have each module reviewed."""
    for module in _MODULES:
        brief = f"Review {module}.py and annotate it"
        asked = Delegation(program=reviewer, agent="reviewer", brief=brief, input=module)
        await run.delegate(asked)
    return "All are reviewed."


def _program(folder: Path, model: Any = _answer) -> Path:
    log = folder / "shop.jsonl"
    scripted = FunctionModel(model, "clerk")
    return record(shop, "Review the shop", log=log, tools=[read], model=scripted).log


def _review(module: str, verdict: str) -> list[Exchange]:
    edit = {"file_path": f"{module}.py", "old_string": "(x)", "new_string": "(x: int)"}
    failed = {"is_error": True} if module == "search" else {}
    return talk(
        system(_SYSTEM),
        user(f"Review {module}.py and annotate it"),
        says("I read it.", (f"r{module}", "Read", {"file_path": f"{module}.py"})),
        result(f"r{module}", f"def {module}(x): return x"),
        says("", (f"e{module}", "Edit", edit)),
        {**result(f"e{module}", "no such words" if failed else "edited"), **failed},
        says(f"# {module}\n\n{verdict}"),
        tools=[{"name": "Read"}, {"name": "Edit"}],
    )


def _command(folder: Path, verdict: str = "It **needs work** in one place.") -> Path:
    tasks = [
        (
            f"t{each}",
            "Task",
            {"subagent_type": f"review {each}", "prompt": f"Review {each}.py and annotate it"},
        )
        for each in _MODULES
    ]
    lead = talk(
        system("You are a command line tool. " * 50),
        user("Review the shop"),
        says("I hand it out.", *tasks),
        *(result(f"t{each}", "reviewed") for each in _MODULES),
        says("All are reviewed."),
        tools=[{"name": "Task"}],
    )
    talks = [_review(each, verdict) for each in _MODULES]
    exchanges = [lead[0], *(each for one in talks for each in one), lead[1]]
    return watch(folder / "shop.jsonl", exchanges, profile=CLAUDE_CODE)


@pytest.fixture(scope="module", params=["program", "command"])
def shop_log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run with four subagents, a call of one of which failed."""
    make = _program if request.param == "program" else _command
    return make(tmp_path_factory.mktemp(request.param))


@pytest.fixture
def shown(browser: Browser, shop_log: Path) -> Browser:
    """Show the page of that run, and let it copy."""
    target = shop_log.with_suffix(".html")
    target.write_text(page_html(page(shop_log)), encoding="utf-8")
    browser.open(target)
    browser.until(lambda: "checking" not in browser.text("[data-answer=intact]"))
    return browser


def _is_seen(browser: Browser, selector: str, words: str = "") -> bool:
    """Return whether the first such element with these words lies in the window."""
    script = """
        const [selector, words] = arguments;
        return [...document.querySelectorAll(selector)].some((e) => {
            const box = e.getBoundingClientRect();
            const isSeen = box.height && box.bottom > 0 && box.top < innerHeight;
            return isSeen && e.innerText.includes(words);
        });"""
    return bool(browser.run(script, selector, words))


def _sees(browser: Browser, selector: str, words: str = "") -> None:
    browser.until(lambda: _is_seen(browser, selector, words), f"{words!r} in {selector}")


def _copied(browser: Browser, selector: str) -> str:
    browser.run("delete document.body.dataset.copied")
    browser.click(selector)
    copied = "return document.body.dataset.copied"
    browser.until(lambda: browser.run(copied))
    return str(browser.run(copied))


def _agent(browser: Browser, number: int) -> None:
    """Click the agent of a module."""
    texts = browser.texts(".outline .who")
    names = [at for at, text in enumerate(texts) if "review" in text]
    browser.click(".outline .who", names[number])


def test_1_which_agent_failed_and_why(shown: Browser) -> None:
    shown.press("f")
    _sees(shown, "main .step.here.failed, main .box.bad")
    assert "no such words" in shown.text("main") or "search.py is not there" in shown.text("main")


def test_2_what_it_cost_and_whose_cost_it_is(shown: Browser) -> None:
    tokens = shown.text(".top .sums")
    assert "tokens" in tokens
    _agent(shown, 1)
    _sees(shown, "main .facts", "tokens")
    if "$" in tokens:
        assert any("$" in text for text in shown.texts(".outline .cost"))


def test_3_where_the_time_went(shown: Browser) -> None:
    _sees(shown, ".legend", "model")
    _sees(shown, ".legend", "waiting")
    _agent(shown, 0)
    _sees(shown, "main .spent")


def test_4_what_an_agent_was_told_and_what_it_answered(shown: Browser) -> None:
    _agent(shown, 2)
    _sees(shown, ".box.task", "Review cart.py and annotate it")
    _sees(shown, ".box.answered strong", "needs work")


def test_4_an_answer_is_on_the_first_screen_of_a_phone(shown: Browser) -> None:
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": False}
    shown.command("Emulation.setDeviceMetricsOverride", **size)
    shown.run("scrollTo(0, 0)")
    _sees(shown, ".box.answered", "All are reviewed.")
    assert shown.run("return document.documentElement.scrollWidth <= innerWidth")


def test_5_the_whole_prompt_at_a_step(shown: Browser) -> None:
    _agent(shown, 0)
    shown.reads("main h2", "review")
    shown.click(".prompt summary", 1)
    shown.reads(".messages", "The whole prompt")
    assert shown.all(".msg.kept")
    assert shown.all(".msg.added")


def test_6_all_calls_of_one_tool(shown: Browser) -> None:
    name = "read" if shown.all("[data-filter=tool] option[value=read]") else "Read"
    shown.run(
        "const it = document.querySelector('[data-filter=tool]'); it.value = arguments[0];"
        "it.dispatchEvent(new Event('change', { bubbles: true }))",
        name,
    )
    shown.reads(".places p", "4 places")


def test_7_where_a_text_occurs(shown: Browser) -> None:
    """Each answer once, with the words on the screen; and marked where it stands."""
    shown.press("/", *"needs work")
    shown.reads(".places p", "places")
    marks = ".place mark"
    shown.until(lambda: all("needs work" in text for text in shown.texts(marks)), marks)
    _sees(shown, ".place mark", "needs work")
    shown.click(".place")
    _sees(shown, "main mark", "needs work")


def test_8_which_files_it_changed_and_who(browser: Browser, tmp_path: Path) -> None:
    target = tmp_path / "r.html"
    target.write_text(
        page_html(page(record_edits(tmp_path, "r", {"new": "two"}))), encoding="utf-8"
    )
    browser.open(target)

    browser.click(".files summary")
    _sees(browser, ".files .panel", "a.py")
    assert " by " in browser.text(".files .panel")


@pytest.mark.parametrize("make", [_program, _command])
def test_9_what_differs_from_yesterday(browser: Browser, tmp_path: Path, make: Any) -> None:
    (tmp_path / "b").mkdir()
    one = make(tmp_path)
    if make is _program:
        other = make(
            tmp_path / "b", lambda asked: {"text": _answer(asked)["text"].replace("needs", "wants")}
        )
    else:
        other = make(tmp_path / "b", "It **wants work** in one place.")
    target = tmp_path / "both.html"
    target.write_text(page_html(page(one, other)), encoding="utf-8")
    browser.open(target)

    _sees(browser, ".sides del", "needs")
    _sees(browser, ".sides ins", "wants")


def test_10_a_link_to_what_is_seen(shown: Browser) -> None:
    _agent(shown, 2)
    shown.settled("return location.hash")
    link = _copied(shown, "[data-copy='a link to what you see']")
    name = shown.text("main h2")
    shown.driver.get("about:blank")
    shown.driver.get(link)
    shown.reads("main h2", name)


def test_11_copies(shown: Browser) -> None:
    _agent(shown, 2)
    shown.reads(".box.task", "cart")
    assert _copied(shown, ".box.task .copy") == "Review cart.py and annotate it"
    assert "**needs work**" in _copied(shown, ".box.answered .copy")
    command = _copied(shown, "[data-copy='the command that shows this run']")
    assert command.startswith("refold show ")


@contextlib.contextmanager
def _served(folder: Path) -> Iterator[Server]:
    with contextlib.ExitStack() as stack, Server(FolderOfRuns(folder, stack), "t0ken") as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.parametrize("make", [_program, _command])
def test_12_follow_it_while_it_runs(browser: Browser, tmp_path: Path, make: Any) -> None:
    """It says that it runs, and no agent that is at work is said to be done."""
    log = make(tmp_path)
    whole = log.read_bytes()
    lines = whole.splitlines(keepends=True)
    with log.open("r+b") as writer:
        writer.truncate(len(b"".join(lines[: len(lines) // 2])))
        lock(writer.fileno(), log)
        with _served(tmp_path) as server:
            browser.visit(f"{server.url}&log={log.name}")
            browser.reads(".live", "following")
            assert "running" in browser.text(".heading")
            writer.seek(0, 2)
            writer.write(whole[writer.tell() :])
            writer.flush()
            browser.reads("main .box.answered, main", "All are reviewed.")
            browser.driver.get("about:blank")
