"""The model's text about a child's outcome, the same for every tool.

    handed_back  the answer, and the artifacts below it
    answer_of    the answer, or the child's last text, each marked if incomplete
    error_of     `code: the cause. The next step.`

A text depends on the outcome, the child's limits, and the limits that a call may request, but never
on the runner.  Rules: CONTRACT.md §10.4.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

from refold.engine.children.reply import Members, Misfit, check_shape
from refold.engine.encoding.canonical import loads
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import Artifact, Outcome, Truncated

PLAN: Final = "plan"
"""The name of the artifact with the final state of a child's plan."""
NOTHING: Final = "(the child ended without an answer: ask again, or do the work yourself)"
LAST_WORDS: Final = "[not finished; the child's last words]"
MESSAGE_CHARACTERS: Final = 300
"""Of a message that is not ours, such as an exception's."""

_SMALLER: Final = "Give a smaller task, or do the work yourself."
_AGAIN: Final = "Try again once, or do the work yourself."
_CHANGE: Final = "Change the task, or do the work yourself."
_PASSING: Final = re.compile(r"connection|timed_out|crashed|node_lost|http_(408|409|429|5\d\d)")
"""Codes of failures after which the same call may succeed."""
_ADVICE: Final[Mapping[str, str]] = {
    "artifacts": "Ask for fewer, smaller or other artifacts.",
    "output": "Ask for a plain text as the answer, or do the work yourself.",
}
"""What to do after other failures whose words are not ours, by code; else `_CHANGE`."""
_BROKEN: Final = ("no_model", "outside_loop", "spinning", "stuck", "unending")
"""Codes of faults of a program or a set-up: their words advise a programmer, and are in the log."""
_SHORTER: Final = "Ask for a shorter answer."
_ENDED: Final[Mapping[str, str]] = {
    "max_iterations": "the child made all {cap:g} model requests that it had and did not finish.",
    "timeout_seconds": "the child did not finish within the {cap:g} s that it had.",
    "model_tokens": "the child used {used} tokens, all that it had, and did not finish. "
    f"{_SMALLER}",
    "cost_usd": f"the child used up the money that it had and did not finish. {_SMALLER}",
    "output_bytes": f"the child's answer is larger than {{cap:g}} bytes. {_SHORTER}",
    "frame_bytes": f"the child's reply is larger than allowed. {_SHORTER}",
    "stream_bytes": "the child printed more than allowed. Tell it to print less.",
    "memory_bytes": f"the child used more memory than allowed. {_SMALLER}",
    "cancelled": "the child was stopped before it finished.",
    "refused": "the child's model refused to answer. Word the task differently, or do the work "
    "yourself.",
}
"""What happened and what to do, by the code of a child that was stopped."""
_REFUSED: Final[Mapping[str, str]] = {
    "max_depth": "no run may be started at this depth (max_depth is {cap:g}). Do the work "
    "yourself.",
    "max_children": "this run may start no more children ({cap:g} allowed). Do the rest yourself.",
}
"""The same by the code of a child that was never started; `cap` is the caller's."""
_ASKABLE: Final = ("max_iterations", "timeout_seconds")


def error_of(
    outcome: Outcome,
    *,
    run: Any,
    limits: Limits | None = None,
    most: Mapping[str, int] | None = None,
) -> str | None:
    """Return `code: message` of an outcome that is not completed, else `None`.

    Args:
        outcome: How the child ended.
        run: The calling run.
        limits: The child's limits (`Child.limits`).
        most: The highest value that a call may request, by limit.
    """
    fault = outcome.error
    if fault is None:
        return None
    code = "timed_out" if outcome.status == "timed_out" else fault.code
    known = _REFUSED if outcome.status == "rejected" else _ENDED
    name = "timeout_seconds" if outcome.status == "timed_out" else fault.code
    cap = getattr(run.limits if outcome.status == "rejected" else limits, name, None)
    if (said := known.get(name)) is None or ("{cap" in said and cap is None):
        return _worded(code, fault.message, outcome)
    text = f"{code}: {said.format(cap=cap, used=outcome.usage.tokens)}"
    return f"{text} {_more(name, cap or 0, run.limits, most or {})}".strip()


def answer_of(outcome: Outcome) -> str:
    """Return the answer of an outcome, or the last words of a child that did not complete."""
    if not outcome.ok:
        return f"{LAST_WORDS} {outcome.summary}" if outcome.summary.strip() else ""
    if outcome.truncated is not None and outcome.truncated.by == "provider":
        return f"{outcome.summary}\n[cut: the child's model reached its limit. {_SHORTER}]".strip()
    if not outcome.summary.strip():
        return NOTHING
    if outcome.truncated is None:
        return outcome.summary
    kept, seen = outcome.truncated.kept_bytes, outcome.truncated.seen_bytes
    return f"{outcome.summary}\n[cut: the first {kept} of {seen} bytes. {_SHORTER}]"


def handed_back(outcome: Outcome, answer: str = "") -> str:
    """Return the answer of an outcome and, below it, its artifacts, for results that are one text.

    The plan of a child is Refold's own: only the number of steps that are done is given, if some
    are not. `answer` replaces the answer's text.
    """
    if not outcome.ok:
        return answer_of(outcome)
    parts, own = [answer or answer_of(outcome)], []
    for each in outcome.artifacts:
        steps = _steps(each)
        if steps is None:
            own.append(each)
        elif undone := [step for step in steps if step["status"] != "done"]:
            done = len(steps) - len(undone)
            parts.append(f"[{done} of {len(steps)} steps of its plan are done]")
    for number, each in enumerate(own, 1):
        title = f"{each.kind} {each.name}".strip()
        parts.append(f"[artifact {number} of {len(own)}: {title}]\n{each.value}")
    return "\n".join(filter(None, parts))


def _steps(artifact: Artifact) -> list[dict[str, str]] | None:
    """Return the steps of a plan, or `None` for another artifact; a program may name one alike."""
    if (artifact.kind, artifact.name) != ("json", PLAN):
        return None
    try:
        found = loads(artifact.value)
        check_shape(found, _A_PLAN)
    except (orjson.JSONDecodeError, Misfit):
        return None
    return found["steps"]  # type: ignore[no-any-return]  # of this shape


_STEP: Final = Members({"id": int, "title": str, "status": str})
_A_PLAN: Final = Members({"objective": str, "status": str, "steps": [_STEP]})


def truncation_text(truncated: Truncated) -> str:
    """Return a machine-readable description of truncated output."""
    return (
        f"truncated: kept_bytes={truncated.kept_bytes} seen_bytes={truncated.seen_bytes} "
        f"sha256={truncated.sha256}"
    )


def _more(name: str, cap: float, own: Limits, most: Mapping[str, int]) -> str:
    """Return what to do about a limit: ask for more, if a call and the caller's limits allow it."""
    if name not in _ASKABLE:
        return ""
    caps = [getattr(own, name), own.join_seconds if name == "timeout_seconds" else None]
    highest = min([most.get(name, 0), *(each for each in caps if each is not None)])
    if highest <= cap:
        return _SMALLER
    return f"Ask for more ({name} may be up to {highest:g}), or give a smaller task."


def _worded(code: str, message: str, outcome: Outcome) -> str:
    if code in _BROKEN:
        return f"{code}: the child cannot run as it is set up. Do the work yourself."
    line = " ".join(message.split())
    kept = line if len(line) <= MESSAGE_CHARACTERS else f"{line[:MESSAGE_CHARACTERS]}…"
    said = kept if kept.startswith(code) else f"{code}: {kept}"
    if outcome.status == "rejected":
        return said
    advice = _AGAIN if _PASSING.fullmatch(code) else _ADVICE.get(code, _CHANGE)
    return f"{said.rstrip('.: ')}. {advice}"
