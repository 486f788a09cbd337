"""A workflow for Temporal's `Replayer`, and the history that a server would have of it."""

from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.api.common.v1 import Payloads
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import History
from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter


@workflow.defn(name="calling", sandboxed=False)
class Calling:
    """Executes an activity so many times."""

    @workflow.run
    async def run(self, calls: int) -> int:
        """Return how many times."""
        limit = timedelta(seconds=10)
        for _ in range(calls):
            await workflow.execute_activity(
                "find", args=["needle", 2], start_to_close_timeout=limit
            )
        return calls


def history(calls: int) -> WorkflowHistory:
    """Return what a server keeps of a completed workflow of so many activities."""
    events = History().events

    def add(kind: str, **members: Any) -> int:
        event = events.add(event_id=len(events) + 1)
        event.event_type = EventType.Value(f"EVENT_TYPE_{kind.upper()}")
        event.event_time.FromSeconds(1_700_000_000)
        attributes = getattr(event, f"{kind}_event_attributes")
        for name, value in members.items():
            if isinstance(value, str | int):
                setattr(attributes, name, value)
            elif isinstance(value, Payloads):
                getattr(attributes, name).CopyFrom(value)
            else:
                getattr(attributes, name).name = value["name"]
        return int(event.event_id)

    def task() -> int:
        scheduled = add("workflow_task_scheduled", task_queue={"name": "bench"})
        started = add("workflow_task_started", scheduled_event_id=scheduled)
        return add(
            "workflow_task_completed", scheduled_event_id=scheduled, started_event_id=started
        )

    add("workflow_execution_started", workflow_type={"name": "calling"}, workflow_id="bench",
        task_queue={"name": "bench"}, input=_payloads(calls), original_execution_run_id="bench",
        first_execution_run_id="bench", attempt=1)  # fmt: skip
    done = task()
    for number in range(calls):
        scheduled = add("activity_task_scheduled", activity_id=str(number + 1),
            activity_type={"name": "find"}, task_queue={"name": "bench"},
            input=_payloads("needle", 2), workflow_task_completed_event_id=done)  # fmt: skip
        started = add("activity_task_started", scheduled_event_id=scheduled)
        add("activity_task_completed", scheduled_event_id=scheduled, started_event_id=started,
            result=_payloads(["needle", "needle"]))  # fmt: skip
        done = task()
    add("workflow_execution_completed", result=_payloads(calls),
        workflow_task_completed_event_id=done)  # fmt: skip
    return WorkflowHistory("bench", list(events))


def _payloads(*values: Any) -> Payloads:
    return Payloads(payloads=DataConverter.default.payload_converter.to_payloads(values))
