"""Images in requests, in the block of any format: found, and replaced with every other member as it was."""

import pytest

from proxy.errors import BodyError
from proxy.inline import ELSEWHERE, Inline, inline, with_inline

PNG, NEW = Inline("image/png", "aGk="), Inline("image/webp", "eW8=")
BLOCKS = [
    '{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="},"cache_control":{"type":"ephemeral"}}',
    '{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk=","detail":"high"},"x":1.50}',
    '{"type":"image_url","image_url":"data:image/png;base64,aGk="}',
    '{"type":"input_image","detail":"low","image_url":"data:image/png;name=a;base64,aGk="}',
    '{"inlineData":{"mimeType":"image/png","data":"aGk="},"videoMetadata":null}',
    '{"inline_data":{"mime_type":"image/png","data":"aGk=","displayName":"a"}}',
]


@pytest.mark.parametrize("block", BLOCKS)
def test_an_image_is_found_and_replaced(block: str) -> None:
    """The block says the new image and is the same otherwise."""
    assert inline(block.encode()) == PNG
    expected = block.replace("image/png", "image/webp").replace("aGk=", "eW8=").replace(";name=a", "")
    assert with_inline(block.encode(), NEW).decode() == expected


@pytest.mark.parametrize(
    ("block", "found"),
    [
        ('{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}', ELSEWHERE),
        ('{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}', ELSEWHERE),
        ('{"type":"input_image","file_id":"file-1"}', ELSEWHERE),
        ('{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"aGk="}}', None),
        ('{"type":"input_file","file_data":"data:application/pdf;base64,aGk="}', None),
        ('{"inlineData":{"mimeType":"audio/wav","data":"aGk="}}', None),
        ('{"inlineData":{"mimeType":1,"data":"aGk="}}', None),
        ('{"type":"image","source":[]}', None),
        ('{"text":"data:image/png;base64,aGk="}', None),
        ('{"fileData":{"mimeType":"image/png","fileUri":"gs://a"}}', None),
        ('"text"', None),
        ("{", None),
    ],
)
def test_what_stands_elsewhere_or_is_no_image_is_told_apart(block: str, found: Inline | None) -> None:
    """An image of which nothing is known counts as one; nothing can be put in its place."""
    assert inline(block.encode()) == found
    if found is ELSEWHERE:
        with pytest.raises(BodyError):
            with_inline(block.encode(), NEW)
