"""What is asked, what is right, and how far from it right code may be."""
