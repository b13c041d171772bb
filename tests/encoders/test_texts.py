"""MiniLM: against transformers, long and odd texts, languages it knows and does not."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halfsure.encoders import Encoder, EncoderError, choosing, open_encoder
from halfsure.encoders._pieces import MOST, Pieces, pooled

ENGLISH = [
    "The striker scored twice in the second half.",
    "Shares fell sharply after the report.",
    "i loved this movie, the acting is great",
    "NASA delays the launch of its new rocket until Friday",
    "how do i reset my password",
]
OTHERS = {
    "German": ["Die Regierung hat eine neue Wirtschaftspolitik angekündigt.", "Die Bedienung ist leider zu langsam."],
    "French": ["Le gouvernement a annoncé une nouvelle politique économique.", "Ce film m'a ému aux larmes hier."],
    "Russian": ["Этот фильм тронул меня до слёз.", "Сегодня прекрасная погода."],
    "Greek": ["Η κυβέρνηση ανακοίνωσε νέα οικονομική πολιτική."],
    "Chinese": ["政府宣布了新的经济政策。", "这部电影让我感动得流泪。"],
    "Thai": ["อาหารร้านนี้อร่อยแต่บริการช้า"],
    "emoji": ["😀😀🎉", "❤️ 👍"],
}


def test_vectors_are_those_of_transformers(minilm: Encoder, minilm_files: Path) -> None:
    transformers: Any = pytest.importorskip("transformers")
    net = transformers.BertModel.from_pretrained(minilm_files).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm_files)
    cut = tokenizer(ENGLISH, padding=True, return_tensors="pt")
    with torch.no_grad():
        wanted = pooled(net(**cut).last_hidden_state, cut["attention_mask"] > 0)
    np.testing.assert_allclose(minilm.encode(ENGLISH), wanted, atol=2e-5)


def test_texts_are_unit_vectors_whatever_they_are(minilm: Encoder) -> None:
    texts = ["", " ", "\0", "a" * 5000, "word " * 600, "😀", *ENGLISH]
    found = minilm.encode(texts)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(found[-1], minilm.encode([ENGLISH[-1]])[0], atol=1e-5)


def test_a_long_text_is_the_mean_of_its_parts(minilm: Encoder) -> None:
    words = ["market", "football"] * 200
    room = 254
    parts = [" ".join(words[first : first + room]) for first in range(0, len(words), room)]
    mean = minilm.encode(parts).sum(0)
    np.testing.assert_allclose(minilm.encode([" ".join(words)])[0], mean / np.linalg.norm(mean), atol=1e-5)


def test_what_is_trained_with_a_classifier_gives_the_same_vectors(minilm: Encoder) -> None:
    net, vectors = minilm.network(), minilm.continuous(["", *ENGLISH])
    with torch.no_grad():
        found = minilm.through(net, vectors)
        np.testing.assert_allclose(found, minilm.encode(["", *ENGLISH]), atol=2e-5)
        # A mixture has the pieces of the text that has the larger share of it.
        mixed = torch.lerp(vectors[1:2], vectors[2:3], 0.1)
        alone = vectors[1:2].clone()
        alone[..., :-1] = mixed[..., :-1]
        np.testing.assert_allclose(minilm.through(net, mixed), minilm.through(net, alone), atol=1e-6)
    names = {name for block in minilm.last_blocks(net) for name, _ in block.named_parameters()}
    assert "self_attn.in_proj_weight" in names
    assert sum(weight.numel() for block in minilm.last_blocks(net) for weight in block.parameters()) < 4e6


class Letters:
    """A tokenizer of letters with two marks, as small as they come."""

    def no_truncation(self) -> None: ...

    def no_padding(self) -> None: ...

    def encode(self, text: str, add_special_tokens: bool = True) -> Any:
        ids = [ord(letter) for letter in text]
        return type("Cut", (), {"ids": [1, *ids, 2] if add_special_tokens else ids})

    def encode_batch(self, texts: list[str], add_special_tokens: bool = True) -> list[Any]:
        return [self.encode(text, add_special_tokens) for text in texts]


@given(st.lists(st.text("abcdefg", max_size=30), min_size=1, max_size=8), st.integers(3, 12))
def test_parts_hold_every_piece_once_and_are_averaged(texts: list[str], longest: int) -> None:
    pieces = Pieces(Letters(), longest)
    for text in texts:
        parts = pieces.parts(text)
        assert "".join(chr(i) for part in parts for i in part[1:-1]) == text[: MOST * (longest - 2)]
        assert all(part[0] == 1 and part[-1] == 2 and len(part) <= longest for part in parts)

    def network(ids: torch.Tensor, there: torch.Tensor) -> Any:
        return torch.stack([(ids * there).sum(1).float(), there.sum(1).float()], 1).numpy()

    found = pieces.vectors(texts, network)
    for text, vector in zip(texts, found, strict=True):
        sums = np.sum([[sum(part), len(part)] for part in pieces.parts(text)], axis=0).astype(float)
        np.testing.assert_allclose(vector, sums / np.linalg.norm(sums), rtol=1e-4)


def test_english_goes_to_minilm(minilm: Encoder) -> None:
    assert choosing.text_encoder_for(ENGLISH)[0] == "minilm"


@pytest.mark.parametrize("language", OTHERS)
def test_other_languages_go_to_words(minilm: Encoder, language: str) -> None:
    name, why = choosing.text_encoder_for(OTHERS[language])
    assert name is None
    assert "does not know" in why


def test_without_weights_words_are_taken_and_the_line_is_said(empty_root: Path) -> None:
    name, why = choosing.text_encoder_for(ENGLISH)
    assert name is None
    assert "halfsure encoders get minilm" in why
    with pytest.raises(EncoderError, match=r"run: .*halfsure encoders get minilm"):
        open_encoder("minilm")


def test_damaged_files_end_in_a_sentence(minilm_files: Path, empty_root: Path) -> None:
    folder = empty_root / "encoders" / "minilm"
    shutil.copytree(minilm_files, folder)
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(EncoderError, match="holds no MiniLM"):
        open_encoder("minilm")
    with (folder / "model.safetensors").open("r+b") as opened:
        opened.seek(5000)
        opened.write(b"\xff\xff")
    with pytest.raises(EncoderError, match="not the published ones; run: halfsure encoders get minilm"):
        open_encoder("minilm")


def test_int8_is_refused(minilm: Encoder) -> None:
    with pytest.raises(EncoderError, match="no int8"):
        open_encoder("minilm", encoder_precision="int8")


def test_the_notice_travels(minilm: Encoder) -> None:
    assert "Apache License" in minilm.notice
    assert "redistributed" in minilm.notice
