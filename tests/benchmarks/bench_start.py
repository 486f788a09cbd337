"""How long Refold takes to be there: imports and the command, against a bare Python.

Processor time of the new process: what else the machine does is left out.
"""

from tests.benchmarks.measure import CHILDREN, Job, run_python

_BASE = "python -c pass"
_SNIPPETS = {
    "import refold": "import refold",
    "… and verify": "import refold; refold.verify",
    "… and record": "import refold; refold.record",
    "a child's imports": "import refold.engine.runners.child",
}


def jobs() -> list[Job]:
    """Return what is timed."""
    return [
        Job(name=_BASE, run=lambda: run_python("-c", "pass"), clock=CHILDREN),
        *[_job(name, "-c", code) for name, code in _SNIPPETS.items()],
        _job("refold --version", "-m", "refold", "--version"),
        _job("refold --help", "-m", "refold", "--help"),
    ]


def _job(name: str, *arguments: str) -> Job:
    return Job(name=name, run=lambda: run_python(*arguments), base=_BASE, clock=CHILDREN)
