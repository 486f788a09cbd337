"""Rules of scheduling that came within one engine version, each with a flag in `run.started`.

A log is re-executed by the rules that its flags name; where a flag is missing, by the rule that
held before it. So old logs replay as before, and new ones by the better rules of today. Rules:
CONTRACT.md §15.1.

To add one: a field whose default is the old rule, its value in `NOW`, a sentence in §15.1.
"""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from refold.engine.values import Value


@attrs.frozen(kw_only=True)
class Flags(Value):
    """The rules that one run follows; a default is the rule of a log without the flag."""

    scope_hashes: bool = False
    """Whether a task hashes to its scope, and a future to the order of first use, not both to one
    number in the order of creation: a lock or a time limit more turns no set of tasks around."""

    no_collector: bool = False
    """Whether nothing that a program sees depends on Python's garbage collector or on addresses:
    generators that have ended, `asyncio.all_tasks()`, the variables of a failed call's callers."""

    like_asyncio: bool = False
    """Whether an empty context is a context, `sys.exit` in a task ends the run, and handlers of
    exceptions are called as asyncio calls them."""

    tools_tell: bool = False
    """Whether tools may format their own results for the model (`Tool.tell`)."""

    passes: int = 0
    """After how many passes of the loop without a request of the program the world may deliver a
    line, while the program still runs; 0 for never. A pass calls back once everything that was
    ready when it began: `while not task.done(): await asyncio.sleep(0)` takes one a round."""

    asks_tokens: bool = False
    """Whether a child that has used up its `model_tokens` asks its parent for more."""

    known_tools: bool = False
    """Whether a program that starts a child with a tool that the run does not have is refused;
    else the child is started without it."""

    opens_groups: bool = False
    """Whether the message of a run or tool that ended by an `ExceptionGroup` lists its contents."""

    stops_tools: bool = False
    """Whether a plain program that is stopped while a delegation tool runs learns it at once, as
    while it waits for anything else; else when its time to clean up is over."""

    yields: int = 0
    """After how many children of one list, or calls of one reply, Refold's own programs let the
    world deliver a line, such as the end of the run's time; 0 for never."""

    exact_fast_path: bool = False
    """Whether a tool call that runs at once, because nothing else is live, behaves like a call
    that waits: a pending cancellation ends it, and the driver of the coroutine continues before
    the tool returns."""

    due_order: bool = False
    """Whether the timers of a step count from one instant and fire in the order in which they are
    due, by the virtual time of the log; else each counts from its own arming, or by another clock.
    """

    spares_caller: bool = False
    """Whether a run keeps the tokens that its last model request took from its children, and is
    not refused its next request for their spending."""

    tool_words: bool = False
    """Whether the delegation tools word how a child ended alike, with its last words and what to
    do next, and refuse arguments before a child starts."""

    checks_needs: bool = False
    """Whether a child of a delegation tool whose host lacks something it needs ends the run, and a
    missing profile file starts nothing; otherwise only a model is informed, or nobody."""

    refuses_input: bool = False
    """Whether `input` is refused to a program, and the threads of aiosqlite to its loop."""

    names_agent: bool = False
    """Whether a delegation's `agent` is the default for the model requests of its child."""

    reads_types: bool = False
    """Whether a program gets its input, and its children's outputs, as the types of their
    annotations, and returns what fits its own; otherwise they are plain JSON values."""

    own_children: bool = False
    """Whether a program that joins or cancels a child of a different run is refused also once
    that child has ended; else a join returned its outcome."""

    def yields_after(self, count: int) -> bool:
        """Return whether the world has its turn between `count` items of a list and the next."""
        return bool(self.yields and count) and count % self.yields == 0

    def as_json(self) -> dict[str, Any]:
        """Return `run.started.versions.flags`."""
        return {name: getattr(self, name) for name in _NAMES}

    @classmethod
    def of_log(cls, versions: Mapping[str, Any]) -> "Flags":
        """Return the rules of a log by its `versions`; `unknown_flags` lists the unknown ones."""
        recorded = versions.get("flags")
        if recorded == _NOW:  # as in every new log
            return NOW
        known = recorded if isinstance(recorded, Mapping) else {}
        return cls(**{name: known[name] for name in _TYPES if name in known})


_NAMES: Final = tuple(attrs.fields_dict(Flags))

NOW: Final = Flags(
    scope_hashes=True,
    no_collector=True,
    like_asyncio=True,
    tools_tell=True,
    passes=1000,
    asks_tokens=True,
    known_tools=True,
    opens_groups=True,
    stops_tools=True,
    yields=16,
    exact_fast_path=True,
    due_order=True,
    spares_caller=True,
    tool_words=True,
    checks_needs=True,
    refuses_input=True,
    names_agent=True,
    reads_types=True,
    own_children=True,
)
"""The rules of runs that are recorded now."""

_NOW: Final = NOW.as_json()
_TYPES: Final = {name: type(value) for name, value in _NOW.items()}


def unknown_flags(versions: Mapping[str, Any]) -> list[str]:
    """Return what this release does not know of a log's flags: a later one made it."""
    recorded = versions.get("flags", {})
    if not isinstance(recorded, Mapping):
        return [f"{recorded!a:.40}"]
    types = _TYPES
    return sorted(
        [
            f"{key}={flag!a:.40}"
            for key, flag in recorded.items()
            if type(flag) is not types.get(key)
        ]
    )
