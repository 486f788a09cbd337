"""A small frozen value: settings for one agent program. `proxy.profiles` has some.

A profile defines how a command is directed to the proxy, how to identify the caller, the delegating
tools, and the values that change on every run. The part that a log needs later is in its first
entry, as `rules.profile`; it affects display and comparison, never the traffic. Pure. Rules:
CONTRACT.md §16.13.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from refold.engine.encoding.patterns import PatternRefusedError, compiled
from refold.engine.wire.parts.notation import object_in

EXACT: Final = "exact"
"""The output is compared unchanged."""
NAMED: Final = "profile"
"""The member of `run.started.rules`."""
_IN_LOGS: Final = (
    "name", "variables", "hands_over", "left_out", "asides", "failures", "refusals",
    "asks_last", "volatile", "volatile_texts", "unordered", "unordered_lines", "places",
    "output", "session",
)  # fmt: skip
"""The members of a profile that a log has."""


_LOOKED_AT: Final = 256 * 1024
"""Characters of a text in which patterns of `left_out` and `asides` are looked for."""
_PART_MIN: Final = 20
"""Letters of a part of a task by which it is known."""
_FINE: Final = r"x-anthropic-billing-header:[^\n]*?cc_entrypoint=[^;]*;(?: cc_\w+=[^;]*;)*"
"""A pattern of many logs that is refused for its form, and takes no time."""


def _is_quick(pattern: str) -> bool:
    """Return whether a pattern from a log runs quickly on the texts it is applied to."""
    try:
        return pattern == _FINE or compiled(pattern).loops <= 1
    except PatternRefusedError:
        return False


@attrs.frozen
class Whose:
    """The asker, as a request names itself; empty where it does not."""

    thread: str = ""
    """What all requests of one conversation share, and no others."""
    above: str = ""
    """The thread of the agent that started it."""
    agent: str = ""
    """Its name."""
    session: str = ""
    """What all requests of one run of the program share, its subagents' too."""


@attrs.frozen(kw_only=True)
class Profile:
    """One agent program, and all that is special about it."""

    name: str
    """As people call it: `Claude Code`."""
    commands: tuple[str, ...] = ()
    """The names of its programs and packages: `codex`, `@openai/codex`."""
    works_on_folder: bool = False
    """Whether it works on the files of its folder, and is no program of the folder itself."""
    libraries: tuple[str, ...] = ()
    """Names that a script has in it which starts the program itself."""
    asks_as: tuple[str, ...] = ()
    """Regular expressions for the beginning of its user agent, or of its system prompt: tests
    identify the program by them, if they see only its requests."""
    arguments: tuple[str, ...] = ()
    """Arguments added after the program's name; `{openai}`, `{anthropic}` are base URLs."""
    variables: Mapping[str, str] = attrs.field(factory=dict)
    """Variables set for the command if unset, so that its requests do not depend on time."""
    appended: Mapping[str, str] = attrs.field(factory=dict)
    """Text appended to a variable's value, whether or not the user has set it."""
    upstreams: tuple[str, ...] = ()
    """As for `--upstream`: variables directed to the proxy, in addition to the known ones; a
    VARIABLE alone goes on to where it led, if the user has set it."""
    thread: tuple[str, ...] = ()
    """The places of a request's thread id; the first present is used: a header, or one with the
    member of its JSON object after a slash (`x-turn-metadata/thread_id`)."""
    above: tuple[str, ...] = ()
    agent: tuple[str, ...] = ()
    """Likewise: the thread above, and the agent's name."""
    session: tuple[str, ...] = attrs.field(default=(), converter=tuple[str, ...])
    """Likewise: which run of the program it is, of several in one command."""
    hands_over: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    """Delegating tools, each with the arguments that may have the child's name."""
    left_out: tuple[str, ...] = attrs.field(default=(), converter=tuple[str, ...])
    """Regular expressions for text that does not describe the agent or its task: it is removed only
    from names and briefs."""
    asides: tuple[str, ...] = attrs.field(default=(), converter=tuple[str, ...])
    """Regular expressions for the beginning of system prompts of side requests (such as choosing a
    model): these are not agents, even if they repeat a task."""
    failures: tuple[str, ...] = attrs.field(default=(), converter=tuple[str, ...])
    """Regular expressions for the beginning of failed tools' results that are not marked."""
    refusals: tuple[str, ...] = attrs.field(default=(), converter=tuple[str, ...])
    """Likewise, of calls that failed because a person or a rule refused them: they did nothing."""
    asks_last: bool = False
    """Whether the last message of a first request is the brief: those before are examples."""
    volatile: tuple[str, ...] = attrs.field(default=(), converter=tuple[str, ...])
    """Places that change on every run, as for `--volatile`."""
    volatile_texts: tuple[str, ...] = attrs.field(default=(), converter=tuple[str, ...])
    """Texts that are, as for `--volatile text:REGEX`, anywhere.  No shipped profile has any."""
    places: tuple[str, ...] = attrs.field(default=(), converter=tuple[str, ...])
    """Values that are, each where it is one: `WHERE KIND PATTERN` (`engine.observed.binding`)."""
    unordered: tuple[str, ...] = attrs.field(default=(), converter=tuple[str, ...])
    """Regular expressions for the beginning of messages in order of arrival: adjacent ones may be
    in any order."""
    unordered_lines: tuple[str, ...] = attrs.field(default=(), converter=tuple[str, ...])
    """Tools that list files by modification time, or as threads find them: the lines of their
    results may be in any order."""
    output: str = EXACT
    """How the output is compared by default: `exact`, `lines`, `words`, `letters`, `ignore`."""
    outputs: Mapping[str, str] = attrs.field(factory=dict)
    """Likewise, by words of the command: with some of them it prints events of several agents."""

    def as_json(self) -> dict[str, Any]:
        """Return the part for a log."""
        return attrs.asdict(self, filter=_is_logged)

    @classmethod
    def in_rules(cls, rules: Mapping[str, Any]) -> "Profile":
        """Return the profile in a log, as far as it is there; without one, a profile with no name.

        A log may be from anyone: patterns of names that could run for ever are left out.
        """
        told = rules.get(NAMED) or {}
        known = {name: told[name] for name in _IN_LOGS if name in told}
        for name in ("left_out", "asides", "failures", "refusals"):
            known[name] = [*filter(_is_quick, known.get(name, ()))]
        return cls(**{"name": "", **known})

    def whose(self, header: Callable[[str], str]) -> Whose:
        """Return who asks, by the headers of a request; `header` gives one, empty for none."""
        places = (self.thread, self.above, self.agent, self.session)
        return Whose(*(_first(each, header) for each in places))

    def asks(self, user_agent: str, system: str) -> bool:
        """Return whether a request with this user agent and system prompt is the program's."""
        said = (user_agent, system.lstrip()[:_LOOKED_AT])
        return any(re.match(each, text) for each in self.asks_as for text in said)

    def printing(self, command: Sequence[str]) -> str:
        """Return the comparison mode that a command's arguments imply for its output, or empty."""
        line = " ".join(command)
        return next((how for words, how in self.outputs.items() if words in line), "")

    def is_aside(self, system: Any) -> bool:
        """Return whether a request with this system prompt is a side request."""
        said = self.plain(system) if isinstance(system, str) else ""
        return any(re.match(each, said) for each in self.asides)

    def titles(self, roots: Mapping[str, tuple[int, bool, str]]) -> frozenset[str]:
        """Return the conversations in which an agent program only asks for a title.

        `roots` has the number of requests, whether tools are offered, and the first text of the
        user, by conversation. A title is asked for once, without tools, with the text of another
        conversation that has tools, or with a long part of it.
        """
        if not self.hands_over:
            return frozenset()
        texts = {scope: self.plain(text) for scope, (_, _, text) in roots.items()}
        tasks = {texts[scope] for scope, (_, has_tools, _) in roots.items() if has_tools} - {""}
        return frozenset(
            scope
            for scope, (requests, has_tools, _) in roots.items()
            if requests == 1
            and not has_tools
            and any(_is_about(texts[scope], task) for task in tasks)
        )

    def is_failure(self, result: Any) -> bool:
        """Return whether a tool's result is a failure: only {error} (Gemini), or text."""
        if isinstance(result, dict):
            return result.keys() == {"error"}
        return _begins(result, self.failures)

    def is_refusal(self, result: Any) -> bool:
        """Return whether the result of a failed call is a refusal."""
        said = result.get("error") if isinstance(result, dict) else result
        return _begins(said, self.refusals)

    def plain(self, text: str) -> str:
        """Return a text without the left-out parts."""
        text = text[:_LOOKED_AT]
        for each in self.left_out:
            text = re.sub(each, "", text)
        return text.strip()


def _is_logged(field: "attrs.Attribute[Any]", value: Any) -> bool:
    """Return whether a log has this member of a profile: needed later, and not the default."""
    return field.name in _IN_LOGS and bool(value) and value != field.default


NO_PROFILE: Final = Profile(name="")


def _is_about(text: str, task: str) -> bool:
    return task in text or (len(text) >= _PART_MIN and text in task)


def _begins(said: Any, patterns: tuple[str, ...]) -> bool:
    text = said[:_LOOKED_AT] if isinstance(said, str) else ""
    return any(re.match(each, text) for each in patterns)


def _first(places: tuple[str, ...], header: Callable[[str], str]) -> str:
    for place in places:
        name, slash, member = place.partition("/")
        value = header(name)
        if slash:
            found = (object_in(value) or {}).get(member) if value else None
            value = found if isinstance(found, str) else ""
        if value:
            return value
    return ""
