"""How clients break their own history: each of these was seen in the wild, and a provider refuses each of them."""

from __future__ import annotations

from .plan import INTERRUPTED
from .project import Json


def broken(step: int, answer: list[Json], results: list[Json]) -> tuple[list[Json], list[Json]]:
    """An answer of the model and the results of its calls as a careless client keeps them from this step on."""
    match step:
        case _ if step == INTERRUPTED:  # the results of what was stopped are lost [A20]
            return answer, [block for block in results if block["type"] != "tool_result"]
        case 20:  # words behind the call they came before [A21]
            words = [block for block in answer if block["type"] == "text"]
            return [*(block for block in answer if block["type"] != "text"), *words], results
        case 23:  # an empty text beside the results [A13]
            return answer, [*results, {"type": "text", "text": ""}]
        case 29:  # a call that was retried stands there twice, with one id [A22]
            return [*answer, answer[-1]], results
        case 35:  # an output cut in the middle of a character: half a surrogate pair [A4]
            return answer, [results[0] | {"content": f"{results[0]['content'][:500]}\ud83d"}, *results[1:]]
        case _:
            return answer, results
