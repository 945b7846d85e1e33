"""Entries for spark-submit: each is one `txmq` command."""
