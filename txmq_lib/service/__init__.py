"""txmq running by itself: service threads with RocketMQ's life cycle, rounds of steps, and word of how they fare."""
