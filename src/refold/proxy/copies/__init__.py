"""Copies of recorded folders: a watched command runs in one, and the user's own stays as it is.

Input: a tree of a log. Output: a folder with its files and its history, and a list of missing
parts.  Imports `refold.engine` and `refold.replay`.  Rules: CONTRACT.md §16.20.

    git_folders  the git folders of a copy: their places, HEAD, branches and index
    whose       decides path by path whether a copy gets the recorded file or today's
    current     today's folder: which one it is, and how its files differ from the record
    copied      a folder made again, with files borrowed from today's folder
    ended       the copy at the end, compared with the end of the record
    sandbox     a command under `bwrap`, with a copy at the recorded path
    inside      the code at both ends of `bwrap`; only the standard library
    applying    the final content of a copy, as a patch for the user's folder
    placing     the place of a command's new run: in the sandbox, in a copy elsewhere, in place
"""
