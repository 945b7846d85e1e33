"""The landings: files, stores and live brokers into tables."""
