"""Settings, tables and resources as frozen objects. No Spark, no Delta."""
