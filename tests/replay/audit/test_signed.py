"""Authentic: signed, unchanged since, by a key that is trusted (CONTRACT.md §5.5, §5.6)."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

import refold
from refold.engine.errors import KeyRefused, LogMissing
from refold.engine.log.line import NO_HASH, stored_hash, trailer
from refold.engine.log.names import children, parent_of, signature_of
from refold.engine.signing.signature import SigningKey, sign_log
from refold.replay.audit.verify import Verification, verify
from refold.store.kept_heads import HeadsFile, KeptHead
from tests.support.loops import some
from tests.support.signing import allowed, new_key


def _say(text: str) -> str:
    return text


_TOOLS: Final = [refold.tool(effect="reads", name="say")(_say)]


async def grandchild(run: refold.Run, given: Any) -> Any:
    return await run.tool("say", text=f"below {given}")


async def child(run: refold.Run, given: Any) -> Any:
    said = await run.tool("say", text=f"child {given}")
    return [said, (await run.delegate(refold.Delegation(program=grandchild, input=given))).output]


async def parent(run: refold.Run, count: int) -> Any:
    for each in range(12):
        await run.tool("say", text=f"{each}")
    return [
        (await run.delegate(refold.Delegation(program=child, input=each))).output
        for each in range(count)
    ]


async def waits(run: refold.Run, _: Any) -> Any:
    return await run.ask("go on?")


@attrs.frozen
class Signed:
    """A folder with a signed tree of logs, whose head is kept, and the key's owner."""

    log: Path
    trust: Path
    heads: HeadsFile
    key: SigningKey

    def verified(self) -> Verification:
        return verify(self.log, trust=self.trust)

    def is_detected(self) -> str:
        """Return by what a change is found; empty if by nothing."""
        try:
            found = verify(self.log, trust=self.trust, expect_head=self.heads.head(self.log, None))
        except LogMissing:
            return "missing"
        if found.damage:
            return found.damage[0].what
        if not found.complete:
            return "incomplete"
        return "" if found.authentic else found.signature.what


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("signed")
    key = new_key(folder / "key")
    allowed(folder / "allowed", ("ann@example.org", key))
    for name, count in (("run", 3), ("other", 1)):
        made = refold.record(
            parent, count, log=folder / "logs" / f"{name}.jsonl", tools=_TOOLS, seed=count, sign=key
        )
        if name == "run":
            kept = KeptHead("run.jsonl", "x", made.entries, made.head)
            (folder / "heads.txt").write_bytes(kept.encoded())
    return folder


@pytest.fixture
def signed(made: Path, tmp_path: Path) -> Signed:
    shutil.copytree(made, tmp_path / "copy")
    folder = tmp_path / "copy"
    return Signed(
        folder / "logs" / "run.jsonl",
        folder / "allowed",
        HeadsFile(folder / "heads.txt"),
        SigningKey(folder / "key"),
    )


def test_a_signed_tree_is_authentic_down_to_its_grandchildren(signed: Signed) -> None:
    found = signed.verified()

    assert found.authentic is True
    assert [each.authentic for each in found.logs] == [True] * 7
    assert found.signature.signer == "ann@example.org"
    assert found.signature.entries == found.entries
    assert signed.is_detected() == ""


def test_without_trusted_keys_nothing_is_authentic(signed: Signed) -> None:
    found = verify(signed.log)

    assert found.authentic is None
    assert "--trust" in found.signature.what


def test_a_log_without_a_signature_is_not_signed(signed: Signed) -> None:
    signature_of(signed.log).unlink()

    assert (signed.verified().authentic, signed.verified().signature.what) == (None, "not signed")


@pytest.mark.parametrize(
    ("options", "authentic", "said"),
    [
        ('valid-after="20200101Z"', True, "valid then; by its log, the run ended"),
        ('valid-before="20200101Z"', False, "key has expired"),
        ('valid-after="29990101Z"', False, "not yet valid"),
        ('namespaces="git"', None, "unknown signer SHA256:"),
    ],
)
def test_dates_of_a_key_are_held_against_the_end_of_the_log(
    signed: Signed, options: str, authentic: Any, said: str
) -> None:
    folder = signed.trust.parent
    trust = allowed(folder / "dated", ("ann", folder / "key"), options=options)

    found = verify(signed.log, trust=trust)

    assert found.authentic is authentic
    assert said in found.signature.what


def test_a_run_that_went_on_is_signed_up_to_an_entry(tmp_path: Path) -> None:
    key = new_key(tmp_path / "key")
    trust = allowed(tmp_path / "allowed", ("ann", key))
    first = refold.record(waits, log=tmp_path / "a.jsonl", sign=key)
    before = verify(first.log, trust=trust)

    refold.resume(first.log, waits, answers={first.questions[0].key: "yes"})
    after = verify(first.log, trust=trust)
    sign_log(first.log, SigningKey(key))

    assert (before.authentic, before.complete) == (True, False), "all that there is was signed"
    assert after.authentic is None
    assert f"signed up to entry {first.entries - 1} of {after.entries - 1} by ann" in (
        after.signature.what
    )
    assert verify(first.log, trust=trust).authentic is True


def test_a_key_that_cannot_sign_is_refused_before_anything_is_recorded(tmp_path: Path) -> None:
    with pytest.raises(KeyRefused):
        refold.record(waits, log=tmp_path / "a.jsonl", sign=tmp_path / "none")
    assert not (tmp_path / "a.jsonl").exists()


# --- whoever can write every file --------------------------------------------------------


def _rewrite(log: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Write a log anew with a whole chain, and its parents' with the heads that follow."""
    entries = [json.loads(line) for line in log.read_bytes().splitlines()]
    change(entries)
    previous, lines = NO_HASH, []
    for seq, entry in enumerate(entries):
        entry.pop("hash", None)
        entry["seq"] = seq
        body = json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode()[:-1]
        lines.append(body + trailer(previous, body))
        previous = stored_hash(lines[-1]) or b""
    log.write_bytes(b"".join(lines))
    above = parent_of(log)
    if above is not None:
        number = above[1]

        def anchor(entries: list[dict[str, Any]]) -> None:
            finished = [each for each in entries if each["kind"] == "child.finished"]
            finished[number - 1]["data"]["outcome"]["child"].update(
                head=previous.decode(),
                events=len(lines),
            )

        _rewrite(above[0], anchor)


Attack = Callable[[Signed], object]


def _attacks() -> Iterator[tuple[str, Attack]]:
    for seq in range(45):
        for member in ("wall_us", "mono_us"):
            yield f"root {member} of {seq}", _in_root(_clock(seq, member))
    for seq in range(1, 30):
        yield f"root without {seq}", _in_root(_without(slice(seq, seq + 1)))
        yield f"root cut at {seq}", _in_root(_without(slice(seq, None)))
    for name in ("run.1", "run.2", "run.3", "run.1.1", "run.2.1", "run.3.1"):
        for seq in range(5):
            yield f"{name} clock of {seq}", _in_child(name, _clock(seq, "wall_us"))
        yield f"{name} gone", _gone(name)
        yield f"{name} says more", _in_child(name, _says)
    for name, attack in _SIGNATURES.items():
        yield name, attack


def _without(part: slice) -> Callable[[list[dict[str, Any]]], None]:
    def change(entries: list[dict[str, Any]]) -> None:
        del entries[part]

    return change


def _clock(seq: int, member: str) -> Callable[[list[dict[str, Any]]], None]:
    def change(entries: list[dict[str, Any]]) -> None:
        entries[seq % len(entries)]["meta"][member] += 1

    return change


def _says(entries: list[dict[str, Any]]) -> None:
    called = next(each for each in entries if each["kind"] == "tool.returned")
    called["data"]["result"] = "something else"


def _in_root(change: Callable[[list[dict[str, Any]]], None]) -> Attack:
    return lambda signed: _rewrite(signed.log, change)


def _in_child(name: str, change: Callable[[list[dict[str, Any]]], None]) -> Attack:
    return lambda signed: _rewrite(signed.log.with_name(f"{name}.jsonl"), change)


def _gone(name: str) -> Attack:
    return lambda signed: signed.log.with_name(f"{name}.jsonl").unlink()


def _signed_by_another(signed: Signed) -> None:
    sign_log(signed.log, SigningKey(new_key(signed.log.with_name("mine"))))


def _another_run(signed: Signed) -> None:
    """A run that the same key signed takes the place: only the kept head tells."""
    for each in signed.log.parent.glob("run.*"):
        each.unlink()
    for each in sorted(signed.log.parent.glob("other.*")):
        shutil.copy(each, each.with_name(each.name.replace("other.", "run.", 1)))


def _lines(change: Callable[[list[str]], list[str]]) -> Attack:
    def attack(signed: Signed) -> None:
        place = signature_of(signed.log)
        place.write_text("\n".join(change(place.read_text().splitlines())) + "\n")

    return attack


def _anew_and_resigned(signed: Signed) -> None:
    _rewrite(signed.log, _clock(3, "wall_us"))
    _signed_by_another(signed)


def _its_own_list(signed: Signed) -> None:
    """The forger's key is trusted by the forger's list, which nobody asks."""
    _anew_and_resigned(signed)
    allowed(signed.log.with_name("allowed"), ("ann@example.org", signed.log.with_name("mine")))


_SIGNATURES: Final[dict[str, Attack]] = {
    "no signature": lambda signed: signature_of(signed.log).unlink(),
    "empty signature": lambda signed: signature_of(signed.log).write_bytes(b""),
    "signed by another": _signed_by_another,
    "anew and signed by another": _anew_and_resigned,
    "the forger's own list": _its_own_list,
    "another signed run": _another_run,
    "the other's signature": lambda signed: shutil.copy(
        signature_of(signed.log.with_name("other.jsonl")), signature_of(signed.log)
    ),
    "the other's line": _lines(lambda lines: [*lines[:-1], lines[-1].replace("entries", "x")]),
    "another count": _lines(
        lambda lines: [*lines[:-1], lines[-1].replace('"entries":', '"entries":1')]
    ),
    "no line": _lines(lambda lines: lines[:-1]),
    "the log gone": lambda signed: signed.log.unlink(),
    "all gone": lambda signed: shutil.rmtree(signed.log.parent),
}

ATTACKS: Final = list(_attacks())
SHARE: Final = 7
"""One of so many is tried in the quick run."""


def test_there_are_two_hundred_ways() -> None:
    assert len(ATTACKS) >= 200
    assert len({name for name, _ in ATTACKS}) == len(ATTACKS)


@pytest.mark.parametrize("start", some(1, range(SHARE)))
def test_a_signed_and_anchored_tree_that_was_rehashed_is_detected(
    made: Path, tmp_path: Path, start: int
) -> None:
    """By the chain, the signature or the kept head; and it is said by which."""
    for name, attack in ATTACKS[start::SHARE]:
        folder = tmp_path / name.replace(" ", "-")
        shutil.copytree(made, folder)
        signed = Signed(
            folder / "logs" / "run.jsonl", folder / "allowed",
            HeadsFile(folder / "heads.txt"), SigningKey(folder / "key"),
        )  # fmt: skip
        before = {path.name: path.read_bytes() for path in signed.log.parent.glob("run.*")}
        attack(signed)
        after = {path.name: path.read_bytes() for path in signed.log.parent.glob("run.*")}

        assert after != before, f"{name}: nothing was changed"
        assert signed.is_detected(), name


def test_the_signature_alone_tells_of_every_rewritten_line(signed: Signed) -> None:
    """Where no head was kept: the trees are intact, and not authentic."""
    _rewrite(signed.log, _clock(-1, "wall_us"))
    found = signed.verified()

    assert (found.intact, found.complete, found.authentic) == (True, True, False)
    assert "differs from the signed one" in found.signature.what
    assert len(children(signed.log)) == 3
