"""Qwen Code (tried: 0.15.10)."""

from typing import Final

from refold.engine.observed.profile import Profile

PROFILE: Final = Profile(
    name="Qwen Code",
    commands=("qwen", "@qwen-code/qwen-code"),
    asks_as=("QwenCode/",),
    left_out=(r"This is the Qwen Code\. We are setting up the context for our chat\.[\s\S]*",),
    outputs={"stream-json": "lines", "format json": "lines", "-o json": "lines"},
    places=(r"result:run_shell_command measure Process Group PGID: (\d+)",),
)
