"""A drafter that fails."""


class Broken:
    """Fails in one of its calls: `begin`, or the call of number `at` of another."""

    def __init__(self, where, error=None, at=3):
        self.where, self.at, self.calls, self.error = where, at, 0, error or LookupError("broken drafter")

    def fail(self, where):
        self.calls += where == self.where
        if where == self.where and (self.calls == self.at or where == "begin"):
            raise self.error

    def begin(self, prompt):
        self.fail("begin")

    def grow(self, tree, tokens):
        self.fail("grow")

    def observe(self, tokens, outcome):
        self.fail("observe")
