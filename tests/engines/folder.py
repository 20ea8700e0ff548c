"""The model of `model`, as the folder that vLLM and transformers read: the same vocabulary and template, other weights.

The weights are one safetensors file [1]: the length of a JSON header in eight bytes, the header, the tensors. They are
drawn as the bytes of bfloat16 numbers whose exponent is set: of either sign, and within a factor of two in size.

[1] https://huggingface.co/docs/safetensors
"""

import math
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import orjson
from msgspec import Struct

from .model import LETTERS, SMALL, TEMPLATE, Shape, tokens

_START, _END = "<|im_start|>", "<|im_end|>"


class _Tensor(Struct, frozen=True):
    """`rows` 0: a vector of ones. `said`: the rows that are not zero, None: all."""

    name: str
    rows: int
    columns: int
    said: frozenset[int] | None = None

    @property
    def shape(self) -> list[int]:
        return [self.rows, self.columns] if self.rows else [self.columns]

    @property
    def size(self) -> int:
        """Bytes."""
        return 2 * math.prod(self.shape)


def write_folder(folder: Path, shape: Shape = SMALL, seed: int = 1) -> None:
    """Write the model's files into a folder that is there."""
    words, marks = tokens()
    vocabulary = {word: number for number, word in enumerate([*words, *marks])}
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": "bfloat16",
        "vocab_size": len(vocabulary),
        "hidden_size": shape.width,
        "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": 1,
        "head_dim": shape.head,
        "max_position_embeddings": shape.context,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "bos_token_id": vocabulary[_START],
        "eos_token_id": vocabulary[_END],
    }
    spoken = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": _START,
        "eos_token": _END,
        "model_max_length": shape.context,
        "clean_up_tokenization_spaces": False,
        "chat_template": TEMPLATE.read_text(encoding="utf-8"),
    }
    files = {
        "config.json": config,
        "tokenizer_config.json": spoken,
        "tokenizer.json": _tokenizer(words, marks),
    }
    for name, value in files.items():
        (folder / name).write_bytes(orjson.dumps(value))
    _write_weights(folder / "model.safetensors", [*_tensors(shape, len(vocabulary))], seed)


def _tokenizer(words: list[str], marks: list[str]) -> dict[str, object]:
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {
        "version": "1.0",
        "added_tokens": [
            {
                "id": len(words) + nth,
                "content": mark,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for nth, mark in enumerate(marks)
        ],
        "pre_tokenizer": level,
        "decoder": level,
        "model": {
            "type": "BPE",
            "vocab": {word: number for number, word in enumerate(words)},
            "merges": [],
        },
    }


def _tensors(shape: Shape, words: int) -> Iterator[_Tensor]:
    width, inner, head = shape.width, shape.inner, shape.head
    yield _Tensor("model.embed_tokens.weight", words, width)
    yield _Tensor("model.norm.weight", 0, width)
    yield _Tensor("lm_head.weight", words, width, LETTERS)
    for layer in range(shape.layers):
        block = f"model.layers.{layer}."
        yield _Tensor(f"{block}input_layernorm.weight", 0, width)
        yield _Tensor(f"{block}self_attn.q_proj.weight", shape.heads * head, width)
        yield _Tensor(f"{block}self_attn.k_proj.weight", head, width)
        yield _Tensor(f"{block}self_attn.v_proj.weight", head, width)
        yield _Tensor(f"{block}self_attn.o_proj.weight", width, shape.heads * head)
        yield _Tensor(f"{block}post_attention_layernorm.weight", 0, width)
        yield _Tensor(f"{block}mlp.gate_proj.weight", inner, width)
        yield _Tensor(f"{block}mlp.up_proj.weight", inner, width)
        yield _Tensor(f"{block}mlp.down_proj.weight", width, inner)


def _write_weights(path: Path, tensors: list[_Tensor], seed: int) -> None:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for tensor in tensors:
        header[tensor.name] = {
            "dtype": "BF16",
            "shape": tensor.shape,
            "data_offsets": [at, at + tensor.size],
        }
        at += tensor.size
    head = orjson.dumps(header)
    head += b" " * (-len(head) % 8)
    draw = random.Random(seed)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        for tensor in tensors:
            file.write(_data(tensor, draw))


def _data(tensor: _Tensor, draw: random.Random) -> bytes:
    if not tensor.rows:
        return b"\x80\x3f" * tensor.columns
    exponent = 127 + round(math.log2(tensor.columns**-0.5 / 1.5))
    low = bytes(byte & 0x7F | (exponent & 1) << 7 for byte in range(256))
    high = bytes(byte & 0x80 | exponent >> 1 for byte in range(256))
    drawn = bytearray(draw.randbytes(tensor.size))
    drawn[0::2] = drawn[0::2].translate(low)
    drawn[1::2] = drawn[1::2].translate(high)
    row = 2 * tensor.columns
    for nth in range(tensor.rows):
        if tensor.said is not None and nth not in tensor.said:
            drawn[nth * row : (nth + 1) * row] = bytes(row)
    return bytes(drawn)
