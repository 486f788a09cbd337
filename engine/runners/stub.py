"""The first file that a subprocess child runs: reads its envelope, then becomes the run.

Executed by path, not imported: until the envelope has brought `sys.path`, nothing of Refold can be
found.  It therefore imports only what starts fast.
"""

import gc
import importlib
import json
import os
import sys


def main() -> None:
    """Read the envelope up to its newline, set up the process accordingly, and run."""
    chunks: list[bytes] = []
    request_fd = int(os.environ["REFOLD_REQUEST_FD"])
    while not (chunks and chunks[-1].endswith(b"\n")):
        chunk = os.read(request_fd, 1 << 16)
        if not chunk:
            sys.exit(0)  # the parent is gone before it asked for anything
        chunks.append(chunk)
    line = b"".join(chunks)
    envelope = json.loads(line)
    sys.path[:] = envelope["sys_path"]
    os.chdir(envelope["cwd"])

    module, _, name = envelope["entry"].partition(":")
    gc.disable()  # what imports make is no garbage, now or at the end: a fifth of a child's start
    child = importlib.import_module(module)
    gc.freeze()
    gc.enable()
    getattr(child, name)(line)


if __name__ == "__main__":
    main()
