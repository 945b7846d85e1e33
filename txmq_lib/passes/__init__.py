"""A pass: its plan, what it reads and writes, and the log of all passes."""
