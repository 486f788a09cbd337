"""Pi, a coding agent (tried: 0.73.1), which reads no variable for a provider's address."""

from typing import Final

from refold.engine.observed.profile import Profile
from refold.proxy.profiles.of_node import first_running

_LED: Final = """
const given = process.env, fetched = globalThis.fetch, led = [
  ["https://api.openai.com/v1/", given.OPENAI_BASE_URL],
  ["https://api.anthropic.com/", given.ANTHROPIC_BASE_URL],
  ["https://generativelanguage.googleapis.com/", given.GOOGLE_GEMINI_BASE_URL],
];
const to = (url) => {
  const [from, base] = led.find(([from, base]) => base && url.startsWith(from)) ?? [];
  return base ? `${base}/${url.slice(from.length)}` : url;
};
globalThis.fetch = (what, how) =>
  fetched(what instanceof Request ? new Request(to(what.url), what) : to(String(what)), how);
"""
"""It names the address of each model itself. Its requests go where those of other clients do."""

PROFILE: Final = Profile(
    name="pi",
    commands=("pi", "@mariozechner/pi-coding-agent"),
    works_on_folder=True,
    asks_as=(r"You are an expert coding assistant operating inside pi,",),
    appended=first_running(_LED),
)
