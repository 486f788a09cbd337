"""Signatures of logs in OpenSSH's format, their keys, and trusted signers.

Signing: a log and a private key give a file beside the log. Checking: a log, that file and a list
of allowed signers.  Imports `log`, `encoding` and `errors`.  Rules: CONTRACT.md §5.5.

    sshsig      the format of a signature, and its check against a key
    keys        private keys that sign
    signers     a file of allowed signers
    signature   the signature beside a log, and its statement
"""
