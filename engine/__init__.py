"""The deterministic kernel, the event log, the runners and the model port.

Imports nothing of ours.  `tools` and `replay` stand on it; `refold` itself names what is public.

    events, effects, outcome, limits,  the words: what happened, what is asked for, how it ended,
      delegation, ports, errors          what it may use up, what the outside is to be
    kernel, loop, stdlib, pending,     one program, one completion at a time, by the rules that
      flags                              its log names
      decide, verdict, interrupts        (`values`: time, seeds, files)
    run                                what a program sees; `agent`: the agent loop over it;
                                         `unawaited`: calls that it forgets; `nested`: runs that it
                                         may not start; `executed`: tools that it calls past it
    world                              what stands behind a kernel; `replay` has others
    recorder, driver, clock            the one that writes a log (`ledger`), keeps time (`timers`)
                                         and does the work, on `workers`, on the loops of `host` and
                                         by children (`child_request`); `supplied`: some outcomes
                                         come from elsewhere; `recording`: `record` itself;
                                         `run_request`: what a run takes and gives; `bookends`: the
                                         first and the last entry
    runners/, process/, reply          children, and how they are bounded
    log/                               names, lines, blobs, writing, reading, recovery;
                                         `descriptors`: writing all of something
    codec, canonical, digest, plain,   events to bytes, values to JSON, and what is hashed
      call_data, data_digest,
      conversation, quick
    state/, session/                   folds over events
    models/, programs, offers          models, programs by name, what a log says of tools
    people, schemas, patterns          questions and approvals; schemas and expressions that
                                         nobody vouches for
    observed/                          programs that Refold does not run: what they ask of models
    redaction, secret, vault           what must not reach a log
"""
