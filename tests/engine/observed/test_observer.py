"""Exchanges become events: conversations as scopes, each message once (§16.3, §16.5)."""

import json
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.engine.events.events import ModelAnswered
from refold.engine.log.reader import read_entries
from refold.engine.observed.journal import ObservedLog
from refold.engine.observed.observer import (
    Observer,
    RequestUnderway,
    logged_parameters,
    parameters_asked,
)
from refold.engine.observed.profile import Whose
from refold.engine.secrets.vault import Vault
from refold.engine.wire.apis import FORMATS, reader_of
from refold.engine.wire.parts.exchange import OTHER, Asked
from refold.replay.run.opened_run import delegation_tree
from tests.support.loops import for_each

Message = dict[str, Any]


def system(text: str) -> Message:
    """A system prompt."""
    return {"role": "system", "content": text}


def user(text: str) -> Message:
    """What a user says."""
    return {"role": "user", "content": text}


def says(text: str = "", *calls: tuple[str, str, dict[str, Any]]) -> Message:
    """What a model says."""
    message: Message = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {"id": call_id, "name": name, "arguments": arguments}
            for call_id, name, arguments in calls
        ]
    return message


def result(call_id: str, text: str) -> Message:
    """What a tool returned."""
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def called(call: str, tool: str, **arguments: Any) -> tuple[str, str, dict[str, Any]]:
    """The entry of a tool call."""
    data = {"tool": tool, "arguments": arguments, "effect": "changes"}
    return "tool.called", call, data


class Watched:
    """A command that is watched: what it asks, and what it is answered."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = ObservedLog(path, program="agent.py", input={"command": []}, vault=Vault())
        self.observer = Observer(self.log)

    def ask(self, *messages: Message, **more: Any) -> RequestUnderway:
        """Ask, without an answer yet."""
        return self.observer.asked(Asked(api="chat", model="m", messages=messages, **more))

    def talk(self, *messages: Message, answer: Message, **more: Any) -> RequestUnderway:
        """Ask, and be answered."""
        turn = self.ask(*messages, **more)
        self.observer.answered(turn, ModelAnswered("ok", answer))
        return turn

    def entries(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Seal the log, verify it, and return kind, call and data of what stands between."""
        self.log.seal("completed", "done", {})
        verification = refold.verify(self.path)
        assert verification.intact, verification.damage
        assert verification.complete
        return [(entry.kind, entry.call or "", entry.data) for entry in read_entries(self.path)][
            1:-1
        ]

    def asked(self) -> list[tuple[str, dict[str, Any]]]:
        """As `entries`, the requests alone."""
        return [(call, data) for kind, call, data in self.entries() if kind == "model.asked"]


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    """A command that is watched from its start."""
    return Watched(tmp_path / "watched.jsonl")


S, U = system("You are helpful."), user("What is the weather like?")


def test_each_message_is_stored_once(watched: Watched) -> None:
    """A request adds what the log does not have, the answers included."""
    first = says("", ("c1", "weather", {"city": "Bern"}))
    watched.talk(S, U, answer=first)
    watched.talk(S, U, first, result("c1", "rain"), answer=says("It rains."))

    (one, two) = watched.asked()

    assert (one[0], one[1]["added"], one[1]["base"]) == ("0/1#1", [S, U], 0)
    assert (two[0], two[1]["added"], two[1]["base"]) == ("0/1#3", [result("c1", "rain")], 3)


def test_tool_calls_and_results_are_events(watched: Watched) -> None:
    """A call when the answer asks for it, its result when a request shows it."""
    first = says("", ("c1", "weather", {"city": "Bern"}), ("c2", "time", {}))
    watched.talk(S, U, answer=first)
    failed = {**result("c2", "no clock"), "is_error": True}
    watched.talk(S, U, first, result("c1", "rain"), failed, answer=says("It rains."))

    error = {"code": "raised", "message": "no clock", "type": ""}

    tools = [entry for entry in watched.entries() if entry[0].startswith("tool.")]

    assert tools == [
        called("0/1#2", "weather", city="Bern"),
        called("0/1#3", "time"),
        ("tool.returned", "0/1#2", {"status": "ok", "result": "rain"}),
        ("tool.returned", "0/1#3", {"status": "error", "error": error}),
    ]


def test_a_call_waits_for_its_result_over_requests(watched: Watched) -> None:
    """A program may show one result and ask on, before it has the other."""
    first = says("", ("c1", "weather", {"city": "Bern"}), ("c2", "time", {}))
    watched.talk(S, U, answer=first)
    shown = (S, U, first, result("c1", "rain"))
    watched.talk(*shown, answer=says("Wait."))
    watched.talk(*shown, says("Wait."), result("c2", "noon"), answer=says("It rains."))

    returned = [(call, data["result"]) for kind, call, data in watched.entries() if "ret" in kind]

    assert returned == [("0/1#2", "rain"), ("0/1#3", "noon")]


def test_a_request_that_is_not_read_may_come_while_a_tool_runs(watched: Watched) -> None:
    """It has no messages, and nothing says who asks: a count of tokens, while a tool runs."""
    watched.talk(S, U, answer=says("", ("c1", "read", {"path": "big.txt"})))
    counting = {"method": "POST", "path": "/v1/messages/count_tokens", "body": "{}"}
    turn = watched.observer.asked(Asked(api=OTHER, model="", parameters=counting))
    watched.observer.answered(turn, ModelAnswered("ok", says("42")))

    begun = [data for kind, _, data in watched.entries() if kind == "x-refold.conversation"]

    assert (turn.call, begun[-1]["scope"], "how" in begun[-1]) == ("0/2#1", "0/2", False)


def test_words_beside_calls_are_none(watched: Watched) -> None:
    """A model that has tools may write in words of one, too: the program makes the calls."""
    words = 'Action: Delegate work to coworker\nAction Input: {"coworker": "Ann"}'
    watched.talk(S, U, answer=says(words, ("c1", "weather", {})))

    tools = [entry for entry in watched.entries() if entry[0] == "tool.called"]

    assert tools == [called("0/1#2", "weather")]


def test_parallel_conversations_are_told_apart(watched: Watched) -> None:
    """By their system prompts and first messages, whatever the order of answers."""
    one = watched.ask(system("You are A."), U)
    two = watched.ask(system("You are B."), U)
    watched.observer.answered(two, ModelAnswered("ok", says("b")))
    watched.observer.answered(one, ModelAnswered("ok", says("a")))
    watched.talk(system("You are A."), U, says("a"), user("Go on."), answer=says("a2"))

    assert [call for call, _ in watched.asked()] == ["0/1#1", "0/2#1", "0/1#2"]


def test_twins_that_ask_the_same_at_once_are_two(watched: Watched) -> None:
    """And a retry, after the answer, is the same conversation."""
    one, two = watched.ask(S, U), watched.ask(S, U)
    watched.observer.answered(one, ModelAnswered("error", error={"code": "http_500"}))
    watched.observer.answered(two, ModelAnswered("ok", says("fine")))
    watched.talk(S, U, answer=says("fine"))

    assert [call for call, _ in watched.asked()] == ["0/1#1", "0/2#1", "0/1#2"]


def _returned(watched: Watched) -> list[tuple[str, Any]]:
    return [(call, data["result"]) for kind, call, data in watched.entries() if "ret" in kind]


def test_a_result_is_of_a_call_of_its_own_conversation(watched: Watched) -> None:
    """Gemini numbers the calls of each conversation, so that parallel agents have equal ids."""
    calls = [says("", ("read#1", "read", {"path": path})) for path in ("a", "b")]
    turns = [watched.ask(system(f"You are {agent}."), U) for agent in "AB"]
    for turn, made in zip(turns, calls, strict=True):
        watched.observer.answered(turn, ModelAnswered("ok", made))
    for agent, made, text in zip("AB", calls, ("six", "four"), strict=True):
        more = (made, result("read#1", text))
        watched.talk(system(f"You are {agent}."), U, *more, answer=says("Done."))

    assert _returned(watched) == [("0/1#2", "six"), ("0/2#2", "four")]


@pytest.mark.parametrize("texts", [("six", "six"), ("six", "four")])
@pytest.mark.parametrize("is_parallel", [False, True])
@pytest.mark.parametrize("echo", [{}, {"provider": {"chat": {"signature": "s"}}}])
def test_twins_of_equal_ids_go_on_each_by_itself(
    *, echo: Message, is_parallel: bool, texts: tuple[str, str], watched: Watched
) -> None:
    """The same words were said before, or are at this time; each shows its own result, once.

    Clients may repeat an answer with more than it had: Pydantic AI signs what Gemini did not.
    """
    made = says("", ("read#1", "read", {"path": "a"}))
    later = [(S, U, {**made, **echo}, result("read#1", text)) for text in texts]
    if is_parallel:
        for turn in [watched.ask(S, U), watched.ask(S, U)]:
            watched.observer.answered(turn, ModelAnswered("ok", made))
        for turn in [watched.ask(*each) for each in later]:
            watched.observer.answered(turn, ModelAnswered("ok", says("Done.")))
    else:
        for each in later:
            watched.talk(S, U, answer=made)
            watched.talk(*each, answer=says("Done."))

    found = _returned(watched)

    asked = [
        entry.call or "" for entry in read_entries(watched.path) if entry.kind == "model.asked"
    ]
    assert sorted(asked) == ["0/1#1", "0/1#3", "0/2#1", "0/2#3"]
    assert sorted(call for call, _ in found) == ["0/1#2", "0/2#2"]
    assert sorted(text for _, text in found) == sorted(texts)


def test_a_handoff_goes_on_below_the_call(watched: Watched) -> None:
    """The other agent has another system prompt and shows the result of the call."""
    first = says("", ("c1", "transfer_to_billing", {}))
    watched.talk(system("You triage."), U, answer=first)
    history = (U, first, result("c1", "{}"))
    watched.talk(system("You bill."), *history, answer=says("Paid."))

    began = [data for kind, _, data in watched.entries() if kind == "x-refold.conversation"]

    assert began == [
        {"scope": "0/1", "agent": ""},
        {
            "scope": "0/1/1", "agent": "billing", "call": "0/1#2",
            "tool": "transfer_to_billing", "how": "handoff",
        },
    ]  # fmt: skip


def test_a_delegate_is_found_by_what_it_was_passed(watched: Watched) -> None:
    """Of several open calls, the one whose arguments stand in the first message."""
    first = says(
        "",
        ("c1", "look_up", {"q": "the rivers of France"}),
        ("c2", "look_up", {"q": "the lakes of all Peru"}),
    )
    watched.talk(S, U, answer=first)
    watched.talk(system("Researcher."), user("Find: the lakes of all Peru"), answer=says("One."))

    began = [data for kind, _, data in watched.entries() if kind == "x-refold.conversation"]

    assert began[1] == {
        "scope": "0/1/1", "agent": "look_up", "call": "0/1#3", "tool": "look_up", "how": "prompt",
    }  # fmt: skip


def test_unrelated_questions_are_roots(watched: Watched) -> None:
    """Each is answered by a call that the program looks at and never answers."""
    tools = ({"name": "get_weather"}, {"name": "find_hotel"})
    for number, (question, tool) in enumerate(
        [
            ("What is the weather in Paris?", "get_weather"),
            ("Which hotel in Paris is best?", "find_hotel"),
            ("Will it rain in Paris or Rome?", "get_weather"),
        ]
    ):
        answer = says("", (f"c{number}", tool, {"city": "Paris"}))
        watched.talk(S, user(question), answer=answer, tools=tools)

    assert [data["scope"] for data in _openings(watched)] == ["0/1", "0/2", "0/3"]


PLAN = "First read the notes, then write the report."


@pytest.mark.parametrize(
    ("tool", "offered", "question", "is_linked"),
    [
        ("make_plan", 1, f"Write the report. Plan: {PLAN}", False),
        ("make_plan", 1, PLAN, True),
        ("make_plan", 2, f"Write the report. Plan: {PLAN}", True),
        ("delegate_work_to_coworker", 1, f"Write the report. Plan: {PLAN}", True),
    ],
)
def test_the_only_tool_of_a_request_may_be_the_form_of_its_answer(
    tool: str, offered: int, question: str, is_linked: object, watched: Watched
) -> None:
    """Frameworks put such an answer into the next prompt: only the whole message is evidence."""
    tools = tuple({"name": name} for name in (tool, "other")[:offered])
    watched.talk(S, U, answer=says("", ("c", tool, {"plan": PLAN})), tools=tools)
    watched.talk(system("The writer."), user(question), answer=says("Done."))

    assert [("call" in data) for data in _openings(watched)] == [False, is_linked]


TIP = "Eat fish soup at the harbour, for it is fresh."
QUOTED = 'He said: "Eat soup, it is good."'
SHARED = "The shop opens at nine and closes at six on all days."


@pytest.mark.parametrize(
    ("question", "answer", "results", "how"),
    [
        ("Food?", TIP, ["soon", f"food: {TIP}"], ["result"]),
        ("Food?", QUOTED, [json.dumps(QUOTED)], ["result"]),
        ("Food?", TIP, ["soon", "food: Eat fish soup"], []),
        ("Food?", "Soup.", ["food: Soup."], []),
        (f"Say: {TIP}", TIP, [TIP], []),
        ("Food?", SHARED, [SHARED], []),
    ],
)  # fmt: skip
def test_a_result_that_holds_a_whole_answer_shows_who_asked(
    question: str, answer: str, results: list[str], how: list[str], watched: Watched
) -> None:
    """If the text was nowhere else in sight: of the right one of several calls, and of no cap."""
    calls = [(f"c{n}", "look", {"topic": "food"}) for n in range(len(results))]
    first = says("", *calls)
    watched.talk(S, user(f"Plan. {SHARED}"), answer=first)
    guide = watched.talk(system("The guide."), user(question), answer=says(answer))
    told = [result(f"c{n}", text) for n, text in enumerate(results)]
    watched.talk(S, user(f"Plan. {SHARED}"), first, *told, answer=says("Here is the plan."))

    links = [data for data in _openings(watched) if "call" in data]

    assert [(data["scope"], data["how"]) for data in links] == [("0/2", each) for each in how]
    assert [data["call"] for data in links] == [f"0/1#{len(results) + 1}"] * len(how)
    assert (guide.thread.is_opened, guide.thread.is_counted) == (False, False)


def test_two_conversations_with_one_answer_are_linked_to_no_call(watched: Watched) -> None:
    first = says("", ("c", "look", {"topic": "food"}))
    watched.talk(S, U, answer=first)
    for name in ("one", "two"):
        watched.talk(system(name), user("Food?"), answer=says(TIP))
    watched.talk(S, U, first, result("c", TIP), answer=says("Done."))

    assert not [data for data in _openings(watched) if "call" in data]


def test_a_compacted_history_stays_the_same_conversation(watched: Watched) -> None:
    """By system prompt and first message; what is new in it is stored."""
    watched.talk(S, U, answer=says("one"))
    watched.talk(S, U, says("summary of it all"), user("And now?"), answer=says("two"))

    assert [call for call, _ in watched.asked()] == ["0/1#1", "0/1#2"]


def test_an_answer_that_is_named_is_gone_on_from(watched: Watched) -> None:
    """Where the server keeps conversations."""
    turn = watched.ask(S, U)
    watched.observer.answered(turn, ModelAnswered("ok", says("one")), "resp_1")
    watched.talk(user("And then?"), answer=says("two"), follows="resp_1")

    assert [call for call, _ in watched.asked()] == ["0/1#1", "0/1#2"]


def test_what_the_program_gave_up_is_cancelled(watched: Watched) -> None:
    """And the log stands as it is."""
    watched.observer.gone(watched.ask(S, U))

    assert watched.entries()[-1] == ("effect.cancelled", "0/1#1", {"kind": "model"})


def test_tools_offered_are_stored_once(watched: Watched) -> None:
    """And named by their digest."""
    tools = ({"type": "function", "function": {"name": "f"}},)
    first = watched.talk(S, U, answer=says("one"), tools=tools)
    watched.talk(S, U, says("one"), user("more"), answer=says("two"), tools=tools)

    entries = watched.entries()

    assert [data for kind, _, data in entries if kind == "x-refold.tools"] == [
        {"digest": first.asked.tools_digest(), "tools": list(tools)}
    ]


def test_a_request_larger_than_an_entry_is_stored_in_several(watched: Watched) -> None:
    """An agent that starts with a long history."""
    history = [user(f"{number} " + "x" * 20_000) for number in range(100)]
    watched.talk(S, *history, answer=says("long"))

    kinds = [kind for kind, _, _ in watched.entries()]

    assert kinds.count("x-refold.messages") > 3
    assert kinds.count("model.asked") == 1


def test_calls_of_an_answer_that_was_cut_off_are_not_made(watched: Watched) -> None:
    """The program never had them."""
    turn = watched.ask(S, U)
    message = says("", ("c1", "weather", {"city": "Bern"}))
    error = {"code": "cut", "message": "…"}
    watched.observer.answered(turn, ModelAnswered("error", message, error=error))

    assert [kind for kind, _, _ in watched.entries() if kind.startswith("tool")] == []


def test_ids_that_a_server_uses_again_name_the_latest_call(watched: Watched) -> None:
    """An old result, shown again, does not end a new call."""
    first = says("", ("same", "weather", {"city": "Bern"}))
    shown = (S, U, first, result("same", "rain"))
    watched.talk(S, U, answer=first)
    second = says("", ("same", "weather", {"city": "Oslo"}))
    watched.talk(*shown, answer=second)
    watched.talk(*shown, second, result("same", "snow"), answer=says("Fine."))

    tools = [
        (call, data["result"]) for kind, call, data in watched.entries() if kind == "tool.returned"
    ]

    assert tools == [("0/1#2", "rain"), ("0/1#4", "snow")]


def test_a_parameter_called_api_is_not_lost() -> None:
    """The interface has that name in a log."""
    asked = Asked(api="chat", model="m", parameters={"api": "mine", "n": 1})

    assert parameters_asked(logged_parameters(asked)) == ("chat", {"api": "mine", "n": 1})


def _openings(watched: Watched) -> list[dict[str, Any]]:
    return [data for kind, _, data in watched.entries() if kind == "x-refold.conversation"]


CELLAR = says("", ("c1", "Task", {"prompt": "look into the cellar now", "mode": "run"}))
KID = (system("child of boss"), user("look into the cellar now"))


@pytest.mark.parametrize("is_first", [True, False])
def test_a_child_in_the_background_is_linked_to_its_call(
    watched: Watched, *, is_first: bool
) -> None:
    """Whether it asks before its parent goes on, or after."""
    watched.talk(S, U, answer=CELLAR)
    if is_first:
        watched.talk(*KID, answer=says("dark"))
    watched.talk(S, U, CELLAR, result("c1", "it runs"), answer=says("fine"))
    if not is_first:
        watched.talk(*KID, answer=says("dark"))

    (_, child) = _openings(watched)

    assert (child["scope"], child["call"], child["how"]) == ("0/1/1", "0/1#2", "prompt")


def test_a_word_of_a_call_that_passes_more_says_nothing(watched: Watched) -> None:
    """`"mode": "run"` stands in many prompts."""
    watched.talk(S, U, answer=CELLAR)
    watched.talk(S, U, CELLAR, result("c1", "it runs"), answer=says("fine"))
    watched.talk(system("Another."), user("run the tests"), answer=says("green"))

    assert [data["scope"] for data in _openings(watched)] == ["0/1", "0/2"]


def test_a_compacted_session_continues(watched: Watched) -> None:
    """The summary begins a conversation of its own, beside the one that it goes on with."""
    watched.talk(S, U, answer=CELLAR)
    summary = user("This session is being continued from a previous conversation. The cellar.")
    watched.talk(S, summary, answer=says("fine"))

    (_, after) = _openings(watched)

    assert (after["scope"], after["how"]) == ("0/2", "continues")


LOOKS = says(
    "",
    ("c1", "look_up", {"q": "the rivers of France"}),
    ("c2", "look_up", {"q": "the lakes of Peru"}),
)
SUMMARY = user("This session is being continued from a previous conversation. The cellar.")


@pytest.mark.parametrize(
    ("answer", "then", "cause"),
    [
        (LOOKS, (system("Researcher."), user("Find: the rivers of France")), "0/1#2"),
        (CELLAR, (S, SUMMARY), "0/1#2"),
    ],
    ids=["of its call", "of what it goes on with"],
)
def test_a_conversation_has_its_cause(
    watched: Watched, answer: Message, then: tuple[Message, ...], cause: str
) -> None:
    """So that who reads the log finds what came before it."""
    watched.talk(S, U, answer=answer)
    watched.talk(*then, answer=says("fine"))
    watched.entries()
    entries = list(read_entries(watched.path))

    *_, begun = (entry for entry in entries if entry.kind == "x-refold.conversation")

    assert begun.cause is not None
    assert (entries[begun.cause].kind, entries[begun.cause].call) == ("tool.called", cause)


def test_a_call_in_the_background_has_one_child(watched: Watched) -> None:
    """Who asks the same once more was not started by it."""
    watched.talk(S, U, answer=CELLAR)
    watched.talk(S, U, CELLAR, result("c1", "it runs"), answer=says("fine"))
    for _ in range(2):
        watched.talk(*KID, answer=says("dark"))

    (_, first, again) = _openings(watched)

    assert (first["scope"], again["scope"], "call" in again) == ("0/1/1", "0/2", False)


def test_two_calls_of_one_shot_are_two_conversations(watched: Watched) -> None:
    """The same question again, after its answer."""
    watched.talk(S, U, answer=says("rain"))
    watched.talk(S, U, answer=says("sun"))

    assert [data["scope"] for data in _openings(watched)] == ["0/1", "0/2"]


def test_what_was_cut_off_and_is_asked_again_goes_on(watched: Watched) -> None:
    """A stream that breaks has told a part of its answer; the same request gets the rest."""
    asked = Asked(api="chat", model="m", messages=(S, U))
    turn = watched.observer.asked(asked)
    watched.observer.answered(turn, ModelAnswered("error", says("ra")))
    watched.observer.answered(watched.observer.asked(asked), ModelAnswered("ok", says("rain")))
    watched.talk(S, U, says("rain"), user("And tomorrow?"), answer=says("sun"))

    assert [data["scope"] for data in _openings(watched)] == ["0/1"]


def test_who_asks_decides_whose_a_request_is(watched: Watched) -> None:
    """Two that ask the same, one below the other; the name leads to the call."""
    spawn = says("", ("c1", "Task", {"subagent_type": "ann", "prompt": "secret words"}))
    turn = watched.observer.asked(Asked(api="chat", model="m", messages=(S, U)), Whose("t1"))
    watched.observer.answered(turn, ModelAnswered("ok", spawn))
    below = Whose("t2", above="t1", agent="/root/ann")
    turn = watched.observer.asked(Asked(api="chat", model="m", messages=(S, U)), below)
    watched.observer.answered(turn, ModelAnswered("ok", says("fine")))

    (_, child) = _openings(watched)

    assert (child["scope"], child["agent"], child["call"]) == ("0/1/1", "ann", "0/1#2")


def test_two_runs_of_a_program_at_once_are_two_roots(watched: Watched) -> None:
    """Each with its own subagents; what says nothing of a session may be anybody's."""
    spawn = says("", ("c1", "Task", {"subagent_type": "ann", "prompt": "secret words"}))
    one, two = Whose(session="one"), Whose(session="two")
    for whose in (one, two):
        asked = Asked(api="chat", model="m", messages=(S, user(whose.session)))
        watched.observer.answered(watched.observer.asked(asked, whose), ModelAnswered("ok", spawn))
    ann = Asked(api="chat", model="m", messages=(S, user("secret words")))
    for whose in (Whose("t2", session="two"), Whose("t1", session="one"), Whose("t3")):
        watched.observer.asked(ann, whose)

    scopes = [data["scope"] for data in _openings(watched)]

    assert scopes == ["0/1", "0/2", "0/2/1", "0/1/1", "0/1/2"]


def test_it_stands_below_whom_it_names_though_others_call_too(watched: Watched) -> None:
    """What is open of another conversation says nothing of it, nor does its being newer."""
    asks = {one: Asked(api="chat", model="m", messages=(S, user(one))) for one in ("t1", "t2")}
    turns = {one: watched.observer.asked(asked, Whose(one)) for one, asked in asks.items()}
    for one, turn in turns.items():
        watched.observer.answered(turn, ModelAnswered("ok", says("", (one, "look_up", {}))))
    asked = Asked(api="chat", model="m", messages=(system("Researcher."), user("Find lakes.")))
    watched.observer.asked(asked, Whose("t3", above="t1"))

    (_, _, child) = _openings(watched)

    assert child == {"scope": "0/1/1", "agent": "", "how": "header"}


def test_who_asks_before_the_call_that_started_it_came_is_linked_to_it(watched: Watched) -> None:
    """A program may make a call while the answer with it is on its way (Codex)."""
    spawn = says("", ("c1", "Task", {"subagent_type": "ann", "prompt": "secret words"}))
    above = watched.observer.asked(Asked(api="chat", model="m", messages=(S, U)), Whose("t1"))
    below = Whose("t2", above="t1", agent="/root/ann")
    turn = watched.observer.asked(Asked(api="chat", model="m", messages=(S, user("x"))), below)
    watched.observer.answered(above, ModelAnswered("ok", spawn))
    watched.observer.answered(turn, ModelAnswered("ok", says("fine")))

    (_, first, then) = _openings(watched)
    (root,) = delegation_tree(watched.path).children

    assert (first["scope"], "call" in first) == ("0/1/1", False)
    assert (then["scope"], then["agent"], then["call"]) == ("0/1/1", "ann", "0/1#2")
    assert [(each.name, each.call, each.requests) for each in root.children] == [
        ("ann", "0/1#2", 1)
    ]


def test_the_next_of_that_name_is_linked_to_the_next_call(watched: Watched) -> None:
    """The first call has its conversation, which was there before it."""
    ann = {"subagent_type": "ann"}
    spawn = says("", ("c1", "Task", ann), ("c2", "Task", ann))
    above = watched.observer.asked(Asked(api="chat", model="m", messages=(S, U)), Whose("t1"))
    for number, thread in enumerate(("t2", "t3")):
        asked = Asked(api="chat", model="m", messages=(S, user(thread)))
        watched.observer.asked(asked, Whose(thread, above="t1", agent="/root/ann"))
        if number == 0:
            watched.observer.answered(above, ModelAnswered("ok", spawn))

    (_, _, first, second) = _openings(watched)

    assert [(each["scope"], each["call"]) for each in (first, second)] == [
        ("0/1/1", "0/1#2"),
        ("0/1/2", "0/1#3"),
    ]


FOUND = [{"type": "web_search_result", "title": "Tides", "url": "https://example.org/tides"}]
SERVED: dict[str, tuple[dict[str, Any], list[tuple[str, dict[str, Any], Any, str]]]] = {
    "messages": (
        {
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "server_tool_use", "id": "s1", "name": "web_search",
                 "input": {"query": "t"}},
                {"type": "web_search_tool_result", "tool_use_id": "s1", "content": FOUND},
                {"type": "server_tool_use", "id": "s2", "name": "web_fetch", "input": {"url": "u"}},
                {
                    "type": "web_fetch_tool_result",
                    "tool_use_id": "s2",
                    "content": {"type": "web_fetch_tool_error", "error_code": "unavailable"},
                },
                {"type": "text", "text": "High at nine."},
            ],
            "stop_reason": "end_turn",
        },
        [
            ("web_search", {"query": "t"}, FOUND, ""),
            ("web_fetch", {"url": "u"}, None, "unavailable"),
        ],
    ),
    "responses": (
        {
            "status": "completed",
            "output": [
                {"type": "web_search_call", "id": "w", "status": "completed",
                 "action": {"type": "search", "query": "t"}},
                {"type": "mcp_call", "id": "m", "name": "tides", "arguments": '{"at": "Oslo"}',
                 "output": "nine"},
                {"type": "code_interpreter_call", "id": "c", "code": "1/0", "status": "failed"},
                {"type": "function_call", "call_id": "f", "name": "own", "arguments": "{}"},
            ],
        },
        [
            ("web_search", {"action": {"type": "search", "query": "t"}}, None, ""),
            ("tides", {"at": "Oslo"}, "nine", ""),
            ("code_interpreter", {"code": "1/0"}, None, "failed"),
        ],
    ),
    "generate": (
        {
            "candidates": [{"finishReason": "STOP", "content": {"role": "model", "parts": [
                {"executableCode": {"language": "PYTHON", "code": "print(9)"}},
                {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "9"}},
                {"text": "Nine."},
            ]}}],
        },
        [
            (
                "code_execution",
                {"language": "PYTHON", "code": "print(9)"},
                {"outcome": "OUTCOME_OK", "output": "9"},
                "",
            )
        ],
    ),
}  # fmt: skip


@for_each("original", [None, [], {}, "text", [3], {"parts": 3}, {"parts": [{}]}])
def test_an_answer_without_such_tools_has_none(original: Any) -> None:
    """Whatever a server put in their place: an answer never breaks a recording."""
    assert [list(row.served(original)) for row in FORMATS.values()] == [[]] * len(FORMATS)


@for_each("api", SERVED)
def test_tools_that_the_server_uses_are_shown_with_their_results(api: str, tmp_path: Path) -> None:
    """In the log and the tree, each with the answer that shows it; none waits for anyone."""
    body, expected = SERVED[api]
    asked = Asked(api=api, model="m", messages=(user("When is high tide?"),))
    reader = reader_of(asked, 200, "application/json")
    reader.feed(json.dumps(body).encode())
    log = tmp_path / "a.jsonl"
    given = {"command": ["agent"]}
    with ObservedLog(log, program="agent", input=given, vault=Vault()) as journal:
        observer = Observer(journal)
        observer.answered(observer.asked(asked), reader.answered())
        journal.seal("completed", "done")

    entries = list(read_entries(log, resolve=True))
    made = [entry for entry in entries if entry.kind == "tool.called"][: len(expected)]
    ends = {entry.call: entry.data for entry in entries if entry.kind == "tool.returned"}
    told = [
        (
            each.data["tool"],
            each.data["arguments"],
            ends[each.call].get("result"),
            ends[each.call].get("error", {}).get("message", ""),
        )
        for each in made
    ]
    assert told == expected
    assert len(ends) == len(expected)
    (conversation,) = delegation_tree(log).children
    assert {use.tool for use in conversation.tools} >= {each[0] for each in expected}
    assert refold.verify(log).intact


def test_a_request_with_odd_tools_is_recorded_and_read_to_its_end(watched: Watched) -> None:
    """A mistake of the program: its server refuses it, or answers all the same."""
    odd: list[Any] = [5, "x", None, [], {}, {"functionDeclarations": 5}]
    odd.append({"functionDeclarations": [None, {"name": "found"}]})
    for number, tool in enumerate(odd):
        watched.talk(user(f"{number}"), answer=says("", (f"c{number}", "run", {})), tools=(tool,))
    watched.entries()

    conversations = delegation_tree(watched.path).children

    assert [each.requests for each in conversations] == [1] * len(odd)
