"""Folders of now stand for the recorded ones, wherever a path begins (CONTRACT.md §16.13)."""

import pytest

from refold.engine.wire.parts.exchange import Asked
from refold.replay.observed.folders import Folders

WAS = {"folder": "/home/ann/work", "home": "/home/ann"}
NOW = {"folder": "/tmp/copy", "home": "/home/bob"}


@pytest.mark.parametrize(
    ("now", "recorded"),
    [
        ("in /tmp/copy.", "in /home/ann/work."),
        ("/tmp/copy/a.txt", "/home/ann/work/a.txt"),
        ('{"path":"\\n/tmp/copy/a"}', '{"path":"\\n/home/ann/work/a"}'),
        ("/home/bob/.config", "/home/ann/.config"),
        ("projects/-tmp-copy/memory", "projects/-home-ann-work/memory"),
        ("cd /tmp; cd copy", "cd /tmp; cd copy"),
        ('"-tmp-copy"', '"-home-ann-work"'),
        ("/tmp/copyright", "/tmp/copyright"),
        ("/mnt/tmp/copy", "/mnt/tmp/copy"),
        ('{"title":"tmp/copy/a.txt"}', '{"title":"home/ann/work/a.txt"}'),
        ("mnt/tmp/copy/a", "mnt/tmp/copy/a"),
    ],
)
def test_a_path_of_now_is_taken_for_the_recorded_one(now: str, recorded: str) -> None:
    """And back; a longer name that begins alike is another."""
    folders = Folders(WAS, NOW)
    asked = Asked(api="chat", model="m", messages=({"role": "user", "content": now},))

    assert folders.as_recorded(asked).messages[0]["content"] == recorded
    assert folders.as_now({"a": [recorded]}) == {"a": [now]}
    assert folders.count == (now != recorded)
    assert len(folders.notes()) == (2 if now != recorded else 0)


def test_in_the_same_folder_nothing_is_touched() -> None:
    asked = Asked(api="chat", model="m", messages=({"role": "user", "content": "/home/ann"},))

    assert Folders(WAS, WAS).as_recorded(asked) is asked
    assert Folders({}, NOW).as_recorded(asked) is asked


def test_a_model_that_is_a_folder_of_now_is_asked_for_by_its_name() -> None:
    """Local servers name a model by the folder it lies in."""
    asked = Asked(
        api="chat",
        model=f"{NOW['folder']}/m",
        messages=({"role": "user", "content": NOW["folder"]},),
    )

    found = Folders(WAS, NOW).as_recorded(asked)

    assert (found.model, found.messages[0]["content"]) == (asked.model, WAS["folder"])
