"""Proxies that the environment names: gradio, through httpx, uses them for all that it asks, its own page too."""

import os
import socket
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from spectra.errors import SpectraError

SECONDS = 10.0
"""Within which a proxy lets an address of this machine be asked: gradio itself would wait without end."""


def check_proxies(host: str, port: int) -> None:
    """Raise SpectraError where one is named that httpx cannot use, or that the page could not be asked through.

    host, port: the page's, on which nobody listens yet. Gradio could not even be imported, or would not start it.
    """
    try:
        httpx.Client().close()
    except (ImportError, ValueError, httpx.InvalidURL) as error:
        raise SpectraError(
            "proxy", f"{str(error).rstrip('.')}; or unset the variables that name it, such as ALL_PROXY"
        ) from error
    asked = "localhost" if host == "0.0.0.0" else host  # as gradio does
    proxies = getproxies()
    proxy = proxies.get("http") or proxies.get("all")
    if not proxy or proxy_bypass(asked):
        return
    if why := _refused(host, port, httpx.URL(scheme="http", host=asked, port=port)):
        name = "no_proxy" if os.environ.get("no_proxy") else "NO_PROXY"  # the first overrules the second
        hosts = ",".join(dict.fromkeys(filter(None, [os.environ.get(name), "127.0.0.1", "localhost", asked])))
        place = urlsplit(proxy).netloc.rpartition("@")[2] or "the proxy"  # without a password
        raise SpectraError("proxy", f"the page cannot be asked through {place} ({why[:100]}); set {name}={hosts}")


def _refused(host: str, port: int, url: httpx.URL) -> str:
    """Why a page at this address cannot be asked for; "" where it can."""
    with _Answering((host, port), _Empty) as page:
        Thread(target=page.serve_forever, daemon=True).start()
        try:
            code = httpx.get(url, timeout=SECONDS).status_code
            return "" if code == httpx.codes.NO_CONTENT else f"it answers with {code}"
        except httpx.HTTPError as error:
            return str(error)
        finally:
            page.shutdown()


class _Answering(ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[StreamRequestHandler]) -> None:
        self.address_family = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0][0]
        super().__init__(address, handler)


class _Empty(StreamRequestHandler):
    """An answer without content."""

    def handle(self) -> None:
        while self.rfile.readline().strip():  # what is asked
            pass
        self.wfile.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
