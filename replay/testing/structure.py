"""A delegation tree without words of a model or a task: what stays the same over new recordings.

It has who delegates to whom, by which tool, with which tools, limits, models and prompts, how
often, and how it ended. Equal agents beside each other are one line with their number; prompts,
which a person wrote, follow in full. Rules: CONTRACT.md §13.10.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import groupby
from typing import Any, Final

from refold.replay.difference.volatile import SPENT
from refold.replay.observed.titles import text_of
from refold.replay.run.opened_run import OpenedRun
from refold.replay.run.run_node import RunNode
from refold.replay.run.tree_text import caps_of, printable
from refold.replay.run.turns import Turn

_DIGITS: Final = 12
_SAMPLED: Final = re.compile(r"of \d+ recordings:\n")
_HEAD: Final = re.compile(r"(?P<arrow> *→ )?(?P<times>\d+(?: to \d+)? × )?(?P<name>.*)")
"""A line that begins an agent; the first of all has no arrow."""


def structure_text(node: RunNode, run: OpenedRun) -> str:
    """Return the tree as indented lines, and the prompts that it names; ends with a newline."""
    prompts = _Prompts(run)
    lines = [*_lines(node, {}, prompts)]
    for name, text in sorted(prompts.texts.items()):
        lines += ["", f"system prompt {name}:"]
        lines += [f"    {line}".rstrip() for line in printable(text).split("\n")]
    return "".join(f"{line}\n" for line in lines)


Path = tuple[str, ...]
"""An agent: the lines of its own of each agent from the top down to it."""


def sampled_text(texts: Sequence[str]) -> str:
    """Return one text for the structures of several recordings: how often each has an agent.

    The first line has their number. `2 to 3 × ` is an agent that each of them has, at least twice
    and at most three times; one that some of them lack begins with 0.
    """
    counts = [_counted(text) for text in texts]
    lines = [f"of {len(texts)} recordings:"]
    for path in sorted({path for each in counts for path in each}):
        least, most = (how(each.get(path, 0) for each in counts) for how in (min, max))
        times = f"{least} × " if least == most else f"{least} to {most} × "
        first, *more = path[-1].split("\n")
        indent = "    " * (len(path) - 1)
        arrow = f"{indent[2:]}→ " if indent else ""
        lines += [f"{arrow}{times}{first}", *(f"{indent}{line}" for line in more)]
    prompts = {part for text in texts for part in text.split("\n\n")[1:]}
    return "\n\n".join(["\n".join(lines), *sorted(each.rstrip("\n") for each in prompts)]) + "\n"


def is_sampled(text: str) -> bool:
    """Return whether a text is that of several recordings."""
    return _SAMPLED.match(text) is not None


def varies_in(text: str) -> list[str]:
    """Return the first lines of agents that not all recordings of a text have as often."""
    lines = text.partition("\n\n")[0].split("\n")
    return [line.strip() for line in lines if " to " in (found := _times(line)) and found]


def is_within(stored: str, found: str) -> bool:
    """Return whether a structure has each agent as often as the stored samples have it."""
    if not is_sampled(stored) or is_sampled(found):
        return stored == found
    allowed, counts = _ranges(stored), _counted(found)
    return all(
        least <= counts.get(path, 0) <= most
        for path, (least, most) in {**dict.fromkeys(counts, (0, 0)), **allowed}.items()
    )


def _counted(text: str) -> dict[Path, int]:
    """Return how often a structure has each agent; times of agents above are multiplied."""
    counts: Counter[Path] = Counter()
    times: list[int] = []
    for path, said in _agents_in(text):
        times[len(path) - 1 :] = [int(said.partition(" ")[0] or 1)]
        counts[path] += math.prod(times)
    return counts


def _ranges(text: str) -> dict[Path, tuple[int, int]]:
    """Likewise of samples: how often at least and at most."""
    ranges = {}
    for path, said in _agents_in(text.partition("\n")[2]):
        least, _, most = said.removesuffix(" × ").partition(" to ")
        ranges[path] = int(least), int(most or least)
    return ranges


def _agents_in(text: str) -> Iterator[tuple[Path, str]]:
    """Yield each agent of a structure, and the words before its name that say how often."""
    heads: list[tuple[int, str, list[str]]] = []
    for line in text.partition("\n\n")[0].rstrip("\n").split("\n"):
        found = _HEAD.fullmatch(line)
        if found is not None and (found["arrow"] or found["times"] or not heads):
            heads.append((len(found["arrow"] or "") // 4, found["times"] or "", [found["name"]]))
        else:
            heads[-1][2].append(line[4 * heads[-1][0] :])
    path: list[str] = []
    for depth, said, lines in heads:
        path[depth:] = ["\n".join(lines)]
        yield tuple(path), said


def _times(line: str) -> str:
    found = _HEAD.fullmatch(line)
    return (found["times"] or "") if found is not None else ""


def _lines(node: RunNode, above: Mapping[str, Any], prompts: "_Prompts") -> Iterator[str]:
    yield f"{_who(node)}: {node.status}{f' ({node.error.code})' if node.error else ''}"
    if node.tools_granted is not None:
        yield f"    granted: {', '.join(sorted(node.tools_granted)) or 'no tools'}"
    if caps := caps_of(node, SPENT & above.keys()):
        yield f"    limits: {caps}"
    if node.models:
        yield f"    models: {printable(', '.join(node.models))}"
        yield f"    tools offered: {printable(', '.join(sorted(node.offered))) or 'none'}"
        yield f"    system prompt: {', '.join(prompts.of(node)) or 'none'}"
    if node.log_state not in ("read", "none"):
        yield f"    log: {node.log_state}"
    children = sorted([*_lines(each, node.limits, prompts)] for each in _agents(node.children))
    for lines, same in groupby(children):
        count = len([*same])
        yield f"  → {f'{count} × ' if count > 1 else ''}{lines[0]}"
        yield from (f"    {line}" for line in lines[1:])


def _agents(children: Iterable[RunNode]) -> Iterator[RunNode]:
    """Leave out requests without a message, such as whether a server is there."""
    return (each for each in children if not each.scope or each.models or each.children)


def _who(node: RunNode) -> str:
    """Return an agent's name; of a conversation, whose name may be a task's words, its kind."""
    by = f", by {printable(node.tool)}" if node.tool else ""
    name = ("a subagent" if node.tool else "an agent") if node.scope else printable(node.name)
    return f"{name or 'a child'}{by}"


class _Prompts:
    """The system prompts of the runs below a node, by the digits that stand for them."""

    def __init__(self, run: OpenedRun) -> None:
        self.texts: dict[str, str] = {}
        """Those that were named, by their digits."""
        self._steady = run.steady
        self._agents = {(each.node.log, each.node.scope): each for each in run.agents}

    def of(self, node: RunNode) -> list[str]:
        """Return the digits of a run's prompts, in their order."""
        agent = self._agents.get((node.log, node.scope))
        asked = filter(None, map(_system, agent.turns if agent is not None else ()))
        named = {}
        for text in dict.fromkeys(asked):
            name = self._steady.digest(text) if self._steady else _digits(text)
            named[name] = self._steady.text(text) if self._steady else text
        self.texts |= named
        return list(named)


def _digits(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:_DIGITS]


def _system(turn: Turn) -> str:
    """Return the first system message of what was asked; empty without one."""
    found = (text_of(each) for each in turn.messages if each.get("role") == "system")
    return next(filter(None, found), "")
