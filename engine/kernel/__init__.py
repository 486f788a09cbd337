"""The deterministic kernel: one program, one completion at a time.

What a program asks for flows in; requests flow out to a world (`world`), and the world's
completions flow back.  It cannot tell a world that records from one that replays.  Imports
`loop`, `state`, `log`, `ports` and what stands below.  Rules: CONTRACT.md §8, §9.

    kernel       the kernel
    world        the port between a program and its log
    decide       what becomes of a request: the judge in front of the log
    verdict      how a run ended, by what the program returned or raised
    pending      what a program waits for
    unawaited    calls that it makes and never awaits
    neglected    children that it never joins, or whose failure it never reads
"""
