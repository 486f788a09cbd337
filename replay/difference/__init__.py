"""Differences between two values, texts or sequences, and rules that ignore some of them.

Input: recorded and new values. Output: places and descriptions of differences. Pure. Imports only
`refold.engine`.  Rules: CONTRACT.md §12.7, §13.

    pointer_diff    two JSON values, as JSON pointers
    text_diff       two texts, and two conversations
    causes          differences grouped by cause
    align           two sequences of calls, aligned
    excuses         ignored values: declared volatile, or redacted
    volatile        fields that hold only time or place
"""
