"""Results as JUnit XML, the format that CI services read.

The caller decides which results are failures. This module makes a document that any XML reader
accepts: characters that XML does not allow are left out, and everything else is escaped. Pure: it
writes no file. Rules: CONTRACT.md §14.13.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final
from xml.etree import ElementTree as ET

import attrs

_NOT_IN_XML: Final = "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
"""Compiled where it is used: that takes as long as a dozen of our modules to import."""
_NOT_PRINTED: Final = "[\x7f-\x9f]"
"""Allowed in XML, and nothing that a terminal should get from a report."""


@attrs.frozen(kw_only=True)
class JUnitCase:
    """One thing that was looked at."""

    name: str
    seconds: float
    failure: tuple[str, str] | None = None
    """(message, text) where it is not as it should be."""
    error: tuple[str, str] | None = None
    """(message, text) where it could not be looked at."""
    skipped: str = ""
    """Why it was not looked at; empty where it was."""


@attrs.frozen(kw_only=True)
class JUnitSuite:
    """Cases that belong together."""

    name: str
    cases: Sequence[JUnitCase]


def junit_xml(suites: Iterable[JUnitSuite]) -> bytes:
    """Return the document: `testsuites`, one `testsuite` each, one `testcase` a case; UTF-8."""
    found = list(suites)
    counts = _counts([case for suite in found for case in suite.cases])
    root = ET.Element("testsuites", {"name": "refold", **counts})
    for suite in found:
        attributes = {"name": _xml_text(suite.name), **_counts(suite.cases)}
        element = ET.SubElement(root, "testsuite", attributes)
        for case in suite.cases:
            _add(element, case, suite.name)
    ET.indent(root)
    document: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _counts(cases: Sequence[JUnitCase]) -> dict[str, str]:
    return {
        "tests": str(len(cases)),
        "failures": str(sum(case.failure is not None for case in cases)),
        "errors": str(sum(case.error is not None for case in cases)),
        "skipped": str(sum(bool(case.skipped) for case in cases)),
        "time": f"{sum(case.seconds for case in cases):.3f}",
    }


def _add(suite: ET.Element, case: JUnitCase, classname: str) -> None:
    attributes = {
        "classname": _xml_text(classname),
        "name": _xml_text(case.name),
        "time": f"{case.seconds:.3f}",
    }
    element = ET.SubElement(suite, "testcase", attributes)
    for tag, told in (("failure", case.failure), ("error", case.error)):
        if told is not None:
            ET.SubElement(element, tag, {"message": _xml_text(told[0])}).text = _xml_text(told[1])
    if case.skipped:
        ET.SubElement(element, "skipped", {"message": _xml_text(case.skipped)})


def _xml_text(text: str) -> str:
    return re.sub(_NOT_PRINTED, "", re.sub(_NOT_IN_XML, "", text))
