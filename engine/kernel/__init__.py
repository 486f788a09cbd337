"""The deterministic kernel: one program, one completion at a time.

Input: a program's calls, and a world's completions. Output: requests to the world (`world`). The
kernel cannot tell a recording world from a replaying one. Imports `loop`, `state`, `log`, `ports`
and the folders below them.  Rules: CONTRACT.md §8, §9.

    kernel       the kernel
    world        the port between a program and its log
    decide       checks requests against limits before they are logged
    verdict      how a run ended, from the program's result or exception
    pending      open effects of a program
    unawaited    calls that are never awaited; children that are never joined, or whose failure is
                 never read
"""
