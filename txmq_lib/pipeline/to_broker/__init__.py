"""The to_broker job: job.py sends and records, planned says what is to be sent, resending is of bodies."""
