"""Commits of two runs: each is found when it is new, and paired with the one that is equal."""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.engine.observed.binding import Bindings
from refold.engine.workspace.entries import MADE, MadeObject
from refold.engine.workspace.made import NewObjects
from tests.support.folders import git, repository
from tests.support.watched import ask, user

PLACES = ("", "sub", "within", "tree")
"""A repository, its submodule, one that a command makes in it, and a worktree."""
DOES = {
    "commit": ["commit -qm {word}"],
    "named": ["commit -qm {word}:{last}"],
    "empty": ["commit -q --allow-empty -m {word}"],
    "amend": ["commit -q --amend -m {word}"],
    "back": ["reset -q --hard HEAD~1"],
    "branch": ["checkout -q -B {word} HEAD~1"],
    "merge": ["merge -q --no-edit {word}"],
    "rebase": ["rebase -q {word}"],
    "pick": ["cherry-pick --allow-empty {word}"],
    "revert": ["revert --no-edit HEAD"],
    "tag": ["tag -a {word} -m {word}", "tag -d {word}"],
    "stash": ["stash -q", "stash drop -q"],
    "plumbing": ["commit-tree HEAD^{{tree}} -p HEAD -m {word}"],
    "import": ["fast-import --quiet --force"],
    "pack": ["gc -q"],
    "init": ["init -q within"],
    "worktree": ["worktree add -q --detach tree"],
    "look": [],
}
"""What a step asks of git."""
CHANGING = ("commit", "named", "amend", "stash")
IMPORTED = "commit refs/heads/x\ncommitter me <me@x> %d +0100\ndata 1\nx\n"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with which each history begins: old commits are packed, others loose."""
    top = tmp_path_factory.mktemp("template")
    repository(top / "library", {"a": "a\n"})
    repository(top / "top", {"a": "a\n", "b": "b\n"})
    git(top / "top", "gc", "-q")
    git(top / "top", "submodule", "--quiet", "add", str(top / "library"), "sub")
    git(top / "top", "commit", "-qm", "sub")
    git(top / "top", "tag", "v1")
    return top / "top"


class History:
    """Repositories in which a command works, its clock, and the looks at them."""

    def __init__(self, template: Path, top: Path, seconds: int) -> None:
        self.top = Path(shutil.copytree(template, top, symlinks=True))
        self.seconds = seconds
        self._contents: dict[tuple[str, tuple[str, ...]], str] = {}
        self.objects = NewObjects(top)
        self.old = {*self.ids()}
        self.objects.find_new(PLACES)

    def git(self, place: str, *words: str, given: str = "") -> str:
        """Run git, one second later than before; what it refuses changes nothing."""
        self.seconds += 1
        env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        env |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        env |= dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), f"{self.seconds} +0100")
        told = ("user.name=me", "user.email=me@example.org", "gc.auto=0", "core.editor=true")
        command = ["git", *(part for one in told for part in ("-c", one)), *words]
        at = self.top / place
        if not (at / ".git").exists():
            return ""
        done = subprocess.run(
            command, cwd=at, env=env, input=given, check=False, capture_output=True, text=True
        )
        return done.stdout.strip()

    def ids(self) -> list[str]:
        """Return the commits and tags that any store holds."""
        wanted = "cat-file", "--batch-all-objects", "--batch-check"
        every = "\n".join(self.git(place, *wanted) for place in PLACES[:3]).splitlines()
        return list(
            dict.fromkeys(one.split()[0] for one in every if re.search(" (commit|tag) ", one))
        )

    def find_new(self, as_recorded: Callable[[str], str] | None = None) -> tuple[MadeObject, ...]:
        return self.objects.find_new(PLACES, as_recorded)

    def do(self, step: Sequence[str]) -> None:
        """Carry out one step: its kind, the place, and a word."""
        kind, place, word = step
        last = (self.made() or ["none"])[-1] if kind == "named" else ""
        if kind in CHANGING and (self.top / place).is_dir():
            text = f"{word} {last[:9] if kind == 'named' else ''}\n"
            (self.top / place / f"f{len(word)}").write_text(text)
            self.git(place, "add", "-A")
        for command in DOES[kind]:
            words = (each.format(word=word, last=last) for each in command.split(" "))
            self.git(
                place if kind not in ("init", "worktree") else "",
                *words,
                given=IMPORTED % self.seconds,
            )

    def made(self) -> list[str]:
        """Return the new ones, in the order in which they were made."""
        return sorted((one for one in self.ids() if one not in self.old), key=self._when)

    def _when(self, named: str) -> int:
        return int(re.findall(r"(?m)^(?:committer|tagger) .*> (\d+)", self.content(named))[0])

    def content(self, named: str, *words: str) -> str:
        """Return what git says of an object."""
        if (named, words) not in self._contents:
            asked = (self.git(each, *(words or ("cat-file", "-p")), named) for each in PLACES[:3])
            self._contents[named, words] = next(filter(None, asked), "")
        return self._contents[named, words]

    def named(self, named: str, made: Sequence[str], known: dict[str, str]) -> str:
        """Return what a commit or tag is but for times and people, and which of those it is.

        All that it names is named so as well.
        """
        if named not in known and named in made:
            said = re.sub(r"(?m)^(tree|author|committer|tagger) .*\n", "", self.content(named))
            files = self.content(named, "ls-tree", "-r")
            texts = [self.content(blob) for blob in re.findall(r" blob (\w+)", files)]
            told = "\0".join([said, re.sub(r" blob \w+", "", files), *texts])
            for other in made:
                if other[:7] in told and other != named:
                    plain = self.named(other, made, known)
                    told = re.sub(rf"\b{other[:7]}[0-9a-f]{{0,33}}\b", plain, told)
            digest = hashlib.sha256(told.encode()).hexdigest()
            known[named] = f"{digest} {sum(each.startswith(digest) for each in known.values())}"
        return known.get(named, named)

    def names(self) -> dict[str, str]:
        """Return the new ones by what they are."""
        made, known = self.made(), dict[str, str]()
        return {self.named(each, made, known): each for each in made}


STEP = st.tuples(
    st.sampled_from([*DOES]), st.sampled_from(PLACES), st.sampled_from(["x", "yy", "v1"])
)
EDITS = st.tuples(st.sampled_from(["none", "drop", "other", "twice"]), st.integers(0, 9), STEP)


def edited(steps: list[Sequence[str]], edit: tuple[str, int, Sequence[str]]) -> list[Sequence[str]]:
    kind, at, other = edit
    at %= len(steps)
    now = {"none": [steps[at]], "drop": [], "other": [other], "twice": [steps[at]] * 2}[kind]
    return [*steps[:at], *now, *steps[at + 1 :]]


def check(template: Path, steps: list[Sequence[str]], edit: tuple[str, int, Sequence[str]]) -> None:
    with TemporaryDirectory() as folder:
        was = History(template, Path(folder, "was"), 1_700_000_000)
        now = History(template, Path(folder, "now"), 1_700_001_000)
        recorded: list[MadeObject] = []
        for step in steps:
            was.do(step)
            recorded += was.find_new() if step[0] == "look" else ()
        recorded += was.find_new()
        bindings = Bindings(made=[MADE.read(MADE.write(one)) for one in recorded])
        for step in edited(steps, edit):
            now.do(step)
            if step[0] == "look":
                bindings.see(now.find_new(bindings.as_recorded_file))
        bindings.see(now.find_new(bindings.as_recorded_file))
        olds, news = was.names(), now.names()
        right = {olds[name]: news[name] for name in olds.keys() & news.keys()}
        assert {one.id for one in recorded} == {*olds.values()}
        for one in {*olds.values(), *was.old}:
            for other in {*news.values(), *now.old}:
                for length in (7, 12, 40):
                    texts = (ask(user(f"at {each[:length]}.")) for each in (one, other))
                    is_bound = bindings.joined(*texts) is not None
                    assert is_bound == (one[:length] == other[:length] or right.get(one) == other)


@settings(max_examples=2)
@given(st.lists(STEP, min_size=3, max_size=9), EDITS)
def test_no_wrong_commit_is_bound_and_every_right_one_is(
    template: Path, steps: list[Sequence[str]], edit: tuple[str, int, Sequence[str]]
) -> None:
    """Whatever git did, and whatever it does otherwise now."""
    check(template, steps, edit)


def test_what_is_not_of_git_in_a_store_is_passed_over(tmp_path: Path) -> None:
    """A command may make pipes, links and folders, and git removes packs at any time."""
    top = repository(tmp_path / "r", {"a": "a\n"})
    objects = NewObjects(top)
    objects.find_new([""])
    packs = top / ".git" / "objects" / "pack"
    os.mkfifo(packs / "pipe.idx")
    (packs / "folder.idx").mkdir()
    (packs / "link.idx").symlink_to("/dev/zero")
    (packs / "gone.idx").symlink_to("nowhere")
    (packs / "short.idx").write_bytes(b"\377tOc")
    git(top, "commit", "-q", "--allow-empty", "-m", "x")
    loose = packs.parent / "ab"
    loose.mkdir(exist_ok=True)
    (loose / ("x blob y" + "z" * 30)).write_bytes(b"")
    (loose / ("0" * 38)).write_bytes(b"")

    assert [one.id for one in objects.find_new([""])] == [git(top, "rev-parse", "HEAD")]


def test_what_was_packed_before_is_not_new_when_git_packs_again(tmp_path: Path) -> None:
    """Also what only a reflog names; a new commit is, though no file of its own is left."""
    top = repository(tmp_path / "r", {"a": "a\n"})
    git(top, "commit", "-q", "--amend", "-m", "second")
    git(top, "gc", "-q")
    objects = NewObjects(top)
    objects.find_new([""])
    git(top, "commit", "-q", "--allow-empty", "-m", "x")
    git(top, "gc", "-q")

    assert [one.id for one in objects.find_new([""])] == [git(top, "rev-parse", "HEAD")]


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
@settings(max_examples=50)
@given(st.lists(STEP, min_size=3, max_size=14), EDITS)
def test_none_of_500_histories_binds_a_wrong_commit(
    template: Path, part: int, steps: list[Sequence[str]], edit: tuple[str, int, Sequence[str]]
) -> None:
    """The law, whole."""
    del part
    check(template, steps, edit)
