"""Live brokers: which queues, which ranges of them, and what tasks pull."""
