"""A language model small enough to be trained in minutes on one core: corpus, tokenizer, network, n-gram rivals."""
