"""Copies of recorded folders: a watched command runs in one, and the user's own stays as it is.

A tree of a log flows in; a folder with its files and its history flows out, with what could not be
given back.  Imports `refold.engine` and `refold.replay`.  Rules: CONTRACT.md §16.20.

    history     HEAD, branches and index of a copy
    today       files that changed since the record
    copied      a folder made again, with what today's folder lends
    ended       the copy at the end, compared with the end of the record
    sandbox     a command under `bwrap`, with a copy at the recorded path
    inside      what runs at both ends of `bwrap`; the standard library alone
    applying    what a copy holds at the end, as a patch for the user's folder
    placing     where a command runs again: in the sandbox, in a copy elsewhere, in place
"""
