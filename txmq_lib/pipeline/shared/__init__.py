"""What several jobs have in common."""
