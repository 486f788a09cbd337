from pathlib import Path

import orjson

from refold.engine.events.outcome import Usage
from refold.replay.run.opened_run import delegation_tree
from tests.support.delegating import child, recorded


def test_it_is_plain_data(tmp_path: Path) -> None:
    plan = [child("dig", [("try", "nothing")], tools=("search",))]
    tree = delegation_tree(recorded(tmp_path / "a.jsonl", plan).log)

    document = orjson.loads(orjson.dumps(tree.as_json()))

    (node,) = document["children"]
    assert node["tools"] == [
        {"tool": "search", "called": 1, "failed": 1, "refused": 0, "cancelled": 0}
    ]
    assert node["tools_granted"] == ["search"]
    assert {name: count for name, count in node["usage"].items() if count is not None} == {
        "input_tokens": 0,
        "output_tokens": 0,
        "requests": 0,
    }
    assert document.keys() == node.keys()
    assert Usage(**node["usage"]) == tree.children[0].usage
