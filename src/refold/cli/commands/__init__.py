"""The commands of `refold`, one file each, of one shape: a click command named `command`.

Arguments flow in, which click has checked; one document, or lines, and an exit code flow out.
`replay_many` is what `replay` does with more than one log, `foreign_runs` what `replay`
and `fork` do with a command.  Imports `arguments`, `schema`, `output` and everything that `refold`
has.  Rules: CONTRACT.md §14.

To add one: its file here, a line in `cli.group.GROUPS`, the schema of its document in
`cli.schema.documents`, its name in CONTRACT.md §14.1; `tests/cli/` fails until all of them exist.
"""
