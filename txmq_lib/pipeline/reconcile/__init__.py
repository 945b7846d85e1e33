"""The reconcile job.

job.py calls, in this order: inputs, many_ends, outcomes_ahead, then writes with tally and destinations. in_arrow/ is
what a large pass does from file to file.
"""
