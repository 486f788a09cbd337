"""Qwen Code (tried: 0.15.10)."""

from typing import Final

from refold.engine.observed.profile import Profile

PROFILE: Final = Profile(
    name="Qwen Code",
    commands=("qwen", "@qwen-code/qwen-code"),
    works_on_folder=True,
    asks_as=("QwenCode/",),
    left_out=(r"This is the Qwen Code\. We are setting up the context for our chat\.[\s\S]*",),
    outputs={"stream-json": "lines", "format json": "lines", "-o json": "lines"},
    places=(
        r"result:run_shell_command measure Process Group PGID: (\d+)",
        # Of commands in the background, and results that were too long to be shown.
        r"result:run_shell_command id Background shell started\.\nid: (bg_[0-9a-f]{8})",
        r"result:run_shell_command measure \npid: (\d+)\noutput file: ",
        r"result:run_shell_command id /shell-(bg_[0-9a-f]{8})\.output",
        r"result:run_shell_command id /\.qwen/tmp/([0-9a-f]{64})/",
    ),
)
