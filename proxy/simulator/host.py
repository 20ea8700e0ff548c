"""One address for several services, told apart by path: as a machine that runs all of them would be."""

from collections.abc import Mapping

from .embedded import Headers
from .exchange import Answer, Exchange
from .refusal import envelope
from .server import Delays, Service


class Host:
    """Answers for whichever service the path belongs to.

    `services` by the beginnings of their paths, the longest that fits counts; a path of nobody's is a 404. Delays and
    the list of models are those of the first.
    """

    def __init__(self, services: Mapping[str, Service]) -> None:
        self._services = dict(sorted(services.items(), key=lambda one: -len(one[0])))
        self._first = next(iter(services.values()))
        self._made: dict[int, Service] = {}
        """Whose answers have not begun yet."""

    @property
    def settings(self) -> Delays:
        """See `server.Service`."""
        return self._first.settings

    def models(self) -> bytes:
        """See `server.Service`."""
        return self._first.models()

    def prepare(self, headers: Headers, body: bytes, now: float, path: str) -> Answer:
        """See `server.Service`."""
        service = next((one for start, one in self._services.items() if path.startswith(start)), None)
        if service is None:
            record = Exchange(
                path=path.partition("?")[0], headers=(), body=b"", started=now, status=404, error="Not found"
            )
            kind = (("content-type", "application/json"),)
            return Answer(status=404, headers=kind, body=envelope(404, "Not found"), exchange=record)
        answer = service.prepare(headers, body, now, path)
        self._made[id(answer)] = service
        return answer

    def begin(self, answer: Answer) -> None:
        """See `server.Service`."""
        service = self._made.pop(id(answer), None)
        if service is not None:
            service.begin(answer)
