"""Calls of Pydantic AI's tools as JSON, and results and errors back.

A result that is a JSON value is itself. `ToolReturn`s and files must be read back unchanged, so
they have a tag in the log; for any other value the log has the text that a model sees. Exceptions
that a tool raises for the model have codes of their own. Rules: CONTRACT.md §17.4, §17.5.
"""

import functools
import json
from collections.abc import Callable
from typing import Any, Final

import pydantic_core
from pydantic import TypeAdapter
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, ToolFailed
from pydantic_ai.messages import MULTI_MODAL_CONTENT_TYPES, ToolReturn, ToolReturnContent

from refold.adapters.foreign import is_exact
from refold.engine.encoding.canonical import Json
from refold.engine.errors import NotCanonical, ToolError

_TAG: Final = "$pydantic_ai"
_CONTENT: Final = TypeAdapter[Any](ToolReturnContent)
_RETURN: Final = TypeAdapter[Any](ToolReturn)
_plain: Final = functools.partial(
    pydantic_core.to_jsonable_python, bytes_mode="base64", inf_nan_mode="constants"
)


def plain_arguments(arguments: dict[str, Any]) -> dict[str, Json]:
    """Return validated arguments as the JSON that they were made of.

    Raises:
        NotCanonical: they were changed to what JSON cannot hold.
    """
    try:
        return _plain(arguments)  # type: ignore[no-any-return]  # as the arguments are
    except (ValueError, TypeError) as error:
        raise NotCanonical("", "arguments that JSON can hold", str(error), "arguments") from None


async def called(name: str, call: Callable[[], Any]) -> Json:
    """Call a tool on the host, and return its result as JSON.

    Raises:
        ToolError: an exception that the tool raised for the agent, with a code for it.
    """
    try:
        result = await call()
    except ModelRetry as error:
        raise ToolError(name, error.message, "retry", type(error).__name__) from None
    except ToolFailed as error:
        raise ToolError(name, error.message, "failed", type(error).__name__) from None
    except (ApprovalRequired, CallDeferred) as error:
        said = {"metadata": error.metadata, "kind": getattr(error, "kind", None)}
        text = json.dumps(pydantic_core.to_jsonable_python(said))
        raise ToolError(name, text, "deferred", type(error).__name__) from None
    return dumped(result)


def raised_back(error: ToolError) -> Exception:
    """Return the agent's view of a failed call: the tool's exception, or the error."""
    match error.code:
        case "retry":
            return ModelRetry(error.message)
        case "failed":
            return ToolFailed(error.message)
        case "deferred":
            said = json.loads(error.message)
            if error.error_type == "ApprovalRequired":
                return ApprovalRequired(said["metadata"])
            return CallDeferred(said["metadata"], kind=said["kind"] or "external")
        case _:
            return error


def dumped(result: Any) -> Json:
    """Return a result as JSON; where it has to be read back as something else, with a tag."""
    if isinstance(result, ToolReturn):
        return {_TAG: "return", "value": _RETURN.dump_python(result, mode="json")}
    plain = result if is_exact(result) else _plain(result)  # what a model is shown of it
    items = result if isinstance(result, list | tuple) else [result]
    if any(isinstance(item, MULTI_MODAL_CONTENT_TYPES) for item in items):
        return {_TAG: "content", "value": plain}
    if isinstance(plain, dict) and _TAG in plain:
        return {_TAG: "value", "value": plain}  # it looks like one of these, and is none
    return plain


def loaded(result: Json) -> Any:
    """Return the result of a recorded call as the agent receives it."""
    match result:
        case {"$pydantic_ai": "return", "value": value}:
            return _RETURN.validate_python(value)
        case {"$pydantic_ai": "content", "value": value}:
            return _CONTENT.validate_python(value)
        case {"$pydantic_ai": "value", "value": value}:
            return value
        case _:
            return result
