"""What a landing finds out about the broker itself: offsets, settings, set-up, how far its checks are."""
