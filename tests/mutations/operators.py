"""Small edits of programs, by name: each says what it is expected to be called, if it is reported.

An operator yields copies of a tree, each with one edit.  `expects` says what follows by
construction: `changes` behaviour, is `neutral`, or `either`, where only a recording of the edited
program can tell.  `categories` are the names that a report of it may have; empty for any.
"""

import ast
import copy
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal

import attrs

Expects = Literal["changes", "neutral", "either"]
Edit = Callable[[ast.Module], Iterator[ast.Module]]


@attrs.frozen
class Operator:
    """One way of editing a program."""

    name: str
    expects: Expects
    categories: frozenset[str]
    edits: Edit
    not_compared: str = ""
    """What a report has to list where such an edit goes unnoticed: part of a line; empty for
    edits that never may."""
    text: str = ""
    """What it does, in a sentence."""


OPERATORS: Final[list[Operator]] = []


def operator(
    name: str, expects: Expects, *categories: str, not_compared: str = ""
) -> Callable[[Callable[[ast.AST], bool]], Any]:
    """Register an operator on nodes: the function edits one in place, and says whether it did."""

    def register(change: Callable[[ast.AST], bool]) -> Callable[[ast.AST], bool]:
        edits = _on_nodes(change)
        text = (change.__doc__ or "").partition("\n")[0]
        names = frozenset(categories)
        OPERATORS.append(Operator(name, expects, names, edits, not_compared, text))
        return change

    return register


def on_statements(
    name: str, expects: Expects, *categories: str, not_compared: str = ""
) -> Callable[[Callable[[ast.AST, list[ast.stmt], int], bool]], Any]:
    """Register an operator on statements: the function edits a body at an index."""

    def register(change: Callable[[ast.AST, list[ast.stmt], int], bool]) -> Any:
        edits, text = _on_bodies(change), (change.__doc__ or "").partition("\n")[0]
        names = frozenset(categories)
        OPERATORS.append(Operator(name, expects, names, edits, not_compared, text))
        return change

    return register


def fresh(text: str) -> ast.Module:
    """Return a tree to be edited: parsed again, which is quicker than copying one."""
    return marked(ast.parse(text))


def _on_nodes(change: Callable[[ast.AST], bool]) -> Edit:
    def edits(tree: ast.Module) -> Iterator[ast.Module]:
        text = ast.unparse(tree)
        nodes = list(ast.walk(edited := fresh(text)))
        for at in range(len(nodes)):
            if change(nodes[at]):
                yield edited
                nodes = list(ast.walk(edited := fresh(text)))

    return edits


def _on_bodies(change: Callable[[ast.AST, list[ast.stmt], int], bool]) -> Edit:
    def edits(tree: ast.Module) -> Iterator[ast.Module]:
        places = [(n, field, at) for n, field, body in _bodies(tree) for at in range(len(body))]
        text = ast.unparse(tree)
        nodes = list(ast.walk(edited := fresh(text)))
        for number, field, at in places:
            owner = nodes[number]
            if change(owner, getattr(owner, field), at):
                yield edited
                nodes = list(ast.walk(edited := fresh(text)))

    return edits


def _bodies(tree: ast.Module) -> Iterator[tuple[int, str, list[ast.stmt]]]:
    """Yield the lists of statements inside functions, with their owner's place in the walk."""
    for number, node in enumerate(ast.walk(tree)):
        for field in ("body", "orelse", "finalbody"):
            body = getattr(node, field, None)
            if isinstance(body, list) and body and not isinstance(node, ast.Module):
                yield number, field, body


def parsed(text: str) -> ast.stmt:
    """Return one statement."""
    return ast.parse(text).body[0]


def expression(text: str) -> Any:
    """Return one expression."""
    return ast.parse(text, mode="eval").body


def called(node: ast.AST | None, *methods: str) -> ast.Call | None:
    """Return the call `run.<method>(…)` that a node is, awaited or not."""
    if isinstance(node, ast.Await):
        node = node.value
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    owner = node.func.value
    is_run = isinstance(owner, ast.Name) and owner.id == "run"
    return node if is_run and (not methods or node.func.attr in methods) else None


def text_of(node: ast.AST | None) -> str | None:
    """Return the text that a node stands for, if it is one."""
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, str) else None


def is_asyncio(node: ast.AST, name: str) -> bool:
    """Return whether a node is the call `asyncio.<name>(…)`."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) == f"asyncio.{name}"


def marked(tree: ast.Module) -> ast.Module:
    """Return a tree whose nodes say whether they stand in a coroutine: there, calls are awaited."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                node.is_plain = isinstance(function, ast.FunctionDef)  # type: ignore[attr-defined]  # a mark of ours
    return tree


def is_plain(owner: ast.AST) -> bool:
    """Return whether a body is that of a plain program: nothing in it is awaited."""
    return bool(getattr(owner, "is_plain", False))


def asked(owner: ast.AST, text: str) -> ast.stmt:
    """Return a call on `run` as a statement, awaited where its body awaits."""
    return parsed(text if is_plain(owner) else f"await {text}")


def _replace(node: ast.AST, other: ast.AST) -> bool:
    """Make a node another one, in place."""
    node.__class__ = other.__class__
    node.__dict__ = other.__dict__
    return True


# --- arguments -------------------------------------------------------------------------------


@operator("tool argument", "either", "args_changed")
def tool_argument(node: ast.AST) -> bool:
    """Another constant in an argument of a tool."""
    call = called(node, "tool") if isinstance(node, ast.Call) else None
    for keyword in call.keywords if call else ():
        if (text := text_of(keyword.value)) is not None:
            keyword.value = ast.Constant(f"{text} changed")
            return True
    return False


@operator("computed argument", "either", "args_changed")
def computed_argument(node: ast.AST) -> bool:
    """A tool gets what was computed for it, and something more."""
    call = called(node, "tool") if isinstance(node, ast.Call) else None
    for keyword in call.keywords if call else ():
        if keyword.arg == "q" and not isinstance(keyword.value, ast.Constant):
            keyword.value = expression(f"({ast.unparse(keyword.value)}) + '!'")
            return True
    return False


@operator("model message", "either", "args_changed")
def model_message(node: ast.AST) -> bool:
    """Another text in a message, system prompts included."""
    if not isinstance(node, ast.Dict):
        return False
    for key, value in zip(node.keys, node.values, strict=True):
        is_content = isinstance(key, ast.Constant) and key.value == "content"
        if is_content and (text := text_of(value)) is not None:
            _replace(value, ast.Constant(f"{text} Be quick."))
            return True
    return False


@operator("model parameter", "changes", "args_changed")
def model_parameter(node: ast.AST) -> bool:
    """Another temperature, another cap."""
    call = called(node, "model") if isinstance(node, ast.Call) else None
    if call is None or not call.keywords:
        return False
    call.keywords[-1].value = ast.Constant(7)
    return True


@operator("delegation", "changes", "args_changed")
def delegation(node: ast.AST) -> bool:
    """Another brief for a child."""
    if not isinstance(node, ast.Call) or ast.unparse(node.func) != "Delegation":
        return False
    for keyword in node.keywords:
        if keyword.arg == "brief":
            keyword.value = ast.Constant("something else")
    return True


@operator("remark", "either", "args_changed")
def remark(node: ast.AST) -> bool:
    """Another text in an annotation."""
    call = called(node, "annotate") if isinstance(node, ast.Call) else None
    if call is None or not isinstance(call.args[0], ast.Constant):
        return False
    call.args[0] = ast.Constant("another remark")
    return True


# --- names and kinds -------------------------------------------------------------------------


@operator("tool name", "either", "name_changed")
def tool_name(node: ast.AST) -> bool:
    """Another tool with the same arguments."""
    call = called(node, "tool") if isinstance(node, ast.Call) else None
    text = text_of(call.args[0]) if call is not None else None
    if call is None or text is None:
        return False
    other = {"search": "fetch", "fetch": "search"}.get(text)
    if other is None:
        return False
    call.args[0] = ast.Constant(other)
    return True


@operator("unknown tool", "either", "name_changed")
def unknown_tool(node: ast.AST) -> bool:
    """A tool renamed to a name that the run was not offered."""
    call = called(node, "tool") if isinstance(node, ast.Call) else None
    text = text_of(call.args[0]) if call is not None else None
    if call is None or text is None:
        return False
    call.args[0] = ast.Constant(f"{text}_v2")
    return True


@on_statements("call for a remark", "either", "kind_changed")
def call_for_a_remark(_owner: ast.AST, body: list[ast.stmt], at: int) -> bool:
    """A tool call becomes an annotation."""
    statement = body[at]
    if not isinstance(statement, ast.Expr) or not called(statement.value, "tool"):
        return False
    body[at] = parsed("run.annotate('instead')")
    return True


@on_statements("call for a sleep", "either", "kind_changed")
def call_for_a_sleep(owner: ast.AST, body: list[ast.stmt], at: int) -> bool:
    """A tool call becomes a pause."""
    statement = body[at]
    if not isinstance(statement, ast.Expr) or not called(statement.value, "tool"):
        return False
    body[at] = asked(owner, "run.sleep(0.001)")
    return True


@on_statements("call for a draw", "either", "kind_changed")
def call_for_a_draw(_owner: ast.AST, body: list[ast.stmt], at: int) -> bool:
    """A tool call becomes a drawn value."""
    statement = body[at]
    if not isinstance(statement, ast.Expr) or not called(statement.value, "tool"):
        return False
    body[at] = parsed("run.uuid()")
    return True


# --- calls more, calls less ------------------------------------------------------------------


@on_statements("call inserted", "either", "extra_call")
def call_inserted(owner: ast.AST, body: list[ast.stmt], at: int) -> bool:
    """One more tool call before a statement."""
    if not _has_run(owner):
        return False
    body.insert(at, asked(owner, "run.tool('search', q='inserted')"))
    return True


@on_statements("remark inserted", "either", "extra_call")
def remark_inserted(owner: ast.AST, body: list[ast.stmt], at: int) -> bool:
    """One more annotation before a statement."""
    if not _has_run(owner):
        return False
    body.insert(at, parsed("run.annotate('inserted')"))
    return True


@on_statements("draw inserted", "either", "extra_call")
def draw_inserted(owner: ast.AST, body: list[ast.stmt], at: int) -> bool:
    """One more drawn value before a statement."""
    if not _has_run(owner):
        return False
    body.insert(at, parsed("run.uuid()"))
    return True


@on_statements("look inserted", "either", "extra_call")
def look_inserted(owner: ast.AST, body: list[ast.stmt], at: int) -> bool:
    """One more look at the clock before a statement."""
    if not _has_run(owner):
        return False
    body.insert(at, parsed("run.now()"))
    return True


@on_statements("sleep inserted", "either", "extra_call", not_compared="the length of")
def sleep_inserted(owner: ast.AST, body: list[ast.stmt], at: int) -> bool:
    """A pause before a statement; unseen where the task is given up on before it can end."""
    if not _has_run(owner):
        return False
    body.insert(at, asked(owner, "run.sleep(0.001)"))
    return True


@on_statements("call doubled", "either", "extra_call")
def call_doubled(_owner: ast.AST, body: list[ast.stmt], at: int) -> bool:
    """The same call once more."""
    statement = body[at]
    if not isinstance(statement, ast.Expr) or not called(statement.value):
        return False
    body.insert(at, copy.deepcopy(statement))
    return True


@on_statements("call dropped", "either", "missing_call", "unconsumed")
def call_dropped(_owner: ast.AST, body: list[ast.stmt], at: int) -> bool:
    """A call whose result nobody uses is gone."""
    statement = body[at]
    if not isinstance(statement, ast.Expr) or not called(statement.value):
        return False
    body[at] = ast.Pass()
    return True


@on_statements("result made up", "either")
def result_made_up(_owner: ast.AST, body: list[ast.stmt], at: int) -> bool:
    """A call is gone, and its result a constant."""
    statement = body[at]
    if not isinstance(statement, ast.Assign) or not called(statement.value, "tool", "model"):
        return False
    statement.value = ast.Constant("made up")
    return True


@operator("branch dropped", "either", "missing_call", "unconsumed")
def branch_dropped(node: ast.AST) -> bool:
    """One branch less in a gather."""
    if not isinstance(node, ast.Call) or not is_asyncio(node, "gather"):
        return False
    if not isinstance(node.args[-1], ast.Call):
        return False
    node.args.pop()
    return True


@operator("branch added", "either", "extra_call")
def branch_added(node: ast.AST) -> bool:
    """One branch more at the end of a gather."""
    if not isinstance(node, ast.Call) or not is_asyncio(node, "gather"):
        return False
    node.args.append(expression("run.tool('search', q='branch')"))
    return True


@operator("branch added in front", "either", "extra_call")
def branch_added_in_front(node: ast.AST) -> bool:
    """One branch more at the beginning of a gather."""
    if not isinstance(node, ast.Call) or not is_asyncio(node, "gather"):
        return False
    node.args.insert(0, expression("run.tool('search', q='branch')"))
    return True


@operator("loop longer", "either")
def loop_longer(node: ast.AST) -> bool:
    """One turn more."""
    if not isinstance(node, ast.Call) or ast.unparse(node.func) != "range":
        return False
    node.args[-1] = expression(f"{ast.unparse(node.args[-1])} + 1")
    return True


@operator("loop shorter", "either")
def loop_shorter(node: ast.AST) -> bool:
    """One turn less."""
    if not isinstance(node, ast.For) or ast.unparse(node.iter) not in ("given", "tasks"):
        return False
    node.iter = expression(f"{ast.unparse(node.iter)}[:-1]")
    return True


# --- order -----------------------------------------------------------------------------------


@on_statements("calls swapped", "either", "reordered")
def calls_swapped(_owner: ast.AST, body: list[ast.stmt], at: int) -> bool:
    """Two neighbouring calls, neither of which needs the other."""
    if at + 1 >= len(body):
        return False
    one, other = body[at], body[at + 1]
    if not _is_call(one) or not _is_call(other) or _names(one) & _reads(other):
        return False
    body[at], body[at + 1] = other, one
    return True


@operator("branches swapped", "either", "reordered")
def branches_swapped(node: ast.AST) -> bool:
    """Two branches of a gather."""
    if not isinstance(node, ast.Call) or not is_asyncio(node, "gather") or len(node.args) < 2:
        return False
    node.args[0], node.args[1] = node.args[1], node.args[0]
    return True


@operator("loop reversed", "either", "reordered")
def loop_reversed(node: ast.AST) -> bool:
    """A loop over what was given, from its end."""
    if not isinstance(node, ast.For) or ast.unparse(node.iter) != "given":
        return False
    node.iter = expression("given[::-1]")
    return True


# --- tasks -----------------------------------------------------------------------------------


@operator("call in a task", "either", "reordered")
def call_in_a_task(node: ast.AST) -> bool:
    """A call is awaited in a task of its own."""
    if not isinstance(node, ast.Await) or not called(node, "tool"):
        return False
    node.value = expression(f"asyncio.create_task({ast.unparse(node.value)})")
    return True


@operator("call shielded", "either", "reordered")
def call_shielded(node: ast.AST) -> bool:
    """A call is shielded, which makes a task of it."""
    if not isinstance(node, ast.Await) or not called(node, "tool"):
        return False
    node.value = expression(f"asyncio.shield({ast.unparse(node.value)})")
    return True


@operator("gather undone", "either", "reordered")
def gather_undone(node: ast.AST) -> bool:
    """What was gathered is awaited one after the other."""
    if not isinstance(node, ast.Await) or not is_asyncio(node.value, "gather"):
        return False
    args = node.value.args  # type: ignore[attr-defined]  # a call
    if not all(isinstance(each, ast.Call) for each in args):
        return False
    calls = [f"await {ast.unparse(each)}" for each in args]
    return _replace(node, expression(f"[{', '.join(calls)}]"))


@on_statements("calls gathered", "either", "reordered")
def calls_gathered(_owner: ast.AST, body: list[ast.stmt], at: int) -> bool:
    """Two neighbouring calls are gathered."""
    if at + 1 >= len(body):
        return False
    pair = body[at : at + 2]
    calls = [each.value for each in pair if isinstance(each, ast.Expr) and called(each.value)]
    if len(calls) < 2 or not all(isinstance(call, ast.Await) for call in calls):
        return False
    inner = ", ".join(ast.unparse(call.value) for call in calls)  # type: ignore[attr-defined]  # awaited
    body[at : at + 2] = [parsed(f"await asyncio.gather({inner})")]
    return True


@on_statements("await dropped", "either")
def await_dropped(_owner: ast.AST, body: list[ast.stmt], at: int) -> bool:
    """A call is started and not waited for."""
    statement = body[at]
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Await):
        return False
    if not called(statement.value, "tool"):
        return False
    body[at] = parsed(f"left = asyncio.create_task({ast.unparse(statement.value.value)})")
    return True


@on_statements("turn given up", "either")
def turn_given_up(owner: ast.AST, body: list[ast.stmt], at: int) -> bool:
    """A sleep of nothing: it asks for nothing, but others may go first."""
    if not _has_run(owner) or is_plain(owner):
        return False
    body.insert(at, parsed("await asyncio.sleep(0)"))
    return True


@operator("time limit", "either")
def time_limit(node: ast.AST) -> bool:
    """A call gets a time limit that is never reached: neutral, whatever other timers there are."""
    if not isinstance(node, ast.Await) or not called(node, "tool"):
        return False
    node.value = expression(f"asyncio.wait_for({ast.unparse(node.value)}, 60)")
    return True


# --- results and ends ------------------------------------------------------------------------


@on_statements("other return", "either", "output_changed", "result_changed")
def other_return(owner: ast.AST, body: list[ast.stmt], at: int) -> bool:
    """A program, or its child or tool, returns something else."""
    statement = body[at]
    if not isinstance(statement, ast.Return) or not getattr(owner, "name", "").startswith(
        _PROGRAMS
    ):
        return False
    assert statement.value is not None
    statement.value = expression(f"[{ast.unparse(statement.value)}, 'more']")
    return True


@on_statements("early return", "either")
def early_return(owner: ast.AST, body: list[ast.stmt], at: int) -> bool:
    """A function returns before a statement."""
    if not _has_run(owner) or isinstance(body[at], ast.Return):
        return False
    body.insert(at, ast.Return(ast.Constant("early")))
    return True


@on_statements("raise for return", "either", "output_changed", "result_changed", "unconsumed")
def raise_for_return(owner: ast.AST, body: list[ast.stmt], at: int) -> bool:
    """A program ends with an error."""
    if not isinstance(body[at], ast.Return) or not _is_program(owner):
        return False
    body[at] = parsed("raise ValueError('mutant')")
    return True


@on_statements("raise inserted", "either")
def raise_inserted(owner: ast.AST, body: list[ast.stmt], at: int) -> bool:
    """A function raises before a statement."""
    if not _has_run(owner):
        return False
    body.insert(at, parsed("raise ValueError('mutant')"))
    return True


@operator("other error caught", "either")
def other_error_caught(node: ast.AST) -> bool:
    """A handler is for another error."""
    if not isinstance(node, ast.ExceptHandler):
        return False
    node.type = ast.Name("ZeroDivisionError", ast.Load())
    return True


@operator("condition negated", "either")
def condition_negated(node: ast.AST) -> bool:
    """The other way."""
    if not isinstance(node, ast.If):
        return False
    node.test = ast.UnaryOp(ast.Not(), node.test)
    return True


@operator("condition shifted", "either")
def condition_shifted(node: ast.AST) -> bool:
    """One more, or one fewer: it may make no difference."""
    if not isinstance(node, ast.Compare) or not isinstance(node.comparators[0], ast.Constant):
        return False
    if not isinstance(node.comparators[0].value, int):
        return False
    node.comparators[0].value += 1
    return True


@operator("sum turned", "either")
def sum_turned(node: ast.AST) -> bool:
    """The other operand first: the same for numbers, not for lists."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
        return False
    node.left, node.right = node.right, node.left
    return True


@operator("other index", "either")
def other_index(node: ast.AST) -> bool:
    """Another element of a result."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Constant):
        return False
    if not isinstance(node.slice.value, int):
        return False
    node.slice = expression("-1")
    return True


# --- time ------------------------------------------------------------------------------------


def _seconds(node: ast.AST, *names: str) -> ast.Constant | None:
    """Return the seconds that a call of one of asyncio's functions names, if it does."""
    if not isinstance(node, ast.Call) or not any(is_asyncio(node, name) for name in names):
        return None
    last = node.args[-1]
    return last if isinstance(last, ast.Constant) and isinstance(last.value, float) else None


@operator("limit longer", "either", not_compared="the length of")
def limit_longer(node: ast.AST) -> bool:
    """A time limit of a second: the programs' own are of milliseconds, and some wait it out."""
    if (seconds := _seconds(node, "timeout", "wait_for")) is None:
        return False
    seconds.value = 1
    return True


@operator("limit shorter", "either", not_compared="the length of")
def limit_shorter(node: ast.AST) -> bool:
    """A time limit that is over nearly at once."""
    if (seconds := _seconds(node, "timeout", "wait_for")) is None:
        return False
    seconds.value = 0.0001
    return True


@operator("sleep longer", "either", not_compared="the length of")
def sleep_longer(node: ast.AST) -> bool:
    """A pause of another length."""
    if (seconds := _seconds(node, "sleep")) is None:
        return False
    seconds.value = 0.5
    return True


@on_statements(
    "sleep dropped", "either", "missing_call", "unconsumed", "unrecorded_await", "extra_call"
)
def sleep_dropped(_owner: ast.AST, body: list[ast.stmt], at: int) -> bool:
    """A pause is gone."""
    statement = body[at]
    awaited = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(awaited, ast.Await) or not is_asyncio(awaited.value, "sleep"):
        return False
    body[at] = ast.Pass()
    return True


@operator("latency", "either", "args_changed")
def latency(node: ast.AST) -> bool:
    """Another number for a tool."""
    call = called(node, "tool") if isinstance(node, ast.Call) else None
    for keyword in call.keywords if call else ():
        if keyword.arg == "ms":
            keyword.value = ast.Constant(20)
            return True
    return False


# --- giving up -------------------------------------------------------------------------------


@on_statements("cancel dropped", "either")
def cancel_dropped(_owner: ast.AST, body: list[ast.stmt], at: int) -> bool:
    """A task is no longer cancelled."""
    if ast.unparse(body[at]) not in ("doomed.cancel()", "task.cancel()"):
        return False
    body[at] = ast.Pass()
    return True


@operator("clean-up dropped", "either")
def clean_up_dropped(node: ast.AST) -> bool:
    """What a task does when it is cancelled is gone."""
    if not isinstance(node, ast.ExceptHandler) or node.type is None:
        return False
    if ast.unparse(node.type) != "asyncio.CancelledError":
        return False
    node.body = [ast.Raise()]
    return True


@operator("all for the first", "either")
def all_for_the_first(node: ast.AST) -> bool:
    """Waits for all where the first was enough."""
    if not isinstance(node, ast.Attribute) or node.attr != "FIRST_COMPLETED":
        return False
    node.attr = "ALL_COMPLETED"
    return True


@operator("shield dropped", "either")
def shield_dropped(node: ast.AST) -> bool:
    """A call is awaited as it is."""
    return is_asyncio(node, "shield") and _replace(node, node.args[0])  # type: ignore[attr-defined]  # a call


# --- between tasks ---------------------------------------------------------------------------


@on_statements("lock dropped", "either")
def lock_dropped(_owner: ast.AST, body: list[ast.stmt], at: int) -> bool:
    """A lock is no longer taken."""
    statement = body[at]
    if not isinstance(statement, ast.AsyncWith):
        return False
    if not ast.unparse(statement.items[0].context_expr).startswith("lock_"):
        return False
    body[at : at + 1] = statement.body
    return True


@operator("queue wider", "either")
def queue_wider(node: ast.AST) -> bool:
    """A queue has room for all."""
    if not isinstance(node, ast.Call) or not is_asyncio(node, "Queue"):
        return False
    node.args = [ast.Constant(9)]
    return True


@operator("task added", "either")
def task_added(node: ast.AST) -> bool:
    """One task more, that asks for nothing, beside those of a gather."""
    if not isinstance(node, ast.Call) or not is_asyncio(node, "gather"):
        return False
    node.args.insert(0, expression("asyncio.sleep(0)"))
    return True


# --- children and sessions -------------------------------------------------------------------


@operator("input of a child", "either", "args_changed")
def input_of_a_child(node: ast.AST) -> bool:
    """A child is given something else."""
    if not isinstance(node, ast.Call) or ast.unparse(node.func) != "Delegation":
        return False
    for keyword in node.keywords:
        if keyword.arg == "input":
            keyword.value = ast.Constant("something else")
            return True
    return False


@operator("program of a child", "either", "args_changed", "name_changed")
def program_of_a_child(node: ast.AST) -> bool:
    """Another program runs as a child."""
    if not isinstance(node, ast.Call) or ast.unparse(node.func) != "Delegation":
        return False
    for keyword in node.keywords:
        if keyword.arg == "program" and ast.unparse(keyword.value) != "generated":
            keyword.value = ast.Name("generated", ast.Load())
            return True
    return False


@operator("entry of a session", "either", "args_changed")
def entry_of_a_session(node: ast.AST) -> bool:
    """Something else is kept in the session."""
    if not isinstance(node, ast.Call) or ast.unparse(node.func) != "Note":
        return False
    node.args[0] = expression(f"{ast.unparse(node.args[0])} + '!'")
    return True


@operator("draw of another name", "either", "args_changed")
def draw_of_another_name(node: ast.AST) -> bool:
    """Another stream of random numbers."""
    call = called(node, "random") if isinstance(node, ast.Call) else None
    if call is None:
        return False
    call.args[0] = expression(f"{ast.unparse(call.args[0])} + '!'")
    return True


# --- neutral ---------------------------------------------------------------------------------


@operator("locals renamed", "neutral")
def locals_renamed(node: ast.AST) -> bool:
    """Every local name of a function gets another name."""
    if not isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef):
        return False
    arguments = {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
    names = {
        each.id
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    } - arguments
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and each.id in names:
            each.id = f"{each.id}_renamed"
    return bool(names)


@on_statements("docstring added", "neutral")
def docstring_added(owner: ast.AST, body: list[ast.stmt], at: int) -> bool:
    """A text that does nothing, before a statement."""
    if not _has_run(owner):
        return False
    body.insert(at, parsed("'''What stands here is explained.'''"))
    return True


@operator("keywords reordered", "neutral")
def keywords_reordered(node: ast.AST) -> bool:
    """Named arguments in another order."""
    if not isinstance(node, ast.Call) or len(node.keywords) < 2:
        return False
    node.keywords.reverse()
    return True


@operator("helper extracted", "neutral")
def helper_extracted(node: ast.AST) -> bool:
    """A call goes through a function of its own, in the same task."""
    if not isinstance(node, ast.Await) or not called(node, "tool"):
        return False
    inner = ast.unparse(node.value)
    node.value = expression(f"(lambda ask: ask())(lambda: {inner})")
    return True


@on_statements("annotated", "neutral")
def annotated(_owner: ast.AST, body: list[ast.stmt], at: int) -> bool:
    """An assignment gets a type."""
    statement = body[at]
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return False
    name = ast.Name(statement.targets[0].id, ast.Store())
    body[at] = ast.AnnAssign(name, expression("Any"), statement.value, simple=1)
    return True


@on_statements("result named", "neutral")
def result_named(_owner: ast.AST, body: list[ast.stmt], at: int) -> bool:
    """What is returned gets a name first."""
    statement = body[at]
    if not isinstance(statement, ast.Return) or statement.value is None:
        return False
    body[at : at + 1] = [
        parsed(f"returned = {ast.unparse(statement.value)}"),
        parsed("return returned"),
    ]
    return True


@on_statements("block wrapped", "neutral")
def block_wrapped(owner: ast.AST, body: list[ast.stmt], at: int) -> bool:
    """A statement stands in a block that always runs."""
    if not _has_run(owner) or isinstance(body[at], ast.AsyncFunctionDef):
        return False
    body[at] = ast.If(ast.Constant(value=True), [body[at]], [])
    return True


@on_statements("error passed on", "neutral")
def error_passed_on(owner: ast.AST, body: list[ast.stmt], at: int) -> bool:
    """A statement whose errors are caught and raised again."""
    if not _has_run(owner) or isinstance(body[at], ast.AsyncFunctionDef):
        return False
    handler = ast.ExceptHandler(expression("Exception"), None, [ast.Raise()])
    body[at] = ast.Try([body[at]], [handler], [], [])
    return True


@operator("condition twice negated", "neutral")
def condition_twice_negated(node: ast.AST) -> bool:
    """Not the opposite."""
    if not isinstance(node, ast.If | ast.While):
        return False
    node.test = expression(f"not (not ({ast.unparse(node.test)}))")
    return True


@operator("text composed", "neutral")
def text_composed(node: ast.AST) -> bool:
    """A text argument is put together from its characters."""
    call = called(node, "tool") if isinstance(node, ast.Call) else None
    for keyword in call.keywords if call else ():
        if (text := text_of(keyword.value)) is not None:
            keyword.value = expression(f"''.join({list(text)!r})")
            return True
    return False


@operator("task made otherwise", "neutral")
def task_made_otherwise(node: ast.AST) -> bool:
    """`ensure_future` is `create_task` for a coroutine."""
    if not isinstance(node, ast.Call) or not is_asyncio(node, "create_task"):
        return False
    node.func = expression("asyncio.ensure_future")
    return True


@on_statements("code never reached", "neutral")
def code_never_reached(_owner: ast.AST, body: list[ast.stmt], at: int) -> bool:
    """A call after a return."""
    if not isinstance(body[at], ast.Return):
        return False
    body.insert(at + 1, parsed("run.annotate('never')"))
    return True


_PROGRAMS: Final = (
    "sequential", "gathering", "grouped", "racing", "timed", "parent", "child", "delegating",
    "helper", "asking", "plainly", "retrying", "generated",
)  # fmt: skip


def _is_program(owner: ast.AST) -> bool:
    return getattr(owner, "name", "").startswith(_PROGRAMS)


def _has_run(owner: ast.AST) -> bool:
    """Return whether a body can ask the world: it is in a function that has `run`."""
    return any(isinstance(node, ast.Name) and node.id == "run" for node in ast.walk(owner))


def _is_call(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr | ast.Assign) else None
    return called(value, "tool", "model", "annotate", "start", "delegate") is not None


def _names(statement: ast.stmt) -> set[str]:
    return {
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _reads(statement: ast.stmt) -> set[str]:
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}


@on_statements("future made", "neutral")
def future_made(owner: ast.AST, body: list[ast.stmt], at: int) -> bool:
    """A future that nobody waits for."""
    if not _has_run(owner) or is_plain(owner):
        return False
    body.insert(at, parsed("asyncio.get_running_loop().create_future()"))
    return True


@on_statements("lock of its own", "neutral")
def lock_of_its_own(owner: ast.AST, body: list[ast.stmt], at: int) -> bool:
    """A statement is done under a lock that nobody else has."""
    statement = body[at]
    if not _has_run(owner) or is_plain(owner) or not isinstance(statement, ast.Expr | ast.Assign):
        return False
    locked: Any = parsed("async def under():\n    async with asyncio.Lock():\n        pass")
    locked.body[0].body = [statement]
    body[at] = locked.body[0]
    return True


@on_statements("set aside", "neutral")
def set_aside(owner: ast.AST, body: list[ast.stmt], at: int) -> bool:
    """Futures in a set of their own."""
    if not _has_run(owner) or is_plain(owner):
        return False
    body.insert(at, parsed("aside = {asyncio.Event(), *range(3)}"))
    return True
