"""Runs a recorded program again with live outcomes, and reports those that changed.

`refold replay --live`, or with one source that is live. Rules: CONTRACT.md §12.10.
"""

from collections.abc import Sequence
from typing import Any

from refold.api import drift
from refold.cli.arguments.live import LiveOptions, pair
from refold.cli.arguments.logs import OpenedLog, started
from refold.cli.output import output
from refold.cli.output.exit_codes import DIFFERS, FINE, MISSING
from refold.engine.log.names import tree
from refold.page.output_files import OutputFile
from refold.replay.explain.junit import junit_xml
from refold.replay.partial.drift_report import DriftReport


def replay_live(
    log: OpenedLog,
    program: str | None,
    given: LiveOptions,
    junit: OutputFile | None,
    rules: Sequence[str],
    **way: Any,
) -> int:
    """Run a log again with live outcomes, in the `way` that `refold.drift` takes, and report it.

    A call can be the same, new or missing, or have a different result or different arguments.
    Differences that may have been caused by an earlier changed result are marked as consequent.
    """
    compare = dict(pair(each, "--compare") for each in rules)
    with output.stdout_kept(), output.progress(f"running {log.given} again"):
        report = drift(log.path, program, **given.passed(), compare=compare, **way)
    if junit is not None:
        junit.write(junit_xml([report.junit()]))
    code = MISSING if report.missing else DIFFERS if report.drifted else FINE
    document = report.as_json() | {"log": output.shown_path(log.given)}
    return output.answer(document, lambda: _describe(report, log), code)


def _describe(report: DriftReport, log: OpenedLog) -> None:
    """Print a report; name the tools whose calls are the same because the record answered them."""
    output.lines(str(report))
    for options in [one.options for one in report.missing if one.options][:1]:
        output.hint(f"to let it run, add {options}")
    if report.sources.may_change:
        return
    offers = [offer for path in tree(log.path) if path.exists() for offer in started(path).tools]
    changing = {
        offer["name"]
        for offer in offers
        if offer["effect"] == "changes"
        and not offer.get("delegates")
        and report.sources.tool.get(offer["name"], report.sources.tools) == "live"
    }
    served = [row.name for row in report.calls if row.verdict == "same" and row.kind == "tool"]
    kept = [name for name in sorted(changing) if name in served]
    if kept:
        names = ", ".join(f"{name} ({served.count(name)})" for name in kept)
        output.hint(f"not run, recorded results used instead: {names}; to run them, add --yes")
