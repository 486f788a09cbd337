"""States entry by entry: applied one after the other, they are those of `refold show --at N`."""

import copy
import json
from pathlib import Path
from typing import Any

from refold.engine.events.events import KINDS
from refold.engine.log.names import tree
from refold.engine.log.reader import read_entries
from refold.engine.state.digests import state_json
from refold.page.states import changes
from refold.replay.audit.refolding import state
from tests.support.each_kind import log_with
from tests.support.loops import for_each


def applied(before: Any, rows: list[list[Any]]) -> Any:
    """Return a state with its changes, as the page makes it."""
    after = copy.deepcopy(before)
    for sign, pointer, *value in rows:
        *above, last = (
            part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/")
        )
        where = after
        for part in above:
            where = where[int(part)] if isinstance(where, list) else where[part]
        key: Any = int(last) if isinstance(where, list) else last
        if sign == "-":
            del where[key]
        elif sign == "+" and isinstance(where, list):
            where.insert(key, value[0])
        else:
            where[key] = value[0]
    return after


def all_agree(log: Path) -> None:
    shown: Any = {}
    for seq, rows in enumerate(changes(read_entries(log, resolve=True, torn_ok=True))):
        shown = applied(shown, json.loads(json.dumps(rows)))
        assert shown == json.loads(json.dumps(state_json(state(log, seq)))), f"{log}:{seq}"


def test_changes_add_up_to_the_states(survey_log: Path) -> None:
    for log in tree(survey_log):
        all_agree(log)


@for_each("kind", KINDS)
def test_changes_add_up_after_each_kind(kind: str, tmp_path: Path) -> None:
    """Also those of children and of conversations, which are not looked at after every entry."""
    all_agree(log_with(tmp_path / "a.jsonl", kind))
