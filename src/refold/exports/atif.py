"""A run as a trajectory in ATIF 1.8: its steps in order, subagents' trajectories inside it.

A trajectory is made of the spans of a run with their content.  Rules: CONTRACT.md §14.20.
"""

import datetime as dt
import json
from collections import defaultdict
from typing import Any, Final

from refold import __version__
from refold.exports.spans import EARLIER, Spans, TraceSpan

FORMAT: Final = "ATIF-v1.8"

_SOURCES: Final = {"system": "system", "developer": "system", "user": "user"}
_RUN: Final = "invoke_agent"


def trajectory(spans: Spans) -> dict[str, Any]:
    """Return the trajectory of a run; `spans` have content, and count omitted entries."""
    inside: dict[bytes | None, list[TraceSpan]] = defaultdict(list)
    for span in spans:
        inside[span.parent].append(span)
    for each in inside.values():
        each.sort(key=lambda span: (span.start_us, span.attributes.get("refold.entry", -1)))
    (root,) = inside[None]
    document = _Trajectory(root, inside, spans).document() | {"session_id": spans.run}
    del spans.left_out[EARLIER]  # each is a step
    return document


class _Trajectory:
    """The trajectory of one run or conversation."""

    def __init__(
        self, run: TraceSpan, inside: dict[bytes | None, list[TraceSpan]], spans: Spans
    ) -> None:
        self._run, self._inside, self._spans = run, inside, spans
        self._steps: list[dict[str, Any]] = []
        self._below: list[dict[str, Any]] = []
        self._results: dict[str, dict[str, Any]] = {}
        """Results of calls, by id."""

    def document(self) -> dict[str, Any]:
        """Return it, with those below it."""
        for span in self._inside[self._run.id]:
            match span.attributes.get("gen_ai.operation.name"):
                case "chat":
                    self._asked(span)
                case "execute_tool":
                    self._called(span)
                case "invoke_agent":
                    self._step(span, "agent", observation={"results": [self._subagent(span)]})
                case _:
                    self._step(span, "system", span.attributes.get("refold.question", ""))
                    if answer := span.attributes.get("refold.answer"):
                        self._step(span, "user", answer)
        facts = self._run.attributes
        own = {name.removeprefix("refold.own_usage."): value for name, value in facts.items()}
        cost = own.get("cost_usd_micros")
        if not self._steps:
            self._step(self._run, "system", facts.get("refold.brief", ""))
        return {
            "schema_version": FORMAT,
            "notes": "Exported by Refold.",
            "trajectory_id": self._run.id.hex(),
            "agent": {"name": facts["gen_ai.agent.name"] or "agent", "version": __version__},
            "steps": [{"step_id": at, **each} for at, each in enumerate(self._steps, 1)],
            "final_metrics": {"total_steps": len(self._steps)}
            | ({} if "untold" in own else _tokens(own))
            | ({} if cost is None else {"total_cost_usd": cost / 1_000_000}),
            "extra": {"status": facts["refold.status"], "error": self._run.error},
        } | ({"subagent_trajectories": self._below} if self._below else {})

    def _step(self, span: TraceSpan, source: str, message: str = "", **more: Any) -> None:
        at = dt.datetime.fromtimestamp(span.start_us / 1_000_000, dt.UTC)
        told = {"timestamp": at.isoformat(), "source": source, "message": message}
        self._steps.append(told | more)

    def _asked(self, span: TraceSpan) -> None:
        """Add the messages of a request, and its answer."""
        for message in json.loads(span.attributes.get("gen_ai.input.messages", "[]")):
            for part in message["parts"]:
                if part["type"] == "tool_call_response":
                    result = self._results.get(str(part["id"]))
                    if result is not None:
                        result["content"] = _text(part["response"])
                elif part["type"] == "text" and (source := _SOURCES.get(message["role"])):
                    self._step(span, source, _text(part["content"]))
        (answer,) = json.loads(span.attributes.get("gen_ai.output.messages", "[{}]"))
        parts = answer.get("parts", ())
        text = "".join(_text(part["content"]) for part in parts if part["type"] == "text")
        thought = [part["content"] for part in parts if part["type"] == "reasoning"]
        calls = [
            {
                "tool_call_id": str(part["id"]),
                "function_name": part["name"],
                "arguments": part["arguments"] if isinstance(part["arguments"], dict) else {},
            }
            for part in parts
            if part["type"] == "tool_call"
        ]
        self._results = {
            call["tool_call_id"]: {"source_call_id": call["tool_call_id"]} for call in calls
        }
        results = [*self._results.values()]
        facts = span.attributes
        metrics = {
            "prompt_tokens": facts.get("gen_ai.usage.input_tokens"),
            "completion_tokens": facts.get("gen_ai.usage.output_tokens"),
            "cached_tokens": facts.get("gen_ai.usage.cache_read.input_tokens"),
        }
        cost = facts.get("refold.cost_usd_micros")
        metrics |= {} if cost is None else {"cost_usd": cost / 1_000_000}
        more: dict[str, Any] = {"tool_calls": calls, "observation": {"results": results}}
        if span.error:
            more = {"extra": {"error": span.error}}
        self._step(
            span,
            "agent",
            text,
            model_name=facts.get("gen_ai.request.model") or "unknown",
            **({"reasoning_content": "\n\n".join(thought)} if thought else {}),
            metrics={name: value for name, value in metrics.items() if value is not None},
            **(more if calls or span.error else {}),
        )

    def _called(self, span: TraceSpan) -> None:
        """Join a tool's span to the call that an answer asked for, or add a step of its own."""
        facts = span.attributes
        result = self._results.get(facts.get("gen_ai.tool.call.id", ""))
        if result is None:
            given = json.loads(facts.get("gen_ai.tool.call.arguments", "{}"))
            call = {"tool_call_id": facts["refold.call"], "arguments": given}
            call["function_name"] = facts["gen_ai.tool.name"]
            result = {"source_call_id": facts["refold.call"]}
            observation = {"results": [result]}
            self._step(span, "agent", tool_calls=[call], observation=observation, llm_call_count=0)
        told = facts.get("gen_ai.tool.call.result", facts.get("refold.error.message", span.error))
        result.setdefault("content", told)
        refs = [
            ref
            for each in self._inside[span.id]
            if each.attributes.get("gen_ai.operation.name") == _RUN
            for ref in self._subagent(each)["subagent_trajectory_ref"]
        ]
        if refs:
            result["subagent_trajectory_ref"] = refs
        self._spans.left_out["calls inside a delegation tool"] += sum(
            each.attributes.get("gen_ai.operation.name") != _RUN for each in self._inside[span.id]
        )

    def _subagent(self, span: TraceSpan) -> dict[str, Any]:
        self._below.append(_Trajectory(span, self._inside, self._spans).document())
        return {"subagent_trajectory_ref": [{"trajectory_id": span.id.hex()}]}


def _tokens(own: dict[str, Any]) -> dict[str, int]:
    return {
        "total_prompt_tokens": own["input_tokens"],
        "total_completion_tokens": own["output_tokens"],
    }


def _text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
