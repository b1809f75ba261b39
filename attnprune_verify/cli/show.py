"""``attnprune-verify show``: one statement, its verdict, and the numbers behind it."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import click

from attnprune_verify.cli.terminal.output import EXIT, deliver
from attnprune_verify.errors import InvalidInput


@click.command(name="show", epilog="Example: attnprune-verify show lem:PL_ineq --reading full --all")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--reading", help="Show only this reading, such as full or causal.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--all", "everything", is_flag=True, help="Print hypotheses, proofs, files and code to repeat it, too.")
@click.option("--fresh", is_flag=True, help="Judge anew, even if a verdict is kept.")
@click.option("--quiet", is_flag=True, help="No progress.")
def command(ids: tuple[str, ...], reading: str | None, form: str, everything: bool, fresh: bool, quiet: bool) -> int:
    """Show one statement (or a few) in about ten lines: in words, with verdict, counterexample and repair.

    Without an ID the ids and titles of all statements.

    With --all also the formula, the hypotheses, the evidence, and the counterexample as code to run again.

    The statements are judged with the effort of `claims`, together with those they rest on. Verdicts are kept in the
    user's cache folder (or in ATTNPRUNE_CACHE, if that variable is set) under a key of the code they depend on.

    Exit code 0 when everything was computed, 1 when a repaired or new statement fails, 2 for an unknown id or
    reading, 3 when something could not be run or decided.
    """
    if not ids:
        from attnprune_verify.claims.registry import claims

        titles = {claim.id: claim.title for claim in claims()}
        deliver("".join(f"{id_:34}  {title}\n" for id_, title in titles.items()))
        return EXIT["passed"]
    from attnprune_verify.claims.judging import text_cache

    pages = [] if fresh else [text_cache.kept_page(one) for one in dict.fromkeys(ids)]
    if not pages or None in pages:
        pages = [*_judged(tuple(dict.fromkeys(ids)), reading, fresh, quiet)]
    shown = sorted((one for page in pages for one in page or ()), key=lambda one: one["order"])
    known = dict.fromkeys(one["reading"] for one in shown)
    if reading is not None and reading not in known:
        raise _no_reading(reading, known)
    shown = [one for one in shown if reading in (None, one["reading"])]
    outcome = max((one["outcome"] for one in shown), key=("passed", "incomplete", "failed").index)
    if form == "json":
        from attnprune_verify.files import dumps

        counts = Counter(one["row"]["statement"] for one in shown)
        report = {"schema": "attnprune-verify/claims/1", "outcome": outcome, "counts": dict(sorted(counts.items()))}
        deliver(dumps(report | {"claims": [one["row"] for one in shown]}))
    else:
        from attnprune_verify.report.blocks import paragraph, render_blocks

        key = "blocks" if everything else "summary"
        more = [] if everything else [paragraph("--all prints the whole sentence, the evidence and more.")]
        deliver(render_blocks([*(block for one in shown for block in one[key]), *more]), width=80)
    return EXIT[outcome]


def _no_reading(reading: str, known: Iterable[str]) -> InvalidInput:
    from attnprune_verify.values import nearest

    names = [*known]
    return InvalidInput(f"--reading must be one of {', '.join(names)}; got {reading!r}{nearest(reading, names)}")


def _judged(ids: tuple[str, ...], reading: str | None, fresh: bool, quiet: bool) -> Iterator[list[dict[str, Any]]]:
    """Judge the statements, and keep their pages."""
    from attnprune_verify.claims import registry
    from attnprune_verify.claims.judging import text_cache
    from attnprune_verify.claims.run import ClaimsResult, run_claims, witness
    from attnprune_verify.cli.terminal.progress import progress_bar
    from attnprune_verify.files import plain
    from attnprune_verify.report.show_text import page_of, summary_of

    order = {claim.test_id: place for place, claim in enumerate(registry.claims())}
    readings = dict.fromkeys(claim.reading.name for claim in registry.claims() if claim.id in registry.named(ids))
    if reading is not None and reading not in readings:
        raise _no_reading(reading, readings)
    repairs = [claim.repaired_by for claim in registry.claims() if claim.id in ids and claim.repaired_by]
    with progress_bar("judging statements", show=not quiet) as tell:
        found = run_claims(progress=tell, ids=ids, beside=repairs, keep_verdicts=not fresh)
    for id_ in ids:
        page: list[dict[str, Any]] = []
        later: list[dict[str, Any]] = []
        for record in (one for one in found.records if one.claim.id == id_):
            mended = [one for one in found.records if one.claim.id == record.claim.repaired_by]
            row = plain(record.as_dict() | {"witness": witness(record)})
            place = {"reading": record.claim.reading.name, "order": order[record.claim.test_id]}
            place["outcome"] = ClaimsResult((record,)).outcome
            kept = record.judgement.kept
            for pages, again in ((page, kept), (later, True)):
                text = {
                    "blocks": page_of(record, mended, kept=again),
                    "summary": summary_of(record, mended, kept=again),
                }
                pages.append(place | {"row": row | {"kept": again}} | text)
        if not any(record.judgement.error for record in found.records):
            text_cache.keep_page(id_, later)
        yield page
