"""Runs that broke off go out in each format, with the status that `show` gives them (§14.19)."""

import json
from pathlib import Path

import duckdb
import pytest
from atif import Trajectory

from refold.exports import otlp, parquet
from refold.exports.atif import trajectory
from refold.exports.spans import Spans
from refold.page.output_files import OutputFolder
from refold.replay.tree.delegation_tree import delegation_tree
from refold.replay.tree.standing import with_standing
from tests.exports.test_live import copied
from tests.exports.test_otlp import parsed
from tests.exports.test_spans import below


@pytest.mark.parametrize("part", [0.3, 0.8])
@pytest.mark.parametrize("name", ["delegating.jsonl", "watched.jsonl", "forked.jsonl"])
def test_a_log_that_ends_within_a_line_goes_out_in_each_format(
    name: str, part: float, tmp_path: Path
) -> None:
    log = copied(name, tmp_path)
    whole = log.read_bytes()
    log.write_bytes(whole[: int(len(whole) * part)])
    nodes = below(with_standing(delegation_tree(log)))
    statuses = sorted(node.status for node in nodes)
    assert "broke_off" in statuses

    (sent,) = (parsed(line) for line in otlp.lines(Spans(log)))
    spans = [each for it in sent.resource_spans for each in it.scope_spans[0].spans]
    values = [{one.key: one.value.string_value for one in each.attributes} for each in spans]
    runs = [each for each in values if "refold.log_state" in each]
    assert sorted(each["refold.status"] for each in runs) == statuses

    document = json.loads(json.dumps(trajectory(Spans(log, content=True))))
    assert Trajectory.model_validate(document).agent.name == nodes[0].name

    with OutputFolder(tmp_path / "tables").files(parquet.FILES) as files:
        parquet.write(Spans(log), files)
    with duckdb.connect() as tables:
        found = tables.sql(f"select status from '{tmp_path}/tables/agents.parquet'").fetchall()
    assert sorted(status for (status,) in found) == statuses
