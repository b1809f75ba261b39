"""``python -m attnprune_verify`` is the program ``attnprune-verify``."""

from attnprune_verify.cli.main import main

if __name__ == "__main__":
    main()
