"""The page's document: what it says is what `show`, `verify`, `why` and `state` say."""

import shutil
from pathlib import Path

from refold.page.document import page
from refold.replay.audit.verify import verify
from refold.replay.tree.delegation_tree import delegation_tree


def test_the_tree_is_that_of_show_with_logs_by_number(survey_log: Path) -> None:
    shown = page(survey_log).document

    tree = delegation_tree(survey_log)
    assert shown["tree"]["status"] == tree.status
    assert [child["log"] for child in shown["tree"]["children"]] == [1, 2, 3]
    assert shown["tree"]["children"][0]["seq"] == shown["logs"][1]["parent"]["seq"]
    assert shown["totals"]["subagents"] == len(tree.children)


def test_the_verdict_is_that_of_verify_and_names_logs_by_number(
    survey_log: Path, tmp_path: Path
) -> None:
    log = shutil.copytree(survey_log.parent, tmp_path / "copy") / survey_log.name
    child = log.with_name("survey.1.jsonl")
    child.write_bytes(child.read_bytes().replace(b"survey", b"purvey", 1))

    verdict = page(log).document["verdict"]

    found = verify(log)
    assert (verdict["intact"], verdict["complete"]) == (found.intact, found.complete)
    assert (verdict["problems"][0]["log"], verdict["problems"][0]["line"]) == (
        1,
        found.damage[0].line,
    )
