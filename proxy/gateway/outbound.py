"""The way out: forward proxies and certificate authorities, as the environment names them.

Read by us and not by the HTTP library, whose own reading of the environment also sends the passwords of `.netrc`.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from urllib.parse import urlsplit

from ..errors import SettingsError

_CA_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")


def proxy_for(url: str, env: Mapping[str, str]) -> str | None:
    """Return the forward proxy for `url`, or None for a direct way.

    `HTTPS_PROXY`, `HTTP_PROXY` and `ALL_PROXY`, in either case, the lower one first; hosts in `NO_PROXY` and loopback
    addresses are reached directly. Raises SettingsError for a kind of proxy that cannot be used.
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    names = (f"{parts.scheme}_proxy", "all_proxy")
    spelt = [spelling for name in names for spelling in (name, name.upper())]
    variable = next((name for name in spelt if env.get(name)), None)
    if variable is None or _direct(host, parts.port, env.get("no_proxy") or env.get("NO_PROXY") or ""):
        return None
    proxy = env[variable] if "://" in env[variable] else f"http://{env[variable]}"
    try:
        sound = urlsplit(proxy).scheme in {"http", "https"} and bool(urlsplit(proxy).hostname)
    except ValueError:
        sound = False
    if not sound:
        raise SettingsError(
            "names no usable proxy", variable, f"write http://HOST:PORT, or put {host} into NO_PROXY"
        )
    return proxy


def _direct(host: str, port: int | None, no_proxy: str) -> bool:
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    entries = (word.strip().lower() for word in no_proxy.split(","))
    return any(_covers(entry, host, port, address) for entry in entries if entry)


def _covers(entry: str, host: str, port: int | None, address: IPv4Address | IPv6Address | None) -> bool:
    """Whether an entry of NO_PROXY (`*`, a name, `.suffix`, an address, a network, any with a port) names `host`."""
    name, colon, entry_port = entry.rpartition(":") if entry.count(":") == 1 else (entry, "", "")
    if colon and entry_port != str(port):
        return False
    if address is not None and (network := _network(name.strip("[]"))) is not None:
        return address in network
    suffix = name.removeprefix("*").removeprefix(".")
    return name == "*" or host == suffix or (bool(suffix) and host.endswith(f".{suffix}"))


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


def tls_context(env: Mapping[str, str]) -> ssl.SSLContext:
    """Return the trust for providers: the system's authorities, and those of the files the environment names.

    Raises SettingsError for a file that cannot be used.
    """
    context = ssl.create_default_context()
    for variable in _CA_VARIABLES:
        if not (place := env.get(variable)):
            continue
        try:
            if Path(place).is_dir():
                context.load_verify_locations(capath=place)
            else:
                context.load_verify_locations(cafile=place)
        except (OSError, ssl.SSLError) as fault:
            raise SettingsError(
                f"'{place}' is no file of certificates ({fault.strerror or fault})",
                variable,
                "point it at a PEM file, or unset it",
            ) from fault
    return context
