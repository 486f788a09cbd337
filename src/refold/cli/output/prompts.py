"""Prints what the model saw at a turn of an agent, and what it answered."""

from typing import Any, Final

from refold.cli.output import output, words
from refold.cli.output.entries import compact, error_text
from refold.engine.encoding.canonical import text_of_json
from refold.replay.run.turns import Turn

_STYLES: Final = {" ": "dim", "+": "green", "-": "red"}


def print_turn(turn: Turn, who: str, count: int) -> None:
    """Print a turn; `count` is how many the agent has."""
    since = f"since turn {turn.against}" if turn.against else "in all"
    counts = f"{turn.kept + turn.kept_at_end} kept, {len(turn.added)} added, "
    output.line(
        (f"{who} · turn {turn.n} of {count}", "bold"),
        f" · {turn.model or 'no model'} · entry {turn.entries[0]}",
        (f" · {counts}{len(turn.dropped)} dropped {since}", "dim"),
    )
    for sign, message in turn.marked():
        _print_message(sign, message)
    if turn.answer is not None:
        where = f"answered in entry {turn.entries[-1]}"
        tokens = turn.usage.get("output_tokens")
        used = f", {words.counted(tokens, 'token')}" if tokens else ""
        output.line((f"{where}{used}", "bold"))
        _print_message(" ", turn.answer)
    else:
        said = error_text(turn.error).strip()
        output.line((f"no answer: {turn.status}{said and f': {said}'}", "yellow"))


def _print_message(sign: str, message: dict[str, Any]) -> None:
    output.line((f"{sign} {message.get('role', '?')}", _STYLES[sign]))
    for line in text_of_json(message.get("content") or "").splitlines():
        output.line((f"{sign}     {line}", "" if sign == " " else _STYLES[sign]))
    for call in message.get("tool_calls") or ():
        named = call.get("function") or call
        output.line(f"{sign}     calls {named.get('name')} {compact(named.get('arguments'))}")
