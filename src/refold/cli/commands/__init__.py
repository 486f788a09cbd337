"""The commands of `refold`, one file each, of one shape: a click command named `command`.

Arguments flow in, which click has checked; one document, or lines, and an exit code flow out.
Files named COMMAND_… are parts of a command, such as `replay_many` for more than one log; they are
imported if they are asked for.  `foreign_runs` is what commands do with `-- COMMAND`.  Imports
`arguments`, `schema`, `output` and everything that `refold` has.  Rules: CONTRACT.md §14.

To add one: its file here, a line in `cli.group.GROUPS`, the schema of its document in
`cli.schema.documents`, its name in CONTRACT.md §14.1; `tests/cli/` fails until all of them exist.
"""
