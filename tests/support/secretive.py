"""A program with a child in a process of its own, both of which are told a secret and repeat it."""

import base64
import json
import os
import random
import re
import string
import sys
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus

import refold

VALUE = "s3cret/of the+day"


def _in_json(text: str, levels: int, *, ascii_only: bool = True) -> str:
    for _ in range(levels):
        text = json.dumps(text, ensure_ascii=ascii_only)
    return text


def _either_case(text: str) -> str:
    """Percent-encode with letters in lower and upper case by turns."""
    turns = iter(range(1_000_000))
    return re.sub("%..", lambda at: at[0].lower() if next(turns) % 2 else at[0], quote(text, ""))


def _escaped(text: str) -> str:
    """Write JSON as encoders do that escape all but letters and digits."""
    return re.sub("[^A-Za-z0-9_-]", lambda at: "".join(
        f"\\u{unit:04X}" for unit in memoryview(at[0].encode("utf-16-le")).cast("H")
    ), text)  # fmt: skip


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "json": json.dumps,
    "json-2": lambda text: _in_json(text, 2),
    "json-3": lambda text: _in_json(text, 3),
    "json-unicode": lambda text: _in_json(text, 1, ascii_only=False),
    "json-unicode-3": lambda text: _in_json(text, 3, ascii_only=False),
    "json-slashes": lambda text: json.dumps(json.dumps(text).replace("/", "\\/")),
    "json-all": _escaped,
    "json-all-2": lambda text: json.dumps(_escaped(text)),
    "repr": repr,
    "repr-of-object": lambda text: repr({"key": [text, "'", '"']}),
    "repr-of-bytes": lambda text: repr(text.encode()),
    "repr-of-repr": lambda text: repr(repr(text)),
    "json-of-repr": lambda text: json.dumps(repr(text)),
    "repr-of-json": lambda text: repr(_in_json(text, 3)),
    "unicode-escape": lambda text: text.encode("unicode_escape").decode(),
    "base64": _base64,
    "base64-url": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "base64-inside": lambda text: _base64(f"user:{text}:end"),
    "base64-inside-2": lambda text: _base64(f"usr:{text}"),
    "base64-in-url": lambda text: quote(_base64(text), ""),
    "base64-in-json": lambda text: json.dumps(_base64(text)).replace("/", "\\/"),
    "quoted": quote,
    "quoted-all": lambda text: quote(text, safe=""),
    "quoted-lower": lambda text: re.sub("%..", lambda at: at[0].lower(), quote(text, "")),
    "quoted-either": _either_case,
    "quoted-plus": quote_plus,
    "quoted-twice": lambda text: quote(quote(text, ""), ""),
    "quoted-in-json": lambda text: _in_json(quote_plus(text), 2),
    "hex": lambda text: text.encode().hex(),
    "hex-upper": lambda text: text.encode().hex().upper(),
    "inside": lambda text: f"https://user:{text}@host/?key={text}",
}
"""Ways in which a program or a server says a secret."""


def said_in(said: str, secret: str) -> list[str]:
    """Return the ways in which a text says a secret, escaped once more or not."""
    sought = {name: encode(secret).strip("\"'") for name, encode in ENCODINGS.items()}
    kept = {name: text for name, text in sought.items() if len(secret) >= 8 or "base64" not in name}
    bare = said.replace("\\", "")
    found = [name for name, text in kept.items() if text in said or text.replace("\\", "") in bare]
    return [name for name in found if name[:3] != "hex" or len(secret) >= 8]


def keys(count: int) -> dict[str, str]:
    r"""Return keys that hold each of `+ / = " \\ '`, at other places in each, by their cores.

    A core is the part of a key that only base64 and hex write otherwise.
    """
    drawn = random.Random(11)
    made = {}
    for _ in range(count):
        around = [*"+/=\"\\'", *drawn.choices("+/=\"\\'" + string.ascii_letters, k=10)]
        drawn.shuffle(around)
        core = "".join(drawn.choices(string.ascii_letters + string.digits, k=10))
        around.insert(drawn.randrange(len(around) + 1), core)
        made[core] = "".join(around)
    return made


def leaked(said: str, count: int) -> list[str]:
    """Return those of so many keys that stand in a text, in any encoding."""
    packed = ("base64", "base64-url", "base64-inside", "base64-inside-2", "hex", "hex-upper")
    return [
        key
        for core, key in keys(count).items()
        if core in said or any(ENCODINGS[each](key)[4:-4] in said for each in packed)
    ]


@refold.tool(effect="reads")
def tell(token: str) -> str:
    """Say the secret."""
    return f"it is {token}"


async def crash(run: refold.Run, _input: object) -> Any:
    """Say the secret in a log, on both streams, and in what it dies of."""
    said = await run.tool(tell, token=run.secret("SECRETIVE"))
    raise ValueError(f"{said}, and {os.environ.get('SECRETIVE', 'not in the environment')}")


async def program(run: refold.Run, _input: object) -> Any:
    """Ask for it here, and in a child."""
    said = await run.tool(tell, token=run.secret("SECRETIVE"))
    outcome = await run.delegate(refold.Delegation(program=crash, runner="subprocess"))
    return [said, outcome.error.message if outcome.error else ""]


def record(log: str) -> None:
    """Record it, and print what came of it."""
    rules = refold.Redaction(environment=["SECRETIVE"])
    recording = refold.record(program, log=log, tools=[tell], redaction=rules)
    sys.stdout.write(f"{recording}\n")
    sys.stderr.write(f"{recording.output} {recording.error}\n")
