"""One table explains each mistake once, for every subject in which it is looked for."""

import pytest

from attnprune_verify.audit.functions.naming.mistakes import MISTAKES as FORMULAS
from attnprune_verify.audit.mistakes import MISTAKES, SUBJECTS, explained
from tests.audit.kernel.kill_matrix import catalogue
from tests.audit.wrong.catalogue import WRONG as WRONG_FUNCTIONS

KERNELS = {id for wrong in catalogue() for id in wrong.names}
FUNCTIONS = {id for wrong in WRONG_FUNCTIONS for id in wrong.names} | {formula.id for formula in FORMULAS}


def test_no_two_ids_have_one_sentence():
    sentences = [mistake.sentence for mistake in MISTAKES.values()]
    assert len(set(sentences)) == len(sentences)


@pytest.mark.parametrize("id", MISTAKES)
def test_a_row_is_a_sentence_about_some_subjects(id):
    mistake = MISTAKES[id]
    assert mistake.sentence and not mistake.sentence.endswith(".")
    assert mistake.initials and len(set(mistake.initials)) == len(mistake.initials)
    assert set(mistake.subjects) <= set(SUBJECTS.values())


@pytest.mark.parametrize("id", sorted(KERNELS))
def test_names_of_wrong_kernels_are_mistakes_of_kernels(id):
    assert "kernels" in MISTAKES[id].subjects


@pytest.mark.parametrize("id", sorted(FUNCTIONS))
def test_names_of_wrong_functions_are_mistakes_of_functions(id):
    assert set(MISTAKES[id].subjects) - {"kernels"}


def test_a_detail_that_the_sentence_holds_is_not_repeated():
    assert explained("missing-scale", "scale").endswith("not scaled")
    assert explained("missing-scale", "by 8").endswith("not scaled (by 8)")
