"""What is printed: rows, tables, progress, words."""
