"""RocketMQ's remoting protocol: frames, connections, and the requests txmq makes. Must not know Spark or settings."""
