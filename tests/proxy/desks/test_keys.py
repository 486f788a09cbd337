"""What is secret is found by where it stands, by its name or by its shape, and by nothing else."""

import base64
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.proxy.desks.keys import ADDRESS, Secrets
from tests.support.loops import for_each

DRAWN = "q7Rk2Zt9Xw4LmB8vYc3N"
CHOSEN = "my-very-own-secret"
SHAPES = {
    "openai": "sk-proj-4fQ8_x" + DRAWN,
    "anthropic": "sk-ant-api03-" + DRAWN * 3,
    "github": "ghp_" + DRAWN + "abcdefghij1234567",
    "github fine": "github_pat_" + DRAWN * 2,
    "github app": "gho_" + DRAWN + "abcdefghij1234567",
    "gitlab": "glpat-" + DRAWN,
    "aws": "AKIAIOSFODNN7EXAMPLE",
    "aws session": "ASIAIOSFODNN7EXAMPLE",
    "slack": "xoxb-12345678901-" + DRAWN,
    "google": "AIza" + "SyA-" + DRAWN + "abcdefghijk",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0." + DRAWN,
    "hugging face": "hf_" + DRAWN + "abcdefghijklmn",
    "stripe": "sk_live_" + DRAWN,
    "stripe test": "rk_test_" + DRAWN,
    "groq": "gsk_" + DRAWN,
    "npm": "npm_" + DRAWN + "abcdefghij123456",
    "pypi": "pypi-" + DRAWN * 2,
    "google token": "ya29." + DRAWN,
    "pem": "-----BEGIN RSA PRIVATE KEY-----\nMIIE" + DRAWN + "\n-----END RSA PRIVATE KEY-----",
}


def scrub(secrets: Secrets, value: Any) -> Any:
    """Return a value without secrets."""
    return secrets.scrubbed(value)


@pytest.mark.parametrize("key", SHAPES.values(), ids=list(SHAPES))
@pytest.mark.parametrize("around", ["{}", "the key: {}, ok", '{{"a":"\\n{}"}}', "KEY={} \\n"])
def test_a_text_of_the_shape_of_a_key_is_taken_out(key: str, around: str) -> None:
    """Wherever it stands, in short texts and in long ones."""
    for filling in ("", " lorem ipsum ", " lorem ipsum é" * 1000):
        found = scrub(Secrets(), filling + around.format(key) + filling)

        assert found == filling + around.format("[redacted:key]") + filling


@for_each(
    "text",
    [
        "task-management-of-things-and-so-on",
        "sk-loading-spinner-container-of-the-page",
        "a risk-free life, AKIA and eyJ, ghost_town",
        "claude-sonnet-4-20250514 and gpt-5-mini",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    ],
)
def test_what_only_looks_a_little_like_one_stays(text: str) -> None:
    """Words, names of models, digests."""
    assert scrub(Secrets(), text) == text


@for_each(
    "name, value",
    [
        ("authorization", f"Bearer {DRAWN}"),
        ("authorization", DRAWN),
        ("proxy-authorization", f"Bearer {DRAWN}"),
        ("x-api-key", DRAWN),
        ("api-key", DRAWN),
        ("x-goog-api-key", DRAWN),
        ("x-auth-token", DRAWN),
        ("cookie", f"theme=dark; sid={DRAWN}"),
        ("set-cookie", f"sid={DRAWN}"),
        ("openai-organization", DRAWN),
        ("authorization", "Basic " + base64.b64encode(f"me:{DRAWN}".encode()).decode()),
    ],
)
def test_what_a_header_authorises_with_is_secret(name: str, value: str) -> None:
    """From then on, in every form."""
    secrets = Secrets()
    secrets.learn_headers([(name, value)])

    for form in (DRAWN, DRAWN.encode().hex(), base64.b64encode(DRAWN.encode()).decode()):
        assert form not in scrub(secrets, f"<{form}>")


@pytest.mark.parametrize(
    ("name", "value"),
    [("accept", "application/json-and-more"), ("idempotency-key", "retry-of-1234567890")],
)
def test_other_headers_are_not(name: str, value: str) -> None:
    secrets = Secrets()
    secrets.learn_headers([(name, value)])

    assert scrub(secrets, value) == value


@for_each(
    "name",
    ["OPENAI_API_KEY", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "DB_PASSWD", "TOKEN"],
)
def test_variables_are_known_by_their_names(name: str) -> None:
    """And listed by their names."""
    secrets = Secrets()
    secrets.learn_environment({name: DRAWN, "HOME_PAGE": "https://example.org"})

    assert scrub(secrets, [DRAWN, "https://example.org"]) == [
        f"[redacted:{name}]",
        "https://example.org",
    ]
    assert secrets.rules() == {"redaction": {"environment": [name]}}


def test_a_path_a_short_value_and_a_count_are_no_secret(tmp_path: Any) -> None:
    """A file of keys may be named; a stand-in is no key; tokens are counted; git has settings."""
    variables = {
        "KEY_FILE": str(tmp_path), "API_KEY": "EMPTY", "MAX_TOKENS": "1000000000",
        "GIT_CONFIG_KEY_0": "safe.directory",
    }  # fmt: skip
    secrets = Secrets()
    secrets.learn_environment(variables)

    assert scrub(secrets, [*variables.values()]) == [*variables.values()]


@for_each(
    "command",
    [
        ["agent", "--api-key", DRAWN],
        ["agent", f"--token={DRAWN}"],
        ["agent", "--password", CHOSEN],
        ["env", f"MY_SECRET={DRAWN}", "agent"],
        ["env", f"PGPASSWORD={CHOSEN}", "agent"],
        ["agent", f"--api-key={CHOSEN}"],
        ["curl", "-H", f"Authorization: Bearer {DRAWN}", "x"],
        ["curl", f"https://me:{CHOSEN}@example.org/"],
        ["curl", f"https://example.org/?a=1&api_key={DRAWN}"],
        ["agent", DRAWN],
    ],
)
def test_keys_on_a_command_line_are_found(command: list[str]) -> None:
    """By the option before them, their own name, or because they were drawn."""
    secrets = Secrets()
    secrets.learn_command(command)

    said = json.dumps(scrub(secrets, command))
    assert DRAWN not in said
    assert CHOSEN not in said


def test_words_on_a_command_line_stay() -> None:
    """Models, files, tasks, options."""
    command = ["python", "agent.py", "--model", "claude-sonnet-4-20250514", "--task", "Count keys"]
    command += ["--region=europe-north1-b"]
    secrets = Secrets()
    secrets.learn_command(command)

    assert scrub(secrets, command) == command


def test_the_proxys_address_is_a_fixed_word() -> None:
    """In what is kept; and is itself again in what is served."""
    secrets = Secrets()
    secrets.hide_address("http://127.0.0.1:4711/w0rd")
    text = "http://127.0.0.1:4711/w0rd/openai, localhost:4711, localhost%3A4711%2Fw0rd; not {}"

    kept = scrub(secrets, text.format("127.0.0.1:47110"))

    assert kept == f"http://{ADDRESS}/openai, host.{ADDRESS}, {ADDRESS}; not 127.0.0.1:47110"
    assert secrets.shown(f"//{ADDRESS}/a host.{ADDRESS}".encode()) == (
        b"//127.0.0.1:4711/w0rd/a 127.0.0.1:4711"
    )


def test_bytes_that_are_no_text_are_searched_too() -> None:
    """And stay as they are around what is taken out."""
    secrets = Secrets()
    secrets.learn_headers([("x-api-key", DRAWN)])

    assert secrets.scrubbed_bytes(b"\xff" + DRAWN.encode() + b"\x00\xfe") == (
        b"\xff[redacted:x-api-key]\x00\xfe"
    )


@pytest.mark.long
def test_looking_through_much_text_with_many_secrets_is_quick() -> None:
    """A quarter of a second for a megabyte, generously: not all forms at every place."""
    secrets = Secrets()
    secrets.learn_environment({f"KEY_{n}": f"{DRAWN}{n:04}" for n in range(40)})
    text = "It was the best of times, it was the worst of times. " * 20_000

    started = time.process_time()
    assert scrub(secrets, text) is text
    assert time.process_time() - started < 2.5


_KEY = "sk-proj-abcdefghij0123456789"


@given(
    pieces=st.lists(
        st.sampled_from(["word " * 600, f" {_KEY} ", "ta", _KEY, "sk-", "kept-secret"]), max_size=4
    ),
    cuts=st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 4000)), max_size=3),
)
def test_what_was_looked_through_before_changes_nothing(
    pieces: list[str], cuts: list[tuple[int, int]]
) -> None:
    """A text, its beginning and its end: as by one who sees each for the first time."""
    whole, seen, anew = "".join(pieces), Secrets(), Secrets()
    texts = [whole, *(part for a, b in cuts for part in (whole[:a], whole[b:], whole[a:b]))]

    seen.hide_address("http://127.0.0.1:4711/w0rd")
    for text in texts * 2:
        anew.hide_address("http://127.0.0.1:4711/w0rd")  # forgets texts, and keeps secrets
        assert seen.scrubbed(text) == anew.scrubbed(text)
    seen.learn("KEY", "kept-secret")
    for text in texts:
        assert "kept-secret" not in seen.scrubbed(text)
    seen.learn_cookie("sid=word word")
    for text in texts:
        assert "word word" not in seen.scrubbed(text)


def test_a_cookie_of_an_answer_is_found_as_it_is() -> None:
    """What it is called and how long it lasts is none of it; a short one is none."""
    secrets = Secrets()
    secrets.learn_cookie(f"sid={DRAWN}; path=/; secure")
    secrets.learn_cookie("theme=dark")

    assert scrub(secrets, f"got {DRAWN} and dark") == "got [redacted:set-cookie] and dark"


def test_servers_that_set_cookies_for_ever_make_nothing_slower() -> None:
    """The newest are looked for, and what was searched before is not searched again."""
    secrets = Secrets()
    before = secrets.generation
    for number in range(1000):
        secrets.learn_cookie(f"__cf_bm=cookie-number-{number}")

    assert scrub(secrets, "cookie-number-999") == "[redacted:set-cookie]"
    assert scrub(secrets, "cookie-number-1") == "cookie-number-1"
    assert secrets.generation == before


def test_learning_a_secret_is_another_generation() -> None:
    """What is known already is none."""
    secrets = Secrets()
    generations = []
    for value in (DRAWN, DRAWN, DRAWN[::-1]):
        secrets.learn_headers([("authorization", f"Bearer {value}")])
        generations.append(secrets.generation)

    assert generations[0] == generations[1] < generations[2]
