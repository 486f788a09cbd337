"""The folder that a watched command works in: its log entries, and its files' contents.

Input and output: trees, of a folder on disk or of a log. Their contents are objects of git, in
packs beside the log or in the repository of the folder, which is only read. All programs that git
would run for a user are disabled. Imports `log`, `events`, `encoding` and `errors`. Rules:
CONTRACT.md §16.16.

    paths        paths as texts that a log can store; paths that a log may name
    forms        how the values of entries look in a log
    tree         a tree: the differences from commits of git; its list and its digest
    entries      the data of `x-refold.folder`: the start, changes, the end
    git          queries git, which writes and runs nothing
    inside       folders that may be hostile: no path leads out; temporary folders
    linked       repositories whose `.git` is a file
    left_out     chooses the recorded folder, and the files to leave out
    made         finds commits and tags that are new in the object stores
    contents     keeps and reads the contents of files
    scanning     scans a folder on disk
    watching     the folder while a command works in it
    packing      finds git objects that a folder needs, and packs them
"""
