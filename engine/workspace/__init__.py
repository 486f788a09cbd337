"""The folder that a watched command works in: what a log says of it, and what its files hold.

Trees flow in and out: of a folder on disk, of a log.  What they hold stands in `<stem>.files/`
beside the log, or in the git repository of the folder; it is read from there and nothing is
written.  Every program that git would run for a user is switched off.  Imports `log`, `events`,
`encoding` and `errors`.  Rules: CONTRACT.md §16.16.

    paths        paths as texts that a log can hold; which of them a log may name
    tree         a tree: what differs from commits of git; its list and its digest
    entries      what `x-refold.folder` says: the start, changes, the end
    git          git is asked, and writes and runs nothing
    status       what `git status` says
    left_out     which folder is recorded, and which of its files are not
    listening    whether anything can have changed since a look
    scanning     a look at a folder on disk
    diffs        how two contents differ, in lines
    watching     the folder while a command works in it
    contents     what files of a tree hold
    packing      objects of git that a folder needs: where they are, as files of a pack
    restoring    files of a tree are written into an empty folder
"""
