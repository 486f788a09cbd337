"""`refold view`: what is listed, and what is refused before anything is served."""

import contextlib
import json
import os
import shutil
import signal
import socket
import threading
import urllib.request
import webbrowser
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import Result

from refold.cli.arguments.run_names import RUNS
from refold.cli.commands.inspect.view import FolderOfRuns
from refold.engine.log.pack import pack
from refold.store.push import Moved, push
from tests.support.loops import for_each

Invoke = Callable[..., Result]


def test_runs_are_listed_with_what_only_their_trees_tell(survey_log: Path, tmp_path: Path) -> None:
    """Packed ones, too; what is no log has no counts, and stops none."""
    shutil.copytree(survey_log.parent, tmp_path, dirs_exist_ok=True)
    pack(survey_log, tmp_path / "packed.refold")
    (tmp_path / "broken.jsonl").write_text("{}\n")

    with contextlib.ExitStack() as stack:
        runs = FolderOfRuns(tmp_path, stack)
        rows = {row["id"]: row for row in runs.rows()}
        packed = runs.log("packed.refold").read_bytes()

    assert rows["survey.jsonl"]["subagents"] == rows["packed.refold"]["subagents"] == 3
    assert rows["survey.jsonl"]["status"] == "completed"
    first = json.loads(survey_log.read_bytes().splitlines()[0])
    assert rows["survey.jsonl"]["started_us"] == first["meta"]["wall_us"]
    assert rows["broken.jsonl"]["started_us"] is None
    assert rows["broken.jsonl"]["status"] == "unreadable"
    assert packed == survey_log.read_bytes()


def test_one_log_is_shown_alone(survey_log: Path) -> None:
    with contextlib.ExitStack() as stack:
        runs = FolderOfRuns(survey_log, stack)

        assert [row["id"] for row in runs.rows()] == [survey_log.name]
        assert runs.log(survey_log.name) == survey_log


@for_each("name", ["../survey.jsonl", "survey.1.jsonl", "nothing"])
def test_what_is_not_listed_is_not_read(survey_log: Path, name: str) -> None:
    with contextlib.ExitStack() as stack, pytest.raises(KeyError):
        FolderOfRuns(survey_log.parent, stack).log(name)


def test_a_place_that_is_not_there_is_a_question_of_usage(invoke: Invoke, tmp_path: Path) -> None:
    said = invoke("view", tmp_path / "nothing")

    assert said.exit_code == 2
    assert "no such file or folder" in said.stderr


def test_a_store_is_not_viewed_whole(invoke: Invoke, tmp_path: Path) -> None:
    said = invoke("view", tmp_path.as_uri())

    assert said.exit_code == 2
    assert "pass one of its runs" in said.stderr


def test_a_stored_log_is_named_as_it_was_given(survey_log: Path, tmp_path: Path) -> None:
    store = f"{tmp_path.as_uri()}/store"
    assert [type(moved) for _, moved in push([survey_log], store)] == [Moved]

    with click.Context(click.Command("view")) as context, contextlib.ExitStack() as stack:
        place = RUNS.convert(f"{store}/survey.jsonl", None, context)
        rows = FolderOfRuns(place, stack).rows()

    assert [row["path"] for row in rows] == [f"{store}/survey.jsonl"]
    assert rows[0]["subagents"] == 3


class _Leaving(webbrowser.BaseBrowser):
    """A browser that reads the page it is sent to, and then types Ctrl-C."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, int]] = []

    def open(self, url: str, new: int = 0, autoraise: bool = True) -> bool:  # noqa: FBT001, FBT002 - its base's
        del new, autoraise
        threading.Thread(target=self._read, args=(url,), daemon=True).start()
        return True

    def _read(self, url: str) -> None:
        with urllib.request.urlopen(url, timeout=60) as answer:
            self.seen.append((url, answer.status))
        os.kill(os.getpid(), signal.SIGINT)


def test_the_browser_is_sent_to_a_page_that_is_served_until_ctrl_c(
    survey_log: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address of one log names it; a port that is taken is a question of usage."""
    browser = _Leaving()
    webbrowser.register("leaving", None, browser, preferred=True)
    monkeypatch.setattr(webbrowser, "_tryorder", ["leaving"])

    one = invoke("view", survey_log, "--open")
    folder = invoke("view", survey_log.parent, "--open")

    assert [(each.exit_code, each.stderr) for each in (one, folder)] == [
        (0, "Ctrl-C ends it\n")
    ] * 2
    assert browser.seen == [(each.stdout.strip(), 200) for each in (one, folder)]
    assert one.stdout.endswith(f"&log={survey_log.name}\n")
    assert "&log=" not in folder.stdout
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = invoke("view", survey_log, "--port", port)
    assert refused.exit_code == 2
    assert f"port {port}: Address already in use" in refused.stderr


def test_what_was_counted_is_kept_and_the_rest_counted_at_another_look(
    survey_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As far as there was time; until a run has more entries."""
    shutil.copytree(survey_log.parent, tmp_path, dirs_exist_ok=True)
    log = tmp_path / survey_log.name
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:2]))

    with contextlib.ExitStack() as stack:
        runs = FolderOfRuns(tmp_path, stack)
        with monkeypatch.context() as hurried:
            hurried.setattr("refold.cli.commands.inspect.view._PATIENCE_SECONDS", 0.0)
            (soon,) = runs.rows()
        (first,) = runs.rows()
        log.write_bytes(b"".join(lines[:2]).replace(b"list_files", b"list_filez"))
        (same,) = runs.rows()
        log.write_bytes(b"".join(lines))
        (whole,) = runs.rows()

    assert "subagents" not in soon
    assert (first["subagents"], first["program"], first["status"]) == (
        0,
        "survey_tree",
        "broke_off",
    )
    assert same == first, "not read again, or it would be found to be damaged"
    assert (whole["subagents"], whole["models"]) == (3, [])
    assert (first["duration_ms"], whole["duration_ms"] is None) == (None, False)
