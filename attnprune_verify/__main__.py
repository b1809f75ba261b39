"""Entry point of ``attnprune-verify`` and of ``python -m attnprune_verify``; imports nothing before `main` runs.

An interrupt during the imports therefore ends the program like a later one: quietly, with exit code 130.
"""

import sys

_INTERRUPTED = 130  # 128 + SIGINT; nothing may be imported yet


def main() -> None:
    """Load the program and run it; exits with its code."""
    try:
        from attnprune_verify.cli.main import main as program

        program()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
