"""Runs the mutation suite: records each base, edits it, and asks re-execution what it finds.

Whether an edit changes behaviour is told by recording the edited program too, with the same tools,
seed and clock, and comparing the lines of the two records: where they differ, re-execution has to
report a divergence, and where they do not, it must not.  That is no use of re-execution, so the two
answers are independent.
"""

import ast
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import attrs

from refold import DelegationTool
from refold.engine.clock import FixedClock
from refold.engine.events import UNDIGESTED
from refold.engine.log import read_entries
from refold.engine.models.scripted import ScriptedModel
from refold.engine.ports import Tool
from refold.engine.recording import Recording, record
from refold.replay.divergence import Divergence
from refold.replay.reexecute import reexecute
from refold.replay.volatile import stable
from tests.mutations.bases import BASES, LEAVES, Base
from tests.mutations.operators import OPERATORS, Operator, marked

SOURCE: Final = Path(__file__).with_name("bases.py")
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

    @property
    def is_missed(self) -> bool:
        """Whether a change went unnoticed."""
        return self.changes and self.found is None

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
        return self.found.category not in names

    @property
    def is_unexpected(self) -> bool:
        """Whether the operator does not do what it says of itself."""
        expected = self.mutant.operator.expects
        return expected != "either" and (expected == "changes") != self.changes


def tree_of(base: Base) -> ast.Module:
    """Return the functions of one base, as a module without its imports."""
    whole = ast.parse(SOURCE.read_text(encoding="utf-8"))
    functions = [node for node in whole.body if getattr(node, "name", "") in base.functions]
    return marked(ast.Module(functions, []))


def mutants() -> Iterator[Mutant]:
    """Yield every edit of every base, the same on every machine."""
    for base in BASES:
        tree = tree_of(base)
        original = ast.unparse(tree)
        for operator in OPERATORS:
            trees = _spread(list(operator.edits(tree)))
            sources = dict.fromkeys(ast.unparse(edited) for edited in trees)
            sources.pop(original, None)
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
        report = reexecute(log, getattr(edited, base.name), tools=tools_of(base, edited))
        found = report.divergences[0] if report.divergences else None
        return Answer(mutant, now != lines, found)

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
        """Record a base, or an edit of it."""
        return record(
            getattr(module, base.name),
            base.given,
            log=self._folder / f"{module.__name__}.jsonl",
            tools=tools_of(base, module),
            model=ScriptedModel(["It is a test.", "Then it ends.", "More.", "Still more."]),
            seed=7,
            clock=FixedClock(),
            durability="fast",
        )


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
    """Return the lines of a run and its children, without what says when and where."""
    lines: list[Any] = []
    for path in sorted(log.parent.glob(f"{log.stem}*.jsonl")):
        for entry in read_entries(path):
            data = {} if entry.kind in UNDIGESTED else stable(entry.kind, entry.data)
            data = {name: value for name, value in data.items() if name != "fingerprint"}
            lines.append((path.name.removeprefix(log.stem), entry.kind, entry.call, data))
    return lines
