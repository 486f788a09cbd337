"""The delegation tree on a terminal: what `refold show` and the demo print.

One line a run: status, name, brief, duration; below it, if it did not complete, the reason.
`replay.run.opened_run` makes the nodes, `replay.run.tree_text` their text for reviews.
"""

import shlex
from collections.abc import Sequence
from typing import Any, Final, TypeVar, get_args

from refold.cli.output import output, words
from refold.cli.output.entries import compact
from refold.cli.output.output import Part
from refold.engine.events.outcome import Usage
from refold.replay.index.standing import OpenStatus
from refold.replay.run.run_node import UNFINISHED, RunNode, ToolUse
from refold.replay.run.tree_text import advice

_T = TypeVar("_T")
_STATUS_WIDTH: Final = 9
"""Characters of the column for a status, or the name of a detail."""
_PROMPT_MAX: Final = 160
"""Characters of the first request of a watched command's conversation."""
_BRIEF_MAX: Final = 600
"""Characters of a brief: it may be a prompt with all its documents."""
_MESSAGE_MAX: Final = 2000
"""Characters of why a run did not complete."""
_OPEN: Final = (UNFINISHED, *get_args(OpenStatus))
"""Statuses of a child without an end: its parent may have been waiting for it."""
_LEVELS_MAX: Final = 12
"""Levels that are indented; what lies deeper is shown at this one."""


def print_tree(
    node: RunNode, *, details: bool = False, marked: tuple[RunNode | None, str] = (None, "")
) -> None:
    """Print the tree below `node`; with `details`, what each run was granted and used too.

    One run is `marked` with a text.
    """
    stack: list[tuple[RunNode, str, str, tuple[str, ...]]] = [(node, "", "", ())]
    while stack:
        current, lead, below, above = stack.pop()
        is_told = not details and current.models != above  # else it has its caller's
        mark = marked[1] if current is marked[0] else ""
        _print_run(current, lead, below, mark, details=details, is_model_told=is_told)
        nested = [(*each, current.models) for each in branches(current.children, below)]
        if len(below) >= 3 * _LEVELS_MAX:
            nested = [(child, below, below, current.models) for child in current.children]
        stack.extend(reversed(nested))


def branches(children: Sequence[_T], below: str) -> list[tuple[_T, str, str]]:
    """Return each child with the beginnings of its line, and of the lines below it."""
    last = len(children) - 1
    return [
        (child, below + ("└─ " if at == last else "├─ "), below + ("   " if at == last else "│  "))
        for at, child in enumerate(children)
    ]


def _print_run(
    node: RunNode, lead: str, below: str, mark: str, *, details: bool, is_model_told: bool
) -> None:
    who = run_name(node.name, node.input) or "(never started)"
    number = f" {node.number}" if node.number else ""
    has_run = node.duration_ms is not None and node.status != "rejected"
    took = f"  {words.seconds(node.duration_ms or 0)}" if has_run else ""
    status, style = output.status(node.status)
    output.line(
        (lead, "dim"),
        (f"{status:<{_STATUS_WIDTH}}", style),
        (f" {who}{number}", "bold"),
        (took, "dim"),
        (mark, "yellow"),
        *_handed_over(node),
        cut=True,
    )
    inner = f"{below}{'│' if node.children else ' '}  "
    if is_model_told and node.models:
        output.line((inner, "dim"), f"{'model':<{_STATUS_WIDTH}} {', '.join(node.models)}")
    for fact in _facts(node, details=details):
        output.wrapped([(inner, "dim")], *fact)
    if details and node.log:  # a path is not broken, so that it can be copied
        entries = words.counted(node.entries, "entry", "entries")
        output.line((inner, "dim"), f"{'log':<{_STATUS_WIDTH}} {node.log}, {entries}")


def run_name(name: str, given: Any) -> str:
    """Return a run's name for people: an agent's with its role, `lead (agent)`.

    `name` is that of its node, or its program; `given` its input, as a log holds it.
    """
    agent = given.get("agent") if isinstance(given, dict) else None
    own = agent.get("name") if isinstance(agent, dict) else None
    return f"{own} ({name})" if name == "agent" and own and isinstance(own, str) else name


def _handed_over(node: RunNode) -> list[Part]:
    if node.guarantee:
        return [
            (f"  guarantee: {node.guarantee}", "yellow"),
            "  requests recorded, not the program",
        ]
    how = f" ({node.evidence})" if node.how else ""
    goes_on = how if node.how == "continues" else ""
    by = f" by {node.tool}{how}" if node.tool else goes_on
    brief = " ".join(str(node.brief).split())
    is_prompt = node.requests and not node.log  # of a conversation of a watched command
    brief = compact(brief, _PROMPT_MAX + 1 if is_prompt else _BRIEF_MAX)
    return [f"{by}  {brief}"] if brief or by else []


def _facts(node: RunNode, *, details: bool) -> list[list[Part]]:
    """Return the lines below a run: why it did not complete, and, if asked for, the rest."""
    facts: list[list[Part]] = [] if details and not node.guarantee else _seen(node)
    if ":" in node.standing and not any(":" in child.standing for child in node.children):
        facts.append([(node.standing, "yellow")])
    if node.changed:
        facts.append([f"files     {node.changed}"])
    if node.notable:
        facts.append([("; ".join(node.notable.values()), "yellow")])
    if node.error is not None:
        message = compact(" ".join(node.error.message.split()), _MESSAGE_MAX)
        where = f"  {node.where}" if node.where else ""
        said = (node.error.code, "red"), f": {message}", (where, "dim")
        facts.append([*said, advice(node.error.message)])
    for limit, count in node.refused.items():
        refused = f"{words.counted(count, 'child run')} refused by the default limit {limit}"
        facts.append([(refused, "yellow")])
    if not (node.is_joined or node.status in _OPEN):
        facts.append([("it was not joined", "yellow")])
    if node.log_state not in ("read", "none"):
        state = "another run's" if node.log_state == "foreign" else node.log_state
        facts.append([(f"its log is {state}", "red")])
    if node.truncated is not None and node.truncated.by == "limit":
        kept, seen = node.truncated.kept_bytes, node.truncated.seen_bytes
        facts.append([f"output cut: {words.size(kept)} of {words.size(seen)} kept"])
    more: list[list[Part]] = [[fact] for fact in _details(node)] if details else []
    return facts + more


def _seen(node: RunNode) -> list[list[Part]]:
    """Describe the work of a watched command's conversation, or of the command itself."""
    if node.guarantee:
        given = node.input.get("command") if isinstance(node.input, dict) else None
        if not isinstance(given, list) or not given:  # held open: it started none
            return []
        return [[f"command   {shlex.join(map(str, given))}"]]
    uses = ", ".join(map(_use, node.tools))
    if uses and not node.requests and node.log_state == "none":  # an MCP server
        return [[f"tools: {uses}"]]
    if not node.requests or node.log or not node.is_joined:
        return []
    told = _asked(node)
    return [[f"{told}; tools: {uses}" if uses else told]]


def _asked(node: RunNode) -> str:
    """Return the number of model requests, and the tokens of its own and with its subagents."""
    beside = f" ({node.beside} beside the work)" if node.beside else ""
    told = words.requests(node.requests, node.requests_failed) + beside
    if not words.tokens(node.usage):
        return told
    spent = words.spent(node.usage, node.priced)
    if not node.children:
        return f"{told}, {spent}"
    own = f", {words.spent(node.own_usage, node.own_priced)}" if node.own_usage != Usage() else ""
    return f"{told}{own}; with its subagents: {spent}"


def _use(use: ToolUse) -> str:
    return f"{use.tool} ×{use.called}{use.ends_text()}"


def _details(node: RunNode) -> list[str]:
    limits = ", ".join(f"{name} {value}" for name, value in node.narrowed.items())
    tools = ", ".join(map(_use, node.tools))
    artifacts = ", ".join(f"{kind} {name}".rstrip() for kind, name in node.artifacts)
    facts: dict[str, Any] = {
        "limits": limits,
        "tools": tools,
        "model": ", ".join([*node.models, _asked(node)]) if node.requests else "",
        "artifacts": artifacts,
        "call": ", run ".join(filter(None, (node.call, node.run_id))) if node.call else "",
    }
    return [f"{name:<{_STATUS_WIDTH}} {fact}" for name, fact in facts.items() if fact]
