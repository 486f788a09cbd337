"""JUnit XML that any reader takes, whatever the names and messages hold (CONTRACT.md §14.13)."""

from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from refold.replay.explain.junit import JUnitCase, JUnitSuite, junit_xml


def test_suites_and_cases_are_counted() -> None:
    """Failures, errors and what was skipped, each at the suite and at the top; times add up."""
    cases = (
        JUnitCase(name="a", seconds=1.25),
        JUnitCase(name="b", seconds=0.5, failure=("args_changed", "line 1\nline 2")),
        JUnitCase(name="c", seconds=0.0, error=("no program", "name one")),
        JUnitCase(name="d", seconds=0.0, skipped="not run"),
    )

    root = ET.fromstring(junit_xml([JUnitSuite(name="one", cases=cases[:2]),
                                    JUnitSuite(name="two", cases=cases[2:])]))  # fmt: skip

    assert root.tag == "testsuites"
    assert dict(root.attrib) == {
        "name": "refold",
        "tests": "4", "failures": "1", "errors": "1", "skipped": "1", "time": "1.750",
    }  # fmt: skip
    assert [suite.get("tests") for suite in root] == ["2", "2"]
    times = [case.get("time") for case in root.iter("testcase")]
    assert times == ["1.250", "0.500", "0.000", "0.000"]
    failure = root.find("./testsuite/testcase[@name='b']/failure")
    assert failure is not None
    assert (failure.get("message"), failure.text) == ("args_changed", "line 1\nline 2")
    assert root.find("./testsuite/testcase[@name='d']/skipped") is not None


def test_what_means_something_in_xml_is_escaped() -> None:
    """A message is text, whatever it looks like."""
    hostile = "]]><case name='x'/>&amp;\""

    document = junit_xml(
        [JUnitSuite(name=hostile, cases=[JUnitCase(name="a", seconds=0, error=(hostile, hostile))])]
    )

    (suite,) = ET.fromstring(document)
    (case,) = suite
    (error,) = case
    assert (suite.get("name"), error.get("message"), error.text) == (hostile, hostile, hostile)


@given(st.text(st.characters()))
def test_any_text_gives_a_document_without_control_characters(text: str) -> None:
    """Escapes, NUL and lone surrogates are left out: XML cannot hold them, nor should a screen."""
    case = JUnitCase(name=text, seconds=0, failure=(text, text))

    document = junit_xml([JUnitSuite(name=text, cases=[case])])

    ET.fromstring(document)
    decoded = document.decode()
    assert all(each.isprintable() or each in "\n\r\t" or ord(each) > 0x9F for each in decoded)
