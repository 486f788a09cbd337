"""Tools that read and write files below one folder, and a reader of settings files.

Input: a model's paths. Output: bounded, sorted results.  Imports `contract` and `refold.engine`.
Rules: CONTRACT.md §10.

    file_tools    `list_files`, `read_file`, `search_text`
    commands      `write_file` and `run_command`, only for agents that name them
    rooted        opens files so that no path leads outside the folder
    config_text   values of a settings file, with their lines

To add a file tool: a function in `file_tools`, its name in `NAMES` there.
"""
