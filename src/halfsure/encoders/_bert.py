"""BERT, as MiniLM is one: words and their places → layers of attention → the mean over a text, of length one."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["Bert"]


class Bert(nn.Module):
    """Numbers of word pieces → a unit vector a text."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        width, epsilon = config["hidden_size"], config["layer_norm_eps"]
        self.words = nn.Embedding(config["vocab_size"], width)
        self.places = nn.Embedding(config["max_position_embeddings"], width)
        self.kinds = nn.Embedding(config["type_vocab_size"], width)
        self.norm = nn.LayerNorm(width, epsilon)
        layer = nn.TransformerEncoderLayer(
            width,
            config["num_attention_heads"],
            config["intermediate_size"],
            dropout=0.0,
            activation=F.gelu,
            layer_norm_eps=epsilon,
            batch_first=True,
        )
        self.layers = nn.TransformerEncoder(layer, config["num_hidden_layers"], enable_nested_tensor=False)

    def forward(self, pieces: Tensor, there: Tensor) -> Tensor:
        """(n, length) numbers, and which of them are there → (n, width)."""
        return self.of_vectors(self.words(pieces), there)

    def of_vectors(self, words: Tensor, there: Tensor) -> Tensor:
        """(n, length, width) vectors of words, and which of them are there → (n, width)."""
        places = torch.arange(words.shape[1], device=words.device)
        x = self.norm(words + self.places(places) + self.kinds.weight[0])
        x = self.layers(x, src_key_padding_mask=~there)
        return F.normalize((x * there[..., None]).sum(1) / there.sum(1, keepdim=True), dim=-1)

    def take(self, weights: Mapping[str, Tensor]) -> "Bert":
        """Fill it with weights under the names that transformers gives them."""
        state = {
            "words.weight": weights["embeddings.word_embeddings.weight"],
            "places.weight": weights["embeddings.position_embeddings.weight"],
            "kinds.weight": weights["embeddings.token_type_embeddings.weight"],
            "norm.weight": weights["embeddings.LayerNorm.weight"],
            "norm.bias": weights["embeddings.LayerNorm.bias"],
        }
        for number in range(len(self.layers.layers)):
            old, new = f"encoder.layer.{number}.", f"layers.layers.{number}."
            for kind in ("weight", "bias"):
                parts = [weights[f"{old}attention.self.{name}.{kind}"] for name in ("query", "key", "value")]
                state[f"{new}self_attn.in_proj_{kind}"] = torch.cat(parts)
                for theirs, ours in _LAYER.items():
                    state[f"{new}{ours}.{kind}"] = weights[f"{old}{theirs}.{kind}"]
        self.load_state_dict(state)
        return self


_LAYER = {
    "attention.output.dense": "self_attn.out_proj",
    "attention.output.LayerNorm": "norm1",
    "intermediate.dense": "linear1",
    "output.dense": "linear2",
    "output.LayerNorm": "norm2",
}
