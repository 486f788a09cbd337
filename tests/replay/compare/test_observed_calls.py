"""A diff of two recorded commands says what they did otherwise, and nothing of how it came."""

from pathlib import Path
from typing import Any

import attrs

from refold.engine.observed.profile import Profile
from refold.engine.observed.volatile import VolatileRules
from refold.engine.wire.parts.exchange import Asked
from refold.replay.compare.diff import diff
from refold.replay.compare.log_diff import LogDiff
from tests.support.loops import for_each
from tests.support.watched import Exchange, Message, record, result, says, system, talk, user

EAT, WALK = "Find a place to eat", "Find a place to walk"


def lead(*ids: str) -> list[Exchange]:
    """Return a conversation that asks two others, the ids of its calls drawn by a server."""
    return talk(
        system("You plan."),
        user("Plan a day."),
        says("", (ids[0], "ask", {"what": EAT}), (ids[1], "ask", {"what": WALK})),
        result(ids[0], "fish hall"),
        result(ids[1], "Fløyen"),
        says("Done."),
    )


def guide(brief: str, answer: str) -> list[Exchange]:
    """Return the conversation of a subagent, which is thanked."""
    said = says(answer), user("Thanks."), says("Bye.")
    return talk(system("You are a guide."), user(brief), *said)


def compared(tmp_path: Path, a: list[Exchange], b: list[Exchange], **more: Any) -> LogDiff:
    """Return the diff of two commands."""
    return diff(record(tmp_path / "a.jsonl", a, **more), record(tmp_path / "b.jsonl", b, **more))


def test_neither_ids_nor_the_order_of_conversations_are_differences(tmp_path: Path) -> None:
    """Ids are a server's; which subagent asked first is chance, and who stored a message, too."""
    one, other = lead("c1", "c2"), lead("x-91", "x-77")
    eat, walk = guide(EAT, "fish hall"), guide(WALK, "Fløyen")

    found = compared(tmp_path, [one[0], *eat, *walk, one[1]], [other[0], *walk, *eat, other[1]])

    assert found.count == 0, found


def test_values_are_bound_though_a_server_draws_the_ids_of_calls_anew(tmp_path: Path) -> None:
    profile = Profile(name="mine", places=("result:ask id session ([0-9a-f]{12})",))

    def told(call: str, session: str) -> list[Exchange]:
        asked = says("", (call, "ask", {"what": EAT}))
        answered = result(call, f"session {session}")
        return talk(user("Go."), asked, answered, says("Well?"), user(f"See {session}."), says("."))

    found = compared(
        tmp_path, told("c1", "0123456789ab"), told("x-9", "fedcba987654"), profile=profile
    )

    assert found.count == 0, found
    assert any("1 id" in note for note in found.notes)


def test_the_time_of_asking_is_no_difference_and_hides_none(tmp_path: Path) -> None:
    """Each subagent's task begins with it, in the form of its own day."""
    one, other = lead("c1", "c2"), lead("x-91", "x-77")

    def told(day: str, *order: int, eat: str = EAT) -> list[Exchange]:
        briefs = (eat, "fish hall"), (WALK, "Fløyen")
        begun = [guide(f"<now>{day}T10:00:0{n}.5Z</now>\n{briefs[n][0]}", briefs[n][1])
                 for n in order]  # fmt: skip
        return [exchange for each in begun for exchange in each]

    def count(day: str, log: list[Exchange]) -> int:
        then = "2026-11-22"
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        recorded = [one[0], *told(then, 0, 1), one[1]]
        was = record(folder / "a.jsonl", recorded, noted={"date": then})
        return diff(was, record(folder / "b.jsonl", log, noted={"date": day})).count

    day = "2027-01-03"
    assert count(day, [other[0], *told(day, 1, 0), other[1]]) == 0
    assert count(day, [other[0], *told(day, 1, 0, eat="Find an inn"), other[1]]) > 0
    assert count(day, [other[0], *told("2026-12-24", 1, 0), other[1]]) > 0


def test_results_that_changed_places_are_a_difference(tmp_path: Path) -> None:
    """An id still says which result belongs to which call."""
    one = lead("c1", "c2")
    other = [one[0], Exchange(_swapped(one[1]), one[1].answer)]

    assert compared(tmp_path, one, other).count > 0


def _swapped(one: Exchange) -> Asked:
    *before, first, second = one.asked.messages
    swapped = ({**first, "tool_call_id": "c2"}, {**second, "tool_call_id": "c1"})
    return attrs.evolve(one.asked, messages=(*before, *swapped))


def test_a_changed_answer_is_told_once_where_it_was_given(tmp_path: Path) -> None:
    """Of the subagent that gave it; in the next request of its own conversation it is no news."""
    eat = guide(EAT, "fish hall")
    other = guide(EAT, "the bakery")

    found = compared(tmp_path, [*eat, *guide(WALK, "Fløyen")], [*guide(WALK, "Fløyen"), *other])

    (difference,) = found.differences
    assert (difference.category, difference.scope) == ("result", "0/1")
    assert difference.differences[0].pointer == "/message/content"


def test_changed_tool_definitions_are_told_where_they_are_offered_first(tmp_path: Path) -> None:
    """And not in every request after it."""
    messages = [user("Go."), says("Where?"), user("Home."), says("Home it is.")]
    one = talk(*messages, tools=[{"name": "drive", "description": "Drive."}])
    other = talk(*messages, tools=[{"name": "drive", "description": "Walk."}])

    (difference,) = compared(tmp_path, one, other).differences

    assert difference.differences[0].pointer == "/tools/0/description"


def tried(*failures: str) -> list[Exchange]:
    """Return a conversation whose second request failed so often before it was answered."""
    first, second, third = talk(
        *(system("You plan."), user("Plan."), says("Where?"), user("Home."), says("By bus.")),
        *(user("Go."), says("Gone.")),
    )
    return [first, *(Exchange(second.asked, None, why) for why in failures), second, third]


def test_what_was_tried_again_is_a_retry_and_no_other_request(tmp_path: Path) -> None:
    """In either log; what comes after it is the same."""
    again = tried("http_429", "cut")
    for one, other, number in ((tried(), again, 2), (again, tried(), 4)):
        for path in tmp_path.glob("*.jsonl"):
            path.unlink()
        (found,) = compared(tmp_path, one, other).differences

        assert (found.category, found.where) == ("retry", f"root > main > model gpt-5#{number}")
        (place,) = found.differences
        assert (place.pointer, place.before or place.after) == ("/retries", ["http_429", "cut"])


def test_the_first_of_few_differences_is_the_cause(tmp_path: Path) -> None:
    """Where few keep their details; each call names its logs."""
    eat, walk = lead("c1", "c2"), guide(EAT, "fish hall")
    changed = guide(EAT, "the bakery")
    told = attrs.evolve(
        eat[1],
        asked=attrs.evolve(
            eat[1].asked,
            messages=tuple(
                {**each, "content": "the bakery"} if each.get("content") == "fish hall" else each
                for each in eat[1].asked.messages
            ),
        ),
    )
    one = record(tmp_path / "a.jsonl", [eat[0], *walk, eat[1]])
    other = record(tmp_path / "b.jsonl", [eat[0], *changed, told])

    whole, few = diff(one, other), diff(one, other, most=1)

    (cause,) = whole.causes
    assert cause.follows == whole.count - 1 == few.count - 1 > 0
    assert whole.differences[:1] == few.differences == cause.leaves
    assert {each.logs for each in whole.differences if each.what} == {(one, other)}


def test_volatile_places_are_not_compared(tmp_path: Path) -> None:
    """As the rules of the logs say."""
    rules = VolatileRules(["model:*/parameters/user"], [r"\d\d:\d\d"])
    one = talk(user("It is 12:30."), says("So."), user="ann")
    other = talk(user("It is 09:10."), says("So."), user="bob")

    assert compared(tmp_path, one, other, rules=rules).count == 0


def test_what_a_tool_returned_is_compared_without_what_is_volatile(tmp_path: Path) -> None:
    """In the request that shows it, and in the end of the call."""
    rules = VolatileRules(texts=[r"took \d+ ms"])
    one, other, third = (
        talk(user("Go."), says("", ("c", "run", {})), result("c", said), says("So."))
        for said in ("six took 7 ms", "six took 11 ms", "five took 7 ms")
    )

    same = diff(
        *(record(tmp_path / n, x, rules=rules) for n, x in (("1.jsonl", one), ("2.jsonl", other)))
    )
    (first, *_) = diff(
        tmp_path / "1.jsonl", record(tmp_path / "3.jsonl", third, rules=rules)
    ).differences

    assert same.count == 0
    assert first.differences[0].before == "six [volatile]"


def test_a_conversation_more_is_only_in_one(tmp_path: Path) -> None:
    """With all its requests, and what each of them was."""
    found = compared(tmp_path, guide(EAT, "fish hall"), [*guide(EAT, "fish hall"), *lead("1", "2")])

    assert {one.category for one in found.differences} == {"only_in_b"}
    first = found.differences[0].differences[0].after
    assert (first["api"], first["model"], first["added"][1]) == (
        "chat", "gpt-5", user("Plan a day.")
    )  # fmt: skip


HOME = {"folder": "/home/ann/proj", "home": "/home/ann"}
COPY = {"folder": "/srv/copy", "home": "/root"}
AGENT = Profile(
    name="p",
    hands_over={"Agent": ("description",)},
    places=(
        "result:Agent id agentId: ([0-9a-f]{17})",
        "result:Agent measure duration_ms: (\\d+)",
        "user date Today's date is (\\d{4}-\\d\\d-\\d\\d)",
    ),
)


def crew(scenario: int, *, is_second: bool = False, word: str = "done") -> list[Exchange]:
    """Return one of twelve runs of a lead with subagents, in one folder or another.

    `is_second` draws other ids, folders, dates and durations; `word` is in a subagent's answer.
    """
    folder, day = ("/srv/copy", "2027-01-03") if is_second else ("/home/ann/proj", "2026-11-22")
    drawn = "bcdef0123456789" if is_second else "0123456789abcde"
    count = 1 + scenario % 3
    names = [f"review {letter}" for letter in "xyz"[:count]]
    briefs = [f"Review the part {name[-1]} of {folder}/src" for name in names]
    calls = [
        (f"{drawn[0]}{n}", "Agent", {"description": name, "prompt": brief})
        for n, (name, brief) in enumerate(zip(names, briefs, strict=True))
    ]
    first = [
        system(f"You lead. Working directory: {folder}"),
        user(f"Go. Today's date is {day}"),
        says("", *calls),
    ]
    subs: list[Exchange] = []
    told: list[Message] = []
    for n, brief in enumerate(briefs):
        said = f"The part is {word if n == scenario % count else 'done'}."
        read = f"{drawn[1]}r{n}", "Read", {"path": f"{folder}/{names[n][-1]}.txt"}
        more = [says("", read), result(read[0], "one two")] if scenario % 2 else []
        subs += talk(system("You review."), user(brief), *more, says(said))
        agent = f"{n}{drawn}{n}"
        told.append(result(calls[n][0], f"{said}\nagentId: {agent}\nduration_ms: {len(drawn) * n}"))
    after = [says(f"All: {word}"), user("Thanks."), says("Bye.")] if scenario // 6 else []
    lead_ = talk(*first, *told, *(after or [says(f"All: {word}")]))
    return [lead_[0], *subs, *lead_[1:]]


def both(tmp_path: Path, scenario: int, word: str = "done") -> LogDiff:
    one, other = crew(scenario), crew(scenario, is_second=True, word=word)
    a = record(tmp_path / "a.jsonl", one, profile=AGENT, folders=HOME)
    return diff(a, record(tmp_path / "b.jsonl", other, profile=AGENT, folders=COPY))


@for_each("scenario", range(12))
def test_two_recordings_of_one_scenario_do_not_differ(tmp_path: Path, scenario: int) -> None:
    """In other folders, on other days, with other ids: they are bound, as in a replay."""
    found = both(tmp_path, scenario)

    assert found.count == 0, found
    assert any("bound: folder" in note for note in found.notes)


@for_each("scenario", range(12))
def test_one_changed_word_is_told_once_with_its_subagent(tmp_path: Path, scenario: int) -> None:
    """The parent that is told of it, and what it makes of it, only repeat that."""
    found = both(tmp_path, scenario, "finished")

    first = str(found.differences[0])
    name = f"review {'xyz'[scenario % (1 + scenario % 3)]}"
    assert f"root > main > {name}" in first
    assert "done" in first
    assert "finished" in first
    (cause,) = found.causes
    assert cause.follows == found.count - 1, found


@for_each("mode, count", [("exact", 1), ("lines", 0), ("ignore", 0)])
def test_output_is_compared_as_a_replay_compares_it(tmp_path: Path, mode: str, count: int) -> None:
    """By the rule of the recording, with the same texts left out."""
    profile = Profile(name="mine", output=mode)
    ends = [{"exit_code": 0, "stdout": text, "stdout_bytes": 4} for text in ("a\nb\n", "b\na\n")]
    logs = [
        record(tmp_path / f"{at}.jsonl", guide(EAT, "fish hall"), profile=profile, output=end)
        for at, end in enumerate(ends)
    ]

    assert diff(*logs).count == count
