"""Time, random numbers, files and markers: given once, recorded, the same again (§9.3, §9.8)."""

import asyncio
import contextvars
import os
import socket
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.engine.errors import NotCanonical
from refold.engine.log.reader import read_entries
from refold.engine.program.run import PlainRun, Run
from refold.replay.reexecute.reexecute import reexecute


def kinds(log: Path) -> list[str]:
    return [entry.kind for entry in read_entries(log)]


def test_uuids_are_of_version_4_and_a_seed_gives_the_same_ones(tmp_path: Path) -> None:
    """Each another, in each scope; another seed gives others."""

    async def program(run: Run, _input: Any) -> list[str]:
        async def branch() -> str:
            return run.uuid()

        return [run.uuid(), run.uuid(), *await asyncio.gather(branch(), branch())]

    first, again, other = (
        refold.record(program, log=tmp_path / f"{at}.jsonl", seed=seed).result()
        for at, seed in enumerate(("s", "s", "t"))
    )

    assert first == again
    assert len({*first, *other}) == 8
    assert {uuid.UUID(text).version for text in first} == {4}


def test_a_draw_in_one_stream_shifts_no_other(tmp_path: Path) -> None:
    """By name, and by the scope that asks; the seed is a line, the draws are none."""

    async def program(run: Run, extra: int) -> list[float]:
        for _ in range(extra):
            run.random("a").random()

        async def branch() -> float:
            return run.random("b").random()

        return [run.random("b").random(), *await asyncio.gather(branch(), branch())]

    few, many = (
        refold.record(program, extra, log=tmp_path / f"{extra}.jsonl", seed=1) for extra in (1, 5)
    )

    assert few.result() == many.result()
    assert len(set(few.result())) == 3
    assert kinds(few.log) == kinds(many.log)


def test_a_plain_program_has_its_own_scope_in_any_context(tmp_path: Path) -> None:
    """A thread may have been given that of a task of another program."""

    def plain(run: PlainRun, _input: Any) -> float:
        run.sleep(0)
        return run.random().random()

    async def lead(_run: Run, _input: Any) -> None:
        async def branch() -> None:
            context = contextvars.copy_context()
            thread = threading.Thread(target=context.run, args=(recorded, "there"))
            thread.start()
            thread.join()

        await asyncio.gather(branch())

    def recorded(name: str) -> Path:
        return refold.record(plain, log=tmp_path / f"{name}.jsonl", seed=1).log

    assert refold.record(lead, log=tmp_path / "lead.jsonl").ok
    here, there = (
        [(entry.kind, entry.call, entry.data.get("value")) for entry in read_entries(log)]
        for log in (recorded("here"), tmp_path / "there.jsonl")
    )
    assert here == there


def test_time_stands_still_within_a_step(tmp_path: Path) -> None:
    """However often it is looked at, it is one line; the next step may look anew."""

    @refold.tool(effect="reads")
    def takes_a_moment() -> None:
        time.sleep(0.001)

    async def program(run: Run, _input: Any) -> list[bool]:
        first = run.now()
        same = all(run.now() == first for _ in range(100))
        await run.sleep(0.001)
        second = run.now()
        await run.tool(takes_a_moment)
        return [same, second > first, run.now() > second]

    recording = refold.record(program, log=tmp_path / "a.jsonl")

    assert recording.output == [True, True, True]
    assert kinds(recording.log).count("clock.read") == 3
    assert reexecute(recording.log, program).identical


def test_what_cannot_be_produced_is_the_programs_affair(tmp_path: Path) -> None:
    """Though it is an error of Refold's own classes: nothing of the engine has failed."""

    def refuses() -> Any:
        raise refold.UsageError("no settings")

    async def program(run: Run, _input: Any) -> str:
        try:
            return str(run.settings("tool", refuses))
        except refold.UsageError as error:
            run.annotate("went on")
            return str(error)

    recording = refold.record(program, log=tmp_path / "a.jsonl")

    assert recording.output == "no settings"
    assert kinds(recording.log) == ["run.started", "note.added", "run.finished"]


def test_what_is_drawn_is_produced_once(tmp_path: Path) -> None:
    """In a replay the record answers, whatever stands in the file by then."""
    prompt = tmp_path / "prompt.md"
    prompt.write_text("before")

    async def program(run: Run, path: str) -> list[Any]:
        return [run.read_text(path), run.read_text(f"{path}.missing")]

    recording = refold.record(program, str(prompt), log=tmp_path / "a.jsonl")
    prompt.write_text("after")

    assert recording.output == ["before", None]
    assert reexecute(recording.log, program).identical


def test_what_no_log_can_hold_leaves_the_ordinals_dense(tmp_path: Path) -> None:
    """The value that was refused is as if it had never been asked for."""

    async def program(run: Run, _input: Any) -> str:
        with pytest.raises(NotCanonical):
            run.settings("s", lambda: float("nan"))
        with pytest.raises(NotCanonical):
            run.annotate("n", {"x": float("inf")})
        return run.uuid()

    recording = refold.record(program, log=tmp_path / "a.jsonl")

    calls = [entry.call for entry in read_entries(recording.log) if entry.call]
    assert recording.ok
    assert calls == ["0#1"]
    assert refold.verify(recording.log).intact


def test_what_cannot_be_read_is_recorded_and_raised_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """§9.3: a replay, which reads nothing, raises the same."""
    no_text, name_too_long = tmp_path / "no_text", tmp_path / ("x" * 300)
    (tmp_path / "folder").mkdir()
    listening = socket.socket(socket.AF_UNIX)
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    listening.bind("socket")
    no_text.write_bytes(b"ab\xff")
    monkeypatch.setenv("REFOLD_TEST_BYTES", "a\udcff")

    def asks(run: Run, _input: Any) -> list[str]:
        said = []
        for name in (no_text, name_too_long, "folder", "socket"):
            with pytest.raises((UnicodeDecodeError, OSError)) as raised:
                run.read_text(name)
            said.append(f"{raised.type.__name__}: {raised.value}")
        with pytest.raises(UnicodeDecodeError, match=r"position 1.*REFOLD_TEST_BYTES is not UTF-8"):
            run.environment("REFOLD_TEST_BYTES")
        return said

    recording = refold.record(asks, log=tmp_path / "a.jsonl")
    no_text.write_text("mended")
    listening.close()
    (tmp_path / "folder").rmdir()
    monkeypatch.delenv("REFOLD_TEST_BYTES")

    first, second, folder, sock = recording.result()
    assert first.startswith("UnicodeDecodeError: ")
    assert "position 2" in first
    assert second.startswith("OSError: ")
    assert folder == (
        "IsADirectoryError: [Errno 21] a folder, not a file: read one of its files, or list it in "
        "a tool: 'folder'"
    )
    assert "a socket, not a text file: read it in a tool" in sock
    assert refold.reexecute(recording.log, asks).identical


def test_a_pipe_or_a_device_is_no_text_but_what_the_process_was_given_is(tmp_path: Path) -> None:
    """A read would wait for a writer, or never end; the refusal is recorded, as any other."""
    os.mkfifo(pipe := tmp_path / "pipe")
    given, write = os.pipe()
    os.write(write, b"given")
    os.close(write)

    def asks(run: Run, _input: Any) -> list[str | None]:
        for name in (pipe, "/dev/zero"):
            with pytest.raises(OSError, match="a pipe or a device, not a text file: read it in a "):
                run.read_text(name)
        return [run.read_text(f"/dev/fd/{given}"), run.read_text(os.devnull)]

    recording = refold.record(asks, log=tmp_path / "a.jsonl")
    os.close(given)
    pipe.unlink()

    assert recording.result() == ["given", ""]
    assert refold.reexecute(recording.log, asks).identical


def test_so_does_what_cannot_be_made(tmp_path: Path) -> None:
    """No line says so, and the log is whole all the same."""

    def no_settings() -> Any:
        raise LookupError("none")

    async def program(run: Run, _input: Any) -> str:
        with pytest.raises(LookupError):
            run.settings("s", no_settings)
        return run.uuid()

    recording = refold.record(program, log=tmp_path / "a.jsonl")

    assert recording.ok
    assert [entry.call for entry in read_entries(recording.log) if entry.call] == ["0#1"]
    assert refold.verify(recording.log).intact


def test_the_first_answer_to_a_marker_holds(tmp_path: Path) -> None:
    """One line however often it is asked, in whichever scope; it takes no ordinal."""

    async def program(run: Run, _input: Any) -> list[bool]:
        async def branch() -> bool:
            return run.patched("new way")

        return [run.patched("new way"), *await asyncio.gather(branch(), branch())]

    recording = refold.record(program, log=tmp_path / "a.jsonl")

    assert recording.output == [True] * 3
    assert kinds(recording.log).count("patch.marked") == 1
    assert reexecute(recording.log, program).identical
