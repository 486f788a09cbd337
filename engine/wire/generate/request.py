"""The Gemini generateContent interface, read from outside: requests.

They become the neutral messages of CONTRACT.md §11.1: the system instruction first, each result of
a function as its own message. Adjacent turns of the model are one message, and adjacent texts one
text, because clients repeat a stream either chunk by chunk or joined. A call is `NAME#3`, the third
with its name, and so is its result: if the server gives no ids, clients draw new ones on every run,
and only for results. Members without a neutral form are in `provider.generate`. The model is in the
path. Pure. Rules: CONTRACT.md §16.9.
"""

from collections import Counter
from typing import Any, Final

from refold.engine.wire.parts.exchange import Asked, asked_with
from refold.engine.wire.parts.notation import call_of, json_text, text_of, with_original
from refold.engine.wire.parts.series import NO_LISTS, Lists, Series

API: Final = "generate"

_RESULT: Final = {"id", "name", "response"}
_CALL: Final = {"id", "name", "args"}


def is_shaped(body: dict[str, Any], _lists: Lists = NO_LISTS) -> bool:
    """Return whether the members that this interface rests on have its shapes."""
    turns, system = body.get("contents"), body.get("systemInstruction")
    is_system = system is None or _is_turn(system)
    return is_system and isinstance(turns, list) and all(map(_is_turn, turns))


def _is_turn(turn: Any) -> bool:
    return (
        isinstance(turn, dict)
        and isinstance(turn.get("parts"), list)
        and all(isinstance(part, dict) for part in turn["parts"])
    )


def without_ids(body: dict[str, Any], lists: Lists = NO_LISTS) -> tuple[dict[str, Any], Lists]:
    """Return a body in which ids only connect results to calls.

    The n-th result of a name that belongs to its n-th call has no id; any other has `NAME#n`.
    """
    numbers: dict[str, str] = {}
    calls: Counter[str] = Counter()
    results: Counter[str] = Counter()

    def plain(part: dict[str, Any]) -> dict[str, Any]:
        for member, counted in (("functionCall", calls), ("functionResponse", results)):
            if not isinstance(said := part.get(member), dict):
                continue
            name, drawn = text_of(said.get("name")), text_of(said.get("id"))
            counted[name] += 1
            at = f"{name}#{counted[name]}"
            rest = {key: value for key, value in said.items() if key != "id"}
            if counted is calls and drawn:
                numbers[drawn] = at
            elif counted is results and drawn in numbers and numbers[drawn] != at:
                rest["id"] = numbers[drawn]
            elif counted is results and drawn not in numbers and at in numbers.values():
                rest["id"] = drawn  # of another call than the one that has its place
            part = {**part, member: rest}
        return part

    turns = [{**turn, "parts": list(map(plain, turn["parts"]))} for turn in body["contents"]]
    return {**body, "contents": turns}, lists


def asked(body: dict[str, Any], _lists: Lists = NO_LISTS) -> Asked:
    """Parse a body of the right shape, which does not have the model."""
    rest = dict(body)
    found: list[dict[str, Any]] = []
    if (system := rest.pop("systemInstruction", None)) is not None:
        message = {"role": "system", "content": _spoken(system["parts"])}
        is_plain = system["parts"] == [{"text": message["content"]}] and not _beside(system, "user")
        found.append(message if is_plain else with_original(message, API, system))
    for turn in _joined(rest.pop("contents")):
        _take_turn(found, turn)
    return asked_with(API, rest, Series(found), NO_LISTS)


def answer_of(before: tuple[dict[str, Any], ...], parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the neutral message that an answer with these parts is, after these messages."""
    found = [*before]
    plain, _ = without_ids({"contents": [{"role": "model", "parts": parts}]})
    (turn,) = _joined(plain["contents"])
    _take_turn(found, turn)
    return found[-1]


def _joined(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return turns with adjacent turns of the model joined, and their adjacent texts too."""
    joined: list[dict[str, Any]] = []
    for turn in turns:
        is_model = turn.get("role") == "model" and turn.keys() == {"role", "parts"}
        if not (is_model and joined and joined[-1].get("role") == "model"):
            joined.append({**turn, "parts": []})
        parts = joined[-1]["parts"]
        for part in turn["parts"]:
            if not is_model or part.keys() != {"text"} or not isinstance(part["text"], str):
                parts.append(part)
            elif part["text"] and parts and parts[-1].keys() == {"text"}:
                parts[-1] = {"text": parts[-1]["text"] + part["text"]}
            elif part["text"]:
                parts.append(part)
    return joined


def _take_turn(found: list[dict[str, Any]], turn: dict[str, Any]) -> None:
    """Add the neutral messages that a turn is."""
    if turn.get("role") == "model":
        message, is_plain = _answer(found, turn["parts"])
        is_plain = is_plain and not _beside(turn, "model")
        found.append(message if is_plain else with_original(message, API, turn))
        return
    pieces: list[list[dict[str, Any]]] = []
    for part in turn["parts"]:
        if "functionResponse" in part or not pieces or "functionResponse" in pieces[-1][0]:
            pieces.append([part])
        else:
            pieces[-1].append(part)
    beside = _beside(turn, "user")
    for place, piece in enumerate(pieces or [[]]):
        message, is_plain = _given(found, piece)
        if not is_plain or (beside and not place):
            message = with_original(message, API, {**turn, "parts": piece})
        if place:  # else two turns would read as one
            message = {**message, "provider": {**message.get("provider", {}), "turn": "same"}}
        found.append(message)


def _beside(turn: dict[str, Any], role: str) -> bool:
    """Return whether a turn has more than its parts and its usual role."""
    return turn.keys() - {"parts"} != {"role"} or turn["role"] != role


def _answer(
    found: list[dict[str, Any]], parts: list[dict[str, Any]]
) -> tuple[dict[str, Any], bool]:
    """Return the message of a model's turn, and whether it is complete."""
    message: dict[str, Any] = {"role": "assistant", "content": _spoken(parts)}
    calls: list[dict[str, Any]] = []
    for part in parts:
        call = part.get("functionCall")
        if isinstance(call, dict):
            name = text_of(call.get("name"))
            made = [one for each in found for one in each.get("tool_calls", ())] + calls
            number = sum(one["name"] == name for one in made) + 1
            calls.append(call_of(call.get("id") or f"{name}#{number}", name, call.get("args", {})))
    if calls:
        message["tool_calls"] = calls
    rest = parts[1:] if parts and parts[0].keys() == {"text"} else parts
    is_plain = all(
        part.keys() == {"functionCall"}
        and isinstance(part["functionCall"], dict)
        and part["functionCall"].keys() <= _CALL
        for part in rest
    )
    return message, is_plain and bool(parts)


def _given(found: list[dict[str, Any]], piece: list[dict[str, Any]]) -> tuple[dict[str, Any], bool]:
    """Return the message of a user's part: one result, or the content between results."""
    result = piece[0].get("functionResponse") if piece else None
    if not isinstance(result, dict):
        return {"role": "user", "content": _spoken(piece)}, piece == [{"text": _spoken(piece)}]
    name = text_of(result.get("name"))
    number = sum(each["role"] == "tool" and each["name"] == name for each in found) + 1
    message = {
        "role": "tool",
        "tool_call_id": text_of(result.get("id")) or f"{name}#{number}",
        "name": name,
        "content": json_text(result.get("response")),
    }
    return message, piece[0].keys() == {"functionResponse"} and result.keys() <= _RESULT


def _spoken(parts: list[dict[str, Any]]) -> str:
    return "".join(text_of(part.get("text")) for part in parts if part.get("thought") is not True)
