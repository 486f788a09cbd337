"""The engine: runs programs deterministically, writes logs and reads them.

Input: a program and its input. Output: an append-only log and an outcome. Imports no other folder
of ours; `tools` and `replay` import it. Each folder may import the folders above it in this list.

    errors       every error that Refold raises: one file, one tree
    lazy         names of a package that load on first use
    plain_files  paths that can be read without waiting for ever
    values       the base of frozen classes: repr, equality and hash
    encoding/    values to JSON and canonical bytes, digests
    events/      the events of a run, and its end; events to bytes and back
    secrets/     secret values, which must not reach a log
    ports/       requests of programs, and interfaces to tools, models, people
    log/         names, lines, blobs; writing, reading, recovery, packing
    signing/     signatures beside logs, in OpenSSH's format
    state/       a log folded to the state of its run
    session/     a program's memory: typed slices that only events change
    workspace/   the folder that a watched command works in: its trees and contents
    loop/        the deterministic event loop
    kernel/      one program, one completion at a time
    program/     the interface for programs: `run`; and the agent loop on top of it
    children/    the exchange between a run and a child
    recording/   the world of a run that is recorded: log, time, threads, effects
    process/     bounded processes
    runners/     where runs are started: a root by `record`, children on threads or in processes
    wire/        models' APIs on the wire: one folder per format
    models/      the models that our own programs ask
    observed/    programs that Refold does not run: their traffic, as events
"""
