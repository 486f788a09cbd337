"""Runners: what starts one child run and bounds it (CONTRACT.md §7.3).

    in_process.py     own kernel on a thread of this process; cooperative deadline
    in_subprocess.py  own process, hard limits; `envelope.py` is what crosses, `stub.py` and
                      `child.py` are the other side
    tokens.py         how a child in another process asks for more tokens
    child_run.py      a child as a recording of its own, and what it hands back
    scripted.py       fixed replies, and no runner at all: for tests
    anchor.py         what the parent reads of a child's log when it joins
    unfinished.py     what becomes of a child when its parent's run is resumed

To add one: implement `engine.ports.ChildRunner`, pass it to `record(runners={…})`, and put it into
the contract suite `tests/contract/test_runners.py`.
"""

from refold.engine.ports import ChildRunner


def default_runners() -> dict[str, ChildRunner]:
    """Return the runners that every root has, by name."""
    from refold.engine.runners.in_process import InProcess  # noqa: PLC0415 - it needs `recording`
    from refold.engine.runners.in_subprocess import InSubprocess  # noqa: PLC0415 - the same

    return {"in-process": InProcess(), "subprocess": InSubprocess()}
