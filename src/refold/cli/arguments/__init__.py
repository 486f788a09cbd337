"""Reads the arguments that commands share: logs, programs, tools, live sources.

Words of a command line flow in; opened logs, loaded programs and sources flow out. Imports
`output`, `refold.programs`, `refold.api` and the folders below them. Rules: CONTRACT.md §14.9.

    options       how a command declares its arguments and options
    logs          a LOG argument: plain or packed, and how its files are named to people
    run_names     a LOG argument: `@last`, the beginning of a name, a store's URL
    outputs       options that name a file to be written
    run_list      the runs of a folder, as they look from outside
    moving        what became of runs that were pushed or pulled
    hints         the commands that are printed
    loading       tools that are named on the command line
    running       what commands share that run agents
    live          what commands share that run something live
    rehearsals    what commands share that run a recorded program again
    foreign       what commands share that run a command of another program
"""
