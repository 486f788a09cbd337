"""A patch makes one document of another, and holds no more than what changed."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from refold.page.patches import patch

_VALUES: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(0, 2)
    | st.sampled_from(["", "a", "=", "~", "__proto__"]),
    lambda inside: (
        st.lists(inside, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b", "=", "~", "n", "-", "0"]), inside, max_size=4)
    ),
    max_leaves=12,
)


def patched(value: Any, change: Any) -> Any:
    """Return the value after a patch, as `apply` of `model.js` does."""
    if "=" in change:
        return change["="]
    if isinstance(value, list):
        made = {str(at): each for at, each in enumerate(value[: change["n"]])}
        made |= {at: patched(made.get(at), each) for at, each in change["~"].items()}
        return [made[str(at)] for at in range(change["n"])]
    found = {name: each for name, each in value.items() if name not in change["-"]}
    return found | {name: patched(value.get(name), each) for name, each in change["~"].items()}


@given(_VALUES, _VALUES)
def test_a_patch_makes_one_value_of_another(before: Any, after: Any) -> None:
    change = patch(before, after)

    made = before if change is None else patched(before, change)
    assert (made, str(made)) == (after, str(after)) or sorted(str(made)) == sorted(str(after))
    assert (change is None) == (patch(after, before) is None)


def test_only_what_changed_is_in_a_patch() -> None:
    steps = [{"n": n} for n in range(1000)]
    before = {"agents": [{"steps": steps}, {"steps": []}]}
    after = {"agents": [{"steps": [*steps, {"n": 1000}]}, {"steps": []}]}

    assert patch(before, after) == {
        "~": {
            "agents": {
                "~": {
                    "0": {"~": {"steps": {"~": {"1000": {"=": {"n": 1000}}}, "n": 1001}}, "-": []}
                },
                "n": 2,
            }
        },
        "-": [],
    }
