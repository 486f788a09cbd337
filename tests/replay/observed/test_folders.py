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


def _recorded(was: dict[str, str], now: dict[str, str], text: str) -> str:
    asked = Asked(api="chat", model="m", messages=({"role": "user", "content": text},))
    said: str = Folders(was, now).as_recorded(asked).messages[0]["content"]
    return said


@pytest.mark.parametrize("text", ["/home/ann/.codex", "/home/ann/work/a.txt"])
def test_a_folder_is_found_in_each_of_its_spellings(text: str) -> None:
    """Through a link, by steps up, with a slash at its end: then as it was recorded."""
    links = {"folder": "/private/tmp/copy", "other_folder": "/tmp/copy"}
    steps = {"home": "/tmp/copy/../bob/", "other_home": "/tmp/bob"}
    for home in ("/tmp/bob", "/tmp/copy/../bob"):
        for folder in ("/private/tmp/copy", "/tmp/copy"):
            said = text.replace("/home/ann/work", folder).replace("/home/ann", home)

            assert _recorded(WAS, links | steps, said) == text


def test_a_path_that_is_both_folders_is_the_working_directory() -> None:
    both = {"folder": "/srv/x", "home": "/srv/x"}

    assert _recorded(WAS, both, "/srv/x/a.txt") == "/home/ann/work/a.txt"
    assert Folders(both, NOW).as_now("/srv/x/a.txt") == "/tmp/copy/a.txt"


def test_folders_of_equal_places_are_the_same() -> None:
    """Whatever a record says besides, of which now nothing is known."""
    now = {"folder": "/home/ann/work", "home": "relative"}

    assert _recorded(WAS | {"other_home": "/x/ann"}, now, "/home/ann/a") == "/home/ann/a"
    assert _recorded(WAS, now, "a relative word") == "a relative word"
