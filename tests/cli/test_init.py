"""`refold --version` and the import of a child's program pass through a package that is light."""

import subprocess
import sys

_HEAVY = ("attr", "click", "rich", "cattrs", "structlog", "refold.engine.errors")


def _imported_by(code: str) -> set[str]:
    report = f"{code}\nimport sys\nprint('\\n'.join(sys.modules), file=sys.stderr)"
    ran = subprocess.run(
        [sys.executable, "-c", report], capture_output=True, text=True, check=True, timeout=60
    )
    return set(ran.stderr.split())


def test_the_version_is_said_without_importing_what_is_heavy() -> None:
    imported = _imported_by("from refold.cli import main\nmain(['--version'])")

    assert not imported.intersection(_HEAVY)


def test_python_dash_m_is_the_same_command() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "refold", "--version"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert ran.stdout.startswith("refold 0.")


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
