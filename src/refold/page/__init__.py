"""The page that shows a run: one file to open from disk, or served while a log grows.

Logs flow in; one document of plain data flows out, and a page that shows it. Rules are computed
here, or by `refold.replay`; the page displays the results, and checks the chain by itself. Imports
`refold.replay` and `refold.engine`. Rules: CONTRACT.md §14.16.

    document    everything that the page shows, as plain data
    one_run     what it shows of one run
    comparison  how two runs differ
    lanes       who did what when: bars on a common clock
    critical    the critical path over them
    states      what each entry changed of the state
    other_forms the document as trace events, and as a summary in Markdown
    server      the page served on loopback, while logs grow
    output_files  writes files: whole, private, and never over a log
    html        the document, the logs and `assets/` as one file
    assets/     what browsers read: index.html, style.css, ES modules
"""
