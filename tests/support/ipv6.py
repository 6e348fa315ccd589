"""Whether this machine has IPv6, which not every container has."""

import socket

import pytest


def _has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


takes_ipv6 = pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6")
