"""The parts that commands share: lazy loading, numbers, progress, messages and output."""
