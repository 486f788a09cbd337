"""Commands that show what logs have, and execute nothing.

ls            the runs of folders
ls_diff       … compared with one
show          the tree of a run
show_entries  … its entries
show_state    … its state after an entry
view          runs in the browser
files         the folder of a recorded command
why           the causes of an entry
export        a run as one file, or runs as tables
"""
