"""Runs the mutation suite: records each base, edits it, and asks re-execution what it finds.

Whether an edit changes behaviour is told by recording the edited program too, with the same tools,
seed and clock, and comparing the lines of the two records: where they differ, re-execution has to
report a divergence, and where they do not, it must not.  That is no use of re-execution, so the two
answers are independent.
"""

import ast
import difflib
import importlib.util
import itertools
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import attrs

from refold.engine.events.events import UNDIGESTED, scope_of
from refold.engine.log.reader import read_entries
from refold.engine.models.scripted import FunctionModel, ScriptedModel
from refold.engine.ports.clock import FixedClock
from refold.engine.ports.ports import ModelReply, ModelRequest, Tool
from refold.engine.runners.recorded import Recording
from refold.engine.runners.recording import record
from refold.engine.session import Session
from refold.replay.difference.volatile import stable
from refold.replay.explain.divergence import Divergence
from refold.replay.reexecute.reexecute import reexecute
from refold.tools import DelegationTool
from tests.mutations.bases import BASES, LEAVES, Base, Note
from tests.mutations.operators import OPERATORS, Operator, marked
from tests.mutations.programs import random_base
from tests.support.simulated import record_simulated

SOURCE: Final = Path(__file__).with_name("bases.py")
_OF_LENGTHS: Final = ("limit longer", "limit shorter", "sleep longer")
SITES_MAX: Final = 3
"""Edits of one operator in one base: more would be more of the same."""


@attrs.frozen
class Mutant:
    """One edit of one base."""

    base: Base
    operator: Operator
    number: int
    source: str

    @property
    def keys(self) -> set[str]:
        """The texts of requests (`k7`) that were edited: random programs have them.

        Those that are only on one side of the lines that changed; where all are on both, all.
        """
        if not self.base.source:
            return set()
        before = ast.unparse(tree_of(self.base))
        changed = list(difflib.ndiff(_stripped(before), _stripped(self.source)))
        gone, new = (
            Counter(_KEY.findall("\n".join(line for line in changed if line[0] == sign)))
            for sign in "-+"
        )
        found = set((gone - new) + (new - gone))
        if not found:  # moved: with what it was moved over
            at = [number for number, line in enumerate(changed) if line[0] in "+-"]
            found = set(_KEY.findall("\n".join(changed[at[0] : at[-1] + 1] if at else [])))
        if any("_" in key for key in found):  # of a function: the requests beside it, too
            found |= {key for key in (*gone, *new) if "_" not in key}
        return set().union(*(_below(key, before) for key in found))

    def difference(self) -> str:
        """Return what was edited, as a diff of the whole program."""
        before = ast.unparse(tree_of(self.base)).splitlines()
        lines = difflib.unified_diff(before, self.source.splitlines(), lineterm="", n=99)
        return "\n".join(list(lines)[3:])

    @property
    def name(self) -> str:
        """`gathering, call in a task, 2`."""
        return f"{self.base.name}, {self.operator.name}, {self.number}"


@attrs.frozen
class Answer:
    """What became of one edit."""

    mutant: Mutant
    changes: bool
    """Whether the edited program, recorded anew, leaves other lines."""
    found: Divergence | None
    """What re-execution reports."""
    not_compared: tuple[str, ...] = ()
    """What it lists as not compared."""
    was_cut_off: bool = False
    """Whether the recorded run gave up on the request that is told."""
    were_seen: bool = True
    """Whether both runs, recorded, came to all requests that were edited."""

    @property
    def is_listed(self) -> bool:
        """Whether a change that went unnoticed is one of those that are never compared."""
        listed = self.mutant.operator.not_compared
        return bool(listed) and any(listed in one for one in self.not_compared)

    @property
    def is_missed(self) -> bool:
        """Whether a change went unnoticed, and is not listed as one that may."""
        return self.changes and self.found is None and not self.is_listed

    @property
    def is_misplaced(self) -> bool:
        """Whether a difference was reported of other requests than those that were edited."""
        keys = self.mutant.keys
        if self.found is None or not keys or not self.changes:
            return False
        if self.mutant.operator.name in _OF_LENGTHS and "timer" in str(self.found.now):
            return False  # it says no text
        shown = json.dumps([self.found.recorded, self.found.now], default=str)
        return not any(re.search(rf"\b{key}\b", shown) for key in keys)

    @property
    def is_false_alarm(self) -> bool:
        """Whether a difference was reported where there is none."""
        return not self.changes and self.found is not None

    @property
    def is_misnamed(self) -> bool:
        """Whether a difference was reported by a name that its edit does not have."""
        names = self.mutant.operator.categories
        if self.found is None or not names or self.mutant.base.is_cut_off:
            return False
        if names == {"reordered"} and not self.were_seen:
            return False  # one of two that changed places was cut off before its turn came
        if self.was_cut_off and not self.is_misplaced:
            return False  # what would have come after it is not on record
        return self.found.category not in names

    @property
    def is_wrong(self) -> bool:
        """Whether anything went wrong with it, or with what its operator says of itself."""
        return (
            self.is_missed
            or self.is_false_alarm
            or self.is_misnamed
            or self.is_misplaced
            or self.is_unexpected
        )

    @property
    def is_unexpected(self) -> bool:
        """Whether the operator does not do what it says of itself."""
        expected = self.mutant.operator.expects
        if self.mutant.base.source and expected == "changes":
            return False  # a random program need not come to what was edited
        return expected != "either" and (expected == "changes") != self.changes


def tree_of(base: Base) -> ast.Module:
    """Return the functions of one base, as a module without its imports."""
    if base.source:
        return marked(ast.parse(base.source))
    whole = ast.parse(SOURCE.read_text(encoding="utf-8"))
    functions = [node for node in whole.body if getattr(node, "name", "") in base.functions]
    return marked(ast.Module(functions, []))


def mutants(each: int = 1) -> Iterator[Mutant]:
    """Yield every edit of every base, the same on every machine, or one of `each` of these pairs.

    To make all edits takes two seconds.
    """
    pairs = itertools.product([(base, tree_of(base)) for base in BASES], OPERATORS)
    for (base, tree), operator in itertools.islice(pairs, 0, None, each):
        trees = _spread(list(operator.edits(tree)))
        sources = dict.fromkeys(ast.unparse(edited) for edited in trees)
        sources.pop(ast.unparse(tree), None)
        for number, source in enumerate(sources, 1):
            yield Mutant(base, operator, number, source)


def _spread(trees: list[ast.Module]) -> list[ast.Module]:
    """Return a few of them, from the beginning, the middle and the end."""
    if len(trees) <= SITES_MAX:
        return trees
    return [trees[at * (len(trees) - 1) // (SITES_MAX - 1)] for at in range(SITES_MAX)]


_IMPORTS: Final = """\
import asyncio
from typing import Any
from refold import Delegation, PlainRun, Run, ToolError
from tests.mutations.bases import Note

"""


class Bench:
    """Records bases once, and answers for edits of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self._bases: dict[str, tuple[Path, list[Any]]] = {}

    def answer(self, mutant: Mutant) -> Answer:
        """Record the edited program, and re-execute the base's log with it."""
        base = mutant.base
        log, lines = self.base(base)
        edited = self.module(mutant.source)
        now = lines_of(self.record(base, edited).log)
        report = reexecute(
            log,
            getattr(edited, base.name),
            tools=tools_of(base, edited),
            session=session_of(base),
        )
        found = report.divergences[0] if report.divergences else None
        said = [json.dumps(each, default=str) for each in (lines, now)]
        were_seen = all(re.search(rf"\b{key}\b", one) for key in mutant.keys for one in said)
        given_up = {call for _, kind, call, _ in lines if kind == "effect.cancelled"}
        was_cut_off = ((found.recorded if found else None) or {}).get("call") in given_up
        return Answer(mutant, now != lines, found, report.not_compared, was_cut_off, were_seen)

    def diverges(self, base: Base) -> str:
        """Return what a re-execution says of a base that nobody edited; empty for nothing."""
        log, _ = self.base(base)
        module = self.module(ast.unparse(tree_of(base)))
        program, tools = getattr(module, base.name), tools_of(base, module)
        report = reexecute(log, program, tools=tools, session=session_of(base))
        return "" if report.identical else str(report)

    def base(self, base: Base) -> tuple[Path, list[Any]]:
        """Return the log of a base, and its lines; recorded at the first use."""
        if base.name not in self._bases:
            module = self.module(ast.unparse(tree_of(base)))
            log = self.record(base, module).log
            self._bases[base.name] = (log, lines_of(log))
        return self._bases[base.name]

    def module(self, source: str) -> ModuleType:
        """Return a module made of functions, from a file of its own."""
        self._count += 1
        name = f"mutant_{self._count}"
        path = self._folder / f"{name}.py"
        path.write_text(_IMPORTS + source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        del sys.modules[name]
        return module

    def record(self, base: Base, module: ModuleType) -> Recording:
        """Record a base, or an edit of it; a random one in simulated time."""
        program, log = getattr(module, base.name), self._folder / f"{module.__name__}.jsonl"
        if base.source:
            return record_simulated(
                program,
                base.given,
                log,
                tools=tools_of(base, module),
                model=FunctionModel(_echoed),
                seed=7,
                session=session_of(base),
            )
        return record(
            program,
            base.given,
            log=log,
            tools=tools_of(base, module),
            model=ScriptedModel(["It is a test.", "Then it ends.", "More.", "Still more."]),
            seed=7,
            clock=FixedClock(),
            durability="fast",
        )


def _echoed(request: ModelRequest) -> ModelReply:
    """Answer with what was said last: two conversations at once do not change each other."""
    said = str(request.messages[-1]["content"])
    return ModelReply(message={"role": "assistant", "content": f"You said {said}."})


def session_of(base: Base) -> Session | None:
    """Return a fresh session for a random program; the others have none."""
    if not base.source:
        return None
    session = Session()
    session.register(Note)
    return session


def _stripped(source: str) -> list[str]:
    return [line.strip() for line in source.splitlines()]


def _compiles(source: str) -> bool:
    """Return whether an edit is a program: a `return` may not stand in an `except*`."""
    try:
        compile(source, "mutant", "exec")
    except SyntaxError:
        return False
    return True


def _below(key: str, source: str) -> set[str]:
    """Return a key itself, or those of the function that it names, and of what this calls."""
    if "_" not in key:
        return {key}
    body = re.search(rf"^( *)(async )?def {key}\(.*\n((\1 .*|)\n?)*", source, re.MULTILINE)
    inner = set(_KEY.findall(body[0])) - {key} if body else set()
    return set().union(*(_below(each, source) for each in inner)) if inner else set()


_KEY: Final = re.compile(
    r"\bk\d+\b|\b(?:branch|child|locked|produce|waits)_\d+\b|inserted|instead|branch(?=')"
)


def random_mutants(seed: int, edits: int) -> Iterator[Mutant]:
    """Yield a few edits of one random program, each by another operator."""
    base = random_base(seed)
    tree = tree_of(base)
    original = ast.unparse(tree)
    rng = random.Random(seed)
    left = edits
    for operator in rng.sample(OPERATORS, len(OPERATORS)):
        sources = [ast.unparse(edited) for edited in operator.edits(tree)]
        sources = [source for source in dict.fromkeys(sources) if source != original]
        if sources := [source for source in sources if _compiles(source)]:
            yield Mutant(base, operator, seed, rng.choice(sources))
            left -= 1
        if not left:
            return


def tools_of(base: Base, module: ModuleType) -> tuple[Tool, ...]:
    """Return the tools of a base, its own delegation tool included."""
    if not base.own_tool:
        return LEAVES
    own = DelegationTool(
        name=base.own_tool,
        description="Helps with a task.",
        parameters={"type": "object", "properties": {"task": {"type": "string"}}},
        handler=getattr(module, base.own_tool),
    )
    return (*LEAVES, own)


def lines_of(log: Path) -> list[Any]:
    """Return the lines of a run and its children, without what says when and where.

    Of a timer that fired, its scope and length.
    """
    lines: list[Any] = []
    for path in sorted(log.parent.glob(f"{log.stem}*.jsonl")):
        for entry in read_entries(path):
            data = {} if entry.kind in UNDIGESTED else stable(entry.kind, entry.data)
            data = {name: value for name, value in data.items() if name != "fingerprint"}
            call = entry.call
            if entry.kind == "timer.fired":  # how many others were armed before it is no matter
                call, data = scope_of(call or ""), {"length_us": entry.data.get("length_us")}
            lines.append((path.name.removeprefix(log.stem), entry.kind, call, data))
    return lines
