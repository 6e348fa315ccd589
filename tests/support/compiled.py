"""Whether this machine can compile the native step."""

import pytest

from spectra.target.native.library import native_library, native_reason


def needs_native():
    """Skip the test where the library is not available."""
    if native_library() is None:
        pytest.skip(f"no native step here: {native_reason()}")
