"""A broker's store directory: its commit log from where the last landing stopped, and its offsets."""
