"""The model's folder says in each of its files what the others rely on."""

import struct
from pathlib import Path

import orjson

from .folder import write_folder
from .model import SMALL, tokens


def test_the_weights_fill_the_file_as_their_header_says(tmp_path: Path) -> None:
    """Readers map the file and trust the offsets."""
    write_folder(tmp_path)
    data = (tmp_path / "model.safetensors").read_bytes()
    [length] = struct.unpack("<Q", data[:8])
    tensors = orjson.loads(data[8 : 8 + length])
    del tensors["__metadata__"]
    ends = sorted(tensor["data_offsets"] for tensor in tensors.values())
    assert [begin for begin, _ in ends] == [0, *(end for _, end in ends[:-1])]
    assert 8 + length + ends[-1][1] == len(data)


def test_each_byte_and_mark_has_one_number_of_the_vocabulary(tmp_path: Path) -> None:
    """The model's size is that of the vocabulary."""
    write_folder(tmp_path)
    tokenizer = orjson.loads((tmp_path / "tokenizer.json").read_bytes())
    config = orjson.loads((tmp_path / "config.json").read_bytes())
    numbers = [*tokenizer["model"]["vocab"].values(), *(mark["id"] for mark in tokenizer["added_tokens"])]
    assert numbers == [*range(sum(map(len, tokens())))]
    assert (config["vocab_size"], config["hidden_size"]) == (len(numbers), SMALL.width)


def test_equal_seeds_give_equal_files(tmp_path: Path) -> None:
    """A run can be repeated."""
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
        write_folder(folder)
    first, second = ({file.name: file.read_bytes() for file in folder.iterdir()} for folder in folders)
    assert first == second
