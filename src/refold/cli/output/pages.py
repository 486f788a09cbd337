"""Help pages: blocks that are shown as they are written, below a command's options."""

from typing import Final

_AS_WRITTEN: Final = "\b\n"
"""What click reads as: do not fill this paragraph."""


def page(text: str) -> str:
    """Return the end of a help page; its paragraphs keep their lines."""
    return "\n\n".join(f"{_AS_WRITTEN}{block}" for block in text.strip().split("\n\n"))
