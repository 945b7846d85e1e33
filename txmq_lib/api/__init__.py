"""A warehouse opened from Python: the views, traces and runs of the command line. `txmq_lib` itself offers it."""
