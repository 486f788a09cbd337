"""What a child hands back: one JSON frame, checked, capped and turned into an outcome.

Every runner ends here, in process and in a subprocess alike, so that the same child gives the same
outcome wherever it ran (CONTRACT.md §7.2).  Pure.

A reply is one JSON object: `status` and `summary`, and as they apply `output`, `artifacts`
(`[{kind, value, name?}]`), `error` (`{code, message}`), `tools_used`, `usage`.  Nothing else.
"""

import hashlib
from typing import Any, Final

import attrs
import orjson

from refold.engine.encoding.canonical import Json, encode, loads, text_of_json
from refold.engine.errors import NotCanonical
from refold.engine.events.events import RunFinished
from refold.engine.events.outcome import (
    STATUSES,
    Artifact,
    ChildRef,
    Fault,
    Outcome,
    Truncated,
    Usage,
    failed,
)
from refold.engine.ports.ports import Policy

_FIELDS: Final[dict[str, tuple[type, ...]]] = {
    "status": (str,),
    "summary": (str,),
    "output": (object,),
    "artifacts": (list,),
    "error": (dict, type(None)),
    "tools_used": (list,),
    "usage": (dict,),
}
_USAGE: Final = tuple(field.name for field in attrs.fields(Usage))
_NAMES: Final = {
    str: "text",
    list: "an array",
    dict: "an object",
    type(None): "null",
    int: "an integer",
    float: "a number",
    bool: "a boolean",
}


def frame_of(finished: RunFinished, *, tools_used: tuple[str, ...], usage: Usage) -> bytes:
    """Return the reply of a run that has ended, as one JSON frame without a newline."""
    reply: dict[str, Json] = {
        "status": finished.status,
        "summary": _summary(finished),
        "output": finished.output,
        "artifacts": finished.artifacts or [],
        "error": attrs.asdict(finished.error) if finished.error else None,
        "tools_used": list(tools_used),
        "usage": usage.as_json(),
    }
    return encode(reply)


def _summary(finished: RunFinished) -> str:
    if finished.summary is not None:
        return finished.summary
    return "" if finished.output is None else text_of_json(finished.output)


def outcome_of(
    frame: bytes, policy: Policy, *, duration_ms: int = 0, child: ChildRef | None = None
) -> Outcome:
    """Return the outcome that a reply says: checked against its schema, then capped.

    A frame over the policy's cap is `limit`; one that does not parse, or has another shape, is
    `malformed`, its message naming the place as a JSON pointer; both are the same for the same
    bytes.
    """
    more: dict[str, Any] = {"duration_ms": duration_ms, "child": child}
    if len(frame) > policy.frame_bytes:
        message = f"the reply has {len(frame)} bytes; {policy.frame_bytes} allowed"
        return failed("limit", "frame_bytes", message, **more)
    try:
        reply = loads(frame)
        _check(reply)
        _check_artifacts(reply.get("artifacts", []), policy)
    except orjson.JSONDecodeError:
        return failed("malformed", "json", "the reply is not valid JSON", **more)
    except _Malformed as error:
        return failed("malformed", error.code, str(error), **more)
    return _capped(reply, policy, more)


class _Malformed(Exception):
    """The reply has another shape; `code` is `schema` or `artifacts`."""

    def __init__(self, pointer: str, expected: str, found: str, code: str = "schema") -> None:
        super().__init__(f"the reply at {pointer or '/'}: expected {expected}, found {found}")
        self.code = code


def _check(reply: Json) -> None:
    if type(reply) is not dict:
        raise _Malformed("", "an object", _name(reply))
    for name in ("status", "summary"):
        if name not in reply:
            raise _Malformed(f"/{name}", "text", "nothing")
    for name, value in reply.items():
        kinds = _FIELDS.get(name)
        if kinds is None:
            raise _Malformed(f"/{name}", "one of " + ", ".join(_FIELDS), "an unknown member")
        if object not in kinds and type(value) not in kinds:
            raise _Malformed(f"/{name}", " or ".join(_NAMES[kind] for kind in kinds), _name(value))
    if reply["status"] not in STATUSES:
        raise _Malformed("/status", "one of " + ", ".join(STATUSES), f"{reply['status']!r:.60}")
    for index, item in enumerate(reply.get("artifacts", [])):
        _check_texts(item, f"/artifacts/{index}", ("kind", "value"), ("name",))
    if reply.get("error") is not None:
        _check_texts(reply["error"], "/error", ("code", "message"), ())
    for index, item in enumerate(reply.get("tools_used", [])):
        if type(item) is not str:
            raise _Malformed(f"/tools_used/{index}", "text", _name(item))
    _check_usage(reply.get("usage", {}))


def _check_texts(
    item: Json, pointer: str, required: tuple[str, ...], optional: tuple[str, ...]
) -> None:
    if type(item) is not dict:
        raise _Malformed(pointer, "an object", _name(item))
    for name in required:
        if name not in item:
            raise _Malformed(f"{pointer}/{name}", "text", "nothing")
    for name, value in item.items():
        if name not in required + optional:
            known = ", ".join(required + optional)
            raise _Malformed(f"{pointer}/{name}", f"one of {known}", "an unknown member")
        if type(value) is not str:
            raise _Malformed(f"{pointer}/{name}", "text", _name(value))


def _check_usage(usage: dict[str, Json]) -> None:
    for name, value in usage.items():
        if name not in _USAGE:
            raise _Malformed(f"/usage/{name}", "one of " + ", ".join(_USAGE), "an unknown member")
        if name == "prices":
            if type(value) is not str:
                raise _Malformed(f"/usage/{name}", "text", _name(value))
        elif type(value) is not int or value < 0:
            raise _Malformed(f"/usage/{name}", "an integer of at least 0", _name(value))


def _check_artifacts(artifacts: list[dict[str, str]], policy: Policy) -> None:
    if len(artifacts) > policy.max_artifacts:
        raise _Malformed(
            "/artifacts",
            f"at most {policy.max_artifacts} artifacts",
            str(len(artifacts)),
            "artifacts",
        )
    for index, artifact in enumerate(artifacts):
        if artifact["kind"] not in policy.artifact_kinds:
            allowed = ", ".join(policy.artifact_kinds)
            found = f"{artifact['kind']!r:.60}"
            raise _Malformed(f"/artifacts/{index}/kind", f"one of {allowed}", found, "artifacts")
        size = len(artifact["value"].encode())
        if size > policy.artifact_bytes:
            raise _Malformed(
                f"/artifacts/{index}/value",
                f"at most {policy.artifact_bytes} bytes",
                f"{size} bytes",
                "artifacts",
            )


def _capped(reply: dict[str, Json], policy: Policy, more: dict[str, Any]) -> Outcome:
    summary, truncated = cut(reply["summary"], policy.summary_bytes)
    error = reply.get("error")
    status = reply["status"]
    if status != "completed" and error is None:
        error = {"code": status, "message": f"the child ended as {status} and gave no reason"}
    return Outcome(
        status=status,
        summary=summary,
        output=reply.get("output"),
        artifacts=tuple(Artifact(**artifact) for artifact in reply.get("artifacts", [])),
        error=Fault(**error) if error is not None else None,
        truncated=truncated,
        tools_used=tuple(reply.get("tools_used", [])),
        usage=Usage(**reply.get("usage", {})),
        **more,
    )


def cut(text: str, most_bytes: int) -> tuple[str, Truncated | None]:
    """Return `text` cut to `most_bytes` of UTF-8 on a code-point boundary, and what was cut."""
    whole = text.encode()
    if len(whole) <= most_bytes:
        return text, None
    kept = whole[:most_bytes].decode(errors="ignore")
    return kept, Truncated(
        kept_bytes=len(kept.encode()),
        seen_bytes=len(whole),
        sha256=hashlib.sha256(whole).hexdigest(),
    )


def _name(value: Json) -> str:
    return _NAMES.get(type(value), type(value).__name__)


def checked_frame(finished: RunFinished, **more: Any) -> bytes:
    """Return `frame_of`, or a frame that says why there is none.

    Raises nothing: a child's reply must be recordable.
    """
    try:
        return frame_of(finished, **more)
    except NotCanonical as error:
        return encode(
            {
                "status": "malformed",
                "summary": "",
                "error": {"code": "output", "message": str(error)},
            }
        )
