"""What a problem is: validated instances, their files, named families."""
