"""Single mutants of source lines: each is one small fault that a test should see.

What may become of an expression is `_others`, which statements are taken out `_REMOVED`: to add a
kind of edit, add it there.  Left out is what no test can see, or what every test would: docstrings,
annotations, type checking, assertions, and the words of messages.
"""

import ast
import copy
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any, Final

import attrs

_FLIPPED: Final[dict[type[ast.AST], type[Any]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv,
}  # fmt: skip
_REMOVED: Final = (ast.Expr, ast.Assign, ast.AugAssign, ast.Raise, ast.Delete, ast.Continue,
                   ast.Break)  # fmt: skip
_LEFT_OUT: Final = (ast.Assert, ast.Import, ast.ImportFrom, ast.Raise, ast.JoinedStr)
"""Nothing inside of them is edited."""
_BODIES: Final = ("body", "orelse", "finalbody", "handlers", "cases")
_HEADS: Final = ("test", "value", "iter", "args", "items", "targets", "target", "subject")
"""Fields of a statement whose expressions are edited: no annotation, decorator or base."""
_WORD: Final = re.compile(r"[\w.-]+")

_Change = tuple[ast.AST, str, Any]
"""Whose field becomes what."""


@attrs.frozen
class Mutant:
    """One edit of one statement."""

    file: str  # relative to the root
    line: int
    last: int  # line of the statement, or of its head; of a function's defaults, of its body
    old: str
    new: str
    number: int  # among the edits of its file
    is_inside: bool  # a function: what is outside runs at import

    @property
    def name(self) -> str:
        """What it is called in the list of explained ones: neither folders nor lines count."""
        return f"{Path(self.file).name}: {self.old}  ->  {self.new}"

    @property
    def rank(self) -> str:
        """Its place in the order that samples are taken in: as if by chance, always the same."""
        return hashlib.sha256(self.name.encode()).hexdigest()


def mutants(root: Path, path: Path) -> list[Mutant]:
    """Return every mutant of one file."""
    tree, file = ast.parse(path.read_text(encoding="utf-8")), path.relative_to(root).as_posix()
    found: dict[tuple[int, str], Mutant] = {}
    for number, (change, statement, is_inside) in enumerate(_edits(tree, is_inside=False)):
        old, was = _shown(statement), _apply(change)
        new = "pass" if isinstance(change[2], list) and change[1] in _BODIES else _shown(statement)
        _apply((*change[:2], was))
        if new != old:
            head = (statement.lineno, _last(statement))
            mutant = Mutant(file, *head, old, new, number, is_inside)
            found.setdefault((statement.lineno, new), mutant)
    return list(found.values())


def code_of(root: Path, mutant: Mutant, filename: str) -> CodeType:
    """Return the compiled file, with its lines where they were, and the name it is imported by."""
    path = root / mutant.file
    tree = ast.parse(path.read_text(encoding="utf-8"))
    _apply(list(_edits(tree, is_inside=False))[mutant.number][0])
    return compile(ast.fix_missing_locations(tree), filename, "exec")


def _apply(change: _Change) -> Any:
    """Make a change; return what was there."""
    holder, field, new = change
    was = getattr(holder, field)
    setattr(holder, field, new)
    return was


def _last(statement: ast.stmt) -> int:
    body: list[ast.stmt] = getattr(statement, "body", [])
    if body and not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return max(statement.lineno, body[0].lineno - 1)
    return statement.end_lineno or statement.lineno


def _shown(statement: ast.stmt) -> str:
    """Return a statement in one line; of one with a body, its head."""
    bare = copy.copy(statement)
    for field in _BODIES:
        if isinstance(getattr(bare, field, None), list):
            setattr(bare, field, [ast.Pass()] if field == "body" else [])
    if isinstance(bare, ast.Try):
        return "try:"
    return " ".join(ast.unparse(bare).split()).removesuffix(" pass")


def _edits(holder: ast.AST, *, is_inside: bool) -> Iterator[tuple[_Change, ast.stmt, bool]]:
    """Yield the edits of all statements in the bodies of a module, a statement or a branch."""
    for field in _BODIES:
        body: list[ast.AST] = getattr(holder, field, [])
        for at, statement in enumerate(body):
            if not isinstance(statement, ast.stmt):  # a handler, a case
                yield from _edits(statement, is_inside=is_inside)
                continue
            if _may_go(statement):
                gone = ast.copy_location(ast.Pass(), statement)
                yield (holder, field, [*body[:at], gone, *body[at + 1 :]]), statement, is_inside
            if isinstance(statement, _LEFT_OUT) or "TYPE_CHECKING" in _shown(statement):
                continue
            for head in _HEADS:
                for change in _within(statement, head):
                    yield change, statement, is_inside
            is_function = isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from _edits(statement, is_inside=is_inside or is_function)


def _may_go(statement: ast.stmt) -> bool:
    """Whether a statement can be taken out; a name that is bound nowhere, every test sees."""
    match statement:
        case ast.Expr(value=ast.Constant() | ast.Yield() | ast.YieldFrom()):
            return False
        case ast.Assign(targets=targets):
            return not any(isinstance(one, ast.Name | ast.Tuple) for one in targets)
    return isinstance(statement, _REMOVED)


def _within(holder: ast.AST, field: str) -> Iterator[_Change]:
    """Yield the edits of the expressions in one field, the outermost first."""
    value = getattr(holder, field, None)
    if isinstance(value, list):
        for at, one in enumerate(value):
            for other in _others(one, ""):
                yield holder, field, [*value[:at], other, *value[at + 1 :]]
    elif isinstance(value, ast.AST):
        for other in _others(value, "returned" if isinstance(holder, ast.Return) else field):
            yield holder, field, other
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, ast.AST) and not isinstance(one, (*_LEFT_OUT, ast.stmt)):
            for name in one._fields:
                if name not in ("annotation", "ctx"):
                    yield from _within(one, name)


def _others(node: Any, field: str) -> Iterator[ast.expr]:
    """Yield what an expression may become; `field` is what it is to the one that holds it."""
    if field == "test":
        yield from (ast.Constant(one) for one in (True, False))
    is_false = isinstance(node, ast.Constant) and node.value is False
    if field == "returned" and not is_false:  # to whoever asks, None and False are the same
        yield ast.Constant(None)
    yield from _flipped(node)
    match node:
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield ast.Constant(value + 1)
        case ast.Constant(value=str() as value) if _WORD.fullmatch(value):
            yield ast.Constant(value + "_")
        case ast.IfExp(body=body, orelse=orelse):
            yield from (body, orelse)
        case ast.Call():
            yield from _called(node)


def _flipped(node: Any) -> Iterator[ast.expr]:
    """Yield a comparison, a condition or a sum with another operator, or less of it."""
    match node:
        case ast.Compare(ops=[op, *rest]) if type(op) in _FLIPPED:
            yield _with(node, ops=[_FLIPPED[type(op)](), *rest])
        case ast.BoolOp(op=op, values=values):
            yield _with(node, op=_FLIPPED[type(op)]())
            for at in range(len(values)):
                kept = [*values[:at], *values[at + 1 :]]
                yield kept[0] if len(kept) == 1 else _with(node, values=kept)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _FLIPPED:
            if not any(isinstance(one, ast.Constant | ast.JoinedStr) and not _is_number(one)
                       for one in (left, right)):  # fmt: skip
                yield _with(node, op=_FLIPPED[type(op)]())


def _called(node: ast.Call) -> Iterator[ast.expr]:
    """Yield a call with two arguments exchanged, or one left out."""
    if isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
        other = "max" if node.func.id == "min" else "min"
        yield _with(node, func=ast.Name(other, ast.Load()))
    elif len(node.args) > 1 and not any(isinstance(one, ast.Starred) for one in node.args[:2]):
        yield _with(node, args=[node.args[1], node.args[0], *node.args[2:]])
    for at, keyword in enumerate(node.keywords):
        if keyword.arg:
            yield _with(node, keywords=[*node.keywords[:at], *node.keywords[at + 1 :]])


def _with(node: Any, **fields: Any) -> Any:
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)
