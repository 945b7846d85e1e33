"""RocketMQ's bytes, files and protocol, decoded into rows."""
