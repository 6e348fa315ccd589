"""Proxies that the environment names: gradio, through httpx, uses them for all that it asks, its own page too."""

import os
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from spectra.errors import SpectraError


def check_proxies() -> None:
    """Raise SpectraError where one is named that httpx cannot use: gradio would not even be imported."""
    try:
        httpx.Client().close()
    except (ImportError, ValueError, httpx.InvalidURL) as error:
        raise SpectraError(
            "proxy", f"{str(error).rstrip('.')}; or unset the variables that name it, such as ALL_PROXY"
        ) from error


def obstacle(host: str, error: Exception) -> str:
    """What to say of an error of asking http://host through a proxy; "" where none stands between."""
    proxies = getproxies()
    proxy = proxies.get("http") or proxies.get("all")
    if not proxy or proxy_bypass(host):
        return ""
    name = "no_proxy" if os.environ.get("no_proxy") else "NO_PROXY"  # the first overrules the second
    hosts = ",".join(dict.fromkeys(filter(None, [os.environ.get(name), "127.0.0.1", "localhost", host])))
    place = urlsplit(proxy).netloc.rpartition("@")[2] or "the proxy"  # without a password
    return f"the page cannot be asked through {place} ({str(error)[:100]}); set {name}={hosts}"
