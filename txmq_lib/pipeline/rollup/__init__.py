"""The rollup job."""
