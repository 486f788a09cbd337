"""A vault knows the values of secrets, and what to do with them (CONTRACT.md §3.9)."""

from collections.abc import Callable
from typing import Any

import pytest

from refold.engine.errors import UsageError
from refold.engine.secrets.redaction import LENGTH_MIN, Redaction
from refold.engine.secrets.vault import KEY_LENGTH_MIN, Vault, unpacked, vault_of
from tests.support.loops import for_each

KEY = "k" * KEY_LENGTH_MIN


def test_a_value_that_was_read_is_taken_out_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run without rules has none until its first secret."""
    monkeypatch.setenv("TOKEN", "t0ken-value")
    vault = Vault()
    before = vault.is_active

    assert vault.value("TOKEN") == "t0ken-value"

    assert (before, vault.is_active) == (False, True)
    assert vault.scrubbed(["a t0ken-value"]) == ["a [redacted:TOKEN]"]


def test_what_was_given_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a test can give another."""
    monkeypatch.setenv("TOKEN", "of the environment")

    assert Vault(secrets={"TOKEN": "given-value"}).value("TOKEN") == "given-value"
    assert Vault().value("NO_SUCH_VARIABLE_HERE") is None


def test_a_secret_in_another_is_no_part_of_it_that_stays() -> None:
    """The longer is taken out first, whatever their order."""
    for names in (("SHORT", "LONG"), ("LONG", "SHORT")):
        values = {"SHORT": "abcdefgh", "LONG": "abcdefgh-ijkl"}
        vault = Vault(secrets={name: values[name] for name in names})

        assert vault.scrubbed("abcdefgh-ijkl abcdefgh") == "[redacted:LONG] [redacted:SHORT]"


@for_each(
    "rules",
    [{"tools": ["login"]}, {"paths": {"run": ["/input"]}}, {"secrets": ["x" * LENGTH_MIN]}],
)
def test_any_rule_makes_a_vault_look(rules: dict[str, Any]) -> None:
    """And without one nothing is searched."""
    assert Vault(Redaction(**rules)).is_active
    assert not Vault().is_active


def test_a_value_that_is_too_short_is_told_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never by itself; one that a program asks for is given, and not looked for."""
    short = "s" * (LENGTH_MIN - 1)
    monkeypatch.setenv("SHORT", short)
    monkeypatch.setenv("LONG_ENOUGH", short + "s")
    made: list[Callable[[], Vault]] = [
        lambda: Vault(Redaction(environment=["SHORT"])),
        lambda: Vault(secrets={"SHORT": short}),
    ]
    for make in made:
        with pytest.raises(UsageError, match="SHORT") as refused:
            make()
        assert short not in str(refused.value)
    vault = Vault()

    assert (vault.value("SHORT"), vault.is_active) == (short, False)
    assert (vault.value("LONG_ENOUGH"), vault.is_active) == (short + "s", True)


def test_a_models_key_is_a_secret_unless_it_is_a_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Local servers take any word; to take that out of every text would do harm."""
    monkeypatch.setenv("SOME_API_KEY", KEY)
    monkeypatch.setenv("OTHER_API_KEY", "EMPTY")
    vault = Vault(key_variables=["SOME_API_KEY", "OTHER_API_KEY"])

    assert vault.scrubbed(f"{KEY} EMPTY") == "[redacted:SOME_API_KEY] EMPTY"
    assert vault.rules() == {"redaction": {"environment": ["OTHER_API_KEY", "SOME_API_KEY"]}}


def test_a_packed_vault_does_the_same_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the process of a child, whose environment lacks the variables."""
    monkeypatch.setenv("TOKEN", "t0ken-value")
    rules = Redaction(
        secrets=["exact-one"], environment=["TOKEN"], paths={"tool:a": ["/result/b"]}, tools=["c"]
    )
    here = Vault(rules, secrets={"NAMED": "by-name-1"}, volatile=["tool:a/result/ts"])
    packed = here.packed()
    monkeypatch.delenv("TOKEN")

    there = unpacked(packed)

    assert there.scrubbed("exact-one t0ken-value by-name-1") == (
        "[redacted:secret-1] [redacted:TOKEN] [redacted:NAMED]"
    )
    assert there.value("TOKEN") == "t0ken-value"
    assert there.value("NAMED") == "by-name-1"
    assert there.rules() == here.rules()


def test_a_run_that_goes_on_has_the_rules_of_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names, paths and tools; values have to be given again."""
    monkeypatch.setenv("TOKEN", "t0ken-value")
    rules = Redaction(environment=["TOKEN"], paths={"run": ["/output"]}, tools=["c"])
    first = Vault(rules, volatile=["run/output/ts"])

    again = vault_of(first.rules())

    assert again.rules() == first.rules()
    assert again.scrubbed("t0ken-value") == "[redacted:TOKEN]"


@for_each("path", ["fetch/ts", "tool:fetch", "tool:fetch/", "value/x", "run"])
def test_a_volatile_path_that_names_nothing_is_refused(path: str) -> None:
    """It says what is expected."""
    with pytest.raises(UsageError, match=r"volatile path .*expected"):
        Vault(volatile=[path])


def test_a_text_is_no_list_of_paths() -> None:
    """Its letters would be taken for paths."""
    with pytest.raises(UsageError, match="a list of paths"):
        Vault(volatile="run/output")


def test_a_name_like_that_of_an_unnamed_secret_is_its_own() -> None:
    """Neither takes the other's place, here or in a child's process."""
    vault = Vault(Redaction(secrets=["0123456789"]), secrets={"secret-1": "abcdefghij"})

    for one in (vault, unpacked(vault.packed())):
        assert one.scrubbed("0123456789 abcdefghij") == "[redacted:secret-1] [redacted:secret-1]"
