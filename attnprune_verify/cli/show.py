"""``attnprune-verify show``: one statement, its verdict, and the numbers behind it."""

from __future__ import annotations

import click

from attnprune_verify.cli.output import EXIT, deliver

__all__ = ["command"]


@click.command(name="show", epilog="Example: attnprune-verify show lem:PL_ineq --reading full")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--reading", help="Only this reading, such as full or causal.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--fresh", is_flag=True, help="Judge anew, also where a verdict is kept.")
@click.option("--quiet", is_flag=True, help="No progress.")
def command(ids: tuple[str, ...], reading: str | None, form: str, fresh: bool, quiet: bool) -> int:
    """Show one statement (or a few): in words and as a formula, with verdict, counterexample, repair and evidence.

    Only what was asked for is judged, and what it rests on, with the effort of `claims`. Verdicts are kept in the
    user's cache folder (the environment's ATTNPRUNE_CACHE names another) under a key of the code they depend on.

    Exit code 0 when everything was computed, 1 when a repaired or new statement does not stand, 2 for an unknown id or
    reading, 3 when something could not be run or decided.
    """
    from attnprune_verify.claims import registry
    from attnprune_verify.claims.run import ClaimsResult, run_claims, witness
    from attnprune_verify.cli.progress import progress_bar
    from attnprune_verify.errors import InvalidInstance

    known = [claim.reading.name for claim in registry.claims() if claim.id in registry.named(ids)]
    if reading is not None and reading not in known:
        raise InvalidInstance(f"--reading must be one of {', '.join(dict.fromkeys(known))}; got {reading!r}")
    with progress_bar("judging statements", show=not quiet) as tell:
        found = run_claims(progress=tell, ids=ids, keep_verdicts=not fresh)
        wanted = [one.claim.repaired_by for one in found.records if one.claim.repaired_by]
        repairs = run_claims(progress=tell, ids=wanted, keep_verdicts=not fresh) if wanted else ClaimsResult(())
    records = tuple(one for one in found.records if reading in (None, one.claim.reading.name))
    result = ClaimsResult(records)
    if form == "json":
        from attnprune_verify.files import dumps

        report = result.as_dict()
        for row, record in zip(report["claims"], records, strict=True):
            row |= {"witness": witness(record), "kept": record.judgement.kept}
        deliver(dumps(report))
    else:
        from attnprune_verify.report.show_text import render_statements

        deliver(render_statements(result, repairs), width=80)
    return EXIT[result.outcome]
