"""Names conversations and requests of a watched command for people.

By the agent where a name is known, else by the beginning of its first message of a user; requests
are counted within their conversation.  Pure.  Rules: CONTRACT.md §16.5.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, Final

from refold.engine.encoding.canonical import text_of_json
from refold.engine.events.events import scope_above
from refold.engine.observed.profile import NO_PROFILE, Profile
from refold.engine.wire.parts.exchange import METHOD, PLACE, Asked
from refold.replay.index.guarantee import MAIN
from refold.replay.observed.record import ObservedRecord, RecordedTurn

TITLE_MAX: Final = 48
"""The maximum length of a prompt's beginning as a name."""


def title_of(asked: Asked, profile: Profile = NO_PROFILE) -> str:
    """Return the beginning of a conversation's first message of a user; empty if it has no text.

    The profile excludes some text from names, such as reminders.
    """
    if not asked.messages:
        return place_in(asked.parameters)
    return beginning(_first_text(asked, profile))


def _first_text(asked: Asked, profile: Profile) -> str:
    texts = (text_of(each) for each in asked.messages if each.get("role") == "user")
    return next(filter(None, (profile.plain(each) for each in texts)), "")


def place_in(parameters: Mapping[str, Any]) -> str:
    """Return the method and path of a request without messages; empty if it names none."""
    known = [
        (parameters[method], parameters[path])
        for method, path in (("method", "path"), (METHOD, PLACE))
        if isinstance(parameters.get(path), str) and method in parameters
    ]
    return " ".join(map(str, known[0])) if known else ""


def text_of(message: dict[str, Any]) -> str:
    """Return the text of a message with any type of content."""
    return text_of_json(message.get("content") or "")


def beginning(text: str) -> str:
    """Return the beginning of a text on one line."""
    words = " ".join(text[: 4 * TITLE_MAX].split())
    return words if len(words) <= TITLE_MAX else f"{words[: TITLE_MAX - 1].rstrip()}…"


def name_of_root(scope: str, agent: str, roots: Collection[str], profile: Profile) -> str:
    """Return the main agent's name if a conversation belongs to it, else `agent`.

    `roots` are the scopes that no other conversation opened. A program that delegates has a main
    agent in each run. In any other program, it is a conversation that is alone.
    """
    is_main = scope in roots and (bool(profile.hands_over) or (len(roots) == 1 and not agent))
    return MAIN if is_main else agent


def place_of(record: ObservedRecord, turn: RecordedTurn) -> str:
    """Return a request's place: `agent.py > billing > request 3 (gpt-5)`."""
    parts = turn.scope.split("/")
    names = [
        conversation_name(record, "/".join(parts[:depth])) for depth in range(2, len(parts) + 1)
    ]
    if not _agent(record, turn.scope):
        first = next(each for each in record.turns if each.scope == turn.scope)
        title = title_of(first.asked, record.profile)
        names[-1] += f" ({title})" if title else ""
    request = f"request {number_of(record, turn)} ({turn.asked.model or turn.asked.api})"
    return " > ".join((record.started.program, *names, request))


def number_of(record: ObservedRecord, turn: RecordedTurn) -> int:
    """Return the number of a request in its conversation, from 1."""
    return sum(each.scope == turn.scope and each.seq <= turn.seq for each in record.turns)


def conversation_name(record: ObservedRecord, scope: str) -> str:
    """Return a conversation's name: its agent, numbered if several have the same name."""
    agent = _agent(record, scope)
    if not agent:
        return f"conversation {scope.rpartition('/')[2]}"
    known = dict.fromkeys([*record.agents, *(turn.scope for turn in record.turns)])
    beside = (each for each in known if scope_above(each) == scope_above(scope))
    siblings = [each for each in beside if _agent(record, each) == agent]
    return f"{agent}[{siblings.index(scope) + 1}]" if len(siblings) > 1 else agent


def _agent(record: ObservedRecord, scope: str) -> str:
    agent = record.agents.get(scope, "")
    if scope_above(scope) != "0":
        return agent
    above = (each for each in record.turns if scope_above(each.scope) == "0")
    turns = [each for each in above if each.asked.messages]
    counts, firsts = Counter(each.scope for each in turns), dict[str, Asked]()
    for turn in turns:
        firsts.setdefault(turn.scope, turn.asked)
    titles = record.profile.titles(
        {
            each: (counts[each], bool(asked.tools), _first_text(asked, record.profile))
            for each, asked in firsts.items()
        }
    )
    roots = {
        turn.scope
        for turn in turns
        if turn.scope not in titles
        and not record.profile.is_aside(turn.asked.messages[0].get("content"))
    }
    return name_of_root(scope, agent, roots, record.profile)
