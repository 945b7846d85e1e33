"""What is typed: each command with its options. Bodies import what they need only when they run."""
