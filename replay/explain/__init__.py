"""A difference between a run and its record: its name, its likely cause, how it reads.

The first line that differs flows in; a divergence flows out, for people and for machines.  Imports
`index`, `difference` and `refold.engine`.  Rules: CONTRACT.md §12.4, §12.5.

    divergence      the first difference, and all that is said of it
    naming          which category it has, and which follow from it
    run_on          lets the program run on, so that the difference can be named
    scopes          aligns what was recorded with what is asked now, task by task
    causes          what is likely behind it
    fingerprints    what else is not as it was: program, tools, model, versions
    junit           results as JUnit XML

To change how a divergence reads: `divergence`.  To add a category: `naming` and CONTRACT.md §12.4.
"""
