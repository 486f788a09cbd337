"""What is written of logs: whole, private, and never over a log (CONTRACT.md §4.9).

Every option that writes is tested in `tests/cli/arguments/test_outputs.py`.
"""

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.engine.errors import OutputRefused
from refold.engine.log.names import SUFFIX, child_path, is_reserved
from refold.page.output_files import OutputFile

_STEMS = st.text(string.ascii_letters + string.digits + "-_~. é\u017f", min_size=1, max_size=20)
_NUMBERS = st.lists(st.integers(1, 10**8), max_size=3)


@given(_STEMS, _NUMBERS, st.sampled_from([str.upper, str.lower, str.title, str]))
def test_4_9_whatever_name_a_part_of_a_run_has_is_taken(
    stem: str, numbers: list[int], spelled: type[str]
) -> None:
    """In capitals too: some file systems take the two for one."""
    log = Path(f"{stem}{SUFFIX}")
    for number in numbers:
        log = child_path(log, number)
    parts = [log.name, f"{log.name}.torn-7-0a1b2c3d", f"{log.stem}.1.ray", f"{stem}.refold"]
    parts += [f"{stem}.blobs", f"{stem}.blobs/ab/{'ab' * 32}"]

    assert all(is_reserved(Path(spelled(part))) for part in parts)
    assert not any(is_reserved(Path(f"{part.replace('/', '-')}.html")) for part in parts)


def test_4_9_a_file_that_came_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    """The place is looked at again when all of the new one is known."""
    file = OutputFile(tmp_path / "a.html", "html")
    file.check()
    file.path.write_text("mine")

    with pytest.raises(OutputRefused, match="--force"):
        file.write(b"page")

    assert file.path.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [file.path]
