"""A recorded program run again with some outcomes from the record, and the rest live or stubs.

A record and its sources flow in; a new recording flows out, and what drifted.  Imports `reexecute`,
`explain`, `index`, `difference` and `refold.engine`.  Rules: CONTRACT.md §12.10.

    given_values    a value from a person as an outcome
    sources         where outcomes come from: the record, the world, or stubs
    rerun           runs the program again under the same identity, input and limits
    drift           what answers otherwise now than when it was recorded, call by call
    drift_report    what drifted, for people and machines
"""
