"""Files: tools that read and write them below one folder, and what a file of settings says.

Paths of a model flow in; bounded, sorted results flow out.  Imports `contract` and
`refold.engine`.  Rules: CONTRACT.md §10.

    file_tools    `list_files`, `read_file`, `search_text`
    commands      `write_file` and `run_command`, for who asks for them
    rooted        the way to a file that nothing can lead outside of the folder
    config_text   text of a file of settings as values, and on which line each stands

To add a file tool: a function in `file_tools`, its name in `NAMES` there.
"""
