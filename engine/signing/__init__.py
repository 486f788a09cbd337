"""Who vouches for a log: signatures in OpenSSH's format, their keys, and who is trusted.

A log and a private key flow in, a file beside the log flows out; or a log, that file and a list of
allowed signers flow in.  Imports `log`, `encoding` and `errors`.  Rules: CONTRACT.md §5.5.

    sshsig      the format of a signature, and whether a key made one
    keys        private keys that sign
    signers     a file of allowed signers
    signature   the signature beside a log, and what it says of it
"""
