"""An outcome is one closed shape (CONTRACT.md §7.1)."""

import pickle
from typing import get_args

import attrs
import pytest

from refold.engine.errors import ChildFailed
from refold.engine.events.outcome import (
    STATUSES,
    Artifact,
    Fault,
    Outcome,
    Priced,
    Status,
    Usage,
    artifact_of,
    failed,
)
from tests.support.loops import for_each


def test_the_statuses_are_those_of_the_type() -> None:
    """One list for programs, one for the type checker."""
    assert get_args(Status) == STATUSES


@for_each("status", STATUSES)
def test_only_completed_is_ok(status: Status) -> None:
    """A limit, a rejection, a time-out: none of them succeeded."""
    assert Outcome(status=status).ok is (status == "completed")


def test_a_failure_says_why() -> None:
    """A word for programs and a sentence for people, and whatever else is known."""
    outcome = failed("limit", "stream_bytes", "it printed too much", duration_ms=5)

    assert outcome.error == Fault(code="stream_bytes", message="it printed too much")
    assert (outcome.status, outcome.duration_ms) == ("limit", 5)


def test_a_type_in_brackets_changes_nothing_at_run_time() -> None:
    """It is for type checkers."""
    typed, plain = Outcome[int](status="completed", output=3), Outcome(status="completed", output=3)

    assert (typed, hash(typed), repr(typed)) == (plain, hash(plain), repr(plain))
    assert pickle.loads(pickle.dumps(typed)) == typed
    assert type(typed) is Outcome
    assert repr(plain).startswith("Outcome(status='completed', summary='', output=3")
    assert not hasattr(plain, "__dict__")


def test_usage_adds_up() -> None:
    """Member by member, a child's to its parent's."""
    one = Usage(input_tokens=1, output_tokens=2, requests=3)

    assert one.plus(Usage(input_tokens=10, output_tokens=20, requests=30)) == Usage(
        input_tokens=11, output_tokens=22, requests=33
    )
    assert one.plus(Usage()) == one


def test_a_sum_stays_one_that_a_log_can_hold() -> None:
    """§3.5: a log can give any integer of 64 bits as a count, and each form of a sum has room."""
    most = 2**63 - 1
    one = Usage(input_tokens=most, output_tokens=1, cost_usd_micros=most)

    assert one.plus(one) == Usage(input_tokens=most, output_tokens=2, cost_usd_micros=most)
    assert Priced(usd_micros=most).plus(Priced(usd_micros=1)) == Priced(usd_micros=most)


def test_what_is_volatile_stands_last() -> None:
    """§6.2: the data digest cuts from `duration_ms` on."""
    assert [field.name for field in attrs.fields(Outcome)][-2:] == ["duration_ms", "child"]


def test_a_failure_that_is_raised_has_its_outcome() -> None:
    """By which its parent knows the call that failed."""
    outcome = failed("limit", "max_depth", "m")

    with pytest.raises(ChildFailed) as raised:
        outcome.result()
    assert raised.value.outcome is outcome


def test_an_artifact_of_a_log_is_read_without_its_mark() -> None:
    logged = {"kind": "note", "value": "v", "name": "n"}

    assert artifact_of(logged | {"own": True}) == Artifact(**logged)  # type: ignore[arg-type]
