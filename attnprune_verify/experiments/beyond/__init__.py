"""Ways in which optimising the attention error might pay."""
