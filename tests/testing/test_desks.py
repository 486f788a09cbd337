"""What a test asks of models is refused without a recording, else in a log that names the test."""

import json
from pathlib import Path

from refold.engine.log.reader import read_entries
from refold.engine.observed.volatile import VolatileRules
from refold.proxy.http.routes import routes_of
from refold.proxy.http.turns import Incoming
from refold.testing.desks import LiveDesk, Opening, Unrecorded


def test_without_a_recording_a_request_is_refused_in_a_form_that_any_client_reads() -> None:
    desk = Unrecorded("no recording; --refold-record=once makes one")
    asked = Incoming(route="openai", method="POST", target="/responses", headers=(), body=b"")

    answer = desk.begin(asked)

    assert (answer.status, answer.headers["x-should-retry"], desk.made) == (400, "false", None)
    assert json.loads(b"".join(content for _, content in answer.pieces)) == {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "code": "not_recorded",
            "message": "no recording; --refold-record=once makes one",
        },
    }


def test_a_log_names_its_test_and_its_rules_and_no_address(tmp_path: Path) -> None:
    base = "http://127.0.0.1:9/a-word-that-was-drawn"
    rules = VolatileRules(("model:*/parameters/user",), ())
    opening = Opening(
        name="test_ask", test="test_it.py::test_ask", base=base, routes=routes_of(()), rules=rules
    )
    desk = LiveDesk(tmp_path / "a.jsonl")

    recording = desk.opened(opening)
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": base}]}).encode()
    recording.begin(
        Incoming(route="openai", method="POST", target="/chat/completions", headers=(), body=body)
    )
    desk.seal(is_passed=False)

    assert desk.made is not None
    first, *_, last = read_entries(desk.made)
    assert first.data["program"] == "test_ask"
    assert first.data["input"] == {"test": "test_it.py::test_ask"}
    assert "model:*/parameters/user" in json.dumps(first.data["rules"])
    assert (last.data["status"], last.data["error"]["code"]) == ("failed", "test")
    assert last.data["output"] == {"exit_code": 1}
    assert b"a-word-that-was-drawn" not in desk.made.read_bytes()
