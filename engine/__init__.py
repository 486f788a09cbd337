"""The deterministic kernel, the event log, the runners and the model port.

Imports nothing of ours.  `tools` and `replay` stand on it; `refold` itself names what is public.
"""
