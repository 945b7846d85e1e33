"""What commands do, imported when they run."""
