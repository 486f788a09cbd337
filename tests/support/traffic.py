"""Scripted traffic: which answer a request gets, by what it says and never by when it comes.

A file of `fixtures/traffic` lists rules; the first whose `when` fits a request answers it, so that
agents that ask at the same time are answered alike every time:

    {"name": "weather-asks",
     "when": {"system": "weather desk", "user": "Oslo", "results": []},
     "answer": {"text": "…", "calls": [{"name": "…", "arguments": {…}}], "usage": [31, 12]}}

Every member of `when` may be left out.  `system` and `user` (the last text of the user) are parts
of the text; `results` are parts of the tool results since that text, one for each, in any order;
left out, there may be none.  Instead of `answer` a rule may have `error`: {status, message, kind,
headers, times}: the same request is refused that many times (left out: always), then the rules
below it are looked at.  `manner` says how the answer is sent (`tests.support.serving`).

How answers are spelled in each interface: `tests.support.spelling`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

TRAFFIC: Final = Path(__file__).parents[2] / "fixtures/traffic"


@attrs.frozen(kw_only=True)
class Question:
    """What a rule looks at: one request of any of the interfaces."""

    api: str
    """`chat`, `responses`, `messages` or `generate`."""
    model: str
    system: str
    """All system prompts, joined with newlines."""
    user: str
    """The last text of the user."""
    results: tuple[str, ...]
    """The texts of the tool results since then."""
    streamed: bool
    usage_asked: bool
    """Chat completions only: whether the stream is to end with the usage."""


@attrs.frozen(kw_only=True)
class Call:
    """One tool call of a reply."""

    id: str
    name: str
    arguments: str
    """JSON; of a tool that takes a text, the text."""
    is_custom: bool = False
    """Responses only: whether the tool takes a text."""
    namespace: str = ""
    """Responses only: the group of tools that it is one of."""


@attrs.frozen(kw_only=True)
class Reply:
    """What the model says."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    usage: tuple[int, int] = (20, 10)
    """Tokens in, tokens out."""


@attrs.frozen(kw_only=True)
class Refusal:
    """An error instead of a reply."""

    status: int
    message: str = "no"
    kind: str = "invalid_request_error"
    headers: Mapping[str, str] = attrs.field(factory=dict)
    times: int | None = None
    """For how many equal requests; None: always."""


@attrs.frozen(kw_only=True)
class Fixed:
    """A body as it is, of a path that belongs to none of the interfaces."""

    body: Any


@attrs.frozen(kw_only=True)
class Rule:
    """One rule of a file."""

    name: str
    when: Mapping[str, Any] = attrs.field(factory=dict)
    then: Reply | Refusal | Fixed
    manner: Mapping[str, Any] = attrs.field(factory=dict)

    def fits(self, question: Question) -> bool:
        """Return whether this rule answers `question`."""
        parts = self.when.get("results", [])
        return (
            self.when.get("api", question.api) == question.api
            and self.when.get("model", "") in question.model
            and self.when.get("system", "") in question.system
            and self.when.get("user", "") in question.user
            and len(parts) == len(question.results)
            and all(any(part in result for result in question.results) for part in parts)
        )


def rules_in(paths: Iterable[Path]) -> list[Rule]:
    """Return the rules of these files, in their order."""
    return [_rule(given) for path in paths for given in json.loads(path.read_text())["rules"]]


def all_traffic() -> list[Path]:
    """Return the files of `fixtures/traffic`, by name."""
    return sorted(TRAFFIC.glob("*.json"))


def _rule(given: dict[str, Any]) -> Rule:
    name = given["name"]
    then = Refusal(**given["error"]) if "error" in given else _reply(name, given["answer"])
    return Rule(name=name, when=given.get("when", {}), then=then, manner=given.get("manner", {}))


def _reply(name: str, given: dict[str, Any]) -> Reply:
    calls = tuple(
        Call(
            id=f"call_{name.replace('-', '_')}_{place}",
            name=call["name"],
            arguments=json.dumps(call["arguments"], ensure_ascii=False, separators=(",", ":")),
        )
        for place, call in enumerate(given.get("calls", []), start=1)
    )
    usage = given.get("usage", [20, 10])
    return Reply(text=given.get("text", ""), calls=calls, usage=(usage[0], usage[1]))


# --- what a request says -----------------------------------------------------------------------


def question_of(api: str, body: dict[str, Any]) -> Question:
    """Return what `body` asks in the interface `api`."""
    turns = list(_TURNS[api](body))
    last = max((place for place, (role, _) in enumerate(turns) if role == "user"), default=0)
    return Question(
        api=api,
        model=body.get("model", ""),
        system="\n".join(text for role, text in turns if role == "system"),
        user=turns[last][1] if turns else "",
        results=tuple(text for role, text in turns[last:] if role == "tool"),
        streamed=body.get("stream") is True,
        usage_asked=bool((body.get("stream_options") or {}).get("include_usage")),
    )


def _text(content: Any) -> str:
    """Return the text of a content: a string, or the texts of its parts."""
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content if isinstance(content, str) else ""


def _chat(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for message in body["messages"]:
        role = "system" if message["role"] == "developer" else message["role"]
        yield role, _text(message.get("content"))


def _responses(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "system", body.get("instructions") or ""
    given = body["input"]
    for item in [{"role": "user", "content": given}] if isinstance(given, str) else given:
        if item.get("type") in ("function_call_output", "custom_tool_call_output"):
            yield "tool", _text(item["output"])
        elif "role" in item:
            role = "system" if item["role"] == "developer" else item["role"]
            yield role, _text(item.get("content"))


def _messages(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "system", _text(body.get("system"))
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            if block["type"] == "tool_result":
                yield "tool", _text(block.get("content"))
            elif block["type"] == "text":
                yield message["role"], block["text"]


def _generate(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "system", _text((body.get("systemInstruction") or {}).get("parts", []))
    for content in body["contents"]:
        role = "assistant" if content.get("role") == "model" else "user"
        for part in content["parts"]:
            if "functionResponse" in part:
                yield "tool", json.dumps(part["functionResponse"]["response"])
            elif "text" in part:
                yield role, part["text"]


_TURNS: Final = {
    "chat": _chat,
    "responses": _responses,
    "messages": _messages,
    "generate": _generate,
}
