"""Exit codes that no result decides; 0 and 1 are an outcome's."""

USAGE = 2  # as click and every shell have it
INCOMPLETE = 3  # the first code that nothing else uses
INTERRUPTED = 130  # 128 + SIGINT, as shells count
