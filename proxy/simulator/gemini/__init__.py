"""The embedded Gemini API: generateContent with strict validation and an implicit prefix cache.

    bytes -> request.read (size, JSON, account, model, schema) -> turns.check (roles, parts, order, signatures)
          -> cache.look -> script -> answering -> bytes

Scripts are those of the provider next door: `asking` shows them a request in the words they know.
"""

from .provider import GeminiProvider, Served
from .settings import GeminiSettings

__all__ = ["GeminiProvider", "GeminiSettings", "Served"]
