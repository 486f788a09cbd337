"""The options of commands that run agents: their models, runner, folder, limits, configuration."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import attrs
import click

from refold.cli.arguments.loading import (
    config_option,
    load_tools,
    models_by_name,
    root_option,
    tools_option,
)
from refold.cli.arguments.options import limit_option, option, with_options
from refold.cli.output import output
from refold.engine.events.limits import Limits
from refold.engine.ports.ports import Tool
from refold.engine.runners.shipped import RUNNERS
from refold.engine.secrets.redaction import narrowed
from refold.tools.agents.agent_files import NAMEABLE_TOOLS
from refold.tools.configuration.config import load_config
from refold.tools.configuration.prepared_run import Prepared, models_for


@attrs.frozen(kw_only=True, field_transformer=with_options)
class AgentOptions:
    """How agents run."""

    model: tuple[str, ...] = option(
        "openai:NAME, anthropic:NAME, pydantic:PROVIDER:NAME or scripted:FILE; by default the "
        "model in AGENT.md.  NAME= replaces one model name of agent files; `*=`, all.",
        "[NAME=]SPEC",
    )
    runner: str = option(
        "Runner of subagents.", type=click.Choice([*RUNNERS]), default="in-process"
    )  # fmt: skip
    root: Path = root_option
    tools: str = tools_option(
        "Your own tools, or lists of tools, for agents and profiles that name them, and for agents "
        "without a list of tools.  They can be delegation tools."
    )
    limits: dict[str, Any] = limit_option(
        tuple(attrs.fields_dict(Limits)),
        "Limit of the whole run, as in `refold.Limits`: max_depth, levels of subagents; "
        "max_iterations, model requests of the agent; timeout_seconds; and others.",
    )
    config: Path | None = config_option

    @property
    def own(self) -> tuple[Tool, ...]:
        """The tools of `--tools`."""
        return load_tools(self.tools)

    def prepared(
        self, prepare: Callable[..., Prepared], **given: Any
    ) -> tuple[Any, dict[str, Any]]:
        """Return the input of a run and its options of `record`; print the notes of the agents.

        `prepare` takes `root`, `config`, `own` and the `given` arguments.

        Raises:
            UsageError: its agent has no model.
        """
        own = self.own
        config = load_config(self.config or Path(), known_tools=known_tools(own))
        run = prepare(**given, root=self.root, config=config, own=own)
        for note in run.notes:
            output.note(note)
        models = models_for(run.agents, config, said=models_by_name(self.model))
        if "" not in models:
            raise click.UsageError(
                "no model: pass --model (openai:NAME, anthropic:NAME, "
                "pydantic:PROVIDER:NAME, scripted:FILE), or set `provider` and `model` "
                "in AGENT.md, or `llm.default_pool` in refold.yaml"
            )
        names = {tool.name for tool in run.tools}, {each.name for each in models.values()}
        redaction = narrowed(config.redaction, *names) if config.redaction else None
        return run.input, {
            "tools": run.tools, "models": models, "runner": self.runner,
            "limits": run.limits.narrowed(Limits(**self.limits)), "redaction": redaction,
            "volatile": config.volatile,
        }  # fmt: skip


def known_tools(own: Iterable[Tool]) -> tuple[str, ...]:
    """Return the names of tools that agent files may use."""
    return (*NAMEABLE_TOOLS, *(tool.name for tool in own))
