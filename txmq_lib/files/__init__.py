"""Files of this machine: whole, plain, private ones; by any name; as lines."""
