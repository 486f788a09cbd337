"""The engine: runs programs deterministically, writes logs and reads them.

A program and its input flow in; an append-only log and an outcome flow out.  Imports nothing of
ours; `tools` and `replay` stand on it.  Each room may import those above it in this list.

    errors       every error that Refold raises: one file, one tree
    lazy         names of a package that load on first use
    encoding/    values to JSON and canonical bytes, digests
    events/      what a run can say happened, and how it ended; events to bytes and back
    secrets/     what must not reach a log
    ports/       what programs ask for, and what the outside is to be: tools, models, people
    log/         names, lines, blobs; writing, reading, recovery, packing
    signing/     signatures beside logs, in OpenSSH's format
    state/       a log folded to the state of its run
    session/     what a program keeps in mind: typed slices that only events change
    workspace/   the folder that a watched command works in: its trees, what its files hold
    loop/        the deterministic event loop
    kernel/      one program, one completion at a time
    program/     what a program sees: `run`; and the agent loop over it
    children/    what passes between a run and a child
    recording/   the world of a run that is recorded: log, time, threads, effects
    process/     bounded processes
    runners/     where runs are started: a root by `record`, children on threads or in processes
    wire/        what models' APIs look like on the wire: one folder a format
    models/      the models that our own programs ask
    observed/    programs that Refold does not run: what passes, as events
"""
