"""`refold sign`: vouch for a log by a signature beside it (CONTRACT.md §5.5)."""

from pathlib import Path

from refold.cli.arguments.options import argument, declared, option
from refold.cli.arguments.run_names import OWN
from refold.cli.output import output, words
from refold.cli.output.exit_codes import FINE, code_of
from refold.engine.errors import LogNameRefused, RefoldError
from refold.engine.log.lock import refuse_if_locked
from refold.engine.log.names import PACKED_SUFFIX, check_root, signature_of
from refold.engine.signing.signature import SigningKey, Statement, sign_log
from refold.replay.audit.verify import verify


@declared("sign")
def command(
    *,
    logs: tuple[Path, ...] = argument(OWN, "LOG...", nargs=-1, required=True),
    key: Path = option("OpenSSH key, or public key of an agent.", required=True),
) -> int:
    r"""Sign root logs, with the number of entries and the head of each.

    The signature is written to LOG.sig in OpenSSH's format.  It also covers the logs of finished
    children, because their parents' logs contain their heads.  If the run continues later, the
    new entries are not signed.  LOG can also be a folder, to sign all root logs below it.

    Examples:
      ssh-keygen -t ed25519 -N '' -f audit_key
      refold sign runs/audit.jsonl --key audit_key
      refold sign runs --key audit_key
      refold verify runs/audit.jsonl --trust allowed_signers
      tail -n 1 runs/audit.jsonl.sig | ssh-keygen -Y verify -n refold \
          -f allowed_signers -I ann -s runs/audit.jsonl.sig

    Exit code: 0 all signed · 2 the key or a name is refused · 3 a log is damaged;
    the others are signed.
    """
    from refold.replay.bulk.bulk import find_logs  # noqa: PLC0415 - imports what executes programs

    signing, code = SigningKey(key), FINE
    signed = dict[Path, Statement]()
    for log in find_logs(logs):
        try:
            signed[log] = _signed(log, signing)
        except RefoldError as error:
            output.complain(str(error))
            code = max(code, code_of(error))
    rows = [
        {"log": output.shown_path(log), "entries": one.entries, "head": one.head}
        for log, one in signed.items()
    ]

    def describe() -> None:
        for log, one in signed.items():
            what = words.counted(one.entries, "entry", "entries")
            output.line((output.shown_path(signature_of(log)), "bold"), f"  {what} signed")
        if signed:
            output.line((f"by {signing.fingerprint}", "dim"))

    return output.answer({"key": signing.fingerprint, "signed": rows}, describe, code)


def _signed(log: Path, key: SigningKey) -> Statement:
    """Sign a sound log.

    Raises:
        LogError: it is damaged, or being written.
        LogNameRefused: it is not a root's plain log.
    """
    if log.suffix == PACKED_SUFFIX:
        raise LogNameRefused(str(log), "sign the log before you pack it")
    check_root(log)
    refuse_if_locked(log)
    for damage in verify(log).damage:
        raise damage.as_error()
    return sign_log(log, key)
