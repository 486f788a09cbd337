"""The options of commands that run agents: their models, runner, folder, limits, configuration."""

from pathlib import Path
from typing import Final

import attrs
import click

from refold.cli.arguments.loading import models_by_name
from refold.cli.arguments.logs import LOG, limit_option
from refold.cli.arguments.paths import UserPath
from refold.engine.events.limits import Limits
from refold.engine.ports.ports import Model
from refold.engine.runners.shipped import RUNNERS
from refold.tools.configuration.config import Config
from refold.tools.configuration.prepared_run import Prepared, models_for

model_option: Final = click.option(
    "--model", "specs", metavar="[NAME=]SPEC", multiple=True,
    help="openai:NAME, anthropic:NAME, pydantic:PROVIDER:NAME or scripted:FILE; by default the\n"
    "model in AGENT.md.  NAME= replaces one model name of agent files; `*=`, all.",
)  # fmt: skip
runner_option: Final = click.option(
    "--runner", type=click.Choice(list(RUNNERS)), default="in-process",
    show_default=True, help="Runner of subagents.",
)  # fmt: skip
root_option: Final = click.option(
    "--root", type=UserPath(path_type=Path), default=Path(), metavar="DIR",
    help="Folder for the file tools; by default this one.",
)  # fmt: skip
run_limit_option: Final = limit_option(
    tuple(attrs.fields_dict(Limits)),
    "Limit of the whole run, as in `refold.Limits`: max_depth, levels of subagents; "
    "max_iterations, model requests of the agent; timeout_seconds; and others.",
)
config_option: Final = click.option(
    "--config", type=LOG, metavar="FILE",
    help="Configuration file; by default refold.yaml here, or [tool.refold] in pyproject.toml.",
)  # fmt: skip


def run_models(given: Prepared, config: Config, specs: tuple[str, ...]) -> dict[str, Model]:
    """Return the models of a run by name, as the options, agent files and configuration have them.

    Raises:
        click.UsageError: there is none for its agent.
    """
    models = models_for(given.agents, config, said=models_by_name(specs))
    if "" not in models:
        raise click.UsageError(
            "no model: pass --model (openai:NAME, anthropic:NAME, "
            "pydantic:PROVIDER:NAME, scripted:FILE), or set `provider` and `model` "
            "in AGENT.md, or `llm.default_pool` in refold.yaml"
        )
    return models
