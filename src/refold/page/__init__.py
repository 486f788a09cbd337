"""The page that shows a run: one file to open from disk, or served while a log grows.

Logs flow in; one document of plain data flows out, and a page that shows it. Rules are computed
here, or by `refold.replay`; the page displays the results, and checks the chain by itself. Imports
`refold.replay` and `refold.engine`. Rules: CONTRACT.md §14.16.

    document    everything that the page shows, as plain data; how two runs differ
    one_run     what it shows of one run
    turns       the agents and their turns, as plain data
    entries     times and large texts of the entries of a log
    critical    what led to each entry, and the critical path
    other_forms the page as trace events, and as a summary in Markdown
    server      the page served on loopback, while logs grow: patches of its document
    output_files  writes files: whole, private, and never over a log
    html        the document, the logs and `assets/` as one file
    assets/     what browsers read: index.html, style.css, ES modules; `vendor/` is not ours
"""
