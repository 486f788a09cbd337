"""Doing the work: workers, the host loop, and arrivals one by one (CONTRACT.md §9.2)."""

import asyncio
import contextvars
import sys
import threading
from collections.abc import Callable
from typing import Any

from refold.engine.errors import ModelError
from refold.engine.events.events import ModelAnswered, ToolReturned
from refold.engine.models.scripted import FunctionModel
from refold.engine.ports.effects import AskModel, CallTool
from refold.engine.ports.ports import CallContext, ModelReply, ModelRequest
from refold.engine.recording.driver import Arrival, Arrivals, Driver, ask_model, overdue
from refold.engine.recording.host import Host
from refold.engine.recording.workers import Mailbox
from refold.tools.contract.tool_types import tool
from tests.support.loops import for_each

CONTEXT = CallContext(call="0#1", run_id="r", depth=0, origin="k")


@tool(effect="reads")
def double(x: int) -> int:
    """Double."""
    return 2 * x


@tool(effect="reads")
async def slow_double(x: int) -> int:
    """Double, on a loop."""
    await asyncio.sleep(0)
    return 2 * x


def driver_with(host: Host) -> tuple[Driver, Arrivals]:
    arrivals: Arrivals = Mailbox()
    return Driver(arrivals, host=host), arrivals


def arrived(arrivals: Arrivals) -> Arrival:
    found = arrivals.get(timeout=60)
    assert isinstance(found, Arrival)
    return found


def test_tools_arrive_with_their_results() -> None:
    """In place, on a worker, on the host loop: the same event."""
    host = Host()
    driver, arrivals = driver_with(host)
    expected = ToolReturned("ok", 4)

    assert driver.in_place("0#1", double, {"x": 2}, CONTEXT) == expected
    for call, which in (("0#2", double), ("0#3", slow_double)):
        driver.call_tool(CallTool(call, which, {"x": 2}), CONTEXT)
        driver.launch()
        assert arrived(arrivals) == Arrival(call, expected)
    assert list(driver.flights) == ["0#2", "0#3"]

    driver.close()
    host.close()


SEEN: contextvars.ContextVar[str] = contextvars.ContextVar("seen", default="nothing")
ENDS: list[Callable[[], Any]] = [
    lambda: [1, {"x": None}],
    object,
    lambda: 1 << 80,
    SEEN.get,
    lambda: int("no"),
    lambda: sys.exit(3),
    lambda: next(iter(())),
    {}.popitem,
]


@for_each("end", range(len(ENDS)))
def test_a_tool_ends_alike_wherever_it_runs(end: int) -> None:
    """In this thread, on a worker; an asynchronous one in this thread, on the host loop."""

    @tool(effect="reads")
    def plain() -> Any:
        return ENDS[end]()

    @tool(effect="reads")
    async def awaited() -> Any:
        await asyncio.sleep(0)
        return ENDS[end]()

    SEEN.set("its maker's")
    for which in (plain, awaited):
        host = Host()
        driver, arrivals = driver_with(host)
        here = driver.in_place("0#1", which, {}, CONTEXT)
        driver.call_tool(CallTool("0#2", which, {}), CONTEXT)
        driver.launch()

        assert here is not None
        assert arrived(arrivals) == Arrival("0#2", here)
        driver.close()
        host.close()


def test_nothing_begins_before_it_is_launched() -> None:
    """Then all that was handed in does, in its order, each once."""
    host = Host()
    driver, arrivals = driver_with(host)
    for number in range(6):
        which = slow_double if number % 2 else double
        driver.call_tool(CallTool(f"0#{number}", which, {"x": number}), CONTEXT)
    driver.give_up("0#3")

    assert arrivals.empty()
    driver.launch()
    driver.launch()

    came = {(found := arrived(arrivals)).call: found.event for _ in range(6)}
    assert came.pop("0#3") is None
    assert came == {f"0#{n}": ToolReturned("ok", 2 * n) for n in (0, 1, 2, 4, 5)}
    assert arrivals.empty()
    driver.close()
    host.close()


def test_arguments_that_do_not_fit_are_a_failure() -> None:
    """Everything that is wrong with them, in one message."""
    driver, _ = driver_with(Host())

    returned = driver.in_place("0#1", double, {"x": "no", "y": 1}, CONTEXT)

    assert returned is not None
    assert returned.error is not None
    assert returned.error["code"] == "arguments"
    assert "/x" in returned.error["message"]
    assert "y" in returned.error["message"]


def test_giving_up_cancels_an_asynchronous_tool() -> None:
    """It arrives all the same, as cancelled."""
    host = Host()
    driver, arrivals = driver_with(host)
    begun = threading.Event()

    @tool(effect="reads")
    async def waits() -> None:
        begun.set()
        await asyncio.Event().wait()

    driver.call_tool(CallTool("0#1", waits, {}), CONTEXT)
    driver.launch()
    assert begun.wait(60)
    driver.give_up("0#1")

    event = arrived(arrivals).event
    assert isinstance(event, ToolReturned)
    assert event.error is not None
    assert event.error["code"] == "cancelled"
    driver.give_up("0#9")  # unknown: it has arrived, or never was
    host.close()


def test_models_arrive_with_answers_or_failures() -> None:
    """No model of that name, an error of the client's, anything else it raises."""
    driver, arrivals = driver_with(Host())
    request = ModelRequest(messages=())

    def raising(error: BaseException) -> FunctionModel:
        def answer(_request: ModelRequest) -> Any:
            raise error

        return FunctionModel(answer)

    codes = []
    for model in (
        None,
        raising(ModelError("m", "busy", "http_500")),
        raising(LookupError("x")),
        raising(SystemExit(1)),
        FunctionModel(lambda _: ModelReply(message={"tool_calls": [{"id": 1}]})),
        FunctionModel(lambda _: ModelReply(message={}, usage=None)),  # type: ignore[arg-type]  # it is what is tried
    ):
        driver.ask_model(AskModel("0#1", model, request))
        driver.launch()
        event = arrived(arrivals).event
        assert isinstance(event, ModelAnswered)
        assert event.error is not None
        codes.append(event.error["code"])

    assert codes == ["no_model", "http_500", "raised", "raised", "raised", "raised"]
    driver.close()


@for_each(
    "raised, code, message",
    [
        (ModelError("m", "two\nlines " * 100, "own"), "own", "two\nlines " * 100),
        (ValueError("two\nlines"), "raised", "ValueError: two\nlines"),
        (ValueError("x" * 9000), "raised", f"ValueError: {'x' * 4000}"),
        (SystemExit(3), "raised", "SystemExit: 3"),
    ],
)
def test_what_a_model_of_ones_own_raises_keeps_its_words(
    raised: BaseException, code: str, message: str
) -> None:
    """§11.7: those of Refold's own clients are cut to a line."""

    def ask(_request: ModelRequest) -> str:
        raise raised

    answered = ask_model(AskModel("0#1", FunctionModel(ask), ModelRequest(messages=())))

    assert answered.error == {"code": code, "message": message}


def test_what_took_too_long_says_how_long() -> None:
    returned = overdue(1.5)

    assert returned.error == {"code": "timed_out", "message": "no result within 1.5 s", "type": ""}


class Awaited:
    """An asynchronous model: it answers with the name of the thread that it is asked on."""

    name = "awaited"
    reference = None
    is_async = True

    def __init__(self) -> None:
        self.is_asked, self.is_cancelled = threading.Event(), threading.Event()

    async def complete(self, request: ModelRequest) -> ModelReply:
        if request.parameters:
            raise ModelError(self.name, "too busy", "http_503")
        if not request.messages:
            try:
                self.is_asked.set()
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.is_cancelled.set()
                raise
        return ModelReply(message={"content": threading.current_thread().name})


def awaited(model: Awaited | None = None) -> Any:
    return model or Awaited()


def test_an_asynchronous_model_is_awaited_on_a_loop_that_outlives_the_run() -> None:
    """The clients of models keep connections; on the caller's loop, if there is one (§11.7)."""
    asked = ModelRequest(messages=({"role": "user", "content": "?"},))
    threads = []
    for _ in range(2):
        host = Host()
        driver, arrivals = driver_with(host)
        driver.ask_model(AskModel("0#1", awaited(), asked))
        event = arrived(arrivals).event
        assert isinstance(event, ModelAnswered)
        threads.append((event.message or {})["content"])
        host.close()

    assert threads == ["refold-models"] * 2

    async def inside() -> Any:
        driver, arrivals = driver_with(Host(asyncio.get_running_loop()))
        driver.ask_model(AskModel("0#1", awaited(), asked))
        event = (await asyncio.to_thread(arrived, arrivals)).event
        assert isinstance(event, ModelAnswered)
        return (event.message or {})["content"]

    assert asyncio.run(inside()) == threading.current_thread().name


def test_what_an_asynchronous_model_raises_is_data_and_giving_up_cancels_it() -> None:
    """As for any other model; the request ends where it runs."""
    driver, arrivals = driver_with(Host())
    model = Awaited()

    driver.ask_model(
        AskModel("0#1", awaited(model), ModelRequest(messages=(), parameters={"a": 1}))
    )
    failed = arrived(arrivals).event
    driver.ask_model(AskModel("0#2", awaited(model), ModelRequest(messages=())))
    assert model.is_asked.wait(60)
    driver.give_up("0#2")
    late = arrived(arrivals).event

    assert failed == ModelAnswered("error", error={"code": "http_503", "message": "too busy"})
    assert isinstance(late, ModelAnswered)
    assert late.status == "error"
    assert model.is_cancelled.is_set()
