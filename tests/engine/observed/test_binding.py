"""Which values of two runs are each other's, and that nothing else is ignored (§16.17)."""

import posixpath
import re
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from typing import Any, Final

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.engine.errors import UsageError
from refold.engine.observed.binding import Bindings, Joined, ValuePlace, ids_in, places_of
from refold.engine.wire.parts.exchange import Asked
from refold.engine.workspace.entries import MadeObject
from tests.support.loops import for_each
from tests.support.watched import ask, result, says, system, user

WAS = {"folder": "/home/ann/proj", "home": "/home/ann", "tmp": "/tmp", "date": "2026-11-22"}
NOW = {"folder": "/srv/copy/it", "home": "/root", "tmp": "/var/tmp/x", "date": "2027-01-03"}
RULES = (
    "result:Agent id agentId: ([0-9a-f]{17})",
    "result:Agent measure duration_ms: (\\d+)",
    "result:Bash date at (\\d\\d:\\d\\d:\\d\\d)",
    "system text - Shell: (\\w+)",
    'printed id "session": ?"([0-9a-f-]{36})"',
)
UUID_A, UUID_B, UUID_C = (f"121c6862-7ee5-447c-96ee-78670c7f50{n}" for n in ("aa", "bb", "cc"))
A, B, X, Y = (f"{letter}{'0123456789abcdef'}" for letter in "abcd")
COMMITS = "0123abcd" * 5, "89efdc76" * 5


def bindings() -> Bindings:
    return Bindings(places_of(RULES)[0], WAS, NOW)


def one(text: str) -> Asked:
    return ask(user(text))


def same(recorded: str, now: str) -> bool:
    return bindings().joined(one(recorded), one(now)) is not None


@for_each(
    "recorded, now",
    [
        ("in /home/ann/proj.", "in /srv/copy/it."),
        ("/home/ann/proj/a.txt:3", "/srv/copy/it/a.txt:3"),
        ('{"p":"\\/home\\/ann\\/proj\\/a"}', '{"p":"\\/srv\\/copy\\/it\\/a"}'),
        ("vscode://f?p=%2Fhome%2Fann%2Fproj%2Fa", "vscode://f?p=%2Fsrv%2Fcopy%2Fit%2Fa"),
        ("file:///home/ann/proj", "file:///srv/copy/it"),
        ("projects/-home-ann-proj/memory", "projects/-srv-copy-it/memory"),
        ("home/ann/proj/a.txt", "srv/copy/it/a.txt"),
        ("\\n/home/ann/proj\\n", "\\n/srv/copy/it\\n"),
        ("/home/ann/.codex", "/root/.codex"),
        ("/tmp/x1", "/var/tmp/x/x1"),
        ("on 2026-11-22, Sunday, November 22, 2026", "on 2027-01-03, Sunday, January 3, 2027"),
        ("Sun Nov 22 2026", "Sun Jan 03 2027"),
    ],
)
def test_what_refold_knows_of_both_runs_is_bound(recorded: str, now: str) -> None:
    """In each of a closed list of spellings; back and forth."""
    found = bindings()
    joined = found.joined(one(recorded), one(now))

    assert joined is not None
    assert found.as_now({recorded: [recorded]}) == {now: [now]}
    assert found.as_recorded(one(now)) == one(recorded)
    assert same(recorded, recorded)
    assert Bindings((), NOW, WAS).joined(one(now), one(recorded)) is not None


@for_each("home", ["~", "$HOME", "${HOME}"])
def test_a_folder_below_home_is_bound_as_shells_call_it(home: str) -> None:
    """Else a command would lead out of a copy, into the user's folder."""
    elsewhere, moved = Bindings((), WAS, NOW), Bindings((), WAS, WAS | {"folder": "/home/ann/it"})
    command = one(f'cd {home}/proj && cat "{home}/proj/a" {home}/proj-old {home}')

    led = elsewhere.as_now(command.messages[0]["content"])
    assert same(f"cd {home}/proj", f"cd {home}/proj")
    assert re.fullmatch(
        rf'cd (.*it) && cat "\1/a" {re.escape(home)}/proj-old {re.escape(home)}', led
    )
    assert posixpath.normpath(led.split()[1]) == "/srv/copy/it"
    assert elsewhere.as_recorded(one(led)) == command
    assert moved.as_now(f"cd {home}/proj/b") == f"cd {home}/it/b"
    assert Bindings((), WAS | {"folder": "/home/ann"}, NOW).as_now(f"cd {home}/x") == f"cd {home}/x"


def test_a_home_beside_the_folder_is_bound_as_it_is_called_from_there() -> None:
    """Where that names something: `..` alone is too little to be known by."""
    eve = WAS | {"home": "/home/eve"}
    found = Bindings((), eve, NOW)

    assert found.joined(one("in ../../eve/.qwen/x"), one("in ../../../root/.qwen/x")) is not None
    assert found.joined(one("in ../../eve-2/x"), one("in ../../../root-2/x")) is None


@for_each(
    "recorded, now",
    [
        ("/home/ann/proj-old/a", "/srv/copy/it-old/a"),
        ("/home/ann/proj.old", "/srv/copy/it.old"),
        ("/home/ann/project", "/srv/copy/itect"),
        ("/mnt/home/ann/proj", "/mnt/srv/copy/it"),
        ("mnt/home/ann/proj", "mnt/srv/copy/it"),
        ("/home/ann/proj/a", "/srv/copy/it/b"),
        ("/home/ann/proj", "/root"),
        ("/srv/copy/it", "/home/ann/proj"),
        ("2026-11-22T10:00", "2027-01-03T10:00"),
        ("2026-11-22", "2026-11-23"),
        ("2026-11-22", "1999-01-01"),
        ("took 500 ms", "took 501 ms"),
        ("agentId: " + A, "agentId: " + X),
        ("duration_ms: 500", "duration_ms: 50000"),
        ("- Shell: bash", "- Shell: fish"),
        ("uuid 121c6862-7ee5-447c-96ee-78670c7f50f6", "uuid 121c6862-7ee5-447c-96ee-78670c7f50f7"),
        ("[main abc1234] x", "[main abc1235] x"),
        ("sha " + COMMITS[0], "sha " + COMMITS[1]),
        (1, True),
        (1, 1.0),
        (["a"], ["a", "b"]),
        ({"a": "b"}, {"a": "b", "c": None}),
        ({A: "b"}, {X: "b"}),
    ],
)
def test_all_else_is_compared(recorded: Any, now: Any) -> None:
    """Wherever it only looks like what is another one at each run."""
    asked = [ask(user("x") | {"content": each}) for each in (recorded, now)]

    assert bindings().joined(asked[0], asked[1]) is None
    assert bindings().joined(asked[0], asked[0]) is not None


def test_a_folder_that_is_bound_is_served_as_it_is_called_now() -> None:
    """And no other name that begins like it."""
    said = "cd /home/ann/proj && ls /home/ann/proj-old /home/ann/proj.bak"

    assert bindings().as_now(said) == "cd /srv/copy/it && ls /root/proj-old /root/proj.bak"


def agents(first: str, second: str, then: str = "", *, tool: str = "Agent", ms: int = 5) -> Asked:
    """Return a request that is told of two agents, and then of one of them."""
    calls = says("", ("c1", tool, {}), ("c2", tool, {}))
    told = [f"agentId: {each}\nduration_ms: {ms}" for each in (first, second)]
    more = [says("", ("c3", "SendMessage", {"to": then})), result("c3", f"sent to {then}")]
    return ask(user("Go."), calls, result("c1", told[0]), result("c2", told[1]), *more)


def joined(found: Bindings, recorded: Asked, now: Asked) -> Joined | None:
    one = found.joined(recorded, now)
    if one is not None:
        found.commit(one)
    return one


def test_an_id_is_introduced_at_its_place_and_holds_everywhere() -> None:
    """One to one, in both directions, and for good."""
    found = bindings()

    assert joined(found, agents(A, B, A), agents(X, Y, X, ms=700)) is not None
    assert found.as_now(f"to: '{A}'") == f"to: '{X}'"
    assert joined(found, one(f"again {B}"), one(f"again {Y}")) is not None
    assert joined(found, one(f"again {B}"), one(f"again {B}")) is not None
    assert joined(found, one(f"again {B}"), one(f"again {X}")) is None
    assert joined(found, agents(A, B, A), agents(Y, X, Y)) is None
    assert found.lines() == ["2 bound: 2 ids"]


@for_each(
    "now",
    [
        agents(X, Y, Y),
        agents(X, X, X),
        agents(X, Y, X, tool="Read"),
        agents(X, Y[:-1], X),
    ],
)
def test_permuted_and_misplaced_ids_are_found(now: Asked) -> None:
    recorded = agents(A, B, A, tool="Read") if "Read" in str(now) else agents(A, B, A)

    assert bindings().joined(recorded, now) is None
    assert bindings().joined(now, recorded) is None


def test_what_is_ignored_at_its_place_is_named_with_its_words() -> None:
    """A measure at the tool that measures; a text of the system prompt."""
    recorded = ask(system("- Shell: bash"), *agents(A, B, A, ms=5).messages)
    now = ask(system("- Shell: fish"), *agents(A, B, A, ms=700).messages)

    found = bindings().joined(recorded, now)

    assert found is not None
    told = [(each.pointer, each.recorded, each.now) for each in found.passed]
    assert told == [
        ("/messages/0/content", "bash", "fish"),
        ("/messages/3/content", "5", "700"),
        ("/messages/4/content", "5", "700"),
    ]


def test_what_is_ignored_in_a_request_is_ignored_where_the_command_prints_it() -> None:
    """The same pair, and no other."""
    found = bindings()
    assert found.joined_values("duration_ms: 5.", "duration_ms: 7.") is None
    request = (agents(A, B, ms=5), agents(A, B, ms=7))
    whole = joined(found, *request)
    assert whole is not None
    found.commit(whole)

    assert found.joined_values("duration_ms: 5.", "duration_ms: 7.") is not None
    assert found.joined_values("duration_ms: 5.", "duration_ms: 8.") is None
    assert found.joined_values("it took 5.", "it took 7.") is None


LISTING: Final = """total 12
drwxr-xr-x 4 ann staff 4096 Nov 30 22:33 .
-rw-r--r-- 1 ann staff  585 Nov 30 22:03 a.py
lrwxrwxrwx 1 ann staff    4 Nov 30  2025 b -> a.py
"""


def listed(text: str, command: str = "cd src && ls -la") -> Asked:
    call = says("", ("c", "Bash", {"command": command}))
    return ask(call, result("c", text))


@for_each(
    "was, now, is_same",
    [
        ("Nov 30 22", "Dec  1 07", True),
        ("Nov 30 22:03", "2026-11-30 22:03", True),
        ("ann staff", "root   root  ", True),
        ("4 ann staff 4096", "6 ann staff   80", True),
        ("total 12", "total 8", True),
        ("585", "586", False),
        ("-rw-r--r--", "-rw-------", False),
        ("drwxr-xr-x", "-rwxr-xr-x", False),
        ("a.py", "c.py", False),
        (" -> a.py", "", False),
        ("lrwx", "x\nlrwx", False),
    ],
)
def test_of_listed_files_what_a_copy_has_anew_is_not_compared(
    was: str, now: str, *, is_same: bool
) -> None:
    """Owners, links, times and the sizes of folders; only in rows of `ls -l`, and only of it."""
    assert was in LISTING
    other = LISTING.replace(was, now)

    assert (bindings().joined(listed(LISTING), listed(other)) is not None) is is_same
    for command in ("cat a.txt", "ls", "git log"):
        assert bindings().joined(listed(LISTING, command), listed(other, command)) is None


TESTED: Final = """collected 2 items
==================== 2 passed in 9.37s ====================
slowest: 3ms setup
Time: 3 s
"""


@for_each(
    "was, now, is_same",
    [
        ("== 2 passed in 9.37s ==", "= 2 passed in 10.2s =", True),
        ("3ms", "4ms", False),
        ("Time: 3 s", "Time: 7.25 s", True),
        ("2 passed", "3 passed", False),
        ("passed", "failed", False),
        ("collected 2", "collected 3", False),
        ("3ms setup", "setup", False),
    ],
)
def test_the_time_that_tests_take_is_not_compared(was: str, now: str, *, is_same: bool) -> None:
    """Of commands that run tests, and of no other."""
    other = TESTED.replace(was, now)

    for command in (
        "python -m pytest -x",
        "npm run test",
        "cd a; cargo test --all",
        "go test ./...",
    ):
        there = listed(TESTED, command), listed(other, command)
        assert (bindings().joined(*there) is not None) is is_same, command
    for command in ("python -m timeit x", "npm install", "cat tests"):
        assert bindings().joined(listed(TESTED, command), listed(other, command)) is None


def timed(*times: str) -> Asked:
    return ask(says("", ("c", "Bash", {})), result("c", " ".join(f"at {each}" for each in times)))


def test_times_keep_their_form_and_their_order() -> None:
    """They are not one to one: two seconds may become one."""
    recorded = timed("10:00:01", "10:00:02", "10:00:03")

    assert bindings().joined(recorded, timed("23:59:58", "23:59:58", "23:59:59")) is not None
    assert bindings().joined(recorded, timed("23:59:58", "23:59:59", "23:59:57")) is None
    assert bindings().joined(timed("10:00:01"), ask(user("10:00:01"))) is None


@for_each(
    "recorded, now, is_same",
    [
        ("now: 2026-11-22T10:00:00.123Z", "now: 2027-01-03T23:59:59.001Z", True),
        ("2026-11-21 23:00:00 +0000", "2027-01-04 01:00:00 +0000", True),
        ("2026-11-22T10:00:00Z", "2026-11-22T11:00:00Z", False),  # not of the day of its run
        ("2026-10-22T10:00:00Z", "2027-01-03T10:00:00Z", False),
        ("2026-11-22T10:00:00Z", "2027-01-03T10:00:00.1Z", False),  # of another form
        (f"/home/ann/.x/s/{UUID_A}/f", f"/root/.x/s/{UUID_B}/f", True),
        (f"/home/bob/.x/s/{UUID_A}/f", f"/home/bob/.x/s/{UUID_B}/f", False),
        (f"/home/ann/.x/{UUID_A} and {UUID_A}", f"/root/.x/{UUID_B} and {UUID_C}", False),
    ],
)
def test_the_time_of_asking_and_a_folder_of_the_agents_own_are_bound_for_all(
    recorded: str, now: str, *, is_same: bool
) -> None:
    """Whatever the program is, and only where both runs show that they are such."""
    assert same(recorded, now) == is_same


def commits(
    *ids: str, digest: str = "a" * 64, named: tuple[str, ...] = (), hour: int = 0
) -> list[MadeObject]:
    """Return commits that a run made, one hour after the other."""
    times = (f"{1_764_000_000 + 3600 * (hour + at)} +0100" for at in range(len(ids)))
    return [
        MadeObject(each, digest, named, (time, time)) for each, time in zip(ids, times, strict=True)
    ]


def seen(was: Iterable[MadeObject], now: Iterable[MadeObject]) -> Bindings:
    found = Bindings(places_of(RULES)[0], WAS, NOW, made=was)
    found.see(now)
    return found


def test_a_commit_of_this_run_is_bound_by_its_prefixes_everywhere() -> None:
    """Whoever ran git, and whatever printed it."""
    found = seen(commits(COMMITS[0]), commits(COMMITS[1]))
    text = "[main {0:.7}] x\ncommit {0}\nv1-1-g{0:.7} {0:.9}^ Output: {0:.12}"
    texts = [text.format(each) for each in COMMITS]

    assert joined(found, one(texts[0]), one(texts[1])) is not None
    assert found.as_now(texts[0]) == texts[1]
    assert found.as_recorded_text(texts[1]) == texts[0]
    assert joined(found, one(COMMITS[0][:8]), one(COMMITS[1][:9])) is None
    assert joined(found, one(COMMITS[0][:8]), one(COMMITS[0][:8])) is not None
    assert found.lines() == ["1 bound: 1 commit"]


@for_each(
    "was, now",
    [
        ([], commits(COMMITS[1])),
        (commits(COMMITS[0]), []),
        (commits(COMMITS[0]), commits(COMMITS[1], digest="b" * 64)),
        (commits(COMMITS[0], named=("1" * 40,)), commits(COMMITS[1], named=("2" * 40,))),
        (commits(COMMITS[0], named=("1" * 40,)), commits(COMMITS[1])),
        (commits("3" * 40, COMMITS[0]), commits(COMMITS[1], "4" * 40)),
    ],
)
def test_no_commit_is_bound_without_proof(was: list[MadeObject], now: list[MadeObject]) -> None:
    """That a run did not make, of other changes, on another parent, or the other of two alike."""
    found = seen(was, now)

    assert (
        found.joined(one(f"HEAD is now at {COMMITS[0]:.7}"), one(f"HEAD is now at {COMMITS[1]:.7}"))
        is None
    )
    assert found.as_now(COMMITS[0]) == COMMITS[0] or was[1:]
    assert [*found.unproven] == [COMMITS[0][:7]]


def test_a_commit_on_a_bound_one_is_bound_in_whatever_order_they_are_found() -> None:
    """Its parents, and commits that its texts name, are each other's."""
    first, then = (
        [*commits(each[1], named=(each[0],), digest="b" * 64), *commits(each[0])]
        for each in (COMMITS, (COMMITS[1], COMMITS[0]))
    )

    assert seen(first, then).as_now(COMMITS[1]) == COMMITS[0]


@for_each(
    "form",
    ["%a %b %d %H:%M:%S %Y +0100", "%a %b %-d %H:%M:%S %Y", "%Y-%m-%d %H:%M:%S +0100",
     "%Y-%m-%dT%H:%M:%S+01:00", "%a, %d %b %Y %H:%M:%S +0100"],
)  # fmt: skip
def test_the_time_of_a_bound_commit_is_bound_in_each_form_of_git(form: str) -> None:
    """And no other time."""
    found = seen(commits(*COMMITS), commits("1" * 40, "2" * 40, hour=5))
    zone = timezone(timedelta(hours=1))
    texts = [
        f"Date:   {datetime.fromtimestamp(1_764_000_000 + 3600 * hour, zone):{form}}"
        for hour in (0, 1, 2, 5, 6)
    ]

    assert found.joined(one(texts[0]), one(texts[3])) is not None
    assert found.joined(one(texts[1]), one(texts[4])) is not None
    assert found.joined(one(texts[0]), one(texts[4])) is None
    assert found.joined(one(texts[2]), one(texts[3])) is None
    assert found.plain_text(texts[3]) == found.plain_text(texts[0]) != found.plain_text(texts[1])
    assert found.plain_text(texts[2]) == texts[2]
    assert found.joined(one("at 1764000000"), one(f"at {1_764_000_000 + 5 * 3600}")) is not None


def test_ids_of_headers_are_bound_everywhere() -> None:
    """Those that say who asks, in JSON too; a header alone is never a difference."""
    uuids = [f"121c6862-7ee5-447c-96ee-78670c7f50f{n}" for n in range(4)]
    sent = [
        [("session-id", u), ("x-meta", f'{{"turn_id": "{u}", "key": "0123456789ab"}}'),
         ("x-api-key", u), ("trace-id", "12345678"), ("accept", u)]
        for u in uuids
    ]  # fmt: skip
    asked = [
        attrs.evolve(one(f"in {u}"), ids=ids_in(headers))
        for u, headers in zip(uuids, sent, strict=True)
    ]
    found = bindings()

    assert ids_in(sent[0]) == {"session-id/session-id/0": uuids[0], "x-meta/turn_id/0": uuids[0]}
    assert joined(found, asked[0], asked[1]) is not None
    assert found.as_now(uuids[0]) == uuids[1]
    assert joined(found, asked[0], asked[2]) is None
    silent = [attrs.evolve(each, messages=()) for each in asked]
    assert joined(found, silent[0], silent[3]) is not None
    assert found.as_now(uuids[0]) == uuids[1]
    assert bindings().joined(asked[0], one(f"in {uuids[1]}")) is None


def test_members_that_are_called_by_bound_names_are_all_compared() -> None:
    """Two of them are masked alike."""
    was = {"/home/ann/proj": 1, "/home/ann": 2}
    value = [was, {"/srv/copy/it": 1, "/root": 2}, {"/srv/copy/it": 2, "/root": 2}]
    asked = [ask(user("x") | {"content": each}) for each in value]

    assert bindings().joined(asked[0], asked[1]) is not None
    assert bindings().key(asked[0]) == bindings().key(asked[1])
    assert bindings().joined(asked[0], asked[2]) is None


def test_ids_of_parameters_are_bound_everywhere() -> None:
    """What a client sends to say who asks; another parameter is compared."""
    uuids = [f"121c6862-7ee5-447c-96ee-78670c7f50f{n}" for n in range(2)]
    asked = [ask(system(f"in {u}/x"), metadata={"user_id": f'{{"session":"{u}"}}'}) for u in uuids]
    other = [ask(system(f"in {u}/x"), stop=u) for u in uuids]

    assert bindings().joined(asked[0], asked[1]) is not None
    assert bindings().joined(other[0], other[1]) is None


@for_each("rule", ["x", "anywhere id x", "system id a*", "system id (a+)+b", "user"])
def test_a_rule_names_a_role_or_a_tool(rule: str) -> None:
    """One that does not is refused, and left out of a log that has it."""
    with pytest.raises(UsageError, match="place"):
        ValuePlace.parsed(rule)
    assert places_of([rule])[0] == ()
    assert len(places_of([rule])[1]) == 1


# --- laws ------------------------------------------------------------------------------------

WORDS = st.sampled_from(
    [*WAS.values(), *NOW.values(), A, B, X, Y, *COMMITS, "/", "-old", ".", " ", "\n", "a", "7",
     "agentId: ", "duration_ms: 5", "commit ", "\\/", "%2F", "[id]", "\0"]
)  # fmt: skip
TEXTS = st.lists(WORDS, max_size=8).map("".join)
VALUES = st.recursive(
    TEXTS | st.integers(0, 2) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


def told(content: Any) -> Asked:
    """Return a request in which a value stands at every place."""
    call = says("", ("c", "Agent", {"command": "git commit; git log", "x": content}))
    both = result("c", "") | {"content": content}
    return ask(system(""), call, both, user("") | {"content": content}, metadata=content)


@given(VALUES)
def test_what_is_equal_is_the_same(value: Any) -> None:
    found = bindings()

    assert found.joined(told(value), told(value)) is not None
    assert found.key(told(value)) == found.key(told(value))


def _turned(value: Any) -> Any:
    """Return a JSON value with the members of its objects the other way round."""
    if isinstance(value, dict):
        return {key: _turned(value[key]) for key in reversed(value)}
    return [_turned(item) for item in value] if isinstance(value, list) else value


@given(VALUES)
def test_members_stand_in_any_order(value: Any) -> None:
    """Clients that hold them in sets write them in another order in each process."""
    bound = bindings()

    assert bound.key(told(value)) == bound.key(told(_turned(value)))
    assert bound.joined(told(value), told(_turned(value))) is not None


@given(VALUES, VALUES)
def test_it_is_symmetric_and_has_one_key(one: Any, other: Any) -> None:
    there = bindings().joined(told(one), told(other)) is not None
    back = Bindings(places_of(RULES)[0], NOW, WAS).joined(told(other), told(one)) is not None

    assert there == back
    if there:
        assert bindings().key(told(one)) == bindings().key(told(other))


@given(TEXTS, st.integers(0, 200), st.sampled_from("zqZ!é"))
def test_a_change_of_unbound_text_is_a_difference(text: str, at: int, letter: str) -> None:
    """Outside of what is bound, wherever it is: here nothing but folders is."""
    at = min(at, len(text))
    changed = f"{text[:at]}{letter}{text[at:]}"

    assert not same(text, changed)
    assert not same(changed, text)


UUIDS = [f"121c6862-7ee5-447c-96ee-78670c7f50f{n}" for n in range(3)]
SAID = st.lists(
    st.sampled_from(
        [*WAS.values(), *UUIDS, A, B, *COMMITS, COMMITS[0][:8], "/", "-old", " ", "\n", "\\n", '"',
         "commit ", "agentId: ", "%2Fhome%2Fann", "500", "2026-11-23T10:00:00Z", "Date:   ", ":"]
    ),
    min_size=1,
    max_size=8,
).map("".join)  # fmt: skip
PLACES_OF_TEXT = ("user", "system", "Read", "Bash", "cat notes", "call", "tools")


def _all_bound(to: dict[str, str], text: str, place: str) -> Asked:
    """Return a request that introduces a folder and ids, and says a commit, and a text."""
    agent = says("", ("a", "Agent", {})), result("a", f"agentId: {to[A]}")
    command = "git commit -qm y; cat notes" if place == "cat notes" else "cat notes"
    given = {"command": command if place != "call" else text}
    call = says("", ("t", "Bash" if place == "cat notes" else place, given))
    role = place if place in ("user", "system") else ""
    last = (call, result("t", text)) if not role else ({"role": role, "content": text},)
    tools = [{"name": "x", "description": text}] if place == "tools" else []
    who = {"session_id": to[UUIDS[0]]}
    asked = ask(user(to[COMMITS[0]]), *agent, *last, tools=tools, metadata=who)
    return attrs.evolve(asked, ids=ids_in([("x-request-id", to[UUIDS[1]])]))


@given(SAID, st.sampled_from(PLACES_OF_TEXT), st.integers(0, 400), st.sampled_from(["", "z", "7"]))
def test_one_changed_character_is_noticed_whatever_is_bound(
    text: str, place: str, at: int, letter: str
) -> None:
    """A path, an id, a date, a number or a hash; nothing changed is the same, from both sides."""
    same_ids = {each: each for each in (COMMITS[0], A, *UUIDS)}
    other_ids = {
        COMMITS[0]: "7" + COMMITS[1][1:],
        A: X,
        UUIDS[0]: "9" + UUIDS[2][1:],
        UUIDS[1]: "0" + UUIDS[1][1:],
    }
    here = seen(commits(COMMITS[0]), commits(other_ids[COMMITS[0]]))
    introduced = [_all_bound(ids, "", "user") for ids in (same_ids, other_ids)]
    assert joined(here, *introduced) is not None
    now = here.as_now(text)
    at = min(at, len(now) - 1)
    changed = f"{now[:at]}{letter}{now[at + 1 :]}"
    was = _all_bound(same_ids, text, place)

    assert here.joined(was, _all_bound(other_ids, now, place)) is not None
    assert here.key(was) == here.key(_all_bound(other_ids, now, place))
    back = Bindings(places_of(RULES)[0], NOW, WAS, made=commits(other_ids[COMMITS[0]]))
    back.see(commits(COMMITS[0]))
    assert joined(back, *reversed(introduced)) is not None
    if changed not in (now, text):
        other = _all_bound(other_ids, changed, place)
        assert here.joined(was, other) is None
        assert back.joined(other, was) is None


@given(st.permutations([A, B, X, Y]), st.lists(st.integers(0, 3), min_size=1, max_size=8))
def test_a_permutation_is_the_same_and_a_mixture_is_not(to: list[str], says_: list[int]) -> None:
    """Ids are told by which of them they are."""
    ids = [A, B, X, Y]

    def of(names: list[str], order: list[int]) -> Asked:
        calls = says("", *((f"c{n}", "Agent", {}) for n in range(4)))
        results = [result(f"c{n}", f"agentId: {name}") for n, name in enumerate(names)]
        return ask(calls, *results, user(" ".join(names[n] for n in order)))

    other = [(n + 1) % 4 for n in says_]

    assert bindings().joined(of(ids, says_), of(to, says_)) is not None
    mixed = bindings().joined(of(ids, says_), of(to, other))
    assert (mixed is None) == ([ids[n] for n in says_] != [to[n] for n in other])


@given(TEXTS)
def test_a_text_is_what_its_parts_are(text: str) -> None:
    parts, tokens = bindings().cut(text)
    values = [value for _, value in tokens]

    assert "".join(part + value for part, value in zip(parts, [*values, ""], strict=True)) == text
    assert re.sub("x", "x", bindings().as_recorded_text(text)) is not None


def test_a_value_that_is_ignored_in_a_parameter_is_marked() -> None:
    """So that a diff shows it as alike, too."""
    place = ValuePlace.parsed(r'parameters measure "device_id":"([0-9a-f]{64})"')
    asked = ask(user("Go."), metadata=f'{{"device_id":"{"0dcc15c9" * 8}"}}', top=1)

    plain = Bindings([place]).plain(asked)

    assert plain.parameters == {"metadata": '{"device_id":"[measure]"}', "top": 1}
    assert plain.messages == asked.messages
