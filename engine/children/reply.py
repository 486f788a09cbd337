"""A child's reply: one JSON frame, checked, capped and turned into an outcome.

Every runner ends here, in process and in a subprocess alike, so that the same child gives the same
outcome wherever it ran (CONTRACT.md §7.2).  Pure.

A reply is one JSON object: `status` and `summary`, and as they apply `output`, `artifacts`
(`[{kind, value, name?}]`), `error` (`{code, message}`), `tools_used`, `usage`, `cut` (the provider
cut the answer off), `own` (artifacts that no cap on artifacts applies to).  Nothing else.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import attrs
import orjson

from refold.engine.encoding.canonical import Json, encode, loads, text_of_json
from refold.engine.errors import NotCanonical
from refold.engine.events.events import RunFinished
from refold.engine.events.outcome import (
    CUT,
    STATUSES,
    Artifact,
    ChildRef,
    Fault,
    Outcome,
    Truncated,
    Usage,
    artifact_of,
    failed,
)
from refold.engine.ports.ports import Policy
from refold.engine.state.folding import Fold
from refold.engine.values import Value


@attrs.frozen
class Members(Value):
    """An object's shape: the shapes of its required and of its optional members, by name.

    A shape is one of these, a list of the one that all its items have, or a type: `str`, `int` for
    one of at least 0, `object` for any value.
    """

    needed: Mapping[str, Any]
    more: Mapping[str, Any] = {}


ARTIFACT: Final = Members({"kind": str, "value": str}, {"name": str})

REPLY: Final = Members(
    {"status": str, "summary": str},
    {
        "output": object,
        "artifacts": [ARTIFACT],
        "own": [ARTIFACT],
        "error": Members({"code": str, "message": str}),
        "cut": bool,
        "tools_used": [str],
        "usage": Members({}, dict.fromkeys(attrs.fields_dict(Usage), int) | {"prices": str}),
    },
)
"""The shape of a reply."""
_NAMES: Final = {
    str: "text",
    list: "an array",
    dict: "an object",
    type(None): "null",
    int: "an integer",
    float: "a number",
    bool: "a boolean",
}


def reply_frame(finished: RunFinished, fold: Fold) -> bytes:
    """Return the reply of a run that has ended, or a frame with the reason for its absence.

    Raises nothing: a child's reply must be recordable.
    """
    usage = fold.usage.plus(fold.children_usage)
    try:
        return frame_of(finished, tools_used=fold.tools_used, usage=usage)
    except NotCanonical as error:
        fault = {"code": "output", "message": str(error)}
        return encode({"status": "malformed", "summary": "", "error": fault})


def frame_of(finished: RunFinished, *, tools_used: tuple[str, ...], usage: Usage) -> bytes:
    """Return the reply of a run that has ended, as one JSON frame without a newline."""
    artifacts = finished.artifacts or []
    reply: dict[str, Json] = {
        "status": finished.status,
        "summary": _summary(finished),
        "output": finished.output,
        "artifacts": [each for each in artifacts if not each.get("own")],
        "error": attrs.asdict(finished.error) if finished.error else None,
        "tools_used": list(tools_used),
        "usage": usage.as_json(),
    }
    if own := [attrs.asdict(artifact_of(each)) for each in artifacts if each.get("own")]:
        reply["own"] = own
    if finished.reason == CUT:
        reply["cut"] = True
    return encode(reply)


def _summary(finished: RunFinished) -> str:
    return summary_of(finished.output) if finished.summary is None else finished.summary


def summary_of(output: Json) -> str:
    """Return the text for a parent of an output without a summary of its own; empty for `null`."""
    return "" if output is None else text_of_json(output)


def outcome_of(
    frame: bytes, policy: Policy, *, duration_ms: int = 0, child: ChildRef | None = None
) -> Outcome:
    """Return the outcome of a reply: checked against its schema, then capped.

    A frame over the policy's cap is `limit`; one that does not parse, or has another shape, is
    `malformed`, its message naming the place as a JSON pointer; both are the same for the same
    bytes.
    """
    more: dict[str, Any] = {"duration_ms": duration_ms, "child": child}
    if len(frame) > policy.frame_bytes:
        message = f"the reply has {len(frame)} bytes; {policy.frame_bytes} allowed"
        return failed("limit", "frame_bytes", message, **more)
    try:
        reply = _checked(loads(frame), policy)
    except orjson.JSONDecodeError:
        return failed("malformed", "json", "the reply is not valid JSON", **more)
    except Misfit as error:
        return failed("malformed", error.code, str(error), **more)
    return _capped(reply, policy, more)


class Misfit(Exception):
    """A value has another shape; `code` is `schema` or `artifacts`."""

    def __init__(self, pointer: str, expected: str, found: str, code: str = "schema") -> None:
        super().__init__(f"the reply at {pointer or '/'}: expected {expected}, found {found}")
        self.code = code


def check_shape(value: Json, shape: Any, pointer: str = "") -> None:
    """Check a value against a shape, see `Members`.

    Raises:
        Misfit: it has another.
    """
    kind = _kind_of(shape)
    if kind is not object and (type(value) is not kind or (kind is int and value < 0)):
        least = " of at least 0" if kind is int else ""
        found = str(value) if type(value) is kind else _NAMES.get(type(value), "something else")
        raise Misfit(pointer, _NAMES[kind] + least, found)
    if kind is list:
        for index, item in enumerate(value):
            check_shape(item, shape[0], f"{pointer}/{index}")
    elif kind is dict:
        known = {**shape.needed, **shape.more}
        for name in shape.needed:
            if name not in value:
                raise Misfit(f"{pointer}/{name}", _NAMES[_kind_of(known[name])], "nothing")
        for name, member in value.items():
            if name not in known:
                raise Misfit(f"{pointer}/{name}", f"one of {', '.join(known)}", "an unknown member")
            check_shape(member, known[name], f"{pointer}/{name}")


def _kind_of(shape: Any) -> Any:
    return {Members: dict, list: list}.get(type(shape), shape)


def _checked(reply: Json, policy: Policy) -> dict[str, Any]:
    """Return a reply that has its shape and keeps to the policy; a null error is dropped."""
    if type(reply) is dict and reply.get("error", "") is None:
        del reply["error"]
    check_shape(reply, REPLY)
    if reply["status"] not in STATUSES:
        raise Misfit("/status", "one of " + ", ".join(STATUSES), f"{reply['status']!r:.60}")
    artifacts = reply.get("artifacts", [])
    if len(artifacts) > (most := policy.max_artifacts):
        raise Misfit("/artifacts", f"at most {most} artifacts", str(len(artifacts)), "artifacts")
    for index, artifact in enumerate(artifacts):
        pointer, kind = f"/artifacts/{index}", artifact["kind"]
        if kind not in policy.artifact_kinds:
            allowed = f"one of {', '.join(policy.artifact_kinds)}"
            raise Misfit(f"{pointer}/kind", allowed, f"{kind!r:.60}", "artifacts")
        if (size := len(artifact["value"].encode())) > policy.artifact_bytes:
            allowed = f"at most {policy.artifact_bytes} bytes"
            raise Misfit(f"{pointer}/value", allowed, f"{size} bytes", "artifacts")
    return reply  # type: ignore[no-any-return]  # an object, as was seen


def _capped(reply: dict[str, Json], policy: Policy, more: dict[str, Any]) -> Outcome:
    summary, truncated = cut(reply["summary"], policy.summary_bytes)
    if reply.get("cut"):
        truncated = attrs.evolve(truncated or _cut_at(reply["summary"], summary), by="provider")
    error = reply.get("error")
    status = reply["status"]
    if status != "completed" and error is None:
        error = {"code": status, "message": f"the child ended as {status} and gave no reason"}
    return Outcome(
        status=status,
        summary=summary,
        output=reply.get("output"),
        artifacts=tuple(
            Artifact(**each) for name in ("artifacts", "own") for each in reply.get(name, [])
        ),
        error=Fault(**error) if error is not None else None,
        truncated=truncated,
        tools_used=tuple(reply.get("tools_used", [])),
        usage=Usage(**reply.get("usage", {})),
        **more,
    )


def cut(text: str, most_bytes: int) -> tuple[str, Truncated | None]:
    """Return `text` cut to `most_bytes` of UTF-8 on a code-point boundary, and the cut."""
    whole = text.encode()
    if len(whole) <= most_bytes:
        return text, None
    kept = whole[:most_bytes].decode(errors="ignore")
    return kept, _cut_at(text, kept)


def _cut_at(text: str, kept: str) -> Truncated:
    whole = text.encode()
    return Truncated(
        kept_bytes=len(kept.encode()),
        seen_bytes=len(whole),
        sha256=hashlib.sha256(whole).hexdigest(),
    )
