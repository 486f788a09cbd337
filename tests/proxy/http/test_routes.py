"""Base-URL variables lead to the proxy, and requests to where these variables led before."""

import attrs
import pytest

from refold.engine.errors import UsageError
from refold.engine.wire.parts.format import ANTHROPIC, Route
from refold.proxy.http.routes import (
    environment_of,
    moved_of,
    others_of,
    routes_of,
    why_nothing_came,
    with_recorded,
)
from tests.support.loops import for_each, table


def upstreams(*given: str, **environment: str) -> dict[str, str]:
    """Return where each route leads."""
    return {route.name: route.upstream for route in routes_of(given, environment)}


def test_by_default_routes_lead_to_the_providers() -> None:
    assert upstreams() == {
        "openai": "https://api.openai.com/v1",
        "anthropic": "https://api.anthropic.com",
        "google": "https://generativelanguage.googleapis.com",
        "vertex": "https://aiplatform.googleapis.com/v1",
        "bedrock": "",
        "aiplatform.googleapis.com": "https://aiplatform.googleapis.com",
    }


def test_routes_lead_to_where_the_variables_did() -> None:
    """A local server, say, or the proxy of another `refold record`."""
    found = upstreams(OPENAI_API_BASE="http://localhost:8000/v1/")

    assert found["openai"] == "http://localhost:8000/v1"


def test_one_url_is_for_all_and_a_name_for_one() -> None:
    assert upstreams("http://one/v1", "anthropic=http://two") == {
        "openai": "http://one/v1",
        "anthropic": "http://two",
        "google": "http://one",
        "aiplatform.googleapis.com": "http://one",
        "vertex": "http://one/v1",
        "bedrock": "http://one/v1",
    }


def test_a_known_variable_is_no_second_route() -> None:
    """Its clients are led to one place."""
    found = upstreams("GOOGLE_VERTEX_BASE_URL=http://a", "OPENAI_API_BASE=http://b/v1")

    assert (found["aiplatform.googleapis.com"], found["openai"]) == ("http://a", "http://b/v1")
    assert found.keys() == upstreams().keys()


def test_bedrock_is_where_the_region_is() -> None:
    """As its client finds it; the variable goes before."""
    server = "https://bedrock-runtime.eu-west-1.amazonaws.com"

    assert upstreams(AWS_DEFAULT_REGION="eu-west-1")["bedrock"] == server
    assert upstreams(AWS_REGION="eu-west-1", AWS_DEFAULT_REGION="b")["bedrock"] == server
    assert upstreams(AWS_REGION="a.example/")["bedrock"] == ""
    found = upstreams(AWS_REGION="a", ANTHROPIC_BEDROCK_BASE_URL="http://localhost:1")
    assert found["bedrock"] == "http://localhost:1"


@for_each(
    "location, server",
    [
        ("global", "aiplatform.googleapis.com"),
        ("eu", "aiplatform.eu.rep.googleapis.com"),
        ("europe-west4", "europe-west4-aiplatform.googleapis.com"),
    ],
)
def test_vertex_is_where_the_path_says(location: str, server: str) -> None:
    """Of a request that names its location; another upstream stays as it was given."""
    path = f"/projects/p/locations/{location}/publishers/google/models/m:generateContent"
    routes = {route.name: route for route in routes_of([], {})}
    google, anthropic = routes["aiplatform.googleapis.com"], routes["vertex"]

    assert google.url_of(f"/v1beta1{path}") == f"https://{server}/v1beta1{path}"
    assert anthropic.url_of(path) == f"https://{server}/v1{path}"
    assert google.url_of("/v1/publishers/google/models/m:generateContent").startswith(
        "https://aiplatform.googleapis.com/v1/publishers"
    )
    elsewhere = attrs.evolve(google, upstream="https://aiplatform.googleapis.com.example")
    assert elsewhere.url_of(path) == f"https://aiplatform.googleapis.com.example{path}"


def test_a_variable_makes_a_route_of_its_own() -> None:
    routes = routes_of(["GROQ_BASE_URL=https://api.groq.com/openai/v1"], {})

    assert routes[-1] == Route(
        "groq_base_url", ("GROQ_BASE_URL",), "https://api.groq.com/openai/v1"
    )
    assert environment_of(routes, "http://p")["GROQ_BASE_URL"] == "http://p/groq_base_url"


@for_each("given", ["nonsense", "ftp://x", "openai=", "http://x:99999", "a b=http://x"])
def test_what_is_no_base_url_is_refused(given: str) -> None:
    with pytest.raises(UsageError, match="--upstream"):
        routes_of([given], {})


@for_each(
    "given, right",
    [
        ("https://h/v1/chat/completions/", "https://h/v1"),
        ("openai=https://me:password@h:8/v1/responses?key=password", "https://h:8/v1"),
        ("https://h/v1/messages", "https://h"),
        ("ANTHROPIC_BASE_URL=https://h/a/v1/messages", "https://h/a"),
        ("google=https://h/v1beta/models/m:generateContent", "https://h"),
        (
            "vertex=https://h/v1/projects/p/locations/l/publishers/anthropic/models/m:rawPredict",
            "https://h/v1",
        ),
        ("bedrock=https://h/model/m/invoke", "https://h"),
        ("GROQ_BASE_URL=https://h/openai/v1/chat/completions", "https://h/openai/v1"),
    ],
)
def test_the_url_of_a_request_is_refused_with_its_base_url(given: str, right: str) -> None:
    with pytest.raises(UsageError, match="expected a base URL") as refused:
        routes_of([given], {})

    assert str(refused.value).endswith(f" clients add the rest: {right}")
    assert "password" not in str(refused.value)
    name = given.rpartition("=http")[0]
    routes_of([f"{name}={right}" if name else right], {})


def test_a_variable_with_the_url_of_a_request_is_refused_too() -> None:
    with pytest.raises(UsageError, match=r"OPENAI_BASE_URL: expected a base URL.*: https://h/v1$"):
        routes_of([], {"OPENAI_BASE_URL": "https://h/v1/chat/completions"})
    with pytest.raises(UsageError, match=r"ANTHROPIC_BASE_URL: .*: https://h$"):
        routes_of([], {"ANTHROPIC_BASE_URL": "https://h/v1/messages"})


def test_an_address_of_one_route_holds_beside_one_for_all() -> None:
    """In whichever order they are given."""
    given = ("openai=http://a", "http://b")

    assert upstreams(*given) == upstreams(*reversed(given))
    assert upstreams(*given)["openai"] == "http://a"
    assert upstreams(*given)["anthropic"] == "http://b"


def test_a_variable_for_a_whole_url_is_led_there() -> None:
    """Its client adds nothing."""
    url = "https://h/v1/chat/completions"

    assert upstreams(f"CHAT_ENDPOINT={url}")["chat_endpoint"] == url


@for_each(
    "given, said",
    [
        (("X_BASE_URL=http://a", "X_BASE_URL=http://b"), "X_BASE_URL"),
        (("openai=http://a", "anthropic=http://b", "OPENAI_API_BASE=http://b"), "openai"),
        (("http://a", "http://b?x=1"), "all"),
    ],
)
def test_two_addresses_for_one_route_are_refused(given: tuple[str, ...], said: str) -> None:
    """The first had no effect; a profile's is replaced."""
    with pytest.raises(UsageError, match=f"--upstream: two URLs for {said}: pass only the one"):
        routes_of(given, {})

    found = {each.name: each.upstream for each in routes_of(given[-1:], {}, usual=given[:1])}
    assert "http://a" not in found.values()


def test_a_variable_of_a_profile_leads_on_to_where_it_led() -> None:
    """Only if it is set: without it, its program does something else."""
    usual = ("X_BASE_URL",)
    (found,) = {*routes_of([], {"X_BASE_URL": "http://a/v1"}, usual=usual)} - {*routes_of([], {})}

    assert found == Route("x_base_url", usual, "http://a/v1")
    assert routes_of([], {}, usual=usual) == routes_of([], {})


def test_a_variable_with_a_bad_url_is_named_and_not_repeated() -> None:
    """It may hold a password."""
    with pytest.raises(UsageError, match="OPENAI_BASE_URL") as refused:
        routes_of([], {"OPENAI_BASE_URL": "me:password@host"})

    assert "password" not in str(refused.value)


def test_the_proxy_is_asked_without_another_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was in NO_PROXY stays there."""
    monkeypatch.setenv("NO_PROXY", "example.org")
    monkeypatch.delenv("no_proxy", raising=False)
    found = environment_of(routes_of([], {}), "http://127.0.0.1:1")

    assert found["NO_PROXY"] == "example.org,127.0.0.1,localhost"
    assert found["no_proxy"] == "127.0.0.1,localhost"


@for_each("upstream, target, url", table("""
    https://h/v1      /chat/completions?a=1  https://h/v1/chat/completions?a=1
    https://h/v1?t=9  /models                https://h/v1/models?t=9
    https://h/v1?t=9  /models?a=1            https://h/v1/models?t=9&a=1
    https://h         /a%2Fb//c              https://h/a%2Fb//c
    https://h/v1      -                      https://h/v1
"""))  # fmt: skip
def test_the_url_of_a_request(upstream: str, target: str, url: str) -> None:
    assert Route("openai", (), upstream).url_of(target) == url


@for_each(
    "location, seen",
    [
        ("https://h/v1/there?a=1", "/openai/there?a=1"),
        ("/v1/there", "/openai/there"),
        ("there", "/openai/chat/there"),
        ("/elsewhere", "https://h/elsewhere"),
        ("https://other/v1/there", "https://other/v1/there"),
    ],
)
def test_where_a_redirection_leads(location: str, seen: str) -> None:
    """Through the proxy, if it stays below the base URL; else away from it."""
    route = Route("openai", (), "https://h/v1")

    assert route.redirected("https://h/v1/chat/completions", location) == seen


def test_variables_of_a_record_lead_here_again() -> None:
    """Nowhere behind it, unless something may go on live; then it has to be known where."""
    again = with_recorded(routes_of([], {}), ["GROQ_BASE_URL", "no name"], is_live=False)
    given = routes_of(["GROQ_BASE_URL=https://a"], {})
    set_here = {"GROQ_BASE_URL": "https://b"}
    live = with_recorded(routes_of([], {}), ["GROQ_BASE_URL"], is_live=True, environment=set_here)

    assert others_of(again) == ["GROQ_BASE_URL"]
    assert environment_of(again, "http://p")["GROQ_BASE_URL"] == "http://p/groq_base_url"
    assert with_recorded(given, ["GROQ_BASE_URL"], is_live=True, environment={}) == given
    assert live[-1].upstream == "https://b"
    with pytest.raises(UsageError, match="address with --upstream GROQ_BASE_URL=URL"):
        with_recorded(routes_of([], {}), ["GROQ_BASE_URL"], is_live=True, environment={})


def test_a_moved_route_leads_nowhere_until_its_server_is_said() -> None:
    """An option or a variable says it; other routes lead to their providers."""
    own = {"OPENAI_BASE_URL": "http://h"}
    usual = {route.name: route.upstream for route in routes_of([], {})}

    assert moved_of(routes_of(["anthropic=http://h"], own)) == ["openai", "anthropic"]
    assert moved_of(routes_of([], {"AWS_REGION": "eu"})) == []
    left = {route.name: route.upstream for route in routes_of([], {}, moved=["openai"])}
    assert left == usual | {"openai": ""}
    for given, environment in ((["openai=http://h"], {}), (["http://h"], {}), ([], own)):
        routes = routes_of(given, environment, moved=["openai", "unknown"])
        assert routes[0].upstream == "http://h"
    said = routes_of([f"openai={usual['openai']}"], {}, moved=["openai"])
    assert said[0].upstream == usual["openai"]


def test_variables_that_lead_past_the_proxy_are_found() -> None:
    """Those that look like base URLs; what they lead to is for people to say."""
    environment = {
        "OPENAI_BASE_URL": "http://one/v1",
        "AZURE_OPENAI_ENDPOINT": "https://name.openai.azure.com",
        "GROQ_BASE_URL": "https://api.groq.com",
        "OLLAMA_HOST": "127.0.0.1:11434",
        "HTTP_PROXY": "http://two",
    }

    past = [line.partition(" ")[0] for line in why_nothing_came([], [], environment)]
    assert past == ["AZURE_OPENAI_ENDPOINT", "GROQ_BASE_URL"]
    (only,) = why_nothing_came(["GROQ_BASE_URL=http://three"], [], environment)
    assert only.startswith("AZURE_OPENAI_ENDPOINT is set, and its requests bypassed Refold")


@for_each(
    "upstream, target, url",
    [
        ("https://a", "/messages", "https://a/v1/messages"),
        ("https://a", "/messages/count_tokens?x=1", "https://a/v1/messages/count_tokens?x=1"),
        ("https://a/v1", "/messages", "https://a/v1/messages"),
        ("https://a", "/v1/messages", "https://a/v1/messages"),
        ("https://a", "/api/hello", "https://a/api/hello"),
    ],
)
def test_messages_without_a_version_get_the_upstreams(upstream: str, target: str, url: str) -> None:
    """Clients whose own base URL ends in /v1 ask so; of another route they are no messages."""
    assert attrs.evolve(ANTHROPIC, upstream=upstream).url_of(target) == url
    assert Route("openai", (), "https://o").url_of("/messages") == "https://o/messages"
