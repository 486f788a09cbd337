"""One child counts the words of each text; the parent adds up the counts."""

from collections import Counter

import refold

INPUT = ["the sea and the moon", "the moon"]


@refold.tool(effect="pure")
def words(text: str) -> dict[str, int]:
    """Count the words of a text."""
    return dict(Counter(text.split()))


async def count(run: refold.Run, text: str) -> dict[str, int]:
    return await run.tool(words, text=text)


async def program(run: refold.Run, texts: list[str]) -> dict[str, int]:
    children = [
        await run.start(refold.Delegation(program=count, input=text, brief=text)) for text in texts
    ]
    total: Counter[str] = Counter()
    for outcome in await run.join(*children):
        total.update(outcome.result())
    return dict(sorted(total.items()))


if __name__ == "__main__":
    print(refold.record(program, INPUT).output)
