"""Images that the provider refuses: made smaller, named rightly, or a note; the same in every request from then on."""

import base64
import sys
from io import BytesIO
from typing import Any

import orjson
import pytest
from PIL import Image

from proxy.images import base64_image_size
from proxy.simulator import divergence
from tests.cases.bodies import (
    Proxy,
    assistant,
    body,
    call,
    case,
    complaint,
    mended,
    result,
    sent,
    text,
    user,
)
from tests.simulator.bodies import image, png

NOISE = BytesIO()
Image.effect_noise((2400, 2400), 90).save(NOISE, "PNG")
PHOTOGRAPH = base64.b64encode(NOISE.getvalue()).decode()
"""Some 6 MB."""
PADDED = base64.b64encode(base64.b64decode(png(8, 8)) + bytes(4_100 * 1024)).decode()
SMALL = [image(png(8, 8 + at)) for at in range(24)]


def pictures(request: Any) -> list[Any]:
    """All images of a request, in order."""
    return [
        inner
        for message in request["messages"]
        for block in (message["content"] if isinstance(message["content"], list) else ())
        for inner in (block["content"] if isinstance(block.get("content"), list) else (block,))
        if inner["type"] == "image"
    ]


def notes(request: Any) -> list[str]:
    """All notes that stand for an image."""
    return [
        note for note in orjson.dumps(request).decode().split('"') if note.startswith("[Image left out here")
    ]


@pytest.fixture
def without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is installed without the extra: importing it fails."""
    for name in [name for name in sys.modules if name == "PIL" or name.startswith("PIL.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "PIL", None)


@case("B59")
def test_one_wide_screenshot_behind_many_images_is_made_smaller() -> None:
    """That one alone; the small ones leave as they came, and the next request has the same bytes."""
    request = body(user(*SMALL, image(png(2162, 322)), text("Compare.")))
    assert "many-image requests: 2000 pixels" in str(complaint(request))
    proxy = Proxy()
    first = sent(proxy.send(request))
    assert complaint(first) is None
    *small, wide = pictures(first)
    assert small == SMALL
    assert base64_image_size(wide["source"]["data"]) == (2000, 298)
    more = body(*request["messages"], assistant("Alike."), user("Go on."))
    assert pictures(sent(proxy.send(more))) == pictures(first)


@case("B59")
def test_one_wide_screenshot_without_pillow_is_a_note(without_pillow: None) -> None:
    """It is told what was there; all others stay."""
    request = mended(body(user(*SMALL, image(png(2162, 322)), text("Compare."))))
    assert pictures(request) == SMALL
    (note,) = notes(request)
    assert note.startswith("[Image left out here: image/png, 2162x322 pixels, ")


@case("B59")
@pytest.mark.parametrize("answered", [False, True])
def test_a_session_that_was_met_with_a_wide_one_goes_on(*, answered: bool) -> None:
    """It stood there before there were many, in a conversation that was not sent through us."""
    turns = [user(image(png(2162, 322)), text("Look.")), assistant("I see.")]
    more = [user(*SMALL[:12], text("And these.")), assistant("Yes.")] if answered else []
    request = body(*turns, *more, user(*SMALL, text("Compare.")))
    assert complaint(request) is not None
    proxy = Proxy()
    made = proxy.send(request)
    first = sent(made)
    assert complaint(first) is None
    assert base64_image_size(pictures(first)[0]["source"]["data"]) == (2000, 298)
    (edit,) = [edit for edit in made.edits if edit.stage == "media"]
    assert (edit.required, edit.committed) == (True, True)
    later = body(*request["messages"], assistant("Alike."), user("Go on."))
    files = [[one["source"] for one in pictures(request)] for request in (first, sent(proxy.send(later)))]
    assert files[0] == files[1]
    assert files[0][1:] == [one["source"] for one in pictures(request)[1:]]


@case("B61")
@pytest.mark.parametrize("data", [PHOTOGRAPH, PADDED], ids=["photograph", "padded"])
def test_an_image_over_the_limit_in_bytes_is_made_smaller(data: str) -> None:
    """The result stays, with a picture in it that the provider takes, and the same one in the next request."""
    request = body(user("Shot."), assistant(call("A", "run", cmd="shot")), user(result("A", [image(data)])))
    assert "image exceeds 5 MB maximum" in str(complaint(request))
    proxy = Proxy(image_max_bytes=5 * 1024 * 1024)
    first = sent(proxy.send(request))
    assert complaint(first) is None
    (shown,) = pictures(first)
    assert len(shown["source"]["data"]) <= 1024 * 1024
    more = body(*request["messages"], assistant("Noise."), user("Go on."))
    assert pictures(sent(proxy.send(more))) == [shown]


@case("B61")
def test_an_image_over_the_limit_in_bytes_without_pillow_is_a_note(without_pillow: None) -> None:
    """The note names its type and size, and is the same in the next request."""
    request = body(user("Shot."), assistant(call("A", "run", cmd="shot")), user(result("A", [image(PADDED)])))
    proxy = Proxy(image_max_bytes=5 * 1024 * 1024)
    first = sent(proxy.send(request))
    assert complaint(first) is None
    assert notes(first) == [
        "[Image left out here: image/png, 8x8 pixels, 4198 kB. It is larger than what can be sent. "
        "Nothing else was changed.]"
    ]
    more = body(*request["messages"], assistant("Well."), user("Go on."))
    assert notes(sent(proxy.send(more))) == notes(first)


@pytest.mark.parametrize(
    ("data", "declared"), [(png(8, 8), "image/jpeg"), (png(8, 8), "image/webp")], ids=["jpeg", "webp"]
)
def test_a_wrong_media_type_is_corrected(data: str, declared: str) -> None:
    """By the first bytes of the file; the file itself leaves as it came."""
    request = body(user(image(data, declared), text("Look.")))
    assert "does not match the provided media type" in str(complaint(request))
    assert pictures(mended(request)) == [image(data)]


@pytest.mark.parametrize("data", ["aGVsbG8=", "", "not base64", png(8, 8)[:20]])
def test_what_is_no_image_is_a_note(data: str) -> None:
    """A text file with another name, nothing at all, a file that was cut."""
    request = body(user("Shot."), assistant(call("A", "run", cmd="shot")), user(result("A", [image(data)])))
    assert complaint(request) is not None
    (note,) = notes(mended(request))
    assert note.endswith("It could not be read. Nothing else was changed.]")


def test_of_too_many_images_the_oldest_become_notes() -> None:
    """A quarter of the limit at once, so that the next ones break nothing; the prefix stands from then on."""
    model = "claude-sonnet-4-5"
    turns = [
        message
        for at in range(10)
        for message in (
            user(*[image(png(8 + at, 8 + n)) for n in range(10)], text("Look.")),
            assistant("Yes."),
        )
    ]
    proxy = Proxy()
    assert len(pictures(sent(proxy.send(body(*turns, user("Go on."), model=model))))) == 100
    request = body(*turns, user(image(png(64, 64)), text("And this.")), model=model)
    assert "Too many images: 101 > 100" in str(complaint(request))
    made = proxy.send(request)
    first = sent(made)
    assert complaint(first) is None
    assert (len(pictures(first)), len(notes(first))) == (75, 26)
    assert pictures(first)[-1] == image(png(64, 64))
    more = body(
        *request["messages"], assistant("Yes."), user(image(png(65, 65)), text("And this.")), model=model
    )
    later = sent(proxy.send(more))
    assert (len(pictures(later)), notes(later)) == (76, notes(first))
    assert divergence(first, later) is None


def test_within_the_limits_all_images_leave_as_they_came() -> None:
    """Many small ones, and a URL, of which nothing is known."""
    elsewhere = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    request = body(user(*SMALL, elsewhere, text("Compare.")))
    assert pictures(sent(Proxy().send(request))) == [*SMALL, elsewhere]
