"""Says once what stops several tests: one changed prompt, and each test that asked with it.

Reports of failed tests flow in, from all processes; sections of pytest's summary flow out.
`refold.pytest_plugin` attaches the data to reports. Rules: CONTRACT.md §13.12.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from refold.testing.reproduce import IF_MEANT


def grouped(reports: Sequence[Any]) -> list[tuple[str, str]]:
    """Return a title and a text for each change that stops several tests; shorten their failures.

    Reports stay as they are where a change stops one test alone.
    """
    groups: dict[tuple[str, ...], list[Any]] = {}
    for report in reports:
        if found := getattr(report, "refold_explained", None):
            groups.setdefault(tuple(found[0]), []).append(report)
    several = {key: group for key, group in groups.items() if len(group) > 1}
    return [
        _group_text(group, _change(len(key), number if len(several) > 1 else 0))
        for number, (key, group) in enumerate(several.items(), 1)
    ]


def _change(count: int, number: int) -> str:
    """Return what breaks tests, and the verb; `number` tells several of them apart."""
    if number:
        return f"change {number} breaks"
    return "one change breaks" if count == 1 else f"the same {count} changes break"


def _group_text(group: list[Any], change: str) -> tuple[str, str]:
    group.sort(key=lambda report: report.nodeid)
    title = f"refold: {change} {len(group)} tests"
    _, text, _ = group[0].refold_explained
    for report in group:
        _shorten(report, f'see "{title}" below')
    targets = [report.refold_explained[2] for report in group]
    tests = "".join(f"\n  {target}" for target in targets)
    return (
        title,
        f"{text}\nIt stops:{tests}\n{IF_MEANT}\n  pytest {' '.join(targets)} --refold-accept",
    )


def _shorten(report: Any, rest: str) -> None:
    """Leave the first line of the explanation, wherever the report shows it."""
    first, *more = (line.strip() for line in report.refold_explained[1].split("\n"))
    report.sections = [
        (title, f"{first}\n{rest}" if report.refold_explained[1] in content else content)
        for title, content in report.sections
    ]
    left_out = {*more, IF_MEANT, f"pytest {report.refold_explained[2]} --refold-accept"} - {""}
    for entry in getattr(getattr(report.longrepr, "reprtraceback", None), "reprentries", ()):
        kept = [line for line in entry.lines if _content(line) not in left_out]
        if len(kept) < len(entry.lines):
            at = next((at for at, line in enumerate(kept) if _content(line) == first), len(kept))
            entry.lines = [*kept[: at + 1], *_marked(entry.lines, rest), *kept[at + 1 :]]
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:  # pytest's last lines: the first of it, but whole where CI is set
        kept = [line for line in crash.message.split("\n") if _content(line) not in left_out]
        crash.message = "\n".join(kept)


def _content(line: str) -> str:
    """Return a line of a failure without pytest's mark and the exception's name."""
    return line.removeprefix("E").strip().removeprefix("Failed: ")


def _marked(lines: Iterable[str], text: str) -> list[str]:
    return [f"E       {text}" if any(line.startswith("E ") for line in lines) else text]
