"""A model's chat template is a program of the model's: where it fails, one line says why."""

import pytest
from words import tokenizer

from spectra.datastore.language import Language
from spectra.errors import SpectraError
from spectra.io.chat_template import template_ids, template_text

TURN = [{"role": "user", "content": "w9"}]


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{% for message in %}", "Expected an expression"),
        ("{{ messages[5].content }}", "no element 5"),
    ],
)
def test_a_template_that_fails_is_told(template, why):
    broken = tokenizer()
    broken.chat_template = template
    for work in (template_ids, template_text, lambda own, _: Language(own, "tiny").header("answer")):
        with pytest.raises(SpectraError, match=rf"^prompt: the model's chat template fails on it \(.*{why}"):
            work(broken, TURN)


def test_text_and_ids_are_of_the_same_template():
    own = tokenizer()
    assert template_ids(own, TURN) == own(template_text(own, TURN), add_special_tokens=False)["input_ids"]
    assert template_text(own, TURN).startswith(template_text(own, TURN, opened=False))
