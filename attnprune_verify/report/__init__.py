"""Results as text, strict JSON, JUnit XML and HTML."""
