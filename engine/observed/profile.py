"""A small frozen value: what is known of one agent program.  `proxy.profiles` has some.

A profile says how a command is led to the proxy, who asks, which tools hand work over, and what is
another one at each run.  The part that a log needs later stands in its first entry, as
`rules.profile`; it decides what is shown and compared, never what passes.  Pure.
Rules: CONTRACT.md §16.13.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from refold.engine.encoding.patterns import PatternRefusedError, compiled
from refold.engine.wire.parts.notation import object_in

EXACT: Final = "exact"
"""That what is printed is compared as it is."""
NAMED: Final = "profile"
"""The member of `run.started.rules`."""
_IN_LOGS: Final = (
    "name", "variables", "hands_over", "left_out", "asides", "failures", "refusals",
    "asks_last", "volatile", "volatile_texts", "unordered", "unordered_lines", "places",
    "output", "session",
)  # fmt: skip
"""What of a profile stands in a log."""


_LOOKED_AT: Final = 256 * 1024
"""Characters of a text in which patterns of `left_out` and `asides` are looked for."""
_TITLE: Final = re.compile(
    r"You are a title generator\.|You are [^.]{1,99}\.\s?Generate a concise, sentence-case title"
)
"""How the system prompts begin by which opencode and Claude Code ask for a title."""
_FINE: Final = r"x-anthropic-billing-header:[^\n]*?cc_entrypoint=[^;]*;(?: cc_\w+=[^;]*;)*"
"""A pattern of many logs that is refused for its form, and takes no time."""


def _is_quick(pattern: str) -> bool:
    """Return whether a pattern of a log takes no long time on what is looked at."""
    try:
        return pattern == _FINE or compiled(pattern).loops <= 1
    except PatternRefusedError:
        return False


def _texts(given: Iterable[str]) -> tuple[str, ...]:
    return tuple(given)


@attrs.frozen
class Whose:
    """The asker, as a request names itself; empty where it does not."""

    thread: str = ""
    """What all requests of one conversation share, and no others."""
    above: str = ""
    """The thread of the agent that started it."""
    agent: str = ""
    """What it is called."""
    session: str = ""
    """What all requests of one run of the program share, its subagents' too."""


@attrs.frozen(kw_only=True)
class Profile:
    """One agent program, and all that is special about it."""

    name: str
    """As people call it: `Claude Code`."""
    commands: tuple[str, ...] = ()
    """The names of its programs and packages: `codex`, `@openai/codex`."""
    libraries: tuple[str, ...] = ()
    """Names that a script has in it which starts the program itself."""
    asks_as: tuple[str, ...] = ()
    """Regular expressions of how its user agent, or its system prompt, begins: tests know the
    program by them, where its requests are all that is seen."""
    arguments: tuple[str, ...] = ()
    """What is put behind the program's name; `{openai}`, `{anthropic}` are base URLs."""
    variables: Mapping[str, str] = attrs.field(factory=dict)
    """What the command is given that has not set it: so that what it asks is no matter of time."""
    appended: Mapping[str, str] = attrs.field(factory=dict)
    """What is put behind the value of a variable, whether the user has set it or not."""
    upstreams: tuple[str, ...] = ()
    """As for `--upstream`: variables that are led to the proxy besides the known ones."""
    thread: tuple[str, ...] = ()
    """Where requests say whose they are, the first that is there: a header, or one with the member
    of its JSON object behind a slash (`x-turn-metadata/thread_id`)."""
    above: tuple[str, ...] = ()
    agent: tuple[str, ...] = ()
    """Likewise: the thread above, and the agent's name."""
    session: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    """Likewise: which run of the program it is, of several in one command."""
    hands_over: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    """Tools that hand work over, each with the arguments where the child's name may stand."""
    left_out: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    """Regular expressions of what says nothing about who it is or what it is to do: it is left out
    of names and briefs, and of nothing else."""
    asides: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    """How system prompts begin, as regular expressions, of what is asked beside the work (which
    model fits): no agent, whatever it repeats of a task."""
    failures: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    """How results of tools begin that failed, as regular expressions, where nothing else says
    so."""
    refusals: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    """Likewise, of calls that failed because a person or a rule refused them: they did nothing."""
    asks_last: bool = False
    """Whether the last message of a first request is the brief: those before are examples."""
    volatile: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    """Places that are another one at each run, as for `--volatile`."""
    volatile_texts: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    """Texts that are, as for `--volatile-text`.  They hold anywhere: no shipped profile has any."""
    places: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    """Values that are, each where it is one: `WHERE KIND PATTERN` (`engine.observed.binding`)."""
    unordered: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    """Regular expressions of how messages begin that are put down as they come: they stand beside
    each other in any order."""
    unordered_lines: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    """Tools that list files by when these changed, or as threads find them: the lines of what they
    return stand in any order."""
    output: str = EXACT
    """How what is printed is compared, unless `--output` says: `exact`, `lines`, `words`,
    `ignore`."""
    outputs: Mapping[str, str] = attrs.field(factory=dict)
    """Likewise, by words of the command: with some of them it prints events of several agents."""

    def as_json(self) -> dict[str, Any]:
        """Return the part that stands in a log."""
        return attrs.asdict(self, filter=_is_told)

    @classmethod
    def in_rules(cls, rules: Mapping[str, Any]) -> "Profile":
        """Return the profile of a log, as far as it stands there; one without a name for none.

        Anybody can have written a log: patterns of names that could take for ever are left out.
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
        """Return how what a command prints is compared, where its words say so; else empty."""
        line = " ".join(command)
        return next((how for words, how in self.outputs.items() if words in line), "")

    def is_aside(self, system: Any) -> bool:
        """Return whether what has this system prompt is asked beside the work."""
        said = self.plain(system) if isinstance(system, str) else ""
        is_title = _TITLE.match(said) is not None
        return is_title or any(re.match(each, said) for each in self.asides)

    def is_failure(self, result: Any) -> bool:
        """Return whether a tool's result says that it failed: {error} alone (Gemini), or text."""
        if isinstance(result, dict):
            return result.keys() == {"error"}
        return _begins(result, self.failures)

    def is_refusal(self, result: Any) -> bool:
        """Return whether the result of a call that failed says that it was refused."""
        said = result.get("error") if isinstance(result, dict) else result
        return _begins(said, self.refusals)

    def plain(self, text: str) -> str:
        """Return a text without what says nothing."""
        text = text[:_LOOKED_AT]
        for each in self.left_out:
            text = re.sub(each, "", text)
        return text.strip()


def _is_told(field: "attrs.Attribute[Any]", value: Any) -> bool:
    """Return whether a log says this of a profile: what it needs later, and no default."""
    return field.name in _IN_LOGS and bool(value) and value != field.default


NO_PROFILE: Final = Profile(name="")


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
