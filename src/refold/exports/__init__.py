"""A run in the formats of other tools, made of its spans.

Logs flow in; files and requests to a collector flow out. Imports `refold.page`, `refold.replay` and
`refold.engine`. Rules: CONTRACT.md §14.19, §14.20, §14.22.

    conventions  messages and tools as OpenTelemetry's conventions have them
    spans        a run as spans, one a run and one a call
    otlp         spans in OpenTelemetry's format, to a file or a collector
    atif         spans with their content as a trajectory
    parquet      spans as four tables
"""
