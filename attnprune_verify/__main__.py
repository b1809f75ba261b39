"""Where the program ``attnprune-verify`` and ``python -m attnprune_verify`` begin: with nothing imported yet.

An interrupt that comes while the program is still being loaded ends it as quietly as a later one, with code 130.
"""

import sys

__all__ = ["main"]

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
