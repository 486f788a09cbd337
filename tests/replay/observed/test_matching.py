"""A request is served what was recorded for exactly the same one, once, whatever is interleaved."""

import re
import tempfile
from itertools import zip_longest
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.engine.observed.journal import ObservedLog
from refold.engine.observed.observer import Observer
from refold.engine.observed.profile import Whose
from refold.engine.observed.volatile import VolatileRules
from refold.engine.secrets.redaction import Redaction
from refold.engine.secrets.vault import Vault
from refold.engine.wire.parts.exchange import Asked
from refold.replay.observed.matching import Matcher, Miss, likeness, likest
from refold.replay.observed.record import RecordedTurn, read_record
from refold.replay.observed.report import report_of
from tests.support.watched import (
    DONE,
    Exchange,
    Nowhere,
    ask,
    record,
    replayed,
    result,
    says,
    system,
    talk,
    user,
    wire,
)

WORDS = st.sampled_from(["harbour", "rain", "fish", "walk", "museum", "tower", "boat", "café"])
TEXTS = st.lists(WORDS, min_size=1, max_size=4).map(" ".join)


@st.composite
def conversations(draw: st.DrawFn) -> list[Exchange]:
    """Draw a conversation of one to three requests, some with a tool call."""
    messages = [system(draw(TEXTS)), user(draw(TEXTS))]
    for at in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):
            call = f"c{at}-{draw(st.integers(0, 99))}"
            messages += [says("", (call, "look", {"for": draw(TEXTS)})), result(call, draw(TEXTS))]
        messages += [says(draw(TEXTS)), user(draw(TEXTS))]
    return talk(*messages)


@st.composite
def interleavings(draw: st.DrawFn, talks: list[list[Exchange]]) -> list[Exchange]:
    """Draw an order in which each conversation keeps its own."""
    left = [list(each) for each in talks]
    order = []
    while any(left):
        at = draw(st.sampled_from([at for at, each in enumerate(left) if each]))
        order.append(left[at].pop(0))
    return order


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_any_interleaving_of_any_record_is_identical(data: st.DataObject) -> None:
    """Conversations that ask the same, too: each answer is served once, and none is left."""
    talks = data.draw(st.lists(conversations(), min_size=1, max_size=4))
    recorded, again = data.draw(interleavings(talks)), data.draw(interleavings(talks))

    with tempfile.TemporaryDirectory() as folder:
        report = replayed(record(Path(folder) / "a.jsonl", recorded), [one.asked for one in again])

    assert report.identical, report
    assert report.served == len(recorded)


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_any_single_change_is_named_in_its_conversation_and_first(data: st.DataObject) -> None:
    """Whichever message of whichever request is changed, whatever is asked beside it."""
    drawn = data.draw(st.lists(conversations(), min_size=1, max_size=4))
    talks = [_named(each, f"agent number {at}") for at, each in enumerate(drawn)]
    recorded, again = data.draw(interleavings(talks)), data.draw(interleavings(talks))
    at = data.draw(st.integers(0, len(again) - 1))
    place = data.draw(st.integers(0, len(again[at].asked.messages) - 1))
    requests = [one.asked for one in again]
    requests[at] = _changed(requests[at], place)

    with tempfile.TemporaryDirectory() as folder:
        log = record(Path(folder) / "a.jsonl", recorded)
        first = replayed(log, requests).divergences[0]
        (turn,) = [one for one in read_record(log).turns if one.call == first.call]

    assert first.category == "args_changed"
    assert turn.asked == again[at].asked
    assert first.texts[0].what.startswith(f"message {place} (")


@settings(deadline=None, max_examples=8)
@given(st.data())
def test_all_changed_messages_are_listed_at_once_and_what_repeats_them_is_counted(
    data: st.DataObject,
) -> None:
    check_changes(data)


@pytest.mark.long
@settings(deadline=None, max_examples=300)
@given(st.data())
def test_so_are_those_of_any_run(data: st.DataObject) -> None:
    check_changes(data)


def check_changes(data: st.DataObject) -> None:
    """Whatever is asked beside them; what was not changed is served as without them."""
    drawn = data.draw(st.lists(conversations(), min_size=1, max_size=4))
    talks = [_named(each, f"agent number {at}") for at, each in enumerate(drawn)]
    places = [
        (at, place)
        for at, each in enumerate(talks)
        for place, message in enumerate(each[-1].asked.messages)
        if message["role"] != "assistant"
    ]
    changed = data.draw(st.sets(st.sampled_from(places), min_size=1, max_size=6))
    again = [
        [_altered(one, at, {place for which, place in changed if which == at}) for one in each]
        for at, each in enumerate(talks)
    ]
    recorded = data.draw(interleavings(talks))
    requests = [one.asked for one in data.draw(interleavings(again))]
    before = {id(one) for one in recorded}
    count = sum(id(one) not in before for each in again for one in each)

    with tempfile.TemporaryDirectory() as folder:
        log = record(Path(folder) / "a.jsonl", recorded)
        report = replayed(log, requests, lends=True)

    lines = "\n".join(
        line for one in report.divergences for each in one.texts for line in each.lines
    )
    assert sorted(re.findall(r"altered (\d-\d+)", lines)) == sorted(
        f"{at}-{place}" for at, place in changed
    )
    assert report.answered_otherwise == count
    assert sum(1 + one.later_count for one in report.divergences) == count
    assert (report.served, report.identical) == (len(recorded) - count, False)


def test_one_change_of_all_siblings_is_listed_once_and_a_second_one_apart(tmp_path: Path) -> None:
    """Siblings with one prompt, word for word: each gets an answer of its own."""
    talks = [
        talk(system("You help."), user("Look"), says(f"found {n}"), user("Go on"), says("ok"))
        for n in range(3)
    ]
    log = record(tmp_path / "a.jsonl", [one for each in talks for one in each])
    found = read_record(log)
    matcher, observer, answers = Matcher(found), Observer(Nowhere()), list[str]()
    for n in range(3):
        said = [system("You help a lot."), user("Look")]
        for more in ("Go on now" if n == 1 else "Go on", "End"):
            turn = observer.asked(ask(*said))
            miss = matcher.take(turn.asked, turn.thread.scope)
            assert isinstance(miss, Miss)
            lent = matcher.lend(miss)
            assert lent is not None
            assert lent.answer is not None
            assert lent.answer.message is not None
            observer.answered(turn, lent.answer)
            answers.append(lent.answer.message["content"])
            said += [lent.answer.message, user(more)]
    report = report_of(found, matcher, live=0, output=DONE)

    assert sorted(answers) == ["found 0", "found 1", "found 2", "ok", "ok", "ok"]
    assert [one.texts[0].lines for one in report.divergences] == [
        ("You [-help.-]{+help a lot.+}",),
        ("Go on{+ now+}",),
    ]
    assert [one.later_count for one in report.divergences] == [4, 0]


def test_a_message_that_came_is_listed_once_and_what_changed_after_it_by_itself(
    tmp_path: Path,
) -> None:
    """Places differ from the recorded ones from there on."""
    questions = [f"Question {n} of the harbour" for n in range(3)]
    messages = [each for text in questions for each in (user(text), says("ships"))]
    log = record(tmp_path / "a.jsonl", talk(*messages))
    changed = [system("Be kind."), *messages]
    changed[5] = user(f"{questions[2]}, please")

    report = replayed(log, [one.asked for one in talk(*changed)], lends=True)

    assert [each.what for one in report.divergences for each in one.texts] == [
        "message 0 (system)",
        "message 5 (user)",
    ]
    assert [one.later_count for one in report.divergences] == [1, 0]


def test_what_was_never_recorded_has_no_answer_and_uses_up_none(tmp_path: Path) -> None:
    """Neither does a changed request, of one that is asked as it was recorded."""
    recorded = talk(system("You help."), user("Look at the harbour"), says("found"))
    found = read_record(record(tmp_path / "a.jsonl", recorded))
    matcher = Matcher(found)

    def missed(asked: Asked, scope: str) -> RecordedTurn | None:
        miss = matcher.take(asked, scope)
        assert isinstance(miss, Miss)
        return matcher.lend(miss)

    assert missed(ask(user("nothing of the kind")), "0/1") is None
    lent = missed(ask(system("You help."), user("Look at the old harbour")), "0/2")
    exact = matcher.take(recorded[0].asked, "0/3")
    again = missed(recorded[0].asked, "0/4")
    report = report_of(found, matcher, live=0, output=DONE)

    assert lent is exact is found.turns[0]
    assert again is None
    assert (report.served, report.answered_otherwise, report.identical) == (1, 1, False)
    assert [one.category for one in report.divergences] == ["extra_call"] * 3


def _altered(one: Exchange, which: int, places: set[int]) -> Exchange:
    """Change messages of a request; the same one if it has none of them."""
    messages = list(one.asked.messages)
    for at in (each for each in places if each < len(messages)):
        messages[at] = {
            **messages[at],
            "content": f"{messages[at]['content']} altered {which}-{at}",
        }
    if messages == list(one.asked.messages):
        return one
    return attrs.evolve(one, asked=attrs.evolve(one.asked, messages=tuple(messages)))


def _named(exchanges: list[Exchange], name: str) -> list[Exchange]:
    """Give a conversation a system prompt that no other has."""
    return [
        attrs.evolve(one, asked=attrs.evolve(one.asked, messages=_first(one.asked, name)))
        for one in exchanges
    ]


def _first(asked: Asked, name: str) -> tuple[dict[str, object], ...]:
    return (system(f"You are {name}, {name}"), *asked.messages[1:])


def _changed(asked: Asked, at: int) -> Asked:
    messages = list(asked.messages)
    messages[at] = {**messages[at], "content": f"{messages[at]['content']} altered"}
    return attrs.evolve(asked, messages=tuple(messages))


def test_an_answer_is_served_once(tmp_path: Path) -> None:
    """Two equal requests get the two recorded answers, in the order of the record."""
    one, other = (Exchange(ask(user("Roll a die")), says(text)) for text in ("3", "5"))
    matcher = Matcher(read_record(record(tmp_path / "a.jsonl", [one, other])))

    found = [matcher.take(one.asked, scope) for scope in ("0/1", "0/2", "0/3")]

    answers = [
        each.answer.message for each in found[:2] if not isinstance(each, Miss) and each.answer
    ]
    assert answers == [says("3"), says("5")]
    assert isinstance(found[2], Miss)
    assert (found[2].count, found[2].recorded) == (3, 2)


def test_the_likest_is_of_the_same_interface_and_has_most_in_common(tmp_path: Path) -> None:
    """A conversation that was told already comes after one that was not."""
    texts = ["where is the old harbour", "where is the new museum", "nothing of that kind"]
    found = read_record(
        record(tmp_path / "a.jsonl", [one for text in texts for one in talk(user(text), says(""))])
    )
    now = ask(user("where is the new harbour now"))
    old, new, other = (likeness(turn.asked, now) for turn in found.turns)

    assert 0 <= other < min(old, new) <= max(old, new) < likeness(now, now)
    assert likeness(attrs.evolve(now, api="messages"), now) == 0
    assert likeness(ask(), now) < old
    best = likest(now, found.turns, known=set())
    assert best is found.turns[0 if old >= new else 1]
    assert likest(now, found.turns[2:], known=set()) is None
    assert best is not None
    assert likest(now, found.turns, known={best.scope}) is not best


def test_what_was_taken_out_of_the_record_stands_for_any_text(tmp_path: Path) -> None:
    """A marker of a redaction in the record matches, and is listed; nothing else does."""
    vault = Vault(Redaction(secrets=["s3cret-value"]))
    exchanges = talk(user("My key is s3cret-value."), says("Noted."), user("Go on"), says("Done."))
    log = record(tmp_path / "a.jsonl", exchanges, vault=vault)

    report = replayed(log, [_with(one.asked, "s3cret-value", "another one") for one in exchanges])

    assert report.identical, report
    assert {one.rule for one in report.ignored} == {"redaction"}
    assert report.ignored_count == 2
    other = [_with(one.asked, "My key is s3cret-value.", "No key.") for one in exchanges]
    assert not replayed(log, other).identical
    first = _with(exchanges[0].asked, "s3cret-value", "another one")
    assert replayed(log, [first, first]).divergences[0].category == "args_changed"


def _with(asked: Asked, old: str, new: str) -> Asked:
    messages = [{**each, "content": each["content"].replace(old, new)} for each in asked.messages]
    return attrs.evolve(asked, messages=tuple(messages))


def test_rules_that_are_added_are_used(tmp_path: Path) -> None:
    """What whoever replays declares volatile counts like what the record lists."""
    exchanges = talk(user("It is 12:30. Go."), says("Gone."))
    log = record(tmp_path / "a.jsonl", exchanges)
    now = [_with(one.asked, "12:30", "09:15") for one in exchanges]

    assert not replayed(log, now).identical
    report = replayed(log, now, rules=VolatileRules(texts=(r"\d\d:\d\d",)))
    assert report.identical
    first, second = report.ignored_lines()
    assert first == "ignored: 1 value that changed"
    assert second.startswith('  model:gpt-5  /messages/0/content: "It is 12:30. Go." → "It is 09')
    assert second.endswith(r"(\d\d:\d\d)")


# --- equal requests ----------------------------------------------------------------------------


def at_once(path: Path, *talks: list[Exchange], hints: tuple[str, ...] = ()) -> Path:
    """Write the log of a command whose conversations each wait for the others' answers."""
    with ObservedLog(path, program="a", input={"command": ["a"]}, vault=Vault()) as log:
        observer = Observer(log)
        for row in zip_longest(*talks):
            there = [(at, one) for at, one in enumerate(row) if one is not None]
            turns = [
                observer.asked(one.asked, Whose(hints[at], agent=hints[at]) if hints else Whose())
                for at, one in there
            ]
            for turn, (_, one) in zip(turns, there, strict=True):
                observer.wire(turn, wire(one))
                observer.answered(turn, one.answered())
        log.seal("completed", "done", DONE)
    return path


def test_that_order_alone_decided_is_told(tmp_path: Path) -> None:
    """Two that ask the same at the same time, and are answered otherwise."""
    twins = talk(user("Draw a number"), says("4")), talk(user("Draw a number"), says("7"))
    log = at_once(tmp_path / "a.jsonl", *twins)

    report = replayed(log, [one.asked for each in twins for one in each])

    assert report.identical
    assert report.as_json()["notes"] == list(report.notes)
    assert str(report).count("note: 1 request was made at the same time as an identical one") == 1


def test_nothing_is_told_where_order_says_nothing(tmp_path: Path) -> None:
    """Equal answers; or one after the other, as when a request is made again."""
    same = talk(user("Draw"), says("4")), talk(user("Draw"), says("4"))
    retried = [Exchange(ask(user("Draw")), None, error="http_429"), *talk(user("Draw"), says("4"))]

    for path in (at_once(tmp_path / "a.jsonl", *same), record(tmp_path / "b.jsonl", retried)):
        assert replayed(path, [ask(user("Draw"))] * 2).notes == ()


def test_an_equal_request_is_told_by_its_agent(tmp_path: Path) -> None:
    """One that names its conversation gets the answer of that name, whoever comes first."""
    twins = talk(user("Draw"), says("4")), talk(user("Draw"), says("7"))
    matcher = Matcher(read_record(at_once(tmp_path / "a.jsonl", *twins, hints=("ann", "bob"))))

    found = [matcher.take(ask(user("Draw")), f"0/{name}", agent=name) for name in ("bob", "ann")]

    assert [said_of(each) for each in found] == ["7", "4"]
    assert matcher.by_order == 0


def test_an_equal_request_is_told_by_the_conversation_above(tmp_path: Path) -> None:
    """Two that delegate the same get the answers of their own."""
    calls = says("", ("c", "delegate_to_digger", {"brief": "Dig here"}))
    talks = [
        [
            Exchange(ask(system(name), user("Go")), calls),
            Exchange(ask(user("Dig here")), says(f"dug for {name}")),
        ]
        for name in ("ann", "bob")
    ]
    matcher = Matcher(read_record(at_once(tmp_path / "a.jsonl", *talks)))

    (ann, dig), (bob, _) = talks
    for top, scope in ((bob, "0/1"), (ann, "0/2")):
        matcher.take(top.asked, scope)
    found = [matcher.take(dig.asked, scope, agent="digger") for scope in ("0/1/1", "0/2/1")]

    assert [said_of(each) for each in found] == ["dug for bob", "dug for ann"]


def test_a_conversation_of_its_own_is_left_to_whom_it_belongs(tmp_path: Path) -> None:
    """A twin that comes later does not take the second try of the first."""
    first = [Exchange(ask(user("Draw")), None, error="http_429"), *talk(user("Draw"), says("4"))]
    log = at_once(tmp_path / "a.jsonl", first, talk(user("Draw"), says("7")))
    matcher = Matcher(read_record(log))

    asked = [matcher.take(ask(user("Draw")), scope) for scope in ("0/1", "0/2", "0/1")]

    assert [said_of(each) for each in asked] == ["", "7", "4"]


def said_of(found: object) -> str:
    assert isinstance(found, RecordedTurn)
    assert found.answer is not None
    return str((found.answer.message or {}).get("content", ""))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_an_equal_request_binds_the_ids_of_its_own_caller(
    tmp_path: Path, order: tuple[int, int]
) -> None:
    """Two agents start one each with the same prompt; either may ask first."""

    def asked(prompt: str, *callers: str) -> Asked:
        ids = dict(zip(("session", "parent"), callers, strict=False))
        return attrs.evolve(ask(system("Be brief."), user(prompt)), ids=ids)

    def all_of(run: str) -> tuple[list[Asked], list[Asked]]:
        above, below = ([f"ses_{run}{what}{each:012}" for each in (1, 2)] for what in "mc")
        mains = [asked(f"survey {at}", each) for at, each in enumerate(above)]
        return mains, [asked("count", *each) for each in zip(below, above, strict=True)]

    mains, children = all_of("was")
    said = [Exchange(each, says("yes")) for each in (*mains, *children)]
    matcher = Matcher(read_record(record(tmp_path / "log.jsonl", said)))
    mains, children = all_of("now")
    for number, each in enumerate([*mains, *(children[at] for at in order)]):
        matcher.bound(each)
        found = matcher.take(each, f"0/{number}")
        assert isinstance(found, RecordedTurn)

    told = "ses_wasc000000000001 ses_wasc000000000002"
    assert matcher.bindings.as_now(told) == told.replace("was", "now")
