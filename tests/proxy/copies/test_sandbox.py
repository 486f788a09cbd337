"""A command in a sandbox: what it sees, what it changes, how it is reached and ended."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from refold.proxy.command import run_command
from refold.proxy.copies.sandbox import Sandbox, SandboxRefused, SandboxView, no_layers, opened
from refold.proxy.signals import Signals

LIMIT_SECONDS = 60.0
ROOT: Final = Path(__file__).parents[3]


@pytest.fixture
def way(request: pytest.FixtureRequest) -> str:
    """Whether the sandbox has layers over HOME: as asked for, else if this system has them."""
    wanted = getattr(request, "param", "")
    try:
        found = "bare" if no_layers() else "layers"
    except SandboxRefused as error:
        pytest.skip(f"no sandbox here: {error}")
    if wanted == "layers" != found:
        pytest.skip("this system lays no layers over folders")
    return wanted or found


both_ways = pytest.mark.parametrize("way", ["layers", "bare"], indirect=True)


@attrs.frozen
class Scene:
    """A user's folders, and a sandbox over them."""

    home: Path
    copy: Path
    at: str
    box: Sandbox

    def runs(self, *command: str, **variables: str) -> tuple[int, str]:
        """Run a command in it; return its exit code, and what it printed."""
        printed: list[bytes] = []
        with Signals() as signals:
            how: dict[str, Any] = {"write": printed.append, "start": self.box.start}
            ended = run_command(command, variables, signals, **how)
        return ended.exit_code, b"".join(printed).decode()


@contextlib.contextmanager
def scene(folder: Path, *, way: str, **more: Any) -> Generator[Scene]:
    """Make folders, and open a sandbox that has a copy in the place of `home/project`."""
    home, copy, work = folder / "home", folder / "copy", folder / "work"
    for each in (home / "project", copy, work):
        each.mkdir(parents=True)
    (home / "project" / "mine").write_text("mine")
    (home / ".rc").write_text("rc")
    (copy / "theirs").write_text("theirs")
    at = str(home / "project")
    view = SandboxView(scratch=work, hidden=work, places=((copy, at),), **more)
    with opened(view, at, has_layers=way == "layers") as box:
        yield Scene(home, copy, at, box)


@pytest.fixture
def place(
    tmp_path: Path,
    way: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Generator[Scene]:
    """A sandbox that waits for a command."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with scene(tmp_path, way=way) as made:
        yield made


@both_ways
def test_the_copy_is_at_its_path_and_alone_is_changed(place: Scene, way: str) -> None:
    """HOME is as it is; what is written there is gone afterwards, or refused."""
    code, printed = place.runs(
        "sh", "-c",
        "pwd; echo $PWD; ls; cat ~/.rc; echo new > new; rm theirs; "
        "{ echo x > ~/.rc && cat ~/.rc; } 2>/dev/null; mkdir /usr/x 2>/dev/null; echo end",
    )  # fmt: skip

    changed = "x\n" * (way == "layers")
    assert printed == f"{place.at}\n{place.at}\ntheirs\nrc{changed}end\n"
    assert code == 0
    assert [each.name for each in place.copy.iterdir()] == ["new"]
    assert (place.home / ".rc").read_text() == "rc"
    assert [each.name for each in (place.home / "project").iterdir()] == ["mine"]


def test_it_has_this_users_id_and_no_other_process(place: Scene) -> None:
    code, printed = place.runs("sh", "-c", "id -u; kill -0 $OTHER", OTHER=str(os.getpid()))

    assert printed == f"{os.getuid()}\n"
    assert code != 0 or os.getpid() < 10


def test_it_has_no_right_over_the_system(place: Scene) -> None:
    _, printed = place.runs("grep", "^Cap", "/proc/self/status")

    assert {int(line.split()[1], 16) for line in printed.splitlines()} == {0}


def test_its_loopback_leads_to_the_socket_that_was_made_inside(place: Scene) -> None:
    """And to no other: one of this machine is not there."""
    listening = place.box.listening
    assert listening is not None
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.sendall(b"hello")

        thread = threading.Thread(target=answer)
        thread.start()
        code = (
            "import socket, sys\n"
            "print(socket.create_connection(('127.0.0.1', int(sys.argv[1]))).recv(9))\n"
            "try: socket.create_connection(('127.0.0.1', int(sys.argv[2])))\n"
            "except ConnectionRefusedError: print('refused')"
        )
        ports = [str(each.getsockname()[1]) for each in (listening, other)]
        _, printed = place.runs(sys.executable, "-c", code, *ports)
        thread.join(LIMIT_SECONDS)

    assert printed == "b'hello'\nrefused\n"


@both_ways
def test_a_service_is_not_reached(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the user's would do outside what is asked of it: in HOME, and anywhere else."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    code = (
        "import os, socket, sys; print(os.listdir('/run'))\n"
        "for path in sys.argv[1:]: print(socket.socket(socket.AF_UNIX).connect_ex(path) != 0)"
    )
    with tempfile.TemporaryDirectory(dir=ROOT) as other, contextlib.ExitStack() as held:
        (tmp_path / "home").mkdir()
        paths = [str(Path(each) / "s") for each in (other, tmp_path / "home")]
        for path in paths:
            service = held.enter_context(socket.socket(socket.AF_UNIX))
            service.bind(path)
            service.listen()
        made = held.enter_context(scene(tmp_path, way=way))
        _, printed = made.runs(sys.executable, "-c", code, *paths)

    assert printed == "[]\nTrue\nTrue\n"


@both_ways
def test_a_service_that_ends_meanwhile_refuses_no_sandbox(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was to be hidden, and is gone before it is."""
    is_socket = Path.is_socket

    def gone(path: Path) -> bool:
        was = is_socket(path)
        if path.parent == Path(other):
            path.unlink(missing_ok=True)
        return was

    with (
        tempfile.TemporaryDirectory(dir=ROOT) as other, socket.socket(socket.AF_UNIX) as service,
    ):  # fmt: skip
        service.bind(f"{other}/s")
        service.listen()
        monkeypatch.setattr(Path, "is_socket", gone)
        with scene(tmp_path, way=way) as made:
            assert made.runs("true")[0] == 0


def test_it_ends_as_the_command_does(place: Scene) -> None:
    """Its exit code is that of a shell for a signal, too."""
    assert place.runs("sh", "-c", "kill -TERM $$")[0] == 143


def test_what_cannot_be_started_says_why(place: Scene) -> None:
    with pytest.raises(FileNotFoundError, match="No such file"):
        place.box.start(["no-such-command-here"], {"PATH": os.environ["PATH"]}, 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_reaches_the_command_alone(place: Scene, number: signal.Signals) -> None:
    """It may take its time; the sandbox stays until it has ended."""
    out, into = os.pipe()
    code = f"trap 'echo got; exit 5' {number.name[3:]}; echo ready; while :; do sleep 0.01; done"
    process = place.box.start(["sh", "-c", code], dict(os.environ), into)
    os.close(into)
    with open(out, "rb") as file:  # noqa: PTH123 - a descriptor
        assert file.readline() == b"ready\n"
        process.send_signal(number)
        assert file.readline() == b"got\n"

    assert process.wait(LIMIT_SECONDS) == 5


def test_what_goes_on_in_the_background_ends_with_the_command(place: Scene) -> None:
    """Else it would write to a folder that is looked at, and removed."""
    out, into = os.pipe()
    process = place.box.start(["sh", "-c", "sleep 1000 & echo $!"], dict(os.environ), into)
    os.close(into)
    with open(out, "rb") as file:  # noqa: PTH123 - a descriptor
        file.read()  # ends with the last process that has it

    assert process.wait(LIMIT_SECONDS) == 0


def test_all_of_it_ends_with_the_process_that_opened_it(tmp_path: Path, way: str) -> None:
    """However that ends: nothing is left that writes."""
    program = (
        "import os, sys, pathlib\n"
        "from tests.proxy.copies.test_sandbox import scene\n"
        "with scene(pathlib.Path(sys.argv[1]), way=sys.argv[2]) as made:\n"
        "    made.box.start(['sh', '-c', 'echo ready; sleep 1000'], dict(os.environ), 1)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path), way],
        stdout=subprocess.PIPE, cwd=Path(__file__).parents[3], env={**os.environ, "HOME": "/"},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.read()  # ends with the last process that has it

    assert process.returncode == -signal.SIGKILL


def test_a_path_that_is_not_there_is_made_for_the_sandbox(
    tmp_path: Path,
    way: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Below the root, below a folder that others own, below HOME."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "a").write_text("a")
    for name in ("/refold-nowhere/b/c", "/usr/refold-nowhere/c", f"{tmp_path}/new/c"):
        work = tmp_path / name.replace("/", "_")
        work.mkdir()
        view = SandboxView(scratch=work, hidden=work, places=((tmp_path / "copy", name),))
        if way == "bare" and name.startswith(str(tmp_path)):
            continue
        with opened(view, name, has_layers=way == "layers") as box:
            _, printed = Scene(tmp_path, tmp_path, name, box).runs("sh", "-c", "pwd; ls; ls /usr")

        assert printed.startswith(f"{name}\na\n")
        assert "bin\n" in printed
        assert not Path(name).exists()


def test_a_folder_under_a_layer_is_seen_and_not_changed(
    tmp_path: Path,
    way: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What git ignores is lent so; without layers it is copied."""
    if way == "bare":
        return
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    lent = tmp_path / "lent, and: more"
    lent.mkdir()
    (lent / "m.js").write_text("m")
    (tmp_path / "copy" / "node_modules").mkdir(parents=True)
    at = str(tmp_path / "home" / "project")
    for each in (Path(at), tmp_path / "work"):
        each.mkdir(parents=True)
    layered = ((lent, f"{at}/node_modules"),)
    work = tmp_path / "work"
    places = ((tmp_path / "copy", at),)
    view = SandboxView(scratch=work, hidden=work, places=places, layered=layered)
    with opened(view, at, has_layers=True) as box:
        made = Scene(tmp_path, tmp_path, at, box)
        _, printed = made.runs("sh", "-c", "cd node_modules; cat m.js; echo x > m.js; cat m.js")

    assert printed == "mx\n"
    assert (lent / "m.js").read_text() == "m"


MOUNTED: Final = """
import os, sys
from pathlib import Path
from refold.proxy.copies.sandbox import no_layers
from tests.proxy.copies.test_sandbox import scene
home = Path(os.environ["HOME"])
print([no_layers()])
with scene(home.parent, way="layers") as made:
    print(*made.runs(
        "sh", "-c", "for f in new .rc .cfg/a deep/side/b; do echo x >> ~/$f; cat ~/$f; done; "
        "rm ~/link; ls -A ~; echo x > ~/mounted/y || echo refused",
    ))
"""


@pytest.mark.long
def test_mounts_below_home_leave_the_rest_writable(tmp_path: Path) -> None:
    """The kernel refuses a layer over a folder with mounts: they are laid beside them."""
    if shutil.which("bwrap") is None:
        pytest.skip("bwrap is not installed")
    home = tmp_path / "home"
    for each in ("mounted", ".cfg", "deep/in/mounted", "deep/side"):
        (home / each).mkdir(parents=True)
    for each in (".cfg/a", "deep/side/b"):
        (home / each).write_text("mine\n")
    (home / ".rc").write_text("rc")  # as the scene has it
    (home / "link").symlink_to(".rc")
    before = _held(home)
    mounts = ["--tmpfs", str(home / "mounted"), "--tmpfs", str(home / "deep/in/mounted")]
    done = subprocess.run(
        ["bwrap", "--dev-bind", "/", "/", *mounts, "--", sys.executable, "-c", MOUNTED],
        env={**os.environ, "HOME": str(home)}, cwd=ROOT, capture_output=True, text=True,
        timeout=LIMIT_SECONDS * 6, check=False,
    )  # fmt: skip

    if "['']" not in done.stdout and (no_layers() or "Refused" in done.stderr):
        pytest.skip(f"no layers here: {done.stdout}{done.stderr}")
    assert done.returncode == 0, done.stderr
    assert "x\nrcx\nmine\nx\nmine\nx\n" in done.stdout
    assert "deep\nmounted\nnew\nproject\nrefused\n" in done.stdout
    assert _held(home) == before


def _held(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.name not in ("project", "mine"))
    return {str(path): path.read_text() if path.is_file() else "" for path in files}


def test_without_bwrap_the_reason_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    no_layers.cache_clear()
    with pytest.raises(SandboxRefused, match="bwrap is not installed"):
        no_layers()
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho bwrap: setting up uid map: no >&2; exit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    with pytest.raises(SandboxRefused, match="bwrap: setting up uid map: no"):
        no_layers()
    no_layers.cache_clear()
