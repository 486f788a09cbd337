"""The log of a watched command: its conversations, as they were observed.

A conversation is a node: its agent, first request, opening tool call, usage, and last answer's
status. A delegating tool call without an observed conversation is a leaf. A log is streamed; only
the first two messages of each conversation are kept. If several calls may have changed a file, each
of their conversations has it, marked as uncertain; a file that is back in its original state does
not count. Rules: CONTRACT.md §16.5, §16.16; `replay.run.run_node` defines a node.
"""

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.encoding import digest
from refold.engine.errors import EventMalformed, FolderRefused
from refold.engine.events import events
from refold.engine.events.codec import members
from refold.engine.events.events import scope_of
from refold.engine.events.outcome import Fault, Priced, Usage
from refold.engine.log.reader import Entry
from refold.engine.models.prices import Prices
from refold.engine.observed.binding import FOLDERS
from refold.engine.observed.links import Links, delegated
from refold.engine.observed.observer import is_end
from refold.engine.observed.openers import HANDOFF
from refold.engine.observed.profile import NO_PROFILE, Profile
from refold.engine.wire.parts.exchange import LATER, METHOD, PLACE
from refold.engine.workspace.entries import FileChange, FolderChanged, read_entry
from refold.engine.workspace.paths import as_text
from refold.engine.workspace.tree import TreeEntry
from refold.replay.index.guarantee import MATCHED
from refold.replay.observed.titles import name_of_root, place_in, text_of
from refold.replay.run.reading import AgentWork, Reading, Span
from refold.replay.run.run_node import OBSERVED, REFUSED, UNFINISHED, FileUse, RunNode
from refold.replay.run.steady import Steady
from refold.replay.run.turns import TASKS

ROOT: Final = "0"
"""The scope of the command itself, in which all changes are."""


@attrs.define
class _Use:
    """All changes of one file."""

    before: TreeEntry | None
    after: TreeEntry | None = None
    lines: tuple[int, int] | None = (0, 0)
    is_sole: bool = True

    def take(self, change: FileChange, *, is_sole: bool) -> None:
        """Add a change."""
        self.after = change.after
        self.is_sole = self.is_sole and is_sole
        if self.lines is None or change.added is None or change.removed is None:
            self.lines = None
        else:
            self.lines = (self.lines[0] + change.added, self.lines[1] + change.removed)


class FileUses:
    """Adds up the changes of a log."""

    def __init__(self) -> None:
        self._by_scope: dict[str, dict[str, _Use]] = {}

    def take(self, entry: FolderChanged) -> None:
        """Take the changes of an entry."""
        for change in entry.changes:
            scopes = dict.fromkeys(map(scope_of, entry.suspects(change)))
            for scope in dict.fromkeys((ROOT, *scopes)):
                uses = self._by_scope.setdefault(scope, {})
                use = uses.setdefault(change.path, _Use(change.before))
                use.take(change, is_sole=scope == ROOT or len(scopes) == 1)

    def of(self, scope: str) -> tuple[FileUse, ...]:
        """Return the files of a conversation, or with `ROOT` of the command, by path."""
        found = sorted(self._by_scope.get(scope, {}).items())
        return tuple(_file_use(path, use) for path, use in found if use.before != use.after)


def _file_use(path: str, use: _Use) -> FileUse:
    added, removed = use.lines or (None, None)
    return FileUse(
        path=as_text(path),
        change="added" if use.before is None else "removed" if use.after is None else "changed",
        lines_added=added,
        lines_removed=removed,
        is_sole=use.is_sole,
    )


ENCRYPTED: Final = "encrypted by the provider"
"""The brief of a task that only the provider can read (Codex)."""
_SEALED: Final = re.compile(r"[\w+/=-]{60,}")
"""How a text looks that the provider encrypted."""

GIVEN_UP: Final = "given up"
"""Why a request has no answer that the program did not wait for."""


@attrs.frozen
class _Opening:
    """The beginning of a chain of messages."""

    system: str = ""
    user: str = ""

    def then(self, message: Mapping[str, Any], profile: Profile) -> "_Opening":
        """Return it with one more message, which replaces one that does not describe the task."""
        role = message.get("role")
        if role == "system" and not self.system:
            return _Opening(text_of(dict(message)), self.user)
        if role == "user" and (profile.asks_last or not profile.plain(self.user)):
            said = ENCRYPTED if _is_encrypted(message.get("provider")) else text_of(dict(message))
            return _Opening(self.system, said)
        return self


@attrs.define
class _Talk(AgentWork):
    """One conversation while it is read."""

    scope: str = ""
    agent: str = ""
    opener: str = ""
    tool: str = ""
    how: str = ""
    opening: _Opening | None = None
    is_probe: bool = False
    """Whether it only checks that a server is reachable (HEAD): any answer will do."""
    fetches: int = 0
    """Those of its requests that fetched the answer to another one."""
    priced: Priced = Priced()
    status: str = UNFINISHED
    error: Fault | None = None
    said: str | None = None
    """The text of the last answer, or the tools that it calls; `None` if none could be read."""
    over: int = 0
    """The last entry of it."""
    offered: str = ""
    """The digest of the tools that its first request offered."""
    span: Span = attrs.field(factory=Span)
    """From the first request to the last answer."""


class WatchedLog(Reading):
    """Reads one log."""

    UNKEPT = Reading.UNKEPT | {"profile", "steady", "_shown", "_beside", "_roots", "_open"}

    def __init__(self, path: Path, prices: Prices | None = None) -> None:
        super().__init__(path, prices)
        self._offers: dict[str, tuple[str, ...]] = {}
        """By the digest of tools: their names."""
        self._talks: dict[str, _Talk] = {}
        self._calls: dict[str, RunNode] = {}
        """Tool calls, and delegations found in text, each as a possible leaf."""
        self._delegating: set[str] = set()
        """Those of them that hand work over."""
        self._openings: dict[str, _Opening] = {"": _Opening()}
        self._links = Links()
        self._shown: dict[str, _Talk] = {}
        """Conversations with a node."""
        self._beside: dict[str, list[_Talk]] = {}
        """By the conversation above: conversations without a node of their own."""
        self._roots: list[str] = []
        self._open = frozenset[str]()
        """Conversations that wait for an answer or a result, if the log has no end."""
        self._files = FileUses()
        self._ends: dict[str, str] = {}
        """By open request: the chain digest of all that was asked."""

    @functools.cached_property
    def profile(self) -> Profile:
        """The profile that the recording had."""
        return NO_PROFILE if self.started is None else Profile.in_rules(self.started.rules)

    @functools.cached_property
    def steady(self) -> Steady:
        """What changes on every run of the command."""
        return Steady({} if self.started is None else self.started.rules)

    def model_name(self, asked: Mapping[str, Any]) -> str:
        """Return the model of a request, with the provider of its API."""
        from refold.engine.wire.apis import FORMATS, spoken  # noqa: PLC0415 - only with prices

        said = asked.get("parameters", {})
        found = spoken("POST", said.get(PLACE, ""))
        route = FORMATS[said["api"]].route.name if said.get("api") in FORMATS else ""
        return f"{(found and found[1].provider) or route}:{asked.get('model')}"

    def note(self, entry: Entry) -> None:
        """Keep the data of an entry that describes its conversation."""
        if entry.kind in (events.WIRE, events.FOLDER):
            self._note_files(entry)
            return
        call = entry.call or ""
        match self.event(entry):
            case events.RunStarted() as started:
                self.profile, self.steady = Profile.in_rules(started.rules), Steady(started.rules)
                self.started = started
                self.folder = str((started.rules.get(FOLDERS) or {}).get("folder") or "")
            case events.RunFinished() as finished:
                self.finished = finished
            case events.Extension(kind=kind, data=data):
                self._take_entry(kind, data)
            case events.ModelAsked() as asked:
                self._asked(self._talk(call, entry), call, asked)
            case events.ModelAnswered() as answered:
                self._answered(self._talk(call, entry), call, answered)
            case events.EffectCancelled(kind="model"):
                talk = self._talk(call, entry)
                self._ends.pop(call, None)
                talk.status, talk.error = "cancelled", None
                talk.priced = talk.priced.plus(Priced(unpriced=1))
                talk.failed[GIVEN_UP] += 1
            case events.EffectCancelled(kind="tool") if call in self._calls:
                self._talk(call, entry).ended(call, cancelled=True)
                self._calls[call] = attrs.evolve(self._calls[call], status="cancelled")
            case events.ToolCalled(tool=tool, arguments=arguments):
                self._talk(call, entry).called(call, tool)
                whom = delegated(tool, arguments, self.profile)
                self._calls[call] = _leaf(call, tool, arguments, whom)
                if whom is not None:
                    self._delegating.add(call)
            case events.ToolReturned(result=result, error=error) if call in self._calls:
                is_failed = error is not None or self.profile.is_failure(result)
                said = result if error is None else error.get("message")
                ended = "failed" if is_failed else "completed"
                self._calls[call] = attrs.evolve(self._calls[call], status=ended)
                refused = self.profile.is_refusal(said)
                self._talks[scope_of(call)].ended(call, failed=is_failed, refused=refused)
        self._links.take(entry.kind, call, entry.seq, entry.data, entry.cause)

    def _note_files(self, entry: Entry) -> None:
        """Keep which files changed; the transport of an answer is ignored."""
        if entry.kind != events.FOLDER:
            return
        event = self.event(entry)
        assert isinstance(event, events.Extension)
        try:
            said = read_entry(event.data)
        except FolderRefused as error:
            raise EventMalformed(events.FOLDER, "", error.expected, error.found) from None
        if isinstance(said, FolderChanged):
            self._files.take(said)

    # --- conversations -------------------------------------------------------------------

    def _take_entry(self, kind: str, data: Mapping[str, Any]) -> None:
        """Take an entry that is not a request."""
        if kind == events.CONVERSATION:
            begun = members(events.ConversationBegun, data, kind)
            talk = self._talks.setdefault(begun.scope, _Talk(scope=begun.scope))
            talk.agent, talk.how = begun.agent, begun.how
            talk.opener, talk.tool = begun.call, begun.tool
        elif kind == events.TOOLS:
            self._offers[data["digest"]] = tuple(_names_of(data["tools"]))
        elif kind == events.MESSAGES:
            self._chain(data["predecessor"], data["added"])

    def _talk(self, call: str, entry: Entry) -> _Talk:
        scope = scope_of(call)
        talk = self._talks.setdefault(scope, _Talk(scope=scope))
        talk.span.take(entry)
        talk.over = entry.seq
        return talk

    def _chain(self, at: str, messages: list[dict[str, Any]]) -> str:
        opening = self._openings.get(at, _Opening())
        for message in messages:
            at, opening = digest.chained(at, message), opening.then(message, self.profile)
            self._openings[at] = opening
        return at

    def _asked(self, talk: _Talk, call: str, asked: events.ModelAsked) -> None:
        end = self._ends[call] = self._chain(asked.predecessor, asked.added)
        talk.requests += 1
        talk.fetches += METHOD in asked.parameters
        if asked.model:
            talk.models[asked.model] = None
        talk.status, talk.error = UNFINISHED, None
        talk.is_probe = asked.parameters.get("method") == "HEAD" and not end
        if talk.opening is None and end:
            talk.opening, talk.offered = self._openings[end], asked.tools
        elif talk.opening is None:  # a request without messages
            talk.opening = _Opening(user=place_in(asked.parameters))

    def _answered(self, talk: _Talk, call: str, answered: events.ModelAnswered) -> None:
        talk.usage = talk.usage.plus(answered.usage)
        talk.priced = talk.priced.plus(Priced.of(answered.usage, answered.message))
        end = self._over(call, answered)
        if answered.status == "ok" or talk.is_probe:
            talk.status = UNFINISHED if answered.stop_reason in LATER else "completed"
        else:
            error = answered.error or {}
            code, message = str(error.get("code", "")), str(error.get("message", ""))
            talk.status, talk.error = "failed", Fault(code=code, message=message)
            talk.failed[code.removeprefix("http_")] += 1
        if answered.message is not None:
            talk.said = text_of(answered.message) or "".join(
                str(each.get("name")) for each in answered.message.get("tool_calls") or ()
            )
            self._chain(end, [answered.message])

    def _over(self, call: str, answered: events.ModelAnswered) -> str:
        """Close what an answer ends; return the chain digest of the messages that it answers.

        A request whose answer is fetched later is open until then.
        """
        end = self._ends.get(call, "")
        same = [key for key, asked in self._ends.items() if asked == end and key != call]
        fetched = [key for key in same if scope_of(key) == scope_of(call)]
        if answered.stop_reason not in LATER or fetched:
            self._ends.pop(call, None)
        for key in fetched if is_end(answered) else ():
            del self._ends[key]
        return end

    # --- nodes ---------------------------------------------------------------------------

    def root(self) -> RunNode:
        """Return the node of the command."""
        self._fold()
        self._roots = [
            talk.scope
            for talk in self._shown.values()
            if self._links.above(talk.scope) == "0" and talk.models
        ]
        open_talks = (scope for scope, talk in self._talks.items() if talk.open)
        waiting = () if self.finished is not None else (*map(scope_of, self._ends), *open_talks)
        self._open = frozenset(waiting) - self._links.past
        children = self._below("0", 1)
        own = self._with_beside(_Talk(scope="0"))
        return RunNode(
            **self.root_facts() | self.facts() | own,
            guarantee=MATCHED,
            files=self._files.of(ROOT),
            usage=_total(own["own_usage"], children),
            priced=_priced(own["own_priced"], children),
            children=children,
        )

    def _fold(self) -> None:
        """Choose the conversations with nodes; side requests that opened nothing have none."""
        self._shown, self._beside = {}, {}
        above = {self._links.above(scope) for scope in self._talks}
        titles = self.profile.titles(
            {
                scope: (talk.requests, bool(self._offers.get(talk.offered)), talk.opening.user)
                for scope, talk in self._talks.items()
                if self._links.above(scope) == "0" and talk.opening is not None
            }
        )
        for scope, known in self._talks.items():
            talk = known
            if self._links.standing(scope) == "dropped":
                talk = attrs.evolve(known, agent="", opener="", tool="", how="")
            system = talk.opening.system if talk.opening is not None else ""
            is_beside = talk.is_probe or scope in titles or self.profile.is_aside(system)
            if is_beside and scope not in above and not talk.opener:
                self._beside.setdefault(self._links.above(scope), []).append(talk)
            else:
                self._shown[scope] = talk
        self.asides = {above: [each.scope for each in of] for above, of in self._beside.items()}

    def _with_beside(self, talk: _Talk) -> dict[str, Any]:
        """Return the fields of a node about what it did itself, its side requests included."""
        beside = self._beside.get(talk.scope, ())
        every = [talk, *beside]
        whole = attrs.evolve(
            talk,
            requests=sum(each.requests for each in every),
            usage=reduce(Usage.plus, (each.usage for each in every)),
            failed=sum((each.failed for each in every), Counter()),
            models={name: None for each in every for name in each.models},
        )
        return whole.facts() | {
            "beside": talk.fetches + sum(each.requests for each in beside),
            "own_priced": reduce(Priced.plus, (each.priced for each in every)),
        }

    def _below(self, scope: str, depth: int) -> tuple[RunNode, ...]:
        """Return the conversations below one, and its delegations without a known conversation."""
        talks = [talk for talk in self._shown.values() if self._links.above(talk.scope) == scope]
        opened = {talk.opener for talk in self._shown.values()}
        nodes = [self._node(talk, depth) for talk in talks]
        for key, leaf in self._calls.items():
            if key in self._delegating and scope_of(key) == scope and key not in opened:
                # What a session goes on as knows what came of its calls.
                is_done = scope in self._links.past and leaf.status == UNFINISHED
                status = "completed" if is_done else leaf.status
                # What a known program hands over, it asks here: nothing was asked.
                status = REFUSED if status == "failed" and self.profile.name else status
                nodes.append(attrs.evolve(leaf, depth=depth, status=status))
        return tuple(nodes)

    def _node(self, talk: _Talk, depth: int) -> RunNode:
        children = self._below(talk.scope, depth + 1)
        opening = talk.opening or _Opening()
        number = talk.scope.rpartition("/")[2]
        own = self._with_beside(talk)
        status = talk.status if talk.requests else self._of_calls(talk.scope)
        if is_open := talk.scope in self._open:
            status, own["last_failed"] = UNFINISHED, ""
        return RunNode(
            name=name_of_root(talk.scope, talk.agent, self._roots, self.profile)
            or (f"conversation {number}" if number.isdigit() else number),
            agent=talk.agent,
            brief=self._brief(talk.opener, opening.user),
            tool=talk.tool,
            call=talk.opener,
            depth=depth,
            scope=talk.scope,
            how=talk.how,
            is_provisional=self._links.standing(talk.scope) == "provisional",
            status=status,
            error=None if is_open else talk.error,
            files=self._files.of(talk.scope),
            priced=_priced(own["own_priced"], children),
            offered=self._offers.get(talk.offered, ()),
            outlived_by=0 if is_open else self._outlived_by(talk, children),
            is_empty=not is_open and talk.said is not None and not talk.said.strip(),
            prompt=self.steady.digest(opening.system),
            usage=_total(own["own_usage"], children),
            children=children,
            log_state="none",
            duration_ms=talk.span.duration_ms() if status != UNFINISHED else None,
            **own,
        )

    def _outlived_by(self, talk: _Talk, children: tuple[RunNode, ...]) -> int:
        """Return how many children that a call of it opened ended after it, or not at all.

        It waits for none to which it handed over.
        """
        ends = {child.scope: self._talks[child.scope].over for child in children if child.scope}
        return sum(
            child.status == UNFINISHED or ends.get(child.scope, 0) > talk.over
            for child in children
            if child.call and child.how != HANDOFF
        )

    def _brief(self, opener: str, said: str) -> str:
        """Return a conversation's task: its first user message, or its opening call's text."""
        plain = self.profile.plain(said)
        known = self._calls.get(opener)
        told = known.brief if known is not None and self.profile.name else ""
        is_said = plain and plain != ENCRYPTED and told in plain
        return plain if is_said else told or plain or said

    def _of_calls(self, scope: str) -> str:
        """Return the status of a scope in which no model was asked: of a server of tools.

        One without a call may be a conversation that is about to ask.
        """
        ends = {call.status for key, call in self._calls.items() if scope_of(key) == scope}
        is_open = UNFINISHED in ends or not (ends or self.finished)
        return UNFINISHED if is_open else "completed"


def _leaf(key: str, tool: str, arguments: Mapping[str, Any], whom: str | None) -> RunNode:
    agent = whom or ""
    brief = next((said for name in TASKS if isinstance(said := arguments.get(name), str)), "")
    return RunNode(
        name=agent or tool,
        agent=agent,
        brief=ENCRYPTED if _SEALED.fullmatch(brief) else brief,
        tool=tool,
        call=key,
        how=OBSERVED,
        log_state="none",
    )


def _names_of(tools: Iterable[Any]) -> Iterator[str]:
    """Yield the names of tools that a request defines, in the shape of any provider."""
    for tool in tools:
        if not isinstance(tool, dict):  # a mistake of the program, which its server refuses
            yield ""
        elif isinstance(listed := tool.get("functionDeclarations"), list):
            yield from _names_of(listed)
        else:
            inside = tool.get("function")
            named = inside if isinstance(inside, dict) else tool
            yield str(named.get("name") or tool.get("type") or "")


def _total(own: Usage, children: tuple[RunNode, ...]) -> Usage:
    return reduce(Usage.plus, (child.usage for child in children), own)


def _priced(own: Priced, children: tuple[RunNode, ...]) -> Priced:
    return reduce(Priced.plus, (child.priced for child in children), own)


def _is_encrypted(original: Any) -> bool:
    """Return whether a part of a message as it was sent is one that only the provider can read."""
    parts = original.values() if isinstance(original, dict) else original
    if isinstance(original, dict) and original.get("type") == "encrypted_content":
        return True
    return isinstance(parts, list | type({}.values())) and any(map(_is_encrypted, parts))
