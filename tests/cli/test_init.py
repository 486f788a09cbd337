"""`refold --version` and the import of a child's program pass through a package that is light."""

import subprocess
import sys
from pathlib import Path

import pytest

from refold import record

_HEAVY = ("attr", "click", "rich", "cattrs", "structlog", "refold.engine.errors")
_TO_RUN = {
    "refold.engine.kernel.kernel",
    "refold.engine.ports.ports",
    "refold.engine.recording.recorder",
    "refold.engine.wire.apis",
    "refold.replay.bulk.processes",
}


def _imported_by(code: str) -> set[str]:
    report = f"{code}\nimport sys\nprint('\\n'.join(sys.modules), file=sys.stderr)"
    ran = subprocess.run(
        [sys.executable, "-c", report], capture_output=True, text=True, check=True, timeout=60
    )
    return set(ran.stderr.split())


def test_the_version_is_said_without_importing_what_is_heavy() -> None:
    imported = _imported_by("from refold.cli import main\nmain(['--version'])")

    assert not imported.intersection(_HEAVY)


def test_what_only_reads_logs_loads_neither_the_kernel_nor_a_wire_format(tmp_path: Path) -> None:
    """Their start is half as long; nor do they load what spreads replays over processes."""
    log = str(record(lambda _run, value: value, 1, log=tmp_path / "a.jsonl").log)
    calls = [["show", log], ["diff", log, log], ["ls", str(tmp_path)], ["verify", log]]
    imported = _imported_by(
        "from refold.cli import main\n"
        f"for args in {calls!r}:\n"
        "    try:\n"
        "        main(args)\n"
        "    except SystemExit as ended:\n"
        "        assert not ended.code, args\n"
    )

    assert "refold.replay.compare.diff" in imported
    assert not imported.intersection(_TO_RUN)


@pytest.mark.long
def test_a_command_leaves_what_it_imported_to_the_end_of_its_process() -> None:
    """The collector goes through all of it at the end otherwise, and each time before."""
    imported = _imported_by(
        "import gc, sys\n"
        "from refold.cli import main\n"
        "sys.argv[1:] = ['schema']\n"
        "try:\n"
        "    main()\n"
        "except SystemExit:\n"
        "    state = f'on={gc.isenabled()} many={gc.get_freeze_count() > 10_000}'\n"
        "    sys.modules.update(dict.fromkeys(state.split()))\n"
    )

    assert {"on=True", "many=True"} <= imported


@pytest.mark.long
def test_verifying_a_log_with_an_end_loads_no_trees_and_no_kept_folds() -> None:
    """A start takes longer than verifying a small log."""
    log = Path(__file__).parents[2] / "fixtures" / "logs" / "engine-2" / "plainly.jsonl"
    imported = _imported_by(
        "from refold.cli import main\n"
        f"try:\n    main(['verify', {str(log)!r}])\nexcept SystemExit as ended:\n"
        "    print(f'code={ended.code}', file=__import__('sys').stderr)"
    )

    assert {"code=0", "refold.replay.audit.verify"} <= imported
    assert not {"refold.replay.run.run_node", "refold.replay.index.kept_folds"} & imported


def test_python_dash_m_is_the_same_command() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "refold", "--version"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert ran.stdout.startswith("refold 1.")


def test_ctrl_c_while_a_command_is_imported_shows_no_traceback() -> None:
    code = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'refold.cli.group':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "from refold.cli import main\n"
        "main(['verify', 'run.jsonl'])\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=False)

    assert (ran.returncode, ran.stderr) == (130, b"refold: interrupted\n")
