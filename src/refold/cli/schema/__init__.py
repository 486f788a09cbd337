"""JSON schemas of what Refold prints and writes; `refold schema NAME` shows them.

Classes flow in; schemas flow out.  Imports `refold.engine` and `refold.replay`.
Rules: CONTRACT.md §14.3.

    documents     the documents of `--json`
    derived       a document's schema, made from its class
    events        the lines of a log, made from the event classes

To add one: its function in `documents`, by the name of its command.
"""
