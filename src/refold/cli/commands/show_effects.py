"""Lists the tool calls of a recorded command that a replay would execute: `refold show --effects`.

Nothing is run. Rules: CONTRACT.md §16.6.
"""

from refold.cli.arguments.foreign import proxy_module
from refold.cli.arguments.logs import OpenedLog
from refold.cli.commands.foreign_runs import DIFFERENT, programs_of
from refold.cli.output import output, words
from refold.cli.output.entries import compact
from refold.replay.index.guarantee import is_observed
from refold.replay.observed.effects import NO_EFFECTS, effects_of
from refold.replay.observed.record import read_record

_CHARS = 120
"""Of the arguments of a tool call."""


def show_effects(log: OpenedLog) -> int:
    """Print the tool calls of a record, and the program files that differ from the user's."""
    record = read_record(log.path) if is_observed(log.path) else None
    found, programs = NO_EFFECTS, tuple[str, ...]()
    if record is not None:
        found = effects_of(record, proxy_module("bookends").here())
        programs = programs_of(log.path, record)

    def describe() -> None:
        output.line(str(found) if record else "the replay of a program does not execute tool calls")
        for each in found.calls:
            arguments = compact(each.arguments, _CHARS)
            output.line(f"  {each.tool} {arguments}  ({each.conversation}, {each.call})")
        if programs:
            output.line(DIFFERENT.format(words.counted(len(programs), "program file")))
        for name in programs:
            output.line(f"  {name}")

    document = {"log": output.shown_path(log.given), **found.as_json(), "programs": [*programs]}
    return output.answer(document, describe)
