"""`refold.yaml`, or `[tool.refold]` in `pyproject.toml`, and a run made of it.

Files flow in; settings, and what `record` needs for an agent's file, flow out.  Imports the rest of
`tools`, and `refold.engine`.  Rules: CONTRACT.md §10.18.

    config          the settings, and what is wrong with them
    prepared_run    an agent's file and a project's configuration as one run
"""
