"""The one keeper of state: digests, sealed documents, journals, and folders that belong to one request."""
