"""A difference between a run and its record: its category, likely cause and text.

Input: the first line that differs. Output: a divergence, for people and for machines.  Imports
`index`, `difference` and `refold.engine`.  Rules: CONTRACT.md §12.4, §12.5.

    divergence      the first difference, with its description
    naming          its category, and the differences that follow from it
    run_on          continues the program, so that the difference can be named
    scopes          aligns recorded and current requests, task by task
    causes          its likely cause
    fingerprints    other changes: program, tools, model, versions
    junit           results as JUnit XML

To change the text of a divergence: `divergence`.  To name a difference in another way: a function
of `naming.RULES`, with its case in the tests.
"""
