"""Commands that judge logs, and programs by their logs.

verify        whether logs are intact and complete, and have the heads that are kept of them
sign          a signature beside a log
replay        a program or a command, run again; many logs, in processes
diff          two runs compared
"""
