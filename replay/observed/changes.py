"""Describes how a request differs from a recorded one, and the likely cause.

The cause is named in the agent author's terms: a prompt, a tool's definition, a tool's result or a
parameter.  Pure.  Rules: CONTRACT.md §16.6.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Self

import attrs

from refold.engine.encoding.canonical import encode
from refold.engine.wire.parts.exchange import Asked
from refold.replay.difference import pointer_diff
from refold.replay.difference.text_diff import TextChange, message_changes, text_changes
from refold.replay.explain.divergence import Category
from refold.replay.index.asked_items import inside
from refold.replay.observed.suggesting import in_any_order, suggestions

_MESSAGES: Final = "/arguments/added"
_NETWORK: Final = re.compile(
    r"https?://|\b(?:curl|wget|pip3?|uv|npm|npx|pnpm|yarn|apt|apt-get|cargo|ssh|scp|go get"
    r"|git (?:clone|fetch|pull|push))\b|resolve host|name resolution|service not known"
    r"|network is unreachable|getaddrinfo|ENOTFOUND|EAI_AGAIN",
    re.IGNORECASE,
)
"""Words of commands that use the network, and of errors without one."""
_NAMED_MAX: Final = 3
"""The maximum number of reported causes of one kind."""

Message = dict[str, Any]


@attrs.frozen
class Change:
    """The differences of two requests."""

    category: Category
    diff: tuple[pointer_diff.Difference, ...]
    texts: tuple[TextChange, ...]
    cause: str


def change_of(recorded: Asked, now: Asked, call: str) -> Change:
    """Return how `now` differs; both requests without values that are not compared."""
    is_listed = _by_name(recorded.tools) is None or _by_name(now.tools) is None
    is_listed = is_listed or _by_name(recorded.tools) == _by_name(now.tools)  # only their order
    items = [item_of(each, call, is_listed=is_listed) for each in (recorded, now)]
    diff = pointer_diff.differences(*items)
    texts = text_changes([one for one in diff if not one.pointer.startswith(_MESSAGES)])
    return Change(
        category="name_changed" if recorded.model != now.model else "args_changed",
        diff=diff,
        texts=message_changes(recorded.messages, now.messages) + texts,
        cause="; ".join(_causes(recorded, now, diff)),
    )


def item_of(asked: Asked, call: str, *, is_listed: bool = True) -> dict[str, Any]:
    """Return a request as divergences show it: {kind, name, call, arguments}.

    Tool definitions are keyed by name, unless `is_listed` or the names are ambiguous.
    """
    plain = asked.as_json()
    named = None if is_listed else _by_name(asked.tools)
    arguments = {
        "added": plain["messages"],
        "api": plain["api"],
        "parameters": plain["parameters"],
        "tools": plain["tools"] if named is None else named,
    }
    return {"kind": "model", "name": asked.model, "call": call, "arguments": arguments}


class ReportedChanges:
    """The reported changes of requests so far, so that later requests need not repeat them."""

    def __init__(self) -> None:
        self._causes: dict[bytes, str] = {}
        """By change: the call of the request that reported it."""
        self._last: dict[str, tuple[Asked, Asked, str]] = {}
        """By conversation: its last request, as recorded and as it was, and the call."""

    def carried(self, scope: str, recorded: Asked, now: Asked) -> tuple[Asked, str | None]:
        """Return the recorded request with all reported changes, and the first one's call."""
        was, here, causes = _Parts.of(recorded), _Parts.of(now), list[str]()
        if (last := self._last.get(scope)) is not None:
            before, after = (list(each.messages) for each in last[:2])
            if pointer_diff.same(was.messages[: len(before)], before) and pointer_diff.same(
                here.messages[: len(after)], after
            ):
                was.messages[: len(before)] = after
                causes.append(last[2])
        for place, at, changed in was.changes(here):
            if (cause := self._causes.get(encode(changed))) is not None:
                place[at] = changed[-1]
                causes.append(cause)
        return was.put_into(recorded), causes[0] if causes else None

    def remember(self, scope: str, recorded: Asked, now: Asked, cause: str) -> None:
        """Remember a request and the call that reported its changes."""
        self._last[scope] = (recorded, now, cause)
        for _, _, changed in _Parts.of(recorded).changes(_Parts.of(now)):
            self._causes.setdefault(encode(changed), cause)


@attrs.frozen
class _Parts:
    """What one request consists of, each part of which may change alone."""

    messages: list[Any]
    others: dict[str, Any]
    """The model, the tools and the parameters, each in a list; an empty one for none."""

    @classmethod
    def of(cls, asked: Asked) -> Self:
        plain = asked.as_json()
        given = {f"/{name}": [value] for name, value in plain["parameters"].items()}
        rest = {name: [plain[name]] for name in ("model", "tools")}
        return cls(plain["messages"], rest | given)

    def changes(self, now: Self) -> list[tuple[Any, Any, list[Any]]]:
        """Return where parts differ: list or object, place in it, [name, recorded, now]."""
        found: list[tuple[Any, Any, list[Any]]] = []
        if len(self.messages) == len(now.messages):
            pairs = enumerate(zip(self.messages, now.messages, strict=True))
            found += [
                (self.messages, at, ["", *pair])
                for at, pair in pairs
                if not pointer_diff.same(*pair)
            ]
        for name in self.others | now.others:
            old, new = (each.others.get(name, []) for each in (self, now))
            if not pointer_diff.same(old, new):
                found.append((self.others, name, [name, old, new]))
        return found

    def put_into(self, asked: Asked) -> Asked:
        """Return a request that consists of this."""
        given = {name[1:]: one[0] for name, one in self.others.items() if name[0] == "/" and one}
        (model,), (tools,) = self.others["model"], self.others["tools"]
        return asked.asking(
            {"model": model, "messages": self.messages, "parameters": given, "tools": tools}
        )


# --- causes ----------------------------------------------------------------------------------


def _causes(recorded: Asked, now: Asked, diff: Sequence[pointer_diff.Difference]) -> Iterator[str]:
    if recorded.api != now.api:
        yield f"the API changed: {recorded.api} → {now.api}"
    if recorded.model != now.model:
        yield f"the model changed: {recorded.model or 'none'} → {now.model or 'none'}"
    yield from _of_messages(recorded, now)
    yield from _of_tools(recorded.tools, now.tools)
    yield from _of_parameters(diff)
    options, is_all = suggestions(recorded, now)
    orders = [each for each in options if shlex.split(each)[1].startswith("order:")]
    others = [each for each in options if each not in orders]
    if orders:
        yield f"if the order is random, ignore it with {' '.join(orders)}"
    if others:
        what = "it looks" if is_all else "part of it looks"
        told = "like a date, a time or an id that changes on every run; to ignore it"
        yield f"{what} {told}: {' '.join(others)}"


def _of_messages(recorded: Asked, now: Asked) -> Iterator[str]:
    before, after = recorded.messages, now.messages
    start, end = pointer_diff.shared_ends(before, after)
    olds, news = before[start : len(before) - end], after[start : len(after) - end]
    if not olds and not news:
        return
    if not olds or not news:
        yield _come_or_gone(start, olds, news)
    elif sorted(map(encode, olds)) == sorted(map(encode, news)):
        yield f"the same messages are in a different order, from message {start} on"
        if options := in_any_order(recorded, now):
            told = "if the program adds them as they arrive, ignore the order with"
            yield f"{told} {' '.join(options)}"
    else:
        yield from _paired(start, olds, news, after)


def _come_or_gone(start: int, olds: Sequence[Message], news: Sequence[Message]) -> str:
    found, was = (news, "was not in the recording") if news else (olds, "is missing now")
    first = f"message {start} ({_role(found[0])}) {was}"
    more = pointer_diff.counted(len(found) - 1, "message")
    return f"{first}, and {more} after it" if found[1:] else first


def _paired(
    start: int, olds: Sequence[Message], news: Sequence[Message], after: Sequence[Message]
) -> Iterator[str]:
    pairs = zip(olds, news, strict=False)
    changed = [at for at, (old, new) in enumerate(pairs) if not pointer_diff.same(old, new)]
    told = (_of_message(start + at, olds[at], news[at], after) for at in changed)
    yield from _first(told, "message")
    if len(news) != len(olds):
        more = len(news) - len(olds)
        word = "more" if more > 0 else "fewer"
        yield f"there are {pointer_diff.counted(abs(more), f'{word} message')}"


def _of_message(at: int, old: Message, new: Message, all_now: Sequence[Message]) -> str:
    place = f"message {at}"
    match _role(old), _role(new):
        case "system", "system":
            told = pointer_diff.reordered(old.get("content"), new.get("content"))
            return f"the system prompt says {told}" if told else "the system prompt was changed"
        case "user", "user":
            first = next((i for i, each in enumerate(all_now) if _role(each) == "user"), at)
            return f"{'the prompt' if at == first else 'a user message'} was changed ({place})"
        case "tool", "tool":
            return f"the tool {_call_in(all_now, new)} returned something else ({place})"
        case "assistant", "assistant":
            return f"the program sends back a changed answer of the model ({place})"
        case before, now:
            return f"{place} has a different role: {before} → {now}"


def _call_in(messages: Sequence[Message], result: Message) -> str:
    """Return the call that a tool message answers: `get_weather(city="Oslo")`."""
    call = _answered(messages, result)
    if call is None:
        return "of an unknown call"
    return f"{call['name']}{inside('tool', call.get('arguments') or {})}"


def _answered(messages: Sequence[Message], result: Message) -> dict[str, Any] | None:
    wanted = result.get("tool_call_id")
    calls = (call for message in messages for call in message.get("tool_calls") or ())
    return next((call for call in calls if call.get("id") == wanted), None)


def may_use_network(diff: Iterable[pointer_diff.Difference], request: Mapping[str, Any]) -> bool:
    """Return whether a tool's result that differs is of a call that may have used the network.

    `request` is the request now, as of `item_of`.
    """
    messages = request.get("arguments", {}).get("added") or []
    for one in diff:
        place = one.pointer.removeprefix(f"{_MESSAGES}/").partition("/")[0]
        if place.isdecimal() and int(place) < len(messages):
            message = messages[int(place)]
            said = encode([_answered(messages, message), one.after]).decode()
            if _role(message) == "tool" and _NETWORK.search(said):
                return True
    return False


def _role(message: Message) -> str:
    return str(message.get("role", "?"))


# --- tools and parameters --------------------------------------------------------------------


def _by_name(tools: Sequence[Any]) -> dict[str, Any] | None:
    """Return tool definitions by name; `None` if the names are ambiguous."""
    found = {_tool_name(each): each for each in tools}
    return None if "" in found or len(found) != len(tools) else found


def _tool_name(tool: Any) -> str:
    if not isinstance(tool, dict):
        return ""
    inside = tool.get("function")
    name = inside.get("name") if isinstance(inside, dict) else tool.get("name")
    return name if isinstance(name, str) else ""


def _of_tools(before: Sequence[Any], after: Sequence[Any]) -> Iterator[str]:
    if pointer_diff.same(before, after):
        return
    olds, news = _by_name(before), _by_name(after)
    if olds is None or news is None:
        yield "the tools offered were changed"
        return
    said = [f"the tool {name} is no longer offered" for name in olds if name not in news]
    said += [f"the tool {name} is offered, but was not before" for name in news if name not in olds]
    for name in (each for each in olds if each in news):
        places = pointer_diff.differences(olds[name], news[name])
        if places:
            shown_ = places[:_NAMED_MAX]
            orders = [pointer_diff.reordered(one.before, one.after) for one in shown_]
            where = ", ".join(
                f"{one.pointer}: {order}" if order else one.pointer
                for one, order in zip(shown_, orders, strict=True)
            )
            said.append(f"the definition of the tool {name} was changed ({where})")
    yield from _first(
        said or [f"the same {len(olds)} tools are offered in a different order"], "tool"
    )


def _of_parameters(diff: Sequence[pointer_diff.Difference]) -> Iterator[str]:
    lead = "/arguments/parameters/"
    found = (one for one in diff if one.pointer.startswith(lead))
    told = (_of_parameter(one.pointer.removeprefix(lead), one) for one in found)
    yield from _first(told, "parameter")


def _of_parameter(name: str, one: pointer_diff.Difference) -> str:
    match one.kind:
        case "added":
            return f"the parameter {name} was added: {pointer_diff.shown(one.after, 60)}"
        case "removed":
            return f"the parameter {name} is no longer set: {pointer_diff.shown(one.before, 60)}"
        case "changed":
            return f"the parameter {name} was changed"


def _first(told: Iterable[str], what: str) -> Iterator[str]:
    """Yield the first causes of one kind, and how many more there are."""
    found = list(told)
    yield from found[:_NAMED_MAX]
    if more := found[_NAMED_MAX:]:
        yield f"and {pointer_diff.counted(len(more), what)} more"
