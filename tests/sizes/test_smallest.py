"""The tests of the definitions once more, with every size at its smallest; and no number that the registry lacks."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sizes.registry import FOLDERS, NOT_SIZES, ROUTES, SMALLEST, numbers

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "attnprune_verify"
SWITCH = 16  # chosen: smaller literals in comparisons are dimensions, ranks and counts of arguments


def sources():
    for folder in FOLDERS:
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            yield ".".join(path.relative_to(PACKAGE).with_suffix("").parts), ast.parse(path.read_text("utf-8"))


def value_of(node):
    """Return the number that an expression of literals stands for, else None."""
    if any(not isinstance(part, ast.Constant | ast.BinOp | ast.UnaryOp | ast.operator | ast.unaryop)
           for part in ast.walk(node)):  # fmt: skip
        return None
    value = eval(compile(ast.Expression(node), "<literal>", "eval"))  # literals and operators only
    return value if type(value) in (int, float) else None


def assigned(tree):
    """Yield the name and the number of every module-level assignment of a number, alone or in a tuple."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                several = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                pairs = zip(target.elts, node.value.elts, strict=True) if several else [(target, node.value)]
                for name, value in pairs:
                    if isinstance(name, ast.Name) and (number := value_of(value)) is not None:
                        yield name.id, number


def test_every_number_is_registered():
    there = {f"{module}.{name}" for module, tree in sources() for name, _ in assigned(tree)}
    listed = {*numbers(SMALLEST), *numbers(ROUTES), *numbers(NOT_SIZES)}
    assert there - listed == set(), "give each its smallest value in SMALLEST or ROUTES, or its meaning in NOT_SIZES"
    assert listed - there == set(), "in the registry and not in the package"


def switches(tree):
    """Yield comparisons, min and max inside functions with a literal that is large enough to be a size."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Compare):
                    parts = [node.left, *node.comparators]
                elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
                    parts = node.args
                else:
                    continue
                if any((number := value_of(part)) is not None and number >= SWITCH for part in parts):
                    yield ast.unparse(node)


def test_no_size_stands_in_a_comparison():
    """Such a number is nobody's: give it a name, a reason and a line in the registry."""
    found = {f"{module}: {text}" for module, tree in sources() for text in switches(tree)}
    assert found == PLAIN


PLAIN = {
    "instance.memory: number < 1024",  # the next unit of bytes, in a message
    "instance.memory: 1000 <= number < 10 ** 6",  # digits of a number in a message
    "instance.memory: min(size, 2 ** 200)",  # what a double holds, in a message
    "theory.assumptions: -300 < power < 300",  # a power of ten that a double can show
    "theory.assumptions: abs(power) < 1000000000000000.0",  # a power of ten whose digits a double can show
    "theory.numbers.balls: abs(exponent) < 2.0 ** 60",  # an exponent that fits into a machine word
    "theory.quantities.evaluation: squares.rel_accuracy_bits() > 30",  # nine digits are enough for a report
    "theory.quantities.evaluation: min(floor.radius, 700.0)",  # exp of it is still a double
    "instance.archive: min(left, 2 ** 18)",  # bytes read at once
}
"""Comparisons with a large literal that is no size, each with its reason."""


def test_a_size_in_a_function_is_noticed():
    assert list(switches(ast.parse("def f(n):\n    return n < 2**15 or min(n, 100)"))) == ["n < 2 ** 15", "min(n, 100)"]


def run_at_the_smallest(*arguments):
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "--attnprune-smallest"]
    return subprocess.run([*command, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def test_definitions_at_the_smallest_sizes():
    """Blocks of one row, chunks of one number, every problem in threads: the laws and values of the model hold.

    The kernel's own tests, of threads and of the running-error bound, are left to the thorough profile.
    """
    done = run_at_the_smallest("tests/model/test_laws.py", "tests/model/test_layer.py")
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "folder", ["tests/model", "tests/theory", "tests/oracle", "tests/instance", "tests/algorithms"]
)
def test_everything_at_the_smallest_sizes(folder):
    done = run_at_the_smallest(folder)
    assert done.returncode == 0, done.stdout[-3000:]
