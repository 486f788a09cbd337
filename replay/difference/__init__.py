"""What differs between two values, texts or sequences, and what is not compared.

Recorded and new values flow in; places and words of differences flow out.  Pure.  Imports
`refold.engine` alone.  Rules: CONTRACT.md §12.7, §13.

    pointer_diff    two JSON values, as JSON pointers
    text_diff       two texts, and two conversations
    align           two sequences of calls, aligned
    comparators     when two results count as the same
    excuses         what is passed over: declared volatile, or taken out
    volatile        which fields say when or where, and not what happened
"""
