"""What the key files of a folder hold is secret (CONTRACT.md §16.8)."""

import json
import os
from pathlib import Path
from typing import Final

from refold.proxy.desks.keys import Secrets
from tests.support.loops import for_each

DRAWN: Final = "q7Rk2Zt9Xw4LmB8vYc3N"
LINE = f"MIIE{DRAWN * 3}"
PEM = f"-----BEGIN PRIVATE KEY-----\n{LINE}\n{LINE[::-1]}\n-----END PRIVATE KEY-----\n"
KEY_FILES: Final = {
    ".env": (f"# keys\nexport APP_TOKEN='{DRAWN}'\nNAME=a-long-enough-name\n", DRAWN),
    ".env.local": (f"DB_PASSWORD = {DRAWN}", DRAWN),
    "sub/.env": (f"DATABASE=postgres://x\nURL=https://me:{DRAWN}@host/x", DRAWN),
    "credentials.json": (json.dumps({"a": {"client_secret": DRAWN, "type": "installed"}}), DRAWN),
    "service-account.json": (json.dumps({"private_key": PEM}), LINE),
    "server.pem": (PEM, LINE[::-1]),
    ".netrc": (f"machine host login me password {DRAWN}", DRAWN),
    ".npmrc": (f"//registry.example/:_authToken={DRAWN}", DRAWN),
    ".pgpass": (f"host:5432:db:me:{DRAWN}", DRAWN),
    ".git-credentials": (f"https://me:{DRAWN}@host", DRAWN),
}


@for_each("name", KEY_FILES)
def test_what_a_key_file_holds_is_secret_wherever_it_is_printed(name: str, tmp_path: Path) -> None:
    """By itself, too: a command may print one line of it.  Names and short values stay."""
    content, secret = KEY_FILES[name]
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(content)
    (tmp_path / ".env.more").write_text("APP_KEY=short-one\nAUTH_KEY=\n")
    (tmp_path / "id_rsa").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe.key")
    secrets = Secrets()

    secrets.learn_key_files(tmp_path)

    assert secret not in secrets.scrubbed(f"it is {secret}, ok")
    kept = f"{DRAWN[:6]} a-long-enough-name short-one installed login"
    assert secrets.scrubbed(kept) == kept
