"""What changed between two documents of a page: members and elements, never the whole again.

A patch is `{"=": value}`, or of an object or a list `{"~": {member: patch}}`, for an object with
`-`, the members that are gone, for a list with `n`, its length. Rules: CONTRACT.md §14.16.
"""

from typing import Any, Final

_NOTHING: Final = object()


def patch(before: Any, after: Any) -> dict[str, Any] | None:
    """Return what makes `after` of `before`; `None` if they are equal."""
    if before is after:
        return None
    if isinstance(before, dict) and isinstance(after, dict):
        pairs = [(name, before.get(name, _NOTHING), value) for name, value in after.items()]
        gone = [name for name in before if name not in after]
        changed = _changed(pairs)
        return {"~": changed, "-": gone} if changed or gone else None
    if isinstance(before, list | tuple) and isinstance(after, list | tuple):
        rest = [_NOTHING] * (len(after) - len(before))
        changed = _changed(zip(range(len(after)), [*before, *rest], after, strict=False))
        return {"~": changed, "n": len(after)} if changed or len(before) != len(after) else None
    if type(before) is type(after) and before == after:
        return None
    return {"=": after}


def _changed(pairs: Any) -> dict[str, Any]:
    found = ((name, patch(old, new)) for name, old, new in pairs if old is not new)
    return {str(name): change for name, change in found if change is not None}
