"""Signatures of logs by OpenSSH: a file beside a log, made and checked by `ssh-keygen -Y`.

Signing: a log and a key give the file.  Checking: a log, that file and a list of allowed signers.
Imports `log`, `encoding` and `errors`.  Rules: CONTRACT.md §5.5.

    signature   the signature beside a log, and its statement; asks ssh-keygen
"""
