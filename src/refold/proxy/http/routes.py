"""Finds a command's routes: the base-URL variables it is given, and the server behind each.

A shell file: it reads the environment.  Clients of one provider read different variables; all of
them lead to one route of the proxy.  Rules: CONTRACT.md §16.1.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

import attrs

from refold.engine.errors import UsageError
from refold.engine.wire.apis import known_routes, spoken
from refold.engine.wire.parts.format import Route

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BASE_URL: Final = re.compile(r"[A-Z0-9_]*(BASE_URL|BASE|ENDPOINT|HOST|API_URL)")
"""The usual names of clients' variables for a model's address."""
_BASE: Final = re.compile(r"([A-Z][A-Z0-9_]*?)_(?:BASE_URL|API_BASE|API_URL|ENDPOINT|URL)")
_FROM_RECORDS: Final = re.compile(
    r"(?:[A-Z][A-Z0-9_]*_)?(?:BASE_URL|API_BASE|API_URL|API_HOST|ENDPOINT)|OLLAMA_HOST"
)
"""The variables that a replay sets because a record names them: no program runs their values."""


def routes_of(
    upstreams: Iterable[str] = (),
    environment: Mapping[str, str] = os.environ,
    *,
    usual: Iterable[str] = (),
    moved: Iterable[str] = (),
) -> tuple[Route, ...]:
    """Return all routes: the known ones, and those that `upstreams` add.

    Each of `upstreams` is `URL` (for all known ones), `openai=URL`, `anthropic=URL`, or
    `VARIABLE=URL`, also for a client of another provider.  Without one, a known route leads to
    where its variables did in `environment` (default: this process's), else to the provider: of
    Bedrock, to the region that it names. `usual` are a profile's, which `upstreams` replace; one
    that is only a VARIABLE leads to where it did in `environment`, if it is set.
    `moved` are known ones that lead nowhere by default.

    Raises:
        UsageError: one has another form, or two are for the same routes.
    """
    known = {route.name: _as_was(route, environment) for route in known_routes()}
    given = set(moved_of(known.values()))
    own = [*upstreams]
    for name, count in Counter(_named(each)[0] for each in own).items():
        if count > 1:
            raise UsageError(f"--upstream: two URLs for {name or 'all'}: pass only the one to use")
    own.sort(key=lambda each: bool(_named(each)[0]))  # one for a route holds beside one for all
    for upstream in (*_set_here(usual, environment), *own):
        name, url = _named(upstream)
        if not name:
            for route in known_routes():
                base = _base(url).removesuffix(route.version)  # clients add it
                known[route.name] = attrs.evolve(route, upstream=base)
            given |= known.keys()
        elif name in known:
            known[name] = attrs.evolve(known[name], upstream=_base(url, known[name].version))
            given.add(name)
        elif _VARIABLE.fullmatch(name) and name.upper() == name:
            check = _base if name.endswith(("BASE_URL", "API_BASE")) else _checked  # or a whole URL
            known[name.lower()] = Route(name.lower(), (name,), check(url))
        else:
            raise UsageError(
                f"--upstream {upstream}: expected URL, openai=URL, anthropic=URL or "
                "VARIABLE=URL; the client reads its base URL from VARIABLE"
            )
    for name in known.keys() & set(moved) - given:
        known[name] = attrs.evolve(known[name], upstream="")
    return tuple(known.values())


def moved_of(routes: Iterable[Route]) -> list[str]:
    """Return the names of known routes that lead to a server other than the provider's."""
    usual = {route.name: route.upstream for route in known_routes() if not route.regions}
    return [one.name for one in routes if usual.get(one.name, one.upstream) != one.upstream]


_ELSEWHERE: Final = {
    "AZURE_OPENAI_API_KEY": "AZURE_OPENAI_ENDPOINT",
    "CO_API_KEY": "CO_API_URL",
    "DEEPSEEK_API_KEY": "DEEPSEEK_BASE_URL",
    "GROQ_API_KEY": "GROQ_BASE_URL",
    "MISTRAL_API_KEY": "MISTRAL_BASE_URL",
    "OPENROUTER_API_KEY": "OPENROUTER_BASE_URL",
    "TOGETHER_API_KEY": "TOGETHER_BASE_URL",
    "XAI_API_KEY": "XAI_BASE_URL",
}
"""By the variable of a provider's key: that from which its clients read the base URL."""


def why_nothing_came(
    upstreams: Iterable[str] = (),
    unserved: Iterable[str] = (),
    environment: Mapping[str, str] = os.environ,
    *,
    failure: str = "",
) -> list[str]:
    """Return the likely reason why no request came, and the option that helps.

    `unserved` are the notes of `served`. `failure` describes the command's failure; empty if it did
    not fail.
    """
    told = [*unserved]
    led = {variable for route in routes_of(upstreams, environment) for variable in route.variables}
    past = [
        name
        for name, value in sorted(environment.items())
        if name not in led
        and _BASE_URL.fullmatch(name)
        and value.startswith(("http://", "https://"))
    ]
    told += [
        f"{name} is set, and its requests bypassed Refold: to record them, pass "
        f"--upstream {name}=${name}"
        for name in past
    ]
    told += [
        f"{key} is set: any requests to that provider bypassed the proxy; to "
        f"record a client that reads {name}, pass --upstream {name}=URL"
        for key, name in _ELSEWHERE.items()
        if environment.get(key) and name not in led and name not in past
    ]
    return [failure, *told] if failure else told or [NONE_CAME]


NONE_CAME: Final = (
    "nothing connected: does the command read OPENAI_BASE_URL or "
    "ANTHROPIC_BASE_URL, without setting its own base URL? For a different "
    "variable, pass --upstream VARIABLE=URL"
)


def others_of(routes: Iterable[Route]) -> list[str]:
    """Return the variables that lead here and are not among the known ones."""
    known = {variable for route in known_routes() for variable in route.variables}
    return [name for route in routes for name in route.variables if name not in known]


def key_of(variable: str) -> str:
    """Return the variable of the key that goes with a base URL's; empty where none is known."""
    known = next((key for key, name in _ELSEWHERE.items() if name == variable), "")
    found = _BASE.fullmatch(variable)
    return known or (f"{found[1]}_API_KEY" if found else "")


def keys_of(routes: Iterable[Route]) -> list[str]:
    """Return the variables from which clients of these routes take the keys that they send."""
    routes = tuple(routes)
    known = [name for route in routes for name in (route.key, *route.keys)]
    return [name for name in (*known, *map(key_of, others_of(routes))) if name]


def with_recorded(
    routes: Iterable[Route],
    variables: Iterable[str],
    *,
    is_live: bool,
    environment: Mapping[str, str] = os.environ,
) -> tuple[Route, ...]:
    """Return routes with one for each other variable that led a recorded command to the proxy.

    Else its clients would go past the record. If nothing may continue live they lead nowhere.

    Raises:
        UsageError: requests may continue live, and a variable's target is unknown; or a variable
            does not have a base URL's name, and only the record calls it one.
    """
    made = list(routes)
    for name in variables:
        is_led = any(name in route.variables for route in made)
        if is_led or not _VARIABLE.fullmatch(name):
            continue
        if not _FROM_RECORDS.fullmatch(name):
            raise UsageError(
                f"{name} pointed the recorded command to a model, but a recording cannot "
                f"set a variable with such a name: pass --upstream {name}=URL"
            )
        if is_live and not environment.get(name):
            raise UsageError(
                f"{name} pointed the recorded command to a model, but is not set: pass "
                f"the model's address with --upstream {name}=URL"
            )
        made.append(
            Route(name.lower(), (name,), _checked(environment[name], name) if is_live else "")
        )
    return tuple(made)


def base_urls(routes: Iterable[Route], base: str) -> dict[str, str]:
    """Return the base-URL variables that lead clients to the proxy at `base`."""
    return {variable: f"{base}/{route.name}" for route in routes for variable in route.variables}


def environment_of(routes: Iterable[Route], base: str) -> dict[str, str]:
    """Return the variables that lead a command's clients to the proxy at `base`."""
    found = base_urls(routes, base)
    for name in ("NO_PROXY", "no_proxy"):
        before = os.environ.get(name, "")
        found[name] = ",".join(filter(None, (before, "127.0.0.1", "localhost")))
    return found


def _set_here(upstreams: Iterable[str], environment: Mapping[str, str]) -> Iterator[str]:
    """Yield upstreams, a VARIABLE alone with its value, if it has one."""
    for each in upstreams:
        if not re.fullmatch(_VARIABLE, each):
            yield each
        elif environment.get(each):
            yield f"{each}={environment[each]}"


def _named(upstream: str) -> tuple[str, str]:
    """Return the route or the variable that an upstream is for, or "" for all, and its URL."""
    name, equals, url = upstream.partition("=")
    if not equals or not name or "://" in name:
        return "", upstream
    known = (each.name for each in known_routes() if name in (each.name, *each.variables))
    return next(known, name), url


def _as_was(route: Route, environment: Mapping[str, str]) -> Route:
    variable = next((name for name in route.variables if environment.get(name)), None)
    if variable is None and route.regions:
        region = next(filter(None, map(environment.get, route.regions)), "")
        is_one = re.fullmatch(r"[a-z0-9-]+", region) is not None
        return attrs.evolve(route, upstream=route.upstream.format(region) if is_one else "")
    if variable is None:
        return route
    return attrs.evolve(route, upstream=_base(environment[variable], route.version, variable))


def _base(url: str, version: str | None = None, where: str = "--upstream") -> str:
    """Return a base URL; refuse one with the path of a request, which its clients add."""
    base = _checked(url, where)
    parts = urlsplit(base)
    if (found := spoken("POST", parts.path)) is None:
        return base
    adds = found[0].route.version if version is None else version
    below = ("(/v1[a-z0-9]*)?" if adds else "") + "(/(projects|publishers|models)(/.*)?)?$"
    path = re.sub(below, "", parts.path[: found[2].start()])
    right = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{path}"  # without a password
    raise UsageError(f"{where}: expected a base URL, to which clients add the rest: {right}")


def _checked(url: str, where: str = "--upstream") -> str:
    try:
        parts = urlsplit(url)
        is_fine = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port  # raises where it is none
    except ValueError:
        is_fine = False
    if not is_fine:  # the value is not repeated: it may hold a password
        names = ", or NAME= before one" if where == "--upstream" else ""
        raise UsageError(f"{where}: not a base URL: expected http://… or https://…{names}")
    return parts._replace(path=parts.path.rstrip("/"), fragment="").geturl()
