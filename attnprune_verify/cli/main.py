"""The program ``attnprune-verify``: imports a command, runs it, and turns its result into an exit code.

Exit codes: 0 passed, 1 failed, 2 usage or invalid input (one line on stderr, never a traceback), 3 incomplete,
130 interrupted.
"""

import os
import sys
import traceback
import warnings
from typing import Any

import click

from attnprune_verify.cli.terminal.codes import INCOMPLETE, INTERRUPTED, USAGE
from attnprune_verify.cli.terminal.lazy import lazy_group
from attnprune_verify.cli.terminal.messages import rule_first
from attnprune_verify.cli.terminal.output import reader_left
from attnprune_verify.errors import InvalidInput
from attnprune_verify.files import printable

_COMMANDS = {
    "audit-kernel": "Audit an attention kernel, forward and backward.",
    "kernel-vectors": "Write test vectors of attention for any language.",
    "prune-model": "Prune a whole model, folder to folder.",
    "claims": "Judge every statement of the paper.",
    "show": "Show one statement: verdict, counterexample, repair, evidence.",
    "check": "Check one instance: gradient, assumptions, constants, theorem.",
    "audit": "Audit an implementation of the paper's functions, SparseGPT or Wanda.",
    "prune": "Find a pruning mask by the paper's descent.",
    "campaign": "Attack statements on very many random instances.",
    "experiment": "Repeat the experiments.",
    "plot": "Draw instances, bounds and measurements.",
    "compare": "List what two results depend on and differ in.",
}
_HOMES = {name: (f"attnprune_verify.cli.{name.replace('-', '_')}", says) for name, says in _COMMANDS.items()}
_TRACEBACK = "ATTNPRUNE_TRACEBACK"
_LONGEST = 300  # characters of another library's message, chosen: some lines of a terminal


@click.command(
    cls=lazy_group(_HOMES), context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="attnprune-verify", message="%(package)s %(version)s")
def program() -> None:
    """Audits attention kernels, prunes attention models, and judges a paper on pruning attention weights.

    \b
    Example:
      attnprune-verify audit-kernel mine.py:my_attention
      attnprune-verify prune-model FOLDER --out pruned --rho 0.5 --calibration text.txt
      attnprune-verify claims
      attnprune-verify show                  the ids of the statements; with an id one of them

    \b
    Completion for bash, zsh or fish, in the file that the shell reads when it starts:
      eval "$(_ATTNPRUNE_VERIFY_COMPLETE=bash_source attnprune-verify)"
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the program and exit with its code."""
    # Before NumPy is loaded: on the many small products here, threaded BLAS is far slower once anything else runs.
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    sys.exit(_run(arguments))


def _run(arguments: list[str] | None) -> int:
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # started with the stream closed, as `>&-` does
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))
        reconfigure = getattr(getattr(sys, name), "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")  # a letter that the terminal does not have ends nothing
    stdout = sys.stdout
    try:
        with warnings.catch_warnings():  # what is not finite is decided by a check, not by a line of NumPy's
            warnings.filterwarnings("ignore", r".* encountered in ", RuntimeWarning)
            result: Any = program.main(args=arguments, prog_name="attnprune-verify", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return USAGE
    except click.ClickException as error:
        return _complain(rule_first(error))
    except InvalidInput as error:
        return _complain(str(error))
    except (KeyboardInterrupt, click.Abort) as error:
        if isinstance(error.__cause__, EOFError):  # of a damaged file; click takes it for the end of a terminal
            return _unforeseen(error.__cause__)
        click.echo("Interrupted.", err=True)
        return INTERRUPTED
    except BrokenPipeError:  # of a help text; reports look after themselves
        reader_left()
        return 0
    except SystemExit:
        if sys.stdout is stdout:
            raise
        reader_left()  # click makes this of a broken pipe, and replaces the stream
        return 0
    except OSError as error:
        return _complain(f"{error.strerror or error}" + (f": {error.filename!r}" if error.filename else ""))
    except MemoryError:
        return _complain("this needs more memory than there is", INCOMPLETE)
    except BaseException as error:  # nothing of ours raises it, and a panic of a library is no Exception
        return _unforeseen(error)


def _complain(message: str, code: int = USAGE) -> int:
    click.echo("Error: " + printable(" ".join(message.split())), err=True)
    return code


def _unforeseen(error: BaseException) -> int:
    """Print one line about an unforeseen error; with the variable set, also its traceback."""
    if os.environ.get(_TRACEBACK):
        traceback.print_exception(error)
    message = f"{type(error).__name__}: {error}"[:_LONGEST]
    return _complain(f"could not be completed; {message} ({_TRACEBACK}=1 shows where)", INCOMPLETE)


if __name__ == "__main__":
    main()
