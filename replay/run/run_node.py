"""The nodes of a delegation tree: frozen values, one per run or rejected start; and their sums.

Nothing here reads a log: `replay.run.opened_run` does. The rules are CONTRACT.md §13.9.
"""

from collections import Counter
from typing import Any, Final, Literal

import attrs

from refold.engine.encoding.document import Document
from refold.engine.events.outcome import CUT, Fault, Priced, Truncated, Usage
from refold.engine.values import Value
from refold.replay.difference.pointer_diff import counted
from refold.replay.index.standing import STANDINGS

LogState = Literal["read", "torn", "none", "missing", "damaged", "foreign"]
"""`read`: to its end · `torn`: its last line is cut · `none`: the run wrote none (rejected, or it
ended before it began) · `missing`: it should be there · `damaged`: read up to where it does not
verify · `foreign`: another run's log lies in its place, and was not read."""

COMPLETED: Final = "completed"
CANCELLED: Final = "cancelled"
UNFINISHED: Final = "unfinished"
"""The status of a run without a recorded end."""
OBSERVED: Final = "observed"
"""How a delegation is known whose conversation was not seen."""
REFUSED: Final = "refused"
"""The status of a delegation that an agent program refused: no conversation of it began."""


@attrs.define
class ToolUse:
    """How often a run called a tool, and how those calls ended."""

    tool: str
    called: int = 0
    failed: int = 0
    refused: int = 0
    """How many of those that failed were refused, and did nothing."""
    cancelled: int = 0

    def ends_text(self) -> str:
        """Return the counts of bad ends: ` (2 failed, 1 of them refused)`."""
        refused = f", {self.refused} of them refused" if self.refused else ""
        ends = (
            f"{self.failed} failed{refused}" if self.failed else "",
            f"{self.cancelled} cancelled" if self.cancelled else "",
        )
        said = ", ".join(filter(None, ends))
        return f" ({said})" if said else ""


@attrs.frozen(kw_only=True)
class FileUse(Value):
    """What became of one file while a command, or one conversation of it, was at work."""

    path: str
    """As a log holds it, relative to the recorded folder."""
    change: Literal["added", "changed", "removed"]
    lines_added: int | None = None
    """`None` where that is not known of each change."""
    lines_removed: int | None = None
    is_sole: bool = True
    """Whether nobody else can have made any of the changes."""


@attrs.frozen(kw_only=True)
class RunNode(Document):
    """One run, or one start that was rejected, and the runs below it."""

    computed = ("changed", "notable")
    hidden = ("question",)

    name: str
    """The agent if any, else the program; empty for a rejected start."""
    agent: str = ""
    program: str = ""
    brief: str = ""
    """The task in words, whole."""
    input: Any = None
    tool: str = ""
    """The dialect that asked; empty for a root and for a program's own start."""
    call: str = ""
    """The call key of the start, in the parent's log; empty for a root."""
    number: int = 0
    """1-based, in the order of starts; 0 for a root and for a rejected start."""
    depth: int = 0
    status: str = UNFINISHED
    """From the parent's log, else from the run's own log; `unfinished` if neither has it."""
    standing: str = ""
    """Its standing without an end, in words: `waits for you: May I?` (`replay.run.opened_run`)."""
    question: str | None = None
    """The first open question of the run, or of one below it; `None` if nobody waits for it."""
    is_joined: bool = True
    """Whether the parent was given the outcome; true for a root."""
    reason: str = ""
    """From its own `run.finished`."""
    error: Fault | None = None
    where: str = ""
    """File and line of the program that raised, `app.py:26`."""
    refused: dict[str, int] = attrs.field(factory=dict)
    """How often a ceiling that nobody set refused a child, by limit."""
    limits: dict[str, Any] = attrs.field(factory=dict)
    """As granted."""
    narrowed: dict[str, Any] = attrs.field(factory=dict)
    """Limits that differ from those that a child gets by default from its parent; for the tree's
    top run, from the ceilings of a root."""
    tools_granted: tuple[str, ...] | None = None
    """Names, if the start listed them; `None`: all of the parent's."""
    truncated: Truncated | None = None
    tools: tuple[ToolUse, ...] = ()
    """Calls by the run itself, in the order of first use."""
    files: tuple[FileUse, ...] = ()
    """Files that a watched command changed, or one conversation of it, by path."""
    models: tuple[str, ...] = ()
    """The models that the run itself asked, as `openai:gpt-4o`, in the order of first use."""
    offered: tuple[str, ...] = ()
    """The names of the tools that the first request of a conversation offered; for a run on the
    kernel, of the tools that it had, if a request offered any."""
    prompt: str = ""
    """For a conversation: 12 hex digits of the digest of its system prompt, without text that
    changes on every run (`replay.run.steady`); empty without one."""
    last_failed: str = ""
    """The tool of its last call, if that call failed."""
    outlived_by: int = 0
    """How many of its children had no answer yet when it ended; those that its program cancelled
    before, such as the loser of a race, do not count."""
    is_empty: bool = False
    """Whether its answer is blank."""
    requests: int = 0
    """Model requests of the run itself."""
    beside: int = 0
    """Those of them that were beside the work of a watched command: whether a server is there, a
    title, which model fits."""
    requests_failed: dict[str, int] = attrs.field(factory=dict)
    """How often its requests failed, by reason: `429`, `connection`, `cut`, `given up`."""
    priced: Priced = attrs.field(factory=Priced)
    """For a watched command and its conversations: the known cost, including all below."""
    own_priced: Priced = attrs.field(factory=Priced)
    """Likewise, of the conversation itself."""
    usage: Usage = attrs.field(factory=Usage)
    """Tokens and cost, including all runs below."""
    own_usage: Usage = attrs.field(factory=Usage)
    """Tokens and cost of the run itself."""
    artifacts: tuple[tuple[str, str], ...] = ()
    """(kind, name) of each."""
    children: tuple["RunNode", ...] = ()
    """In the order of starts and rejections."""
    log_state: LogState = "read"
    log: str = ""
    """The actual or expected path of its log; empty for `none`."""
    run_id: str = ""
    entries: int = 0
    """Entries of its log that verify."""
    head: str = ""
    """Hash of the last of them."""
    duration_ms: int | None = None
    """How long it ran: the time between a crash or a question and its resume is not counted."""
    ended_us: int | None = None
    """When its end was written, in microseconds since 1970; `None` if that is not recorded."""
    guarantee: str = ""
    """`matched` for a watched command, which did not run on the kernel (CONTRACT.md §16); the nodes
    below it are conversations, as observed."""
    scope: str = ""
    """For a conversation: the scope of its call keys; empty for all else."""
    how: str = ""
    """For a conversation below a different one: the evidence for that (CONTRACT.md §16.5);
    `observed` for a delegation whose conversation is unknown."""
    is_provisional: bool = False
    """Whether nothing has confirmed yet that the call above opened the conversation."""

    @property
    def evidence(self) -> str:
        """`how` for people; empty for none."""
        return f"{self.how}, provisional" if self.is_provisional else self.how

    @property
    def changed(self) -> str:
        """How many files were added, changed and removed: `+2 ~3 -1`; empty for none."""
        marks = (("+", "added"), ("~", "changed"), ("-", "removed"))
        numbers = [(mark, sum(use.change == word for use in self.files)) for mark, word in marks]
        unsure = sum(not use.is_sole for use in self.files)
        told = " ".join(f"{mark}{number}" for mark, number in numbers if number)
        return f"{told} ({unsure} perhaps by others)" if unsure else told

    @property
    def notable(self) -> dict[str, str]:
        """Notable facts about a completed run that its answer may hide, as texts; empty for none.

        They are observations, not verdicts: a child that only had to think makes no call.
        """
        if self.status != COMPLETED:
            return {}
        refused = [use.tool for use in self.tools if use.refused]
        is_idle = self.call and self.requests and not (self.tools or self.children)
        offered = counted(len(self.offered), "tool")
        told = {
            "no_call": is_idle and self.offered and f"made no call; {offered} offered",
            "refused": refused and f"calls were refused: {', '.join(refused)}",
            "last_call_failed": self.last_failed and f"its last call failed: {self.last_failed}",
            "outlived": self.outlived_by
            and f"ended without the answer of {counted(self.outlived_by, 'subagent')}",
            "cut_answer": self.reason == CUT and "its answer was cut off by the provider",
            "empty_answer": self.is_empty and "its answer is empty",
        }
        return {what: words for what, words in told.items() if words}

    def as_json(self) -> dict[str, Any]:
        """Return the node and all nodes below it as plain data."""
        named = [{"kind": kind, "name": name} for kind, name in self.artifacts]
        return super().as_json() | {"artifacts": named}


_NOT_FAILED: Final = ("completed", UNFINISHED, *STANDINGS)


def totals(tree: RunNode) -> dict[str, Any]:
    """Return the sums of a tree: runs by status, tool calls, requests, tokens and cost.

    `own` is the root's, `all` with all runs below it; a cost that is not known is `None`.
    `unseen` are delegations of a watched command of which no conversation is known, by status.
    """
    nodes = below(tree)
    runs = [node.status for node in nodes[1:] if node.how != OBSERVED]
    unseen = [node.status for node in nodes if node.how == OBSERVED]
    statuses, all_of = Counter(runs), Counter(runs + unseen)
    uses = [use for node in nodes for use in node.tools]
    return {
        "runs": len(runs) + 1,
        "subagents": len(runs),
        "statuses": dict(statuses),
        "unseen": dict(Counter(unseen)),
        "completed": statuses["completed"],
        "failed": sum(all_of.values()) - sum(all_of[each] for each in _NOT_FAILED),
        "notable": sum(bool(node.notable) for node in nodes),
        "tools": sum(use.called for use in uses),
        "tools_failed": sum(use.failed for use in uses),
        "requests": sum(node.requests for node in nodes),
        "requests_failed": dict(sum((Counter(node.requests_failed) for node in nodes), Counter())),
        "own": _spent(tree.own_usage),
        "all": _spent(tree.usage),
    }


def _spent(usage: Usage) -> dict[str, int | None]:
    names = ("input_tokens", "output_tokens", "cost_usd_micros")
    untold = {"untold": usage.untold} if usage.untold else {}
    return {name: getattr(usage, name) for name in names} | untold


def below(tree: RunNode) -> list[RunNode]:
    """Return a node and all below it, parents first."""
    nodes = [tree]
    for node in nodes:
        nodes.extend(node.children)
    return nodes
