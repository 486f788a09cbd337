"""The tree of a watched command shows its conversations as a person would tell of them."""

from pathlib import Path
from typing import Any

import attrs
import pytest
from syrupy.assertion import SnapshotAssertion

from refold.engine.errors import EventMalformed
from refold.engine.events.events import (
    CONVERSATION,
    MESSAGES,
    Extension,
    ModelAnswered,
    RunStarted,
    scope_of,
)
from refold.engine.events.outcome import Priced, Usage
from refold.engine.log.reader import read_entries
from refold.engine.log.writer import LogWriter
from refold.engine.observed.journal import ObservedLog
from refold.engine.observed.mcp import McpObserver
from refold.engine.observed.observer import Observer
from refold.engine.observed.profile import NAMED, Profile
from refold.engine.secrets.vault import Vault
from refold.engine.wire.parts.exchange import Asked
from refold.proxy.profiles import shipped
from refold.replay.audit.verify import verify
from refold.replay.run.amounts import cost, failures
from refold.replay.run.opened_run import OpenedRun, delegation_tree
from refold.replay.run.run_node import RunNode
from refold.replay.run.tree_text import render_text
from refold.replay.testing.snapshot import log_text
from tests.support.loops import for_each
from tests.support.unfinished import cut
from tests.support.watched import Exchange, ask, record, result, says, system, talk, user

BRIEF = "Find three restaurants near the harbour"


def tree(path: Path, exchanges: list[Exchange]) -> RunNode:
    """Return the tree of a command that made these exchanges."""
    return delegation_tree(record(path / "a.jsonl", exchanges))


def task(call: str, brief: str, agent: str = "scout") -> tuple[str, str, dict[str, str]]:
    """Return a call that hands work to another agent."""
    return call, "Task", {"subagent_type": agent, "prompt": brief}


LEAD = talk(
    system("You lead the planning of a trip, and hand out all the work there is."),
    user("Plan a day in Bergen."),
    says("", task("t1", BRIEF), ("w1", "weather", {"city": "Bergen"})),
    result("t1", "fish hall"),
    {**result("w1", "no such city"), "is_error": True},
    says("Go to the fish hall."),
)
SCOUT = talk(system("You scout places."), user(BRIEF), says("fish hall"))


def test_a_conversation_stands_below_the_call_that_opened_it(tmp_path: Path) -> None:
    """With its agent, its task, its tools, its tokens and how its last answer ended."""
    root = tree(tmp_path, [LEAD[0], *SCOUT, LEAD[1]])

    (lead,) = root.children
    (scout,) = lead.children
    assert (root.name, root.guarantee, root.status) == ("agent.py", "matched", "completed")
    assert (lead.name, lead.agent) == ("main", "")
    assert lead.brief == "Plan a day in Bergen."
    assert [(use.tool, use.called, use.failed) for use in lead.tools] == [
        ("Task", 1, 0),
        ("weather", 1, 1),
    ]
    assert (lead.requests, lead.usage.input_tokens, lead.usage.output_tokens) == (2, 30, 15)
    assert (scout.name, scout.tool, scout.how, scout.call) == ("scout", "Task", "prompt", "0/1#2")
    assert (scout.brief, scout.status, scout.depth) == (BRIEF, "completed", 2)
    assert root.usage == lead.usage


def test_a_delegation_whose_conversation_was_not_seen_is_a_leaf(tmp_path: Path) -> None:
    """Its subagent asks another server, or none."""
    (lead,) = tree(tmp_path, LEAD).children

    (leaf,) = lead.children
    assert (leaf.name, leaf.tool, leaf.how) == ("scout", "Task", "observed")
    assert (leaf.brief, leaf.status, leaf.requests) == (BRIEF, "completed", 0)


def test_a_delegation_without_a_result_is_unfinished(tmp_path: Path) -> None:
    """Nothing says how it ended."""
    (lead,) = tree(tmp_path, LEAD[:1]).children

    assert [child.status for child in lead.children] == ["unfinished"]


WRITTEN = (
    "Thought: I need help.\n"
    "Action: Delegate work to coworker\n"
    'Action Input: {"task": "Find a hall", "context": "Bergen", "coworker": "scout"}\n'
)


def test_a_delegation_that_stands_in_a_text_is_a_leaf(tmp_path: Path) -> None:
    """Frameworks that let the model write its calls."""
    (lead,) = tree(tmp_path, talk(system("You lead."), user("Plan."), says(WRITTEN))).children

    (leaf,) = lead.children
    assert (leaf.name, leaf.brief, leaf.how) == ("scout", "Find a hall", "observed")
    assert (leaf.call, leaf.status) == ("0/1#2", "unfinished")


def test_a_conversation_stands_below_the_text_that_opened_it(tmp_path: Path) -> None:
    """And the result that is written below that text is the call's."""
    (ask_lead,) = talk(system("You lead."), user("Plan."), says(WRITTEN))
    (scout,) = talk(system("You scout."), user("Current Task: Find a hall"), says("The old hall."))
    shown = says(f"{WRITTEN}Observation: The old hall.")
    going_on = talk(system("You lead."), user("Plan."), shown, user("Go on."), says("Done."))[-1:]

    (lead,) = tree(tmp_path, [ask_lead, scout, *going_on]).children

    (below,) = lead.children
    assert (below.agent, below.tool) == ("scout", "Delegate work to coworker")
    assert (below.how, below.is_provisional) == ("delegation", False)
    assert (below.call, below.requests) == ("0/1#2", 1)
    (entry,) = [each for each in read_entries(tmp_path / "a.jsonl") if each.kind == "tool.returned"]
    assert (entry.call, entry.data["result"]) == ("0/1#2", "The old hall.")
    assert verify(tmp_path / "a.jsonl").complete


@for_each(
    "last, status, error",
    [
        (Exchange(LEAD[1].asked, None, error="http_429"), "failed", "http_429"),
        (Exchange(LEAD[1].asked, None, is_gone=True), "cancelled", None),
        (LEAD[1], "completed", None),
    ],
)
def test_the_last_answer_says_how_a_conversation_ended(
    tmp_path: Path, last: Exchange, status: str, error: str | None
) -> None:
    """An error; given up; or an answer."""
    (lead,) = tree(tmp_path, [LEAD[0], last]).children

    assert lead.status == status
    assert (lead.error.code if lead.error else None) == error


def test_the_task_of_a_request_of_no_interface_is_its_path(tmp_path: Path) -> None:
    """A list of models has no prompt."""
    asked = ask()
    asked = type(asked)(
        api="other", model="", parameters={"method": "GET", "path": "/v1/models", "body": None}
    )

    (node,) = tree(tmp_path, [Exchange(asked, None)]).children

    assert (node.name, node.brief) == ("conversation 1", "GET /v1/models")


def test_parallel_conversations_read_the_same_in_any_order(tmp_path: Path) -> None:
    """A snapshot does not depend on which of two subagents asked first."""
    lead = talk(
        user("Plan a day."),
        says("", task("t1", "Find a place to eat"), task("t2", "Find a place to walk", "guide")),
        result("t1", "fish hall"),
        result("t2", "Fløyen"),
        says("Done."),
    )
    one = talk(system("You scout."), user("Find a place to eat"), says("fish hall"))
    two = talk(system("You guide."), user("Find a place to walk"), says("Fløyen"))
    first = record(tmp_path / "a.jsonl", [lead[0], *one, *two, lead[1]])
    second = record(tmp_path / "b.jsonl", [lead[0], *two, *one, lead[1]])

    texts = [render_text(delegation_tree(log)) for log in (first, second)]

    assert texts[0] == texts[1]


def test_the_text_of_a_tree(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    """As it stands in a snapshot test."""
    root = tree(tmp_path, [LEAD[0], *SCOUT, LEAD[1]])

    assert render_text(root) == snapshot


def test_a_torn_log_is_told_up_to_its_end(tmp_path: Path) -> None:
    """And says so."""
    log = record(tmp_path / "a.jsonl", LEAD)
    log.write_bytes(log.read_bytes()[:-7])

    root = delegation_tree(log)

    assert (root.log_state, root.status) == ("torn", "unfinished")
    assert root.children[0].requests == 2


def test_the_text_of_a_log_can_be_taken(tmp_path: Path) -> None:
    """For snapshots of logs."""
    text = log_text(record(tmp_path / "a.jsonl", LEAD))

    assert "Go to the fish hall." in text
    assert "x-refold.wire" not in text


def test_a_probe_is_folded_and_what_it_found_is_no_failure(tmp_path: Path) -> None:
    """Claude Code asks HEAD before anything else, to have a connection."""
    probe = Asked(api="other", model="", parameters={"method": "HEAD", "path": "/"})
    other = Asked(api="other", model="", parameters={"method": "GET", "path": "/models"})

    root = tree(tmp_path, [Exchange(each, None, "http_404") for each in (probe, other)])

    assert [(each.brief, each.status) for each in root.children] == [("GET /models", "failed")]
    assert (root.requests, root.beside, root.status) == (1, 1, "completed")
    root = attrs.evolve(root, children=())
    assert "model requests" not in render_text(root)


def test_a_request_for_a_title_is_folded_by_its_form(tmp_path: Path) -> None:
    """One request without tools about the task of the agent, whatever its words are."""
    known = Profile(name="x", hands_over={"Task": ("to",)}, left_out=("<note>.*?</note>",))
    tools = {"tools": [{"name": "Task"}]}
    main = talk(system("You lead."), user("<note>1</note>Plan a day."), says("Done."), **tools)
    for prompt, text, names in (
        ("Name it.", "Plan a day.", ["main"]),
        ("Name it.", "Name this: <s>Plan a day.</s>", ["main"]),
        ("You lead.", "Plan another day.", ["main", "main"]),
    ):
        title = talk(system(prompt), user(text), says("Bergen"), model="small")
        log = record(tmp_path / f"{len(text)}.jsonl", [*title, *main], profile=known)

        root = delegation_tree(log)

        assert [each.name for each in root.children] == names
        assert root.beside == 2 - len(names)


def test_each_run_of_a_known_program_has_a_main_agent(tmp_path: Path) -> None:
    """Of any other program, a conversation is it only if it is the only one."""
    made = [each for n in (1, 2) for each in talk(system(f"You lead {n}."), user("Go."), says("x"))]
    known = Profile(name="x", hands_over={"hand": ("to",)})
    both = record(tmp_path / "both.jsonl", made)
    one = record(tmp_path / "one.jsonl", made[:1])
    runs = record(tmp_path / "runs.jsonl", made, profile=known)
    names = [[each.name for each in delegation_tree(log).children] for log in (both, one, runs)]

    assert names == [["conversation 1", "conversation 2"], ["main"], ["main", "main"]]


def test_what_failed_and_was_tried_again_is_counted_and_a_cost_is_at_least(tmp_path: Path) -> None:
    """One answer of unknown cost does not hide that of all others; an error is free."""
    asked, answer = LEAD[0].asked, LEAD[0].answer
    answers = [
        ModelAnswered("error", error={"code": "http_529", "message": "busy"}),
        ModelAnswered("error", error={"code": "http_429", "message": "busy"}),
        ModelAnswered("error", says("a"), Usage(requests=1), error={"code": "cut", "message": "."}),
        ModelAnswered("ok", answer, Usage(input_tokens=1, requests=1, cost_usd_micros=210_000)),
    ]
    with ObservedLog(tmp_path / "a.jsonl", program="p", input=None, vault=Vault()) as log:
        observer = Observer(log)
        for each in answers:
            observer.answered(observer.asked(asked), each)
        observer.gone(observer.asked(LEAD[1].asked))
        log.seal("completed", "done")
    root = delegation_tree(tmp_path / "a.jsonl")
    (main,) = root.children
    *_, end = read_entries(tmp_path / "a.jsonl")

    assert main.requests_failed == {"529": 1, "429": 1, "cut": 1, "given up": 1}
    assert (main.requests, main.usage.cost_usd_micros) == (5, None)
    assert main.priced == main.own_priced == root.priced == Priced(usd_micros=210_000, unpriced=2)
    assert (end.meta["priced_usd_micros"], end.meta["priced_unpriced"]) == (210_000, 2)
    assert failures(main.requests_failed | {"cut": 2}) == " (5 failed: 529, 429, cut ×2, given up)"
    assert cost(root.usage, root.priced) == "at least $0.2100 (2 answers not counted)"
    assert cost(Usage(cost_usd_micros=1_500_000), Priced()) == "$1.50"
    assert cost(Usage(), Priced(unpriced=1)) == "cost \u2013"


REFUSALS = [
    ({"content": "failed to start: limit reached"}, "refused"),
    ({"content": {"error": "no such agent"}}, "refused"),
    ({"content": "no such agent", "is_error": True}, "refused"),
    ({"content": {"error": "none", "output": "x"}}, "completed"),
    ({"content": "it failed to start"}, "completed"),
]


@for_each("said, status", REFUSALS)
def test_a_delegation_that_was_refused_is_not_completed(
    said: dict[str, Any], status: str, tmp_path: Path
) -> None:
    """And counts as failed, by what a profile knows of its words; else as the tool's failure."""
    known = Profile(name="x", hands_over={"hand": ("to",)}, failures=("failed to start",))
    given = {**result("c", ""), **said}
    made = talk(user("Go."), says("", ("c", "hand", {"to": "sea"})), given, says("Done."))
    (main,) = delegation_tree(record(tmp_path / "a.jsonl", made, profile=known)).children

    assert [(leaf.name, leaf.how, leaf.status) for leaf in main.children] == [
        ("sea", "observed", status)
    ]
    assert main.tools[0].failed == (status == "refused")


_SCRIPT = (
    'Script completed\nWall time 0.1 seconds\nOutput:\n{"chunk_id":"8bef42","wall_time_seconds":'
)
CODEX = [
    ("collab spawn failed: agent thread limit reached", 1),
    ("unsupported call: nosuch", 1),
    ("Script failed\nWall time 0.0 seconds\nOutput:\nScript error:\nError: bad", 1),
    (_SCRIPT + '0.000007241,"exit_code":1,"output":"cat: nope"}', 1),
    (_SCRIPT + '0.000007241,"exit_code":0,"output":"\\"exit_code\\":1"}', 0),
    ("Chunk ID: 8bef42\nWall time: 0.1 seconds\nProcess exited with code 2\nOutput:\nno", 1),
    ("Wall time: 0.1 seconds\nProcess exited with code 0\nOutput:\nunsupported call: x", 0),
]


@for_each("said, failed", CODEX)
def test_failed_tools_of_codex_count_as_failed(said: str, failed: int, tmp_path: Path) -> None:
    """It says so in words alone."""
    known = next(each for each in shipped() if each.name == "Codex")
    made = talk(user("Go."), says("", ("c", "exec", {"input": "x"})), result("c", said), says("."))
    (main,) = delegation_tree(record(tmp_path / "a.jsonl", made, profile=known)).children

    assert [(use.tool, use.called, use.failed) for use in main.tools] == [("exec", 1, failed)]


@pytest.mark.parametrize("told", ["gAAAAABm" + "x" * 80, "Count the fish."])
def test_a_task_that_the_provider_encrypted_is_labelled(told: str, tmp_path: Path) -> None:
    """Unless the call that passes it can be read; of what stands beside it nothing is the task."""
    part = {"type": "encrypted_content", "encrypted_content": "gAAAAABm" + "x" * 80}
    sent = {"role": "user", "content": "Task:", "provider": {"responses": [{"content": [part]}]}}
    known = Profile(name="x", hands_over={"hand": ("to",)})
    call = says("", ("c", "hand", {"to": "sea", "message": told}))
    first, last = talk(system("You lead."), user("Go."), call, result("c", "six"), says("Six."))
    exchanges = [first, *talk(sent, says("six")), last]
    log = record(tmp_path / "a.jsonl", exchanges, profile=known)

    (main,) = delegation_tree(log).children
    (child,) = main.children

    assert child.brief == (told if " " in told else "encrypted by the provider")


def test_a_brief_is_what_says_something_of_the_task(tmp_path: Path) -> None:
    """Not where the agent is (Codex), nor an example of how to answer (aider)."""
    where, task, rules = "<environment>x</environment>", "Fix add.", "\nRules: be brief."
    first = talk(user(where), user(task), says("done"))
    last = talk(user("Example?"), says("So."), user(task + rules), says("done"))[-1:]
    where_left = Profile(name="x", left_out=(r"<environment>.*</environment>",))
    asking_last = Profile(name="x", left_out=(r"\nRules:.*",), asks_last=True)
    briefs = [
        delegation_tree(record(tmp_path / f"{at}.jsonl", made, profile=known)).children[0].brief
        for at, (made, known) in enumerate(
            [(first, where_left), (last, asking_last), (last, Profile(name="x"))]
        )
    ]

    assert briefs == [task, task, "Example?"]


def test_what_is_asked_beside_the_work_is_no_agent(tmp_path: Path) -> None:
    """Gemini CLI asks for each task, first, which model fits; the task's agent is shown once."""
    call = says("", ("c", "hand", {"to": "sea", "task": "Count the fish."}))
    first, last = talk(user("Go."), call, result("c", "six"), says("Six."))
    choosing = talk(system("\nYou choose."), user("Count the fish."), says("big"), model="small")
    working = talk(system("You count."), user("Count the fish."), says("six"))
    known = Profile(name="x", hands_over={"hand": ("to",)}, asides=("You choose",))
    log = record(tmp_path / "a.jsonl", [first, *choosing, *working, last], profile=known)

    (boss,) = delegation_tree(log).children
    (agent,) = boss.children

    assert (agent.name, agent.tool, agent.usage.input_tokens) == ("sea", "hand", 10)
    assert (boss.name, boss.requests, boss.beside, boss.models) == (
        "main",
        3,
        1,
        ("gpt-5", "small"),
    )
    assert (boss.own_usage.input_tokens, boss.usage.input_tokens) == (30, 40)
    assert Profile.in_rules({"profile": known.as_json()}).asides == known.asides


def test_what_a_session_handed_over_before_it_was_made_shorter_is_done(tmp_path: Path) -> None:
    """It goes on, so it has what came of it; what begins then is not below it."""
    boss, summary = system("You lead."), "Summary of our previous conversation: six."
    before = talk(boss, user("Plan."), says("", task("t1", BRIEF), ("b1", "bash", {"do": "ls"})))
    after = talk(boss, user(summary), says("fine"))
    title = talk(system("You write titles."), user("Plan a day"), says("Bergen"))

    first, second, other = tree(tmp_path, [*before, *after, *title]).children

    assert [(leaf.how, leaf.status) for leaf in first.children] == [("observed", "completed")]
    assert (second.how, second.children, other.how) == ("continues", (), "")


def test_what_was_handed_over_before_may_ask_later(tmp_path: Path) -> None:
    """An agent in the background is found below the call that began it."""
    boss, summary = system("You lead."), "Summary of our previous conversation: six."
    before = talk(boss, user("Plan."), says("", task("t1", BRIEF)))
    after = talk(boss, user(summary), says("fine"))

    first, _ = tree(tmp_path, [*before, *after, *SCOUT]).children

    assert [(each.name, each.how) for each in first.children] == [("scout", "prompt")]


@pytest.mark.parametrize(
    "choice", [{"type": "function", "function": {"name": "City"}}, {"type": "tool", "name": "City"}]
)
def test_an_object_that_was_asked_for_opens_nothing(choice: dict[str, Any], tmp_path: Path) -> None:
    """Its tool is never run (instructor); what is asked next stands beside it."""
    answer = says("", ("c1", "City", {"name": "Bergen"}))
    first = talk(user("Which city?"), answer, tool_choice=choice)
    second = talk(user("And which hill?"), says("Fløyen"))

    root = tree(tmp_path, [*first, *second])

    assert [(each.brief, each.how) for each in root.children] == [
        ("Which city?", ""),
        ("And which hill?", ""),
    ]


@for_each(
    "nonsense",
    [
        *({CONVERSATION: {name: 5}} for name in ("scope", "agent", "how", "call", "tool")),
        *({MESSAGES: {"added": added}} for added in (5, [5])),
        {MESSAGES: {"predecessor": [5]}},
    ],
)
def test_nonsense_about_a_conversation_is_damage(
    nonsense: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    """Where the chain of the log holds: it is told up to there."""
    said: dict[str, dict[str, Any]] = {
        CONVERSATION: {"scope": "0/1", "agent": "scout", "how": "prompt", "call": "0#1"},
        MESSAGES: {"predecessor": "", "added": []},
    }
    ((kind, wrong),) = nonsense.items()
    started = RunStarted(
        "p", None, 0, {}, "", [], {"format": 1}, {}, {}, "", "r", "r", guarantee="matched"
    )
    with LogWriter.create(tmp_path / "a.jsonl", started, durability="fast") as log:
        log.append(Extension(CONVERSATION, said[CONVERSATION]), "0#1")
        log.append(Extension(kind, said[kind] | wrong), "0#2")

    root = delegation_tree(tmp_path / "a.jsonl")

    assert (root.log_state, root.entries) == ("damaged", 2)
    assert [each.name for each in root.children] == ["scout"]


OFFERED = [{"type": "function", "function": {"name": "Write", "parameters": {}}}]
DENIED = "Claude requested permissions to write to /w/c.md, but you haven't granted it yet."


def test_what_a_subagent_did_is_told_beside_what_it_says(tmp_path: Path) -> None:
    """Of three that say that they are done, one did nothing, one was refused, one says nothing."""
    briefs = {
        "a": "Count the words of a.",
        "b": "Write the notes of b.",
        "c": "Read the list of c.",
    }
    lead = talk(
        user("Survey the notes."),
        says("", *(task(call, brief, call) for call, brief in briefs.items())),
        *(result(call, "done") for call in briefs),
        says("All is done."),
        tools=OFFERED,
    )
    idle = talk(user(briefs["a"]), says("It has 417 words."), tools=OFFERED)
    denied = talk(
        user(briefs["b"]),
        says("", ("w", "Write", {"file_path": "c.md"})),
        {**result("w", DENIED), "is_error": True},
        says("I wrote c.md."),
        tools=OFFERED,
    )
    mute = talk(
        user(briefs["c"]),
        says("", ("w", "Write", {"file_path": "d.md"})),
        result("w", "written"),
        says(" "),
        tools=OFFERED,
    )
    profile = next(each for each in shipped() if each.name == "Claude Code")
    made = [lead[0], *idle, *denied, *mute, lead[1]]

    (main,) = delegation_tree(record(tmp_path / "a.jsonl", made, profile=profile)).children

    assert {each.name: each.notable for each in (main, *main.children)} == {
        "main": {},
        "a": {"no_call": "made no call; 1 tool offered"},
        "b": {
            "refused": "calls were refused: Write",
            "last_call_failed": "its last call failed: Write",
        },
        "c": {"empty_answer": "its answer is empty"},
    }


def test_a_request_that_was_tried_again_is_told_in_a_snapshot(tmp_path: Path) -> None:
    """With why it failed."""
    (one,) = talk(user("Plan."), says("By bus."))
    made = [Exchange(one.asked, None, "http_429"), one]

    assert "model requests: 2 (1 failed: 429)" in render_text(tree(tmp_path, made))


def nodes(node: RunNode) -> list[RunNode]:
    return [node, *(each for child in node.children for each in nodes(child))]


HANDED = [
    *talk(user("Go."), says("", ("h", "transfer_to_other", {}))),
    *talk(system("The other."), user("Go."), says("", ("h", "transfer_to_other", {})),
          result("h", "ok"), says("Here I am."))[1:],
]  # fmt: skip
WATCHED = Path(__file__).parents[3] / "fixtures/logs/engine-2/watched.jsonl"
KEPT = [WATCHED, [LEAD[0], *SCOUT, LEAD[1]], [*LEAD, *SCOUT], HANDED]


@pytest.mark.parametrize("kept", KEPT, ids=["kept", "below", "after", "handed over"])
def test_in_no_prefix_of_a_log_is_an_agent_done_that_has_an_open_call(
    kept: Path | list[Exchange], tmp_path: Path
) -> None:
    """Nor is anything said of what it left: it runs, or was interrupted."""
    log = kept if isinstance(kept, Path) else record(tmp_path / "a.jsonl", kept)
    entries, lines = list(read_entries(log)), log.read_bytes().splitlines(keepends=True)
    waiting: dict[str, str] = {}
    for at, entry in enumerate(entries[:-1]):
        if entry.kind in ("tool.called", "model.asked"):
            waiting[entry.call or ""] = scope_of(entry.call or "")
        elif entry.kind in ("tool.returned", "model.answered", "effect.cancelled"):
            waiting.pop(entry.call or "", None)
        prefix = tmp_path / "prefix.jsonl"
        prefix.write_bytes(b"".join(lines[: at + 1]))
        busy = {*waiting.values()}
        for node in nodes(delegation_tree(prefix)):
            if node.scope in busy:
                assert node.status == "unfinished"
                said = node.notable, node.outlived_by, node.is_empty, node.last_failed
                assert not any(said)
    if kept is HANDED:
        assert "handoff" in {node.how for node in nodes(delegation_tree(log))}
        assert not any(node.notable for node in nodes(delegation_tree(log)))


def test_an_answer_that_was_not_read_is_not_called_empty(tmp_path: Path) -> None:
    """Of an embedding or a picture."""
    asked = Asked(api="other", model="m", parameters={"method": "POST", "path": "/v1/embeddings"})

    (node,) = tree(tmp_path, [Exchange(asked, None), Exchange(asked, None)]).children

    assert node.status == "completed"
    assert not node.notable


@pytest.mark.parametrize("order", [(0, 2, 1), (0, 1, 2)], ids=["before", "after"])
def test_who_ends_before_its_subagent_is_told(order: tuple[int, int, int], tmp_path: Path) -> None:
    """A task in the background answers at once that it was begun."""
    lead = talk(user("Go."), says("", task("t1", BRIEF)), result("t1", "begun"), says("Done."))
    made = [lead[0], *SCOUT, lead[1]]

    (main,) = tree(tmp_path, [made[at] for at in order]).children

    assert main.children[0].name == "scout"
    assert ("outlived" in main.notable) is (order[1] == 2)


def test_a_call_of_a_server_that_was_cancelled_is_over(tmp_path: Path) -> None:
    """The client that asked has left: nothing of the server broke off."""
    path = tmp_path / "a.jsonl"
    asked = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "a", "arguments": {}}}
    with ObservedLog(path, program="p", input=None, vault=Vault()) as log:
        observer = McpObserver(log, "tiny", 1, {"transport": "stdio", "command": ["x"]})
        for number in (1, 2):
            observer.client(asked | {"id": number})
        observer.gone("")
        log.seal("completed", "done")

    (server,) = OpenedRun(path).tree.children

    (use,) = server.tools
    assert (use.called, use.failed, use.cancelled) == (2, 0, 2)
    assert server.status == "completed"


def test_a_conversation_that_has_not_asked_yet_has_not_ended(tmp_path: Path) -> None:
    """Its beginning is an entry before its first request."""
    log = record(tmp_path / "whole.jsonl", LEAD)
    kinds = [entry.kind for entry in read_entries(log)]
    begun = cut(log, tmp_path / "a.jsonl", kinds.index(CONVERSATION) + 1)

    assert [each.status for each in OpenedRun(begun).unsettled.children] == ["unfinished"]


def test_a_log_whose_profile_is_nonsense_is_damaged(tmp_path: Path) -> None:
    """Whoever can hash can write one: it is told as damage, not as a fault of ours."""
    rules = {NAMED: {"name": "x", "asides": [5]}}
    with ObservedLog(
        tmp_path / "a.jsonl", program="p", input=None, vault=Vault(), rules=rules
    ) as log:
        log.seal("completed", "done")

    with pytest.raises(EventMalformed):
        OpenedRun(tmp_path / "a.jsonl")
