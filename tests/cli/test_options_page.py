"""docs/options.md has every option of every command, its default and what it means, as the commands have them now."""

import os

from options_page import PAGE, commands, page


def test_the_page_of_all_options_is_that_of_the_commands(monkeypatch):
    for name in [name for name in os.environ if name.startswith(("SPECTRA_", "GRADIO_SERVER_"))]:
        monkeypatch.delenv(name)
    written = PAGE.read_text(encoding="utf-8")
    assert written == page(), "write it anew: PYTHONPATH=.:tests/support python tests/tools/options_page.py"
    assert len(list(commands())) > 30
