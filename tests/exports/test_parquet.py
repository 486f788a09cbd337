"""Tables of a run as DuckDB reads them (CONTRACT.md §14.22)."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyarrow.parquet import read_table

import refold
from refold.cli.group import refold as command_line
from refold.engine.log.names import parent_of
from refold.exports import parquet
from refold.exports.parquet import FILES
from refold.exports.spans import Spans
from refold.page.output_files import OutputFolder
from refold.replay.run.opened_run import OpenedRun
from refold.replay.run.run_node import RunNode
from tests.support.loops import some

LOGS = Path(__file__).parents[2] / "fixtures" / "logs" / "engine-2"
ROOTS = sorted(path.name for path in LOGS.glob("*.jsonl") if parent_of(path) is None)
SPENT = ("input_tokens", "output_tokens", "cost_usd_micros")


def tables(log: Path, folder: Path, *, content: bool = False) -> Spans:
    """Write the tables of a run, and return its spans."""
    spans = Spans(log, content=content)
    with OutputFolder(folder).files(FILES) as files:
        parquet.write([spans], files)
    return spans


def rows(folder: Path, *queries: str) -> list[list[tuple[Any, ...]]]:
    """Return the rows of each query; a table has the name of its file."""
    import duckdb  # noqa: PLC0415 - kept by a module, it reports leaks as Python ends

    with duckdb.connect(config={"threads": 1}) as connection:
        for name in FILES:
            connection.sql(f"create view {name[:-8]} as from '{folder / name}'")
        return [connection.sql(query).fetchall() for query in queries]


def nested(node: RunNode, above: str = "") -> list[tuple[Any, ...]]:
    """Return the nodes of a tree, each with the names of those above it."""
    spent = [getattr(usage, name) for usage in (node.usage, node.own_usage) for name in SPENT]
    place = f"{above}/{node.name or node.program}"
    own = (place, node.status, node.requests, *spent)
    return [own, *(each for child in node.children for each in nested(child, place))]


@pytest.mark.parametrize("name", some(3, ROOTS))
def test_tables_tell_what_the_tree_tells(name: str, tmp_path: Path) -> None:
    """Nesting, statuses, times, tokens and costs of each run; and calls by tool."""
    log, made = LOGS / name, tmp_path / "made"
    tree = OpenedRun(log).tree
    spans = tables(log, made, content=True)
    spent = ", ".join([*SPENT, *(f"own_{each}" for each in SPENT)])

    told, called, times, [(agents, calls)] = rows(
        made,
        f"""with recursive placed as (
            select *, '/' || name as place from agents where parent_agent is null union all
            select a.*, p.place || '/' || a.name from agents a join placed p
            on a.parent_agent = p.agent)
        select place, status, requests, {spent} from placed""",
        "select name, count(*) from calls where kind = 'execute_tool' group by 1",
        "select epoch_us(started), epoch_us(ended) from calls",
        "select agents, calls from runs",
    )

    assert sorted(told, key=str) == sorted(nested(tree), key=str)
    uses = Counter[str]()
    for node in [tree, *_below(tree)]:
        uses.update({use.tool: use.called for use in node.tools})
    assert dict(called) == +uses
    known = [each for each in Spans(log) if not each.name.startswith("invoke_agent")]
    assert Counter(times) == Counter((each.start_us, each.end_us) for each in known)
    assert (agents, calls) == (len(told), len(times))
    assert agents + calls == spans.made


def _below(node: RunNode) -> list[RunNode]:
    return [each for child in node.children for each in (child, *_below(child))]


def test_messages_are_rows_in_their_order(tmp_path: Path) -> None:
    """And a result names the call of a tool that an answer asked for."""
    tables(LOGS / "watched.jsonl", tmp_path / "made", content=True)

    told, answered = rows(
        tmp_path / "made",
        """select role, is_answer, text from messages join agents using (agent)
        where parent_agent is not null and brief = 'Plan a day in Bergen.'
        order by (select entry from calls where calls.call = messages.call), position""",
        """select t.name, r.text from messages m, unnest(m.tool_calls) u(t)
        join messages r on r.tool_call_id = t.id order by t.id""",
    )

    assert told[:3] == [
        ("system", False, "You lead the planning of a trip, and hand out all the work."),
        ("user", False, "Plan a day in Bergen."),
        ("assistant", True, "I ask around."),
    ]
    assert [each[0] for each in told[3:]] == ["tool", "tool", "tool", "assistant"]
    assert answered == [
        ("Task", "the fish hall"), ("Task", "Fløyen"), ("weather", "no such city"),
    ]  # fmt: skip


def test_texts_are_left_out_and_counted_unless_asked_for(tmp_path: Path) -> None:
    log = LOGS / "watched.jsonl"
    whole = tables(log, tmp_path / "whole", content=True)
    bare = tables(log, tmp_path / "bare")

    shape = "select role, is_answer, list_transform(tool_calls, lambda c: c.name) from messages"
    assert rows(tmp_path / "bare", shape) == rows(tmp_path / "whole", shape)
    everything = str([read_table(tmp_path / "bare" / name).to_pylist() for name in FILES])
    assert "Bergen" not in everything
    assert "planning" not in everything
    assert bare.left_out["texts"] > 0
    assert "texts" not in whole.left_out
    assert whole.left_out["x-refold.wire"] == 8


def test_a_group_of_rows_is_bounded_and_its_rows_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are written while they are read: no group has more than the limit, or one row."""
    log = LOGS / "watched.jsonl"
    tables(log, tmp_path / "one", content=True)
    monkeypatch.setattr(parquet, "_GROUP_BYTES", 2_000)
    tables(log, tmp_path / "many", content=True)

    (groups,) = rows(
        tmp_path / "many",
        f"""select row_group_num_rows, max(row_group_bytes) from
        parquet_metadata('{tmp_path}/many/messages.parquet') group by row_group_id, 1 order by 1""",
    )
    assert len(groups) > 2
    assert all(count == 1 or size < 2_000 for count, size in groups)
    for name in FILES:
        assert read_table(tmp_path / "one" / name) == read_table(tmp_path / "many" / name)


@pytest.mark.long
def test_seventy_seven_subagents_are_the_same_bytes_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In each form, in another folder and another environment; nothing of either is in it."""

    def add(a: int, b: int) -> int:
        return a + b

    async def child(run: refold.Run, number: int) -> int:
        return int(await run.tool("add", a=number, b=1))

    async def lead(run: refold.Run, count: int) -> int:
        children = [
            await run.start(refold.Delegation(program=child, input=each, brief=f"part {each}"))
            for each in range(count)
        ]
        return len(await run.join(*children))

    log = tmp_path / "lead.jsonl"
    limits = refold.Limits(max_children=77)
    refold.record(lead, 77, log=log, tools=[refold.tool(add)], limits=limits)
    made = []
    for number, zone in enumerate(("UTC", "Asia/Tokyo")):
        folder = tmp_path / f"secret{number}"
        folder.mkdir()
        monkeypatch.chdir(folder)
        monkeypatch.setenv("TZ", zone)
        monkeypatch.setenv("HOSTNAME", f"secret{number}")
        for to, out in (("parquet", "tables"), ("otlp", "a.otlp"), ("atif", "a.atif")):
            words = ["export", str(log), "--to", to, "-o", out]
            said = CliRunner().invoke(command_line, words)
            assert said.exit_code == 0, said.output
        made.append(
            {
                str(path.relative_to(folder)): path.read_bytes()
                for path in sorted(folder.rglob("*"))
                if path.is_file()
            }
        )

    assert made[0] == made[1]
    assert len(made[0]) == 6
    assert not any(b"secret" in content for content in made[0].values())
    [[(agents,)]] = rows(tmp_path / "secret0" / "tables", "select agents from runs")
    assert agents == 78
