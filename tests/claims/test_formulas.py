"""Shown = judged: each formula of `theory`, broken in each of its places, makes the claims of its ids fail.

What is broken is read from the source of the registered formulas: every number, every operation, every factor, every
comparison and every function they call.
"""

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace

import pytest

from attnprune_verify.claims.core import Verdict, mutant
from attnprune_verify.claims.formulas.printed import misprint, misprinted, read
from attnprune_verify.claims.judging.judge import judge
from attnprune_verify.claims.registry import claims, find
from attnprune_verify.claims.run import assemble
from attnprune_verify.theory.formulas.formula import FORMULAS, Formula
from attnprune_verify.theory.numbers.arithmetic import EXACT, FLOAT, Undecidable

SWAPS = {ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Add: ast.Sub, ast.Sub: ast.Add}
COMPARISONS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
FUNCTIONS = {"sqrt": "exp", "exp": "sqrt", "log": "exp", "lambertw": "exp"}


def body(entry: Formula) -> ast.FunctionDef:
    source = textwrap.dedent(inspect.getsource(inspect.unwrap(entry.function)))
    (function,) = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    return function


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Wrong neighbours of one node of a formula."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        for value in (node.value + 1, node.value * 2 or -1):
            yield f"{node.value} -> {value}", ast.Constant(value)
    elif isinstance(node, ast.BinOp) and type(node.op) in SWAPS:
        yield f"{ast.unparse(node)} with another operation", ast.BinOp(node.left, SWAPS[type(node.op)](), node.right)
        yield f"only {ast.unparse(node.left)}", node.left
        yield f"only {ast.unparse(node.right)}", node.right
    elif isinstance(node, ast.BinOp):
        yield f"{ast.unparse(node)} without its power", node.left
    elif isinstance(node, ast.UnaryOp):
        yield f"{ast.unparse(node)} without its sign", node.operand
    elif isinstance(node, ast.Compare):
        swapped = [COMPARISONS[type(op)]() for op in node.ops]
        yield f"{ast.unparse(node)} at its end", ast.Compare(node.left, swapped, node.comparators)
        yield f"not {ast.unparse(node)}", ast.UnaryOp(ast.Not(), node)
    elif isinstance(node, ast.BoolOp):
        for i, value in enumerate(node.values):
            yield f"without {ast.unparse(value)}", node.values[1 - i]
    elif isinstance(node, ast.Attribute) and node.attr in FUNCTIONS:
        yield f"{FUNCTIONS[node.attr]} for {node.attr}", ast.Attribute(node.value, FUNCTIONS[node.attr], node.ctx)


def broken(entry: Formula) -> Iterator[tuple[str, str]]:
    """(what was changed, the source of the changed function)."""
    whole = body(entry)
    text = ast.unparse(whole)
    places = [place for statement in whole.body[1:] for place in ast.walk(statement)]
    for index, place in enumerate(places):
        for says, _ in changes(place):
            (fresh,) = ast.parse(text).body  # many times faster than a deep copy
            target = [node for statement in fresh.body[1:] for node in ast.walk(statement)][index]
            new = next(node for text, node in changes(target) if text == says)

            class Replace(ast.NodeTransformer):
                def visit(self, node: ast.AST, target: ast.AST = target, new: ast.AST = new) -> ast.AST:
                    return new if node is target else self.generic_visit(node)

            yield says, ast.unparse(ast.fix_missing_locations(Replace().visit(fresh)))


MUTANTS = [(path, says, source) for path, entry in sorted(FORMULAS.items()) for says, source in broken(entry)]


def test_every_formula_is_broken_in_several_ways() -> None:
    assert len(MUTANTS) > 200
    assert {path for path, _, _ in MUTANTS} == set(FORMULAS)


def install(monkeypatch: pytest.MonkeyPatch, path: str, source: str) -> Formula:
    entry = FORMULAS[path]
    namespace = dict(vars(sys.modules[entry.module]))
    exec(compile(source, path, "exec"), namespace)  # its decorator registers the same entry again
    monkeypatch.setattr(sys.modules[entry.module], entry.name, namespace[entry.name])
    return entry


@pytest.mark.parametrize(("path", "says", "source"), MUTANTS, ids=[f"{path}: {says}" for path, says, _ in MUTANTS])
def test_a_broken_formula_makes_its_claims_fail(path: str, says: str, source: str, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    entry = install(monkeypatch, path, source)
    for id_ in entry.claims:
        for claim in (claim for claim in claims() if claim.id == id_):
            judgement = judge(claim)
            assert judgement.statement is Verdict.OPEN and judgement.misprint, f"{path}: {says}"
    assert assemble([judgement]).outcome == "failed"


def test_every_formula_belongs_to_a_claim_that_prints_it() -> None:
    ids = {claim.id for claim in claims()}
    for entry in FORMULAS.values():
        assert entry.claims and set(entry.claims) <= ids, entry.path
        assert all(
            misprint(entry, f"{claim.says} {claim.formula}") == "" for claim in claims() if claim.id in entry.claims
        )


@pytest.mark.parametrize("path", sorted(FORMULAS))
def test_a_formula_is_what_its_claims_print(path: str) -> None:
    entry = FORMULAS[path]
    texts = [f"{claim.says} {claim.formula}" for claim in claims() if claim.id in entry.claims]
    assert texts and {misprint(entry, text) for text in texts} == {""}


def test_one_part_in_a_thousand_is_another_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    from attnprune_verify.theory.formulas import sharp

    mu, entry = sharp.mu, FORMULAS["sharp.mu"]
    monkeypatch.setattr(sharp, "mu", lambda w, b, f, **how: mu(w, b, f, **how) * 1.001)
    assert "sharp.mu is" in misprint(entry, entry.printed)


def test_what_the_library_asks_is_what_the_statement_assumes() -> None:
    claim = find("lem:PL_ineq", "full")
    assert misprinted(claim) == ""
    fewer = replace(claim, hypotheses=claim.hypotheses[1:])
    assert any("assumes" in misprinted(one) for one in (fewer, replace(claim, hypotheses=())))


def test_a_sentence_that_prints_another_number_fails() -> None:
    claim = find("thm:lip_grad_l", "any")
    wrong = replace(claim, formula=claim.formula.replace("30 d", "31 d"), says="")
    assert "printed nowhere" in judge(wrong).misprint
    assert judge(mutant(claim, claim.wrong[0])).misprint == ""  # a wrong neighbour is printed nowhere


def test_nonsense_in_place_of_a_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    """A constant tripled and one replaced: what the claims judge is what `check` prints."""
    from attnprune_verify.theory.formulas import paper, sharp

    mu = sharp.mu
    monkeypatch.setattr(sharp, "mu", lambda w, b, f, **how: 3 * mu(w, b, f, **how))
    monkeypatch.setattr(paper, "lipschitz", lambda *values, **how: None)
    for id_, reading in (("fix:PL_ineq", "any"), ("thm:lip_grad_l", "any")):
        assert judge(find(id_, reading)).misprint
    unprinted = replace(find("fix:PL_ineq", "any"), printed=False)
    assert judge(unprinted).statement is Verdict.REFUTED  # and the attack alone finds it as well


def test_formulas_in_every_arithmetic() -> None:
    from attnprune_verify.theory.formulas import paper, sharp

    assert paper.lipschitz(4, 1, 2, 0.5, arithmetic=EXACT) * 2 == 2 * 30 * 128 * 64 + 1
    assert sharp.lipschitz(2.0, 0.0, arithmetic=FLOAT) == pytest.approx(float(sharp.lipschitz(2.0, 0.0)), rel=1e-15)
    with pytest.raises(Undecidable):
        sharp.C_plus(arithmetic=EXACT)


def test_the_notation_is_read() -> None:
    assert read("2 (a b)^2 - a/b", ["a", "b"])({"a": 2.0, "b": 3.0}) == 2 * 36 - 2 / 3
    assert read("6 sqrt(n) max|W| ||X||_F^2", ["n", "max|W|", "||X||_F"])({"n": 4, "max|W|": 0.5, "||X||_F": 3}) == 54
    assert read("n^{7/2} lam^{3/2}", ["n", "lam"])({"n": 4.0, "lam": 4.0}) == 1024
    assert read("0 < lam <= t", ["lam", "t"])({"lam": 0.0, "t": 1.0}) is False
