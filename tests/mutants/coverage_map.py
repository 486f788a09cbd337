"""Which tests see which lines: measured once, kept in a file, and asked for each mutant."""

import ast
import hashlib
import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Final, Self

import attrs
import pytest


@attrs.frozen
class Map:
    """Lines and their tests, of the files as they were when it was made."""

    seconds: dict[str, float]
    """Of each test that passed."""
    lines: dict[str, dict[int, list[str]]]
    digests: dict[str, str]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read it from the file that `Mapping` wrote."""
        given = json.loads(path.read_text(encoding="utf-8"))
        names = list(given["seconds"])
        lines = {
            file: {int(line): [names[at] for at in tests] for line, tests in some.items()}
            for file, some in given["lines"].items()
        }
        return cls(given["seconds"], lines, given["digests"])

    def is_of(self, root: Path, file: str) -> bool:
        """Whether a file is still what it was."""
        return self.digests.get(file) == digest(root / file)

    def tests(self, file: str, numbers: Iterable[int]) -> list[str]:
        """Return the tests that run one of the lines: the file's own, then the quickest."""
        lines = self.lines.get(file, {})
        found = {test for number in numbers for test in lines.get(number, ())}
        own = f"/test_{Path(file).stem}.py::"
        return sorted(found, key=lambda test: (own not in test, self.seconds[test], test))


class Mapping:
    """The pytest plugin that makes the map."""

    def __init__(self, root: Path, roots: list[Path], path: Path) -> None:
        self._root, self._path = root, path
        from coverage import Coverage  # noqa: PLC0415 - the tests of this file do without it

        self._coverage = Coverage(
            data_file=None, config_file=False, include=[f"{one}/*" for one in roots]
        )
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """Measure all tests, not what is imported to collect them."""
        self._coverage.start()
        try:
            return (yield)
        finally:
            self._coverage.stop()
            self._write()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Say whose lines those are that come now."""
        self._coverage.switch_context(item.nodeid)
        began = time.perf_counter()
        try:
            return (yield)
        finally:
            self._seconds[item.nodeid] = round(time.perf_counter() - began, 4)
            self._coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Leave out what fails as it is."""
        if report.outcome != "passed":
            self._failed.add(report.nodeid)

    def _write(self) -> None:
        seconds = {test: taken for test, taken in self._seconds.items() if test not in self._failed}
        numbers = {test: at for at, test in enumerate(seconds)}
        data = self._coverage.get_data()
        lines: dict[str, dict[int, list[int]]] = defaultdict(dict)
        for file in data.measured_files():
            name = Path(file).relative_to(self._root).as_posix()
            for line, tests in data.contexts_by_lineno(file).items():
                lines[name][line] = sorted(numbers[test] for test in tests if test in numbers)
        digests = {file: digest(self._root / file) for file in lines}
        given: dict[str, Any] = {"seconds": seconds, "lines": lines, "digests": digests}
        self._path.write_text(json.dumps(given), encoding="utf-8")


def digest(path: Path) -> str:
    """Return the digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Checks:
    """The words of the numbered checks, `test_NNN_…`, that tell them and lines apart."""

    def __init__(self, root: Path, lines: Iterable[str]) -> None:
        self._words: dict[str, set[str]] = {}
        for path in sorted((root / "tests").rglob("test_*.py")):
            text = path.read_text(encoding="utf-8")
            for node in ast.parse(text).body if _CHECK.search(text) else []:
                name = getattr(node, "name", "")
                if _CHECK.match(f"def {name}"):
                    nodeid = f"{path.relative_to(root).as_posix()}::{name}"
                    self._words[nodeid] = _words_of(ast.get_source_segment(text, node) or "")
        counts = Counter(word for words in self._words.values() for word in words)
        counts_of_lines = Counter(word for line in lines for word in _words_of(line))
        self._telling = {
            word for word in counts if counts[word] <= 6 and counts_of_lines[word] <= 60
        }

    def that_name(self, old: str, new: str, tests: Iterable[str]) -> list[str]:
        """Return the tests that are checks, and hold a telling word of what is edited in a line."""
        edited = self._telling & _words_of(_edited(old, new))
        if not edited:
            return []
        return [one for one in tests if edited & self._words.get(one.partition("[")[0], set())]


_CHECK: Final = re.compile(r"\bdef test_\d{3}_")


def _words_of(text: str) -> set[str]:
    found = {word.lower() for word in re.findall(r"[A-Za-z]\w{3,}", text)}
    return found | {part for word in found for part in word.split("_") if len(part) > 3}


def _edited(old: str, new: str) -> str:
    """Return the words of a line that an edit changes; all of it, where it changes none."""
    parts, others = (re.findall(r"\w+|\W", text) for text in (old, new))
    same = SequenceMatcher(None, parts, others, autojunk=False).get_matching_blocks()
    kept = {at for block in same for at in range(block.a, block.a + block.size)}
    edited = " ".join(part for at, part in enumerate(parts) if at not in kept)
    return edited if _words_of(edited) or len(old) > 99 else old
