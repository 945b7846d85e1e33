"""Decoded records, whatever they were read from, into the tables of halves, ops, messages and given-up ones."""
