"""The bank of public bugs: wrong attention programs, dated, and which of the rules that people use see them."""
