"""What a name says about the elements of a set."""

from __future__ import annotations

import pytest

from detlint.linter.tables.elements import element_table


@pytest.mark.parametrize(
    "name", ["rows", "node_idx", "token_ids", "imgIds", "vertices", "user_set", "indices_included", "rows_per_doc"]
)
def test_numbers_go_by_these_names(name: str) -> None:
    assert element_table().names_numbers(name)


@pytest.mark.parametrize("name", ["ids", "speaker_ids", "class_names", "words", "rowdy", "", "_", "edges_by_type"])
def test_numbers_do_not_go_by_these(name: str) -> None:
    assert not element_table().names_numbers(name)


@pytest.mark.parametrize("name", ["words", "class_names", "stopWords", "categories", "word_set", "prefixes", "cities"])
def test_text_goes_by_these_names(name: str) -> None:
    assert element_table().names_texts(name)


@pytest.mark.parametrize("name", ["word_ids", "named", "values", ""])
def test_text_does_not_go_by_these(name: str) -> None:
    assert not element_table().names_texts(name)


def test_some_names_go_for_either() -> None:
    assert element_table().names_either("labels")
    assert not element_table().names_either("label_names")
