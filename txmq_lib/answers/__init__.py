"""Who knows the state of a local transaction. Asks, and tells what was said; decides and writes nothing."""
