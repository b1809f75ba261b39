"""Problems: validated instances, their files, named families."""
