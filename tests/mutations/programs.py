"""Random programs that the mutation suite edits: source text, the same for a seed everywhere.

Every request says a text of its own (`k7`), so that an edit can be told from the place that a
report names.  Asynchronous and plain programs, branches that run at once, children, a session, a
model; waiting of every kind that asyncio has, cut off by timers and by others; tools that fail.
"""

import random
from collections.abc import Callable, Sequence
from typing import Final

from tests.mutations.bases import Base

_INDENT: Final = "    "
Lines = list[str]


def random_base(seed: int) -> Base:
    """Return a program of its own, with the functions that belong to it."""
    return _Author(random.Random(seed)).base(seed)


class _Author:
    """Writes one program."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._count = 0
        self._functions: list[Lines] = []
        self._names: list[str] = []
        self._is_child = False
        """Whether a child's function is being written: it has no session."""
        self._left = rng.randint(4, 14)
        """Statements that may still be written, in all functions."""

    def base(self, seed: int) -> Base:
        is_plain = self._rng.random() < 0.15
        statements = self._plain if is_plain else self._async
        body, names = statements(0, self._rng.randint(2, 6))
        head = "def generated(run, given):" if is_plain else "async def generated(run, given):"
        own = [head, *_inside(body), f"{_INDENT}return [{', '.join(names)}]"]
        source = "\n\n".join("\n".join(lines) for lines in [own, *self._functions])
        children = tuple(name for name in self._names if name.startswith("child"))
        return Base(
            ("generated", *self._names),
            seed,
            children=children,
            source=source,
        )

    # -- words ----------------------------------------------------------------------------

    def _next(self, word: str) -> str:
        self._count += 1
        return f"{word}{self._count}"

    def _key(self) -> str:
        return repr(self._next("k"))

    def _seconds(self) -> str:
        return f"{self._rng.choice((1, 4, 9, 16, 25, 60)) / 1000}"

    def _call(self) -> str:
        """Return the call of a tool, not awaited."""
        name = self._rng.choice(("search", "fetch", "search", "fetch", "count", "lasting"))
        if name == "lasting":
            return f"run.tool('lasting', q={self._key()}, ms={self._rng.choice((3, 12, 45))})"
        return f"run.tool({name!r}, q={self._key()})"

    def _coroutine(self, depth: int) -> str:
        """Return something that can be awaited beside others."""
        if depth > 2 or self._left < 2 or self._rng.random() < 0.5:
            return self._call()
        name = self._next("branch_")
        body, names = self._async(depth + 1, self._rng.randint(1, 3))
        if self._rng.random() < 0.25:
            clean_up = f"await run.tool('fetch', q={self._key()})"
            body = [
                "try:",
                *_inside(body),
                "except asyncio.CancelledError:",
                *_inside([clean_up, "raise"]),
            ]
            names = []
        if self._rng.random() < 0.15:
            body.append(f"raise ValueError({self._key()})")
        self._add(
            name, [f"async def {name}(run):", *_inside(body), f"    return [{', '.join(names)}]"]
        )
        return f"{name}(run)"

    def _child(self, depth: int, *, is_plain: bool) -> str:
        """Return a delegation to a child of its own."""
        name = self._next("child_")
        statements = self._plain if is_plain else self._async
        was_child, self._is_child = self._is_child, True
        body, names = statements(max(depth + 1, 2), self._rng.randint(1, 3))
        self._is_child = was_child
        head = f"{'' if is_plain else 'async '}def {name}(run, given):"
        self._add(name, [head, *_inside(body), f"    return [given, {', '.join(names)}]"])
        return f"Delegation(program={name}, input={self._count}, brief={self._key()})"

    def _add(self, name: str, lines: Lines) -> None:
        self._names.append(name)
        self._functions.append(lines)

    # -- statements -----------------------------------------------------------------------

    def _async(self, depth: int, count: int) -> tuple[Lines, list[str]]:
        """Return statements of a coroutine, and the names that they are sure to set."""
        simple: Sequence[Callable[[int, list[str]], Lines]] = (
            self._ask, self._ask, self._keep, self._keep, self._fail, self._small, self._small,
            self._sleep, self._loop, self._model,
        )  # fmt: skip
        rich: Sequence[Callable[[int, list[str]], Lines]] = (
            self._branch, self._gather, self._gather, self._group, self._broken_group, self._first,
            self._as_completed, self._limit, self._limit, self._wait_for, self._queue, self._lock,
            self._shield, self._cancel, self._event, self._delegate, self._join,
        )  # fmt: skip
        return self._written(simple, rich, depth, count)

    def _plain(self, depth: int, count: int) -> tuple[Lines, list[str]]:
        """Return the same for a plain function: what is asked for is there at once."""
        found = self._written(
            (self._ask, self._keep, self._keep, self._fail, self._small, self._small, self._loop),
            (self._branch, self._model, self._sleep, self._plain_child),
            depth,
            count,
        )
        lines = [
            line.replace("await ", "").replace("asyncio.sleep", "run.sleep") for line in found[0]
        ]
        return lines, found[1]

    def _written(
        self,
        simple: Sequence[Callable[[int, list[str]], Lines]],
        rich: Sequence[Callable[[int, list[str]], Lines]],
        depth: int,
        count: int,
    ) -> tuple[Lines, list[str]]:
        lines, names = Lines(), list[str]()
        for _ in range(count):
            self._left -= 1
            is_rich = depth < 3 and self._left > 0 and self._rng.random() < 0.6
            lines += self._rng.choice(rich if is_rich else simple)(depth, names)
        return lines, names

    def _ask(self, _depth: int, _names: list[str]) -> Lines:
        return [f"await {self._call()}"]

    def _keep(self, _depth: int, names: list[str]) -> Lines:
        name = self._next("v")
        if names and self._rng.random() < 0.4:
            text = f"f'{self._next('k')} {{{self._rng.choice(names)}}}'"
            line = f"{name} = await run.tool('search', q={text})"
        else:
            line = f"{name} = await {self._call()}"
        names.append(name)
        return [line]

    def _fail(self, _depth: int, _names: list[str]) -> Lines:
        return [
            "try:",
            f"    await run.tool('breaks', q={self._key()})",
            "except ToolError as error:",
            f"    run.annotate(error.code + ' {self._next('k')}')",
        ]

    def _small(self, _depth: int, names: list[str]) -> Lines:
        name = self._next("v")
        choices = [
            f"run.annotate({self._key()})",
            f"{name} = str(run.uuid())",
            f"{name} = run.random({self._key()}).randint(1, 6)",
            f"{name} = run.now().year",
        ]
        if not self._is_child:
            choices.append(f"run.session.dispatch(Note({self._key()}))")
            choices.append(f"{name} = len(run.session.select_all(Note))")
        line = self._rng.choice(choices)
        if line.startswith("v"):
            names.append(name)
        return [line]

    def _sleep(self, _depth: int, _names: list[str]) -> Lines:
        return [f"await asyncio.sleep({self._seconds()})"]

    def _loop(self, _depth: int, _names: list[str]) -> Lines:
        return [
            f"for n in range({self._rng.randint(1, 3)}):",
            f"    await run.tool('fetch', q=f'{self._next('k')} {{n}}')",
        ]

    def _model(self, _depth: int, names: list[str]) -> Lines:
        name = self._next("v")
        names.append(name)
        message = f"{{'role': 'user', 'content': {self._key()}}}"
        return [f"{name} = (await run.model([{message}], temperature=0)).message['content']"]

    def _branch(self, depth: int, names: list[str]) -> Lines:
        subject = self._rng.choice(names) if names else "given"
        return [
            f"if len(str({subject})) > {self._rng.randint(1, 7)}:",
            *_inside(self._inner(depth)),
            "else:",
            *_inside(self._ask(depth, [])),
        ]

    def _inner(self, depth: int) -> Lines:
        """Return a few statements whose names nobody outside needs."""
        lines: Lines = []
        for _ in range(self._rng.randint(1, 3)):
            lines += self._rng.choice((self._ask, self._keep, self._small, self._fail))(depth, [])
        return lines

    def _gather(self, depth: int, names: list[str]) -> Lines:
        name = self._next("v")
        names.append(name)
        some = ", ".join(self._coroutine(depth) for _ in range(self._rng.randint(2, 4)))
        return [
            f"{name} = await asyncio.gather({some}, return_exceptions=True)",
            f"{name} = str({name})",
        ]

    def _group(self, depth: int, _names: list[str]) -> Lines:
        tasks = [f"group.create_task({self._coroutine(depth)})" for _ in range(2)]
        return [
            "try:",
            "    async with asyncio.TaskGroup() as group:",
            *_inside(_inside([*tasks, *self._ask(depth, [])])),
            "except* ValueError:",
            f"    run.annotate({self._key()})",
        ]

    def _broken_group(self, depth: int, _names: list[str]) -> Lines:
        tasks = [f"group.create_task({self._coroutine(depth)})" for _ in range(3)]
        tasks.insert(
            self._rng.randrange(4), f"group.create_task(run.tool('breaks', q={self._key()}))"
        )
        return [
            "try:",
            "    async with asyncio.TaskGroup() as group:",
            *_inside(_inside(tasks)),
            "except* Exception:",
            f"    run.annotate({self._key()})",
        ]

    def _first(self, depth: int, names: list[str]) -> Lines:
        name = self._next("v")
        names.append(name)
        some = ", ".join(f"asyncio.create_task({self._coroutine(depth)})" for _ in range(2))
        return [
            f"tasks = [{some}]",
            "done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)",
            "for task in rest:",
            "    task.cancel()",
            "await asyncio.gather(*rest, return_exceptions=True)",
            f"{name} = [task in done for task in tasks]",
        ]

    def _as_completed(self, _depth: int, names: list[str]) -> Lines:
        name = self._next("v")
        names.append(name)
        some = ", ".join(self._call() for _ in range(self._rng.randint(2, 3)))
        return [
            f"{name} = []",
            f"for each in asyncio.as_completed([{some}]):",
            f"    {name}.append(await each)",
        ]

    def _limit(self, depth: int, _names: list[str]) -> Lines:
        return [
            "try:",
            f"    async with asyncio.timeout({self._seconds()}):",
            *_inside(_inside(self._inner(depth) + self._ask(depth, []))),
            "except TimeoutError:",
            *_inside(self._ask(depth, [])),
        ]

    def _wait_for(self, depth: int, names: list[str]) -> Lines:
        name = self._next("v")
        names.append(name)
        waited = f"asyncio.wait_for({self._coroutine(depth)}, {self._seconds()})"
        return [
            "try:",
            f"    {name} = str(await {waited})",
            "except (TimeoutError, ValueError):",
            f"    {name} = 'late'",
        ]

    def _queue(self, _depth: int, _names: list[str]) -> Lines:
        queue, produce = self._next("queue_"), self._next("produce_")
        return [
            f"{queue} = asyncio.Queue({self._rng.randint(0, 2)})",
            f"async def {produce}():",
            f"    for name in [{self._key()}, {self._key()}]:",
            f"        await {queue}.put(await run.tool('search', q=name))",
            f"    await {queue}.put(None)",
            f"producer = asyncio.create_task({produce}())",
            f"while (item := await {queue}.get()) is not None:",
            f"    await run.tool('count', q=item + ' {self._next('k')}')",
            "await producer",
        ]

    def _lock(self, _depth: int, _names: list[str]) -> Lines:
        lock, locked = self._next("lock_"), self._next("locked_")
        return [
            f"{lock} = asyncio.Lock()",
            f"async def {locked}(name):",
            f"    async with {lock}:",
            f"        await run.tool('search', q=name + ' {self._next('k')}')",
            f"        await run.tool('fetch', q=name + ' {self._next('k')}')",
            f"await asyncio.gather({locked}({self._key()}), {locked}({self._key()}))",
        ]

    def _shield(self, _depth: int, names: list[str]) -> Lines:
        name = self._next("v")
        names.append(name)
        return [f"{name} = await asyncio.shield({self._call()})"]

    def _cancel(self, depth: int, names: list[str]) -> Lines:
        name = self._next("v")
        names.append(name)
        return [
            f"doomed = asyncio.create_task({self._coroutine(depth)})",
            f"await {self._call()}",
            "doomed.cancel()",
            f"{name} = type((await asyncio.gather(doomed, return_exceptions=True))[0]).__name__",
        ]

    def _event(self, _depth: int, _names: list[str]) -> Lines:
        event, waits = self._next("event_"), self._next("waits_")
        return [
            f"{event} = asyncio.Event()",
            f"async def {waits}():",
            f"    await {event}.wait()",
            f"    await {self._call()}",
            f"waiter = asyncio.create_task({waits}())",
            f"await {self._call()}",
            f"{event}.set()",
            "await waiter",
        ]

    def _delegate(self, depth: int, names: list[str]) -> Lines:
        name = self._next("v")
        names.append(name)
        is_plain = self._rng.random() < 0.3
        return [f"{name} = (await run.delegate({self._child(depth, is_plain=is_plain)})).output"]

    def _plain_child(self, depth: int, names: list[str]) -> Lines:
        name = self._next("v")
        names.append(name)
        return [f"{name} = run.delegate({self._child(depth, is_plain=True)}).output"]

    def _join(self, depth: int, names: list[str]) -> Lines:
        name, one, other = self._next("v"), self._next("h"), self._next("h")
        names.append(name)
        return [
            f"{one} = await run.start({self._child(depth, is_plain=False)})",
            f"{other} = await run.start({self._child(depth, is_plain=True)})",
            f"await {self._call()}",
            f"{name} = [outcome.status for outcome in await run.join({one}, {other})]",
        ]


def _inside(lines: Lines) -> Lines:
    return [f"{_INDENT}{line}" for line in lines]
