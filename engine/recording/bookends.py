"""The first and the last entry of a log, with their data about the run and all other entries.

This module draws the nonce of a log. Rules: CONTRACT.md §2.2, §6, §15.1.
"""

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

import refold.engine
from refold.engine.encoding import digest as digests
from refold.engine.events import codec, data_digest
from refold.engine.events.events import RunFinished, RunStarted
from refold.engine.events.flags import ENGINE_VERSION, NOW
from refold.engine.events.outcome import Usage
from refold.engine.log.blobs import encode_data
from refold.engine.ports.offers import offer_of
from refold.engine.ports.ports import Model, Tool
from refold.engine.ports.programs import fingerprint_of, is_shipped
from refold.engine.recording.run_request import RunRequest
from refold.engine.state.digests import STATE_VERSION, state_digest
from refold.engine.state.folding import Fold

FORMAT_VERSION: Final = 1


SCRIPT: Final = "script_"
"""Begins the members of `meta` that mark models as scripts; their numbers in `models` follow."""


def versions() -> dict[str, Any]:
    """Return the versions that a log is made under."""
    return {
        "format": FORMAT_VERSION,
        "engine": ENGINE_VERSION,
        "state": STATE_VERSION,
        "python": ".".join(platform.python_version_tuple()[:2]),
        "release": refold.__version__,
        "flags": NOW.as_json(),
    }


def nonce() -> str:
    """Return what makes the hashes of a log its own: 32 hex digits, drawn."""
    return os.urandom(16).hex()


def started_of(request: RunRequest) -> RunStarted:
    """Return the first entry of the run that is asked for; its input is not redacted yet."""
    identity = request.identity
    parent = identity.parent
    return RunStarted(
        program=request.program_name,
        input=request.input,
        depth=identity.depth,
        limits=request.limits.as_json(),
        seed=identity.seed,
        tools=[offer_of(request.tools[name]) for name in sorted(request.tools)],
        models={name: request.models[name].name for name in sorted(request.models)},
        versions=versions(),
        fingerprint=fingerprint_of(request.program),
        rules=request.vault.rules(declared_volatile(request.tools.values())),
        path=identity.path,
        run_id=identity.run_id,
        root_id=identity.root_id,
        parent=attrs.asdict(parent) if parent else None,
        nonce=nonce(),
        shipped=is_shipped(request.program) or None,
        agent=identity.agent or None,
        untimed=request.clock is not None or request.supply is not None or None,
        labels=dict(request.labels) or None,
    )


def script_marks(models: Mapping[str, Model]) -> dict[str, int]:
    """Return the members of a first entry's `meta` that mark models as scripts of the program.

    A script may have a provider's name, for its prices; without a mark, it would lead there.
    """
    numbered = enumerate(sorted(models))
    return {
        f"{SCRIPT}{at}": 1 for at, name in numbered if getattr(models[name], "is_script", False)
    }


def scripts_in(models: Iterable[str], meta: Mapping[str, Any]) -> set[str]:
    """Return the names of the models that `meta` of a first entry marks as scripts."""
    return {name for at, name in enumerate(sorted(models)) if f"{SCRIPT}{at}" in meta}


def declared_volatile(tools: Iterable[Tool]) -> list[str]:
    """Return the paths that tools declare volatile in themselves, as the rules have them."""
    return [f"tool:{tool.name}{at}" for tool in tools for at in getattr(tool, "volatile", ())]


def sealed(
    finished: RunFinished,
    *,
    entries: int,
    digest: data_digest.DataDigest,
    fold: Fold,
    leaves: Sequence[str] = (),
) -> RunFinished:
    """Return the last entry with its data about the entries before it.

    `entries` is their number, `leaves` are the Merkle leaves of joined children in start order.
    `digest` and `fold` have taken all entries before, and `digest` takes this one.
    """
    digest.add("run.finished", None, encode_data(codec.unstructure(finished)))
    usage = fold.usage.plus(fold.children_usage)
    tree = digest.tree_hexdigest() if leaves else ""
    return attrs.evolve(
        finished,
        entries=entries + 1,
        data_digest=digest.hexdigest(),
        state_digest=state_digest(fold.state()),
        children_root=digests.merkle_root(list(leaves)),
        models=list(fold.models) or None,
        usage=usage if usage != Usage() else None,
        tree_digest=tree or None,
    )
