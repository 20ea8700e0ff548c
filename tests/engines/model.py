"""A language model of random weights, made on the spot: what it says is noise, what it costs to read is real.

The file is GGUF version 3 [1], the architecture llama's. Its vocabulary is the 256 bytes and three marks of turns, so
a token is a byte and counts can be checked by hand. Weights are drawn as the integers of Q8_0 blocks themselves:
32 signed bytes behind one half-precision factor.

[1] https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import math
import random
import string
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct, structs

TEMPLATE = Path(__file__).with_name("template.jinja")

_ALIGNMENT = 32
_U32, _F32, _BOOL, _STRING, _ARRAY, _I32 = 4, 6, 7, 8, 9, 5
_TENSOR_F32, _TENSOR_Q8_0 = 0, 8
_NORMAL, _CONTROL = 1, 3
_DEVIATION = math.sqrt((256**2 - 1) / 12)
"""Of a byte drawn at random."""

LETTERS = frozenset((string.ascii_letters + string.digits).encode())
"""All that the model says at temperature 0: half a character, or the end, would make no text and so a shorter stream."""

Value = tuple[int, object]


class Shape(Struct, frozen=True):
    """How large a model is. One head of keys and values serves all heads."""

    layers: int
    width: int
    inner: int
    heads: int
    context: int = 65536

    @property
    def head(self) -> int:
        return 64


SMALL = Shape(layers=1, width=64, inner=192, heads=1)
"""Reads a prompt of ten thousand tokens in about half a second on one core."""

MEDIUM = Shape(layers=2, width=256, inner=768, heads=4)
"""Takes about five times as long."""


class _Tensor(Struct, frozen=True):
    name: str
    rows: int
    """0: a vector of ones."""
    columns: int
    deviation: float = 1.0
    said: frozenset[int] | None = None
    """The rows that are not zero; None: all."""

    @property
    def size(self) -> int:
        """Bytes."""
        return self.columns * 4 if not self.rows else self.rows * self.columns // 32 * 34


def write_model(path: Path, shape: Shape = SMALL, seed: int = 1) -> None:
    """Write the model file: the same bytes for the same shape and seed."""
    tensors = [*_tensors(shape, sum(map(len, tokens())))]
    draw = random.Random(seed)
    with path.open("wb") as file:
        file.write(_head(shape, tensors))
        file.write(bytes(-file.tell() % _ALIGNMENT))
        for tensor in tensors:
            file.write(_data(tensor, draw))
            file.write(bytes(-file.tell() % _ALIGNMENT))


def _tensors(shape: Shape, words: int) -> Iterator[_Tensor]:
    width, inner = shape.width, shape.inner
    yield _Tensor("token_embd.weight", words, width)
    yield _Tensor("output_norm.weight", 0, width)
    yield structs.replace(_matrix("output.weight", words, width), said=LETTERS)
    for layer in range(shape.layers):
        block = f"blk.{layer}."
        yield _Tensor(f"{block}attn_norm.weight", 0, width)
        yield _matrix(f"{block}attn_q.weight", shape.heads * shape.head, width)
        yield _matrix(f"{block}attn_k.weight", shape.head, width)
        yield _matrix(f"{block}attn_v.weight", shape.head, width)
        yield _matrix(f"{block}attn_output.weight", width, shape.heads * shape.head)
        yield _Tensor(f"{block}ffn_norm.weight", 0, width)
        yield _matrix(f"{block}ffn_gate.weight", inner, width)
        yield _matrix(f"{block}ffn_up.weight", inner, width)
        yield _matrix(f"{block}ffn_down.weight", width, inner)


def _matrix(name: str, rows: int, columns: int) -> _Tensor:
    return _Tensor(name, rows, columns, columns**-0.5)


def _data(tensor: _Tensor, draw: random.Random) -> bytes:
    if not tensor.rows:
        return struct.pack(f"<{tensor.columns}f", *[1.0] * tensor.columns)
    factor = struct.pack("<e", tensor.deviation / _DEVIATION)
    blocks = tensor.columns // 32
    return b"".join(
        factor + draw.randbytes(32) if tensor.said is None or row in tensor.said else bytes(34)
        for row in range(tensor.rows)
        for _ in range(blocks)
    )


def _head(shape: Shape, tensors: Sequence[_Tensor]) -> bytes:
    values = _values(shape)
    parts = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(values))]
    for name, (kind, value) in values.items():
        parts += [_string(name), struct.pack("<I", kind), _encoded(kind, value)]
    offset = 0
    for tensor in tensors:
        sizes = (tensor.columns, tensor.rows) if tensor.rows else (tensor.columns,)
        kind = _TENSOR_Q8_0 if tensor.rows else _TENSOR_F32
        parts += [_string(tensor.name), struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, offset)]
        offset += tensor.size + -tensor.size % _ALIGNMENT
    return b"".join(parts)


def _values(shape: Shape) -> dict[str, Value]:
    words, marks = tokens()
    never = [words[0xC0], words[0xC1]]  # bytes that no UTF-8 has
    return {
        "general.architecture": (_STRING, "llama"),
        "general.name": (_STRING, "random"),
        "general.alignment": (_U32, _ALIGNMENT),
        "llama.context_length": (_U32, shape.context),
        "llama.embedding_length": (_U32, shape.width),
        "llama.block_count": (_U32, shape.layers),
        "llama.feed_forward_length": (_U32, shape.inner),
        "llama.attention.head_count": (_U32, shape.heads),
        "llama.attention.head_count_kv": (_U32, 1),
        "llama.attention.key_length": (_U32, shape.head),
        "llama.attention.value_length": (_U32, shape.head),
        "llama.attention.layer_norm_rms_epsilon": (_F32, 1e-5),
        "llama.rope.dimension_count": (_U32, shape.head),
        "llama.rope.freq_base": (_F32, 1e6),
        "llama.vocab_size": (_U32, len(words) + len(marks)),
        "tokenizer.ggml.model": (_STRING, "gpt2"),
        "tokenizer.ggml.pre": (_STRING, "gpt-2"),
        "tokenizer.ggml.tokens": (_ARRAY, (_STRING, words + marks)),
        "tokenizer.ggml.token_type": (
            _ARRAY,
            (_I32, [_NORMAL] * len(words) + [_CONTROL] * len(marks)),
        ),
        "tokenizer.ggml.merges": (
            _ARRAY,
            (_STRING, [" ".join(never)]),
        ),  # a vocabulary without any is refused
        "tokenizer.ggml.bos_token_id": (_U32, 256),
        "tokenizer.ggml.eos_token_id": (_U32, 257),
        "tokenizer.ggml.add_bos_token": (_BOOL, False),
        "tokenizer.chat_template": (_STRING, TEMPLATE.read_text(encoding="utf-8")),
    }


def tokens() -> tuple[list[str], list[str]]:
    """The bytes in the spelling of byte-level BPE, where one that cannot be seen has a letter from 256 on; the marks."""
    seen = {*range(33, 127), *range(161, 173), *range(174, 256)}
    hidden = [byte for byte in range(256) if byte not in seen]
    letters = [chr(byte) if byte in seen else chr(256 + hidden.index(byte)) for byte in range(256)]
    return letters, ["<|im_start|>", "<|im_end|>", *(f"<|unused{number}|>" for number in range(30))]


def _encoded(kind: int, value: object) -> bytes:
    match kind, value:
        case 8, str(text):
            return _string(text)
        case 9, (int(inner), list(items)):
            return struct.pack("<IQ", inner, len(items)) + b"".join(_encoded(inner, item) for item in items)
        case _:
            return struct.pack({_U32: "<I", _I32: "<i", _F32: "<f", _BOOL: "<?"}[kind], value)


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data
