"""`refold.yaml`, or `[tool.refold]` in `pyproject.toml`, and runs configured by it.

Input: files. Output: settings, and the arguments of `record` for an agent file.  Imports the rest
of `tools`, and `refold.engine`.  Rules: CONTRACT.md §10.18.

    config          the settings and their errors
    prepared_run    a run from an agent file and a project's configuration
"""
