"""Landing files: which there are, their lines, and the lines as rows."""
