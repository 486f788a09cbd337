"""The commands of `refold`, of one shape: a module with a click command named `command`.

Arguments flow in, which click has checked; one document, or lines, and an exit code flow out.  A
folder is a group of the first page; files named COMMAND_… are parts of a command, imported if they
are asked for.  Imports `arguments`, `schema`, `output` and everything that `refold` has.  Rules:
CONTRACT.md §14.

    record/       write a log, or continue one
    inspect/      show what logs have
    check/        judge logs and programs
    what_if/      change a result, or an order
    more/         move, serve and remove runs
    foreign_runs  what commands do with `-- COMMAND`

To add one: its file in a folder, a line in `cli.group.GROUPS`, the schema of its document in
`cli.schema.documents`, its name in CONTRACT.md §14.1; `tests/cli/` fails until all of them exist.
"""
