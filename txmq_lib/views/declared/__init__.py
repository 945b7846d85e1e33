"""What each view shows: its relation in SQL, its columns and filters."""
