"""What went wrong on the way to a provider, in words for whoever reads the error or the log."""

from __future__ import annotations

import errno
import os

import aiohttp

from ..errors import UpstreamError, UpstreamTimeout
from .values import Upstream

CONNECT_SECONDS = 30.0


def named(fault: Exception, upstream: Upstream) -> UpstreamError:
    """Say in our words what went wrong. The library's own texts may hold the URL, and the URL a key [D300]."""
    place = f"upstream '{upstream.name}' ({upstream.origin})"
    match fault:
        case aiohttp.ConnectionTimeoutError() | TimeoutError():
            return UpstreamTimeout(f"no connection within {CONNECT_SECONDS:.0f} seconds", place)
        case aiohttp.ClientConnectorDNSError():
            return UpstreamError("its name cannot be resolved", place, reason="dns")
        case aiohttp.ClientConnectorCertificateError():
            return UpstreamError(
                f"its certificate is not trusted ({_certificate(fault)})",
                place,
                "name your authority's file in SSL_CERT_FILE",
                reason="tls",
            )
        case aiohttp.ClientConnectorSSLError():
            return UpstreamError("no TLS connection can be made", place, reason="tls")
        case aiohttp.ClientProxyConnectionError() | aiohttp.ClientHttpProxyError():
            return UpstreamError("the forward proxy does not let us through", place, reason="proxy")
        case aiohttp.ClientConnectorError():
            return UpstreamError(f"cannot be reached: {_words(fault.os_error)}", place, reason="refused")
        case aiohttp.ServerDisconnectedError():
            return UpstreamError("closed the connection without an answer", place, reason="reset")
        case aiohttp.ClientResponseError():
            return UpstreamError("its answer is not readable HTTP", place, reason="protocol")
        case OSError():
            return UpstreamError(f"the connection broke: {_words(fault)}", place, reason="reset")
        case _:
            return UpstreamError(f"the request failed ({type(fault).__name__})", place, reason="other")


def _words(fault: OSError) -> str:
    if fault.errno is not None and fault.errno in errno.errorcode:
        return f"{os.strerror(fault.errno)} ({errno.errorcode[fault.errno]})"
    return type(fault).__name__


def _certificate(fault: aiohttp.ClientConnectorCertificateError) -> str:
    return str(getattr(fault.certificate_error, "verify_message", "") or "verification failed")
