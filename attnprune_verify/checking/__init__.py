"""The main job: everything the library knows, applied to one instance."""
