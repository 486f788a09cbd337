"""Reads what `git status --porcelain=v2 -z` prints.  Pure."""

from collections.abc import Iterable
from typing import Final, Self

import attrs

STATUS: Final = (
    "status", "--porcelain=v2", "-z", "--branch", "--show-stash", "--untracked-files=all",
    "--no-renames", "--ignore-submodules=all",
)  # fmt: skip
NOTHING: Final = "000000"
"""The mode of a missing file."""
_INITIAL: Final = "(initial)"
_DETACHED: Final = "(detached)"


@attrs.define
class GitStatus:
    """The git status of a repository."""

    commit: str = ""
    branch: str = ""
    stashes: str = "0"
    changed: dict[str, tuple[str, str]] = attrs.field(factory=dict)
    """Paths that are not as in the commit, with mode and blob there; empty where it has none."""
    staged: list[tuple[str, str, str, int]] = attrs.field(factory=list)
    """What differs in the index from the commit: path, mode, blob, stage; empty for removed."""
    inner: list[str] = attrs.field(factory=list)
    """Repositories inside that are not submodules."""
    ignored: list[str] = attrs.field(factory=list)
    """With `/` at the end of folders."""

    @classmethod
    def of(cls, parts: Iterable[str]) -> Self:
        """Parse the parts of the output."""
        found = cls()
        for part in parts:
            found._take(part)
        return found

    @property
    def beside_files(self) -> tuple[object, ...]:
        """Its data on commit, branch, stash and index."""
        return self.commit, self.branch, self.stashes, tuple(self.staged)

    @property
    def touches_attributes(self) -> bool:
        """Whether what git converts may not be as in the commit."""
        return any(path.rpartition("/")[2] == ".gitattributes" for path in self.changed)

    def _take(self, part: str) -> None:
        kind, _, rest = part.partition(" ")
        match kind:
            case "#":
                self._header(*rest.partition(" ")[::2])
            case "1":
                xy, _, mode, staged_mode, _, blob, staged, path = rest.split(" ", 7)
                self.changed[path] = ("", "") if mode == NOTHING else (mode, blob)
                if xy[0] != ".":
                    is_gone = staged_mode == NOTHING
                    now = ("", "") if is_gone else (staged_mode, staged)
                    self.staged.append((path, *now, 0))
            case "u":
                _, _, *modes, _, one, two, three, path = rest.split(" ", 9)
                stages = list(zip(modes, (one, two, three), (1, 2, 3), strict=True))
                held = [(path, mode, blob, at) for mode, blob, at in stages if mode != NOTHING]
                self.staged += held
                ours = [(mode, blob) for _, mode, blob, at in held if at == 2]  # noqa: PLR2004 - ours
                self.changed[path] = ours[0] if ours else ("", "")
            case "?" if rest.endswith("/"):
                self.inner.append(rest.rstrip("/"))
            case "?":
                self.changed.setdefault(rest, ("", ""))
            case "!":
                self.ignored.append(rest)

    def _header(self, name: str, value: str) -> None:
        match name:
            case "branch.oid" if value != _INITIAL:
                self.commit = value
            case "branch.head" if value != _DETACHED:
                self.branch = f"refs/heads/{value}"
            case "stash":
                self.stashes = value
