"""The first and the last entry of a watched command's log, and their use in a replay.

`proxy.desks.recording` writes the entries between the two; `proxy.sessions` runs the command.
Rules: CONTRACT.md §16.2.
"""

import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from refold.engine.encoding.canonical import Json
from refold.engine.events.outcome import Fault
from refold.engine.log.names import files_of
from refold.engine.observed.binding import FOLDERS, NOTED, OTHER, ValuePlace
from refold.engine.observed.journal import ObservedLog
from refold.engine.observed.profile import EXACT, NAMED, Profile
from refold.engine.observed.volatile import VolatileRules
from refold.engine.secrets.redaction import Redaction
from refold.engine.wire.apis import known_routes
from refold.engine.wire.parts.format import Route
from refold.engine.workspace.entries import FolderStarted
from refold.engine.workspace.left_out import LogFiles
from refold.engine.workspace.made import NewObjects
from refold.engine.workspace.scanning import Scanner
from refold.engine.workspace.watching import WatchedFolder
from refold.proxy.command import KEPT_BYTES, CommandEnd, Size, is_typed_at
from refold.proxy.desks.keys import Secrets, is_key_name
from refold.proxy.desks.recording import MODEL
from refold.proxy.http.routes import keys_of, others_of
from refold.replay.observed.record import INTERRUPTED, MOVED, OUTPUT, ObservedRecord

PLACEHOLDER: Final = "refold-replay"
"""How the keys begin that a replay gives where one is missing."""
LISTENING: Final = "listen"
"""The name of a record without a command."""
TYPED_AT: Final = "typed_at"
"""The member of a command's input that marks a terminal as its standard input."""
SCREEN: Final = "screen"
"""How a recording at a terminal is compared: as it is, unless it is a screen that was painted."""
IGNORED: Final = "ignore"
_PAINTED: Final = re.compile(r"\x1b\[(?:[0-9;]*[A-HJKSTf]|\?[0-9;]+[hl])")
"""What moves a cursor, erases, or changes how a terminal works; colours do not."""
KEYS: Final = "keys"
"""The member of `run.started.rules` with the beginnings of keys, by variable."""
_KEY_BEGINS: Final = re.compile(
    r"sk-ant-(?:api|oat)\d\d-|sk-(?:proj|svcacct|or-v1)-|sk-|gsk_|xai-|AIza"
)
_PLAIN: Final = re.compile(r"[A-Za-z][\w.+@-]*(?:/[\w+-]+){0,2}")
"""A time zone or a locale: no path, which a log could name."""
_KEY_CHARS: Final = 64
"""Of a placeholder with such a beginning, behind its name."""
_INTERPRETERS: Final = re.compile(
    r"(?:python|pypy|node|nodejs|bun|deno|ruby|uv|npx|bash|sh)[0-9.]*"
)
_SCRIPT: Final = re.compile(r"[^-\s]\S*\.\w+")
"""An argument with a suffix that is neither an option nor code."""


def input_of(
    command: Sequence[str], terminal: Size | None, routes: Iterable[Route]
) -> dict[str, Json]:
    """Return what `run.started` has as input.

    {command, terminal?: [columns, rows], typed_at?: true, variables?}
    """
    given: dict[str, Json] = {"command": list(command)}
    if terminal:
        given["terminal"] = list(terminal)
        if is_typed_at():
            given[TYPED_AT] = True
    if others := others_of(routes):
        given["variables"] = others
    return given


def _given_in(record: ObservedRecord) -> Mapping[str, Any]:
    """Return what `input_of` wrote."""
    given = record.started.input
    return given if isinstance(given, dict) else {}


def others_in(record: ObservedRecord) -> list[str]:
    """Return the variables that `--upstream` added when a command was recorded."""
    return [str(name) for name in _given_in(record).get("variables", ())]


def terminal_in(record: ObservedRecord) -> Size | None:
    """Return the size of the terminal that a command had as standard output, if it had one."""
    size = _given_in(record).get("terminal")
    return (int(size[0]), int(size[1])) if size else None


def output_in(record: ObservedRecord) -> str:
    """Return the default comparison of output in a replay: none for a screen."""
    if record.output != SCREEN:
        return record.output
    ended = record.finished.output if record.finished is not None else None
    printed = str(ended.get("stdout")) if isinstance(ended, dict) else ""
    return IGNORED if _PAINTED.search(printed) else EXACT


def command_in(record: ObservedRecord) -> list[str]:
    """Return the recorded command."""
    return [str(word) for word in _given_in(record).get("command", ())]


def typed_at_in(record: ObservedRecord) -> bool:
    """Return whether people could type at a command when it was recorded."""
    return _given_in(record).get(TYPED_AT) is True


def placeholders(
    rules: Mapping[str, Any], routes: Iterable[Route], *, is_live: bool = False
) -> dict[str, str]:
    """Return the keys of a command in a replay; `rules` are those of the record.

    They replace those that it would send by these routes, unless a request may continue live, and
    fill in missing ones: keys that clients want, and keys that were set when it was recorded.
    """
    ours = set(keys_of(known_routes()))  # of which AWS_BEARER_TOKEN_BEDROCK ends like no key
    listed = rules.get("redaction", {}).get("environment", ())
    held = (name for name in listed if name in ours or is_key_name(name))
    wanted = (route.key for route in known_routes() if route.key)
    missing = [name for name in (*wanted, *held) if not os.environ.get(name)]
    sent = () if is_live else filter(os.environ.get, keys_of(routes))
    begins = rules.get(KEYS, {})
    return {name: placeholder(name, begins.get(name, "")) for name in (*missing, *sent)}


def placeholder(name: str, begin: str = "") -> str:
    """Return the replacement for a variable's key: not a key, but in the shape of one.

    It begins as the recorded one did if that is a beginning that we know, else as the one of now:
    Claude Code asks another model with a key of another shape.
    """
    known = _KEY_BEGINS.fullmatch(begin) or _KEY_BEGINS.match(os.environ.get(name, ""))
    return f"{known[0]}{PLACEHOLDER}-{name}{'0' * _KEY_CHARS}" if known else f"{PLACEHOLDER}-{name}"


def first_rules(rules: VolatileRules, profile: Profile, output: str = "") -> dict[str, Json]:
    """Return the rules of `run.started`: ignored places, and settings of a replay."""
    told: dict[str, Json] = {**rules.as_json()}
    begins = {name: _KEY_BEGINS.match(value) for name, value in os.environ.items()}
    if keys := {name: found[0] for name, found in begins.items() if found is not None}:
        told[KEYS] = keys
    for rule in profile.places:
        ValuePlace.parsed(rule)  # of a profile of one's own, it may be none
    told |= {NAMED: profile.as_json()} if profile.name else {}
    told |= {FOLDERS: dict(folders_here()), NOTED: dict(noted_here())}
    return told | ({OUTPUT: output} if output else {})


def again_rules(record: ObservedRecord, model: str = "") -> dict[str, Json]:
    """Return the rules of a log that continues a record, or reports its replay.

    `model` is the model of the continuation, if it differs from the command's.
    """
    own = record.started.rules
    kept: dict[str, Json] = {
        name: own[name] for name in (KEYS, NAMED, FOLDERS, NOTED, MODEL) if name in own
    }
    more: dict[str, Json] = {OUTPUT: record.output} if record.output != EXACT else {}
    more |= {MODEL: model} if model else {}
    return {**kept, **record.rules.as_json(), **more}


def resumed_rules(record: ObservedRecord, folders: Mapping[str, str]) -> dict[str, Json]:
    """Return the rules of a log that resumes a record: as the record's, of here and now."""
    noted = record.started.rules.get(NOTED, {})
    kept = {name: noted[name] for name in ("zone", "locale") if name in noted}
    now: dict[str, Json] = {FOLDERS: dict(folders_here(**folders)), NOTED: {**noted_here(), **kept}}
    return {**again_rules(record), **now}


def noted_here() -> dict[str, str]:
    """Return what else is noted of where and when a command runs: it is bound, or pinned."""
    zone = os.environ.get("TZ") or os.path.realpath("/etc/localtime").partition("/zoneinfo/")[2]
    noted = {
        "date": datetime.now().astimezone().date().isoformat(),
        "host": platform.node(),
        "user": os.environ.get("USER", ""),
        "zone": zone,
        "locale": os.environ.get("LC_ALL") or os.environ.get("LANG", ""),
    }
    return {name: value for name, value in noted.items() if value}


def here(**moved: str) -> dict[str, str]:
    """Return the notes in the form of `Bindings`; `moved`: of the copy that the command runs in."""
    return {**folders_here(**moved), **noted_here()}


def pinned(record: ObservedRecord) -> dict[str, str]:
    """Return the variables that give a replay the time zone and the locale of its record."""
    noted = record.started.rules.get(NOTED, {})
    found = {"TZ": noted.get("zone", ""), "LC_ALL": noted.get("locale", "")}
    return {name: value for name, value in found.items() if _PLAIN.fullmatch(value)}


def folders_here(**moved: str) -> dict[str, str]:
    """Return the folders that a command is likely to name in its requests; `moved` replace theirs.

    If links lead there, or HOME is not a plain path, also in the form of programs that resolve
    them.  Bytes that are not UTF-8 are replaced, as clients do in their requests.
    """
    named = {"folder": os.getcwd(), "home": os.environ.get("HOME", "")}  # noqa: PTH109 - a text
    named["tmp"] = os.environ.get("TMPDIR", "/tmp")  # noqa: S108 - what programs take
    other = {"folder": os.environ.get("PWD", ""), "home": os.path.realpath(named["home"])}
    alike = {name: path for name, path in other.items() if _is_same(path, named[name])}
    found = named | {OTHER + name: path for name, path in alike.items() if path != named[name]}
    found |= moved
    return {name: os.fsencode(path).decode(errors="replace") for name, path in found.items()}


def _is_same(one: str, other: str) -> bool:
    """Return whether two paths lead to one folder; a shell's PWD may be outdated."""
    return bool(one and other) and Path(one).exists() and Path(one).samefile(other)


def new_log(
    path: Path,
    given: dict[str, Any],
    secrets: Secrets,
    rules: dict[str, Json],
    origin: dict[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    *,
    moved: Iterable[str] = (),
) -> ObservedLog:
    """Begin the log of a command; `moved` are the routes that lead to servers of its own.

    Raises:
        LogExists: a log is never overwritten.
    """
    program = program_of(given["command"])
    return ObservedLog(
        path, program=program, input=given, vault=secrets, rules=rules, origin=origin,
        labels=labels, meta={MOVED: "_".join(moved)} if moved else None,
    )  # fmt: skip


def watched_folder(
    journal: ObservedLog,
    secrets: Secrets,
    top: Path,
    copied: FolderStarted | None = None,
    seen: Mapping[str, str] = MappingProxyType({}),
) -> WatchedFolder:
    """Return the recorder of the folder `top` while a command works in it, started here.

    For a copy of the folder `copied`, the log has the original's path; for `seen`, see
    `linked.git_at`.
    """
    secrets.learn_key_files(top)  # before a file is read that holds a key, too
    here = Path.cwd() if copied is None else top / copied.below
    log = top / copied.log if copied is not None and copied.log else journal.path
    log_files = LogFiles(log, top, here, holds_others=True)
    scanner = Scanner(
        top,
        log_files,
        secrets.scrubbed_bytes,
        packs=files_of(journal.path),
        objects=NewObjects(top, seen),
        seen=seen,
    )
    return WatchedFolder(top, here, journal.path, scanner, journal.append, copied=copied)


def program_of(command: Sequence[str]) -> str:
    """Return a command's name: its script, else the command itself."""
    if not command:  # a proxy that was held open
        return LISTENING
    name = Path(command[0]).name
    if _INTERPRETERS.fullmatch(name):
        script = next(filter(_SCRIPT.fullmatch, command[1:]), None)
        return Path(script).name if script else name
    return name


def output_of(ended: CommandEnd, secrets: Secrets) -> dict[str, Json]:
    """Return how a command ended as `run.finished` has it, without secrets.

    If redaction changes the output, its bytes are counted after it.
    """
    printed = secrets.scrubbed_bytes(ended.printed)
    beyond = ended.printed_bytes - len(ended.printed)
    return {
        "exit_code": ended.exit_code,
        "stdout": printed[:KEPT_BYTES].decode(errors="replace"),
        "stdout_bytes": len(printed) + beyond,
    }


def seal(journal: ObservedLog, ended: CommandEnd, secrets: Secrets) -> None:
    """Write how a command ended, and close its log."""
    output = output_of(ended, secrets)
    if ended.interrupted:
        fault = Fault(code=INTERRUPTED, message="a signal interrupted the command")
        journal.seal("cancelled", INTERRUPTED, output, fault)
    elif ended.exit_code == 0:
        journal.seal("completed", "done", output)
    else:
        fault = Fault(code="exit", message=f"the command ended with exit code {ended.exit_code}")
        journal.seal("failed", "error", output, fault)


def redaction_in(record: ObservedRecord) -> Redaction:
    """Return the paths and tools that are taken out by the rules of a record."""
    told = record.started.rules.get("redaction", {})
    return Redaction(paths=told.get("paths", {}), tools=told.get("tools", ()))
