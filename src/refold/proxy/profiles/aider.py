"""Aider."""

from typing import Final

from refold.engine.observed.profile import Profile

_CHAT: Final = "file:.aider.chat.history.md"
"""What it keeps of a chat, in the folder."""

PROFILE: Final = Profile(
    name="aider",
    commands=("aider", "aider-chat"),
    works_on_folder=True,
    asks_as=("Act as an expert software developer\\.",),
    variables={"PYTHONHASHSEED": "0"},  # it names files in the order of a set
    left_out=(r"\n# \*SEARCH/REPLACE block\* Rules:[\s\S]*",),
    asides=(r"You are an expert software engineer that generates concise, ",),
    asks_last=True,
    places=(
        rf"{_CHAT} date # aider chat started at (\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d)",
        r"file:.aider.input.history date # (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+)",
        # It looks up prices, says if it cannot, and then counts with those that it has.
        r"printed text \n(HTTPSConnectionPool\(host='raw\.github[\s\S]{0,3000}?|)Aider v\d",
        rf"printed,{_CHAT} measure \$(\d+\.\d+) (?:message|session)",
    ),
)
