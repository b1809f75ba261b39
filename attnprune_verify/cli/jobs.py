"""The option --jobs: number of runs that a command does at the same time."""

import click

from attnprune_verify.extras import lacking


def as_processes(jobs: int | None) -> int:
    """Return the number of --jobs; by default one per core. Without the extra `parallel`: 1, and a note on stderr."""
    from attnprune_verify.experiments.runs import can_run_in_parallel
    from attnprune_verify.state.processes import cores
    from attnprune_verify.values import as_count

    processes = as_count("jobs", cores() if jobs is None else jobs, least=1)
    if processes > 1 and not can_run_in_parallel():
        click.echo(f"Note: one run at a time; {lacking('doing several at once', 'parallel')}", err=True)
        return 1
    return processes
