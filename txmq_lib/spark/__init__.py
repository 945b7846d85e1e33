"""The Spark session and what it needs of Java, the JVM and this machine."""
