"""What the kept log of a watched command holds: `watched.jsonl` in `fixtures/logs`.

A lead that hands work to two others at once, a tool that fails, a request that is refused and made
again, one that was given up, a large text, and requests of all interfaces.
"""

from typing import Final

import attrs

from refold.engine.wire.parts.exchange import Asked
from tests.support.watched import Exchange, ask, result, says, system, talk, user

_EAT: Final = "Find a place to eat near the harbour"
_WALK: Final = "Find a place to walk above the city"
_LEAD: Final = talk(
    system("You lead the planning of a trip, and hand out all the work."),
    user("Plan a day in Bergen."),
    says(
        "I ask around.",
        ("t1", "Task", {"subagent_type": "cook", "prompt": _EAT}),
        ("t2", "Task", {"subagent_type": "hiker", "prompt": _WALK}),
        ("w1", "weather", {"city": "Bergen"}),
    ),
    result("t1", "the fish hall"),
    result("t2", "Fløyen"),
    {**result("w1", "no such city"), "is_error": True},
    says("Fish hall, then Fløyen."),
    tools=[{"name": "Task"}, {"name": "weather", "description": "Weather of a city."}],
    temperature=0.5,
)
_COOK: Final = talk(system("You know where to eat."), user(_EAT), says("the fish hall"))
_HIKER: Final = talk(system("You know where to walk."), user(_WALK), says("Fløyen"))
_LARGE: Final = talk(user("Repeat: " + "so it is. " * 4000), says("Done."))
_OTHER: Final = Asked(
    api="other", model="", parameters={"method": "GET", "path": "/v1/models", "body": None}
)

EXCHANGES: Final = [
    _LEAD[0],
    Exchange(_HIKER[0].asked, None, error="http_429"),
    *_COOK,
    *_HIKER,
    _LEAD[1],
    *(attrs.evolve(one, asked=attrs.evolve(one.asked, api="messages")) for one in _LARGE),
    attrs.evolve(_COOK[0], asked=attrs.evolve(_COOK[0].asked, api="responses")),
    Exchange(_OTHER, None),
    Exchange(ask(user("Never mind?")), None, is_gone=True),
]
"""In the order of the log."""
