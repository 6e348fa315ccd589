"""A package, so that a fixture can last as long as its tests: Chromium is started once."""
