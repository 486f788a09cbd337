"""Take away what another system lacks, as soon as its Python starts.

The lists are those functions and constants whose documentation names the systems that have them.
"""

import contextlib
import importlib
import os
import platform
import shutil
import sys
import sysconfig

SYSTEM = "macos"  # or windows: `tests.systems.environment` writes it here
_MACOS = {
    "os": """
        copy_file_range eventfd fdatasync getrandom getxattr listxattr memfd_create pidfd_open
        posix_fadvise posix_fallocate preadv2 pwritev2 removexattr sched_getaffinity sched_getparam
        sched_getscheduler sched_setaffinity sched_setparam sched_setscheduler setns setxattr splice
        unshare pipe2 getresuid getresgid setresuid setresgid O_DIRECT O_NOATIME O_PATH
        """,
    "fcntl": """
        F_ADD_SEALS F_GETPIPE_SZ F_GET_SEALS F_NOTIFY F_OFD_GETLK F_OFD_SETLK F_OFD_SETLKW
        F_SETPIPE_SZ F_SETSIG""",
    "select": "epoll",
    "signal": """
        pidfd_send_signal sigtimedwait sigwaitinfo SIGCLD SIGPOLL SIGPWR SIGRTMAX SIGRTMIN
        SIGSTKFLT""",
    "socket": "AF_NETLINK AF_PACKET AF_VSOCK SOCK_CLOEXEC SOCK_NONBLOCK SO_PEERCRED",
    "selectors": "EpollSelector",
}
_WINDOWS = {
    "os": """
        chown fchdir fchmod fchown fork forkpty getegid geteuid getgid getpgid getpgrp getsid getuid
        killpg lchown lockf major minor mkfifo openpty posix_spawn pread preadv pwrite pwritev readv
        set_blocking
        setpgid setsid statvfs sync sysconf tcgetpgrp tcsetpgrp uname wait3 wait4 writev
        O_CLOEXEC O_DIRECTORY O_NOCTTY O_NOFOLLOW O_NONBLOCK O_SYNC SEEK_DATA SEEK_HOLE WNOHANG""",
    "signal": "SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGQUIT SIGSTOP SIGUSR1 SIGUSR2 SIGWINCH",
    "socket": "AF_UNIX",
}
_NOT_ON_WINDOWS = ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty")

_CHOOSE_ON_IMPORT = (
    *("asyncio", "getpass", "http.server", "multiprocessing", "multiprocessing.popen_fork"),
    *("pathlib", "random", "selectors", "shutil", "socket", "socketserver", "subprocess"),
    *("tempfile", "urllib.request", "uuid", "webbrowser", "cryptography", "psutil", "selenium"),
    "trio",
)
"""Modules that ask for the system once, at their import: they are to find the real one."""


def _lack(lists: dict[str, str]) -> None:
    for module, names in lists.items():
        found = importlib.import_module(module)
        for name in names.split():
            if hasattr(found, name):
                delattr(found, name)


sysconfig.get_config_vars()
platform.uname()
for each in _CHOOSE_ON_IMPORT:
    with contextlib.suppress(Exception):
        importlib.import_module(each)
_lack(_MACOS)
if SYSTEM == "windows":
    _lack(_WINDOWS)
    os.supports_dir_fd = set()  # what tells that folders have no descriptors
    shutil._use_fd_functions = False  # type: ignore[attr-defined]
    sys.modules.update(dict.fromkeys(_NOT_ON_WINDOWS))  # type: ignore[arg-type]  # `None` refuses
else:
    sys.platform = "darwin"
