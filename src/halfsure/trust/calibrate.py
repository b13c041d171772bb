"""Held-out logits → a temperature, and unlabeled probabilities → the class shares behind them."""

import math

from torch import Tensor

from halfsure._checks import check_count, check_probs
from halfsure.simplex import Map
from halfsure.trust._inputs import ROUNDING, check_tensor, take_labels, take_logits, take_numbers, take_weights

COLDEST, HOTTEST = 0.1, 10.0
"""Between which temperatures one is looked for: few samples, all of them right, would ask for none at all."""

HALVINGS = 50
"""Of the interval that holds the temperature: to the last digits of a float."""

NEAR = 1e-9
"""How far below the best a prior's mean log-likelihood may stay."""


def fit_temperature(logits: Tensor, labels: Tensor, map: Map, weights: Tensor | None = None) -> float:
    """T that minimises the weighted mean of the map's own Fenchel–Young loss of logits / T. (n, K), (n,) → T.

    T lies between 0.1 and 10. Where a whole range of T does equally well, as in sparsemax when every true class leads
    by a margin, it is the one nearest to 1; without any sample it is 1.

    Examples:
        >>> import torch
        >>> from halfsure.simplex import SOFTMAX
        >>> from halfsure.trust import fit_temperature
        >>> logits = torch.tensor([[6.0, 0.0]]).repeat(4, 1)  # sure of itself, and right three times of four
        >>> round(fit_temperature(logits, torch.tensor([0, 0, 0, 1]), SOFTMAX), 3)  # 6 / ln 3
        5.461
    """
    wide = take_logits(logits)
    index = take_labels(labels, *wide.shape).unsqueeze(-1)
    weight = take_weights(weights, len(wide))
    wide = wide - wide.amax(-1, keepdim=True)

    def slope(inverse: float) -> float:
        """Derivative of the loss by 1/T. In the logits it is p − y, and being convex there, it is so in 1/T."""
        return float(weight @ ((map(wide * inverse) * wide).sum(-1) - wide.gather(-1, index).squeeze(-1)))

    flat = ROUNDING * float(weight @ -wide.amin(-1))  # a slope that the loss itself would not show
    at_one = slope(1.0)
    if abs(at_one) <= flat:
        return 1.0
    sign = math.copysign(1, at_one)
    near, far = 1.0, 1 / HOTTEST if sign > 0 else 1 / COLDEST
    if sign * slope(far) > flat:
        return 1 / far
    # At `near` the slope still has the sign it has at 1. At `far` it has not, and closes in on where it first vanishes.
    for _ in range(HALVINGS):
        middle = math.sqrt(near * far)
        near, far = (middle, far) if sign * slope(middle) > flat else (near, middle)
    return 1 / far


def temperature_note(temperature: float) -> str:
    """What a temperature at the end of its range means, in words; nothing elsewhere.

    Examples:
        >>> from halfsure.trust import temperature_note
        >>> print(temperature_note(10.0)[:35])
        The temperature is at its cap, 10:
        >>> temperature_note(1.7)
        ''
    """
    if temperature >= HOTTEST * (1 - ROUNDING):
        return (
            f"The temperature is at its cap, {HOTTEST:g}: on held-out labels the model is as sure of its mistakes "
            "as of its right answers, or there are too few labels to tell. Do not rely on its probabilities; label "
            "more samples of every class."
        )
    if temperature <= COLDEST * (1 + ROUNDING):
        return (
            f"The temperature is at its lowest, {COLDEST:g}: every held-out label was right by a margin, or there are "
            "too few labels to tell. Probabilities near 1 may claim too much; more labels make them reliable."
        )
    return ""


def estimate_prior(probs: Tensor, shares: Tensor, *, at_most: int = 10_000) -> Tensor:
    """Class shares of unlabeled data, from probabilities under the class shares of the labels. (n, K), (K,) → (K,).

    The maximum likelihood by expectation–maximisation (Saerens, Latinne and Decaestecker 2002), starting at the labels'
    shares, which may be counts. It takes for granted that the probabilities are calibrated, and that each class looks
    alike among the labels and in the data. A class of probability 0 stays out of its sample. It ends when the mean
    log-likelihood is within 1e-9 of the best, or after `at_most` steps, each of which brings it nearer. Without any
    sample the answer is the labels' own shares.

    Examples:
        >>> import torch
        >>> from halfsure.trust import estimate_prior
        >>> probs = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.2, 0.8]])
        >>> estimate_prior(probs, torch.tensor([0.5, 0.5])).round(decimals=3)
        tensor([0.2710, 0.7290], dtype=torch.float64)
    """
    check_tensor("probabilities", probs)
    if probs.ndim != 2:
        raise ValueError(f"probabilities must be (n, classes), got {tuple(probs.shape)}")
    check_probs("probabilities", probs)
    prior = take_numbers("class shares of the labels", shares, probs.shape[-1], at_least=0)
    if (prior == 0).any():
        absent = (prior == 0).nonzero().flatten().tolist()
        raise ValueError(f"every class needs a label to be told apart by; there is none of {absent}")
    # Likelihoods of the classes, each row on a scale of its own.
    likely = probs.detach().cpu().double() / prior
    likely = likely / likely.amax(-1, keepdim=True)
    prior = prior / prior.sum()
    for _ in range(check_count("at_most", at_most) if len(likely) else 0):
        # The gradient of the mean log-likelihood. That is concave, so the largest entry bounds what can be gained yet.
        gain = (1 / (likely @ prior)) @ likely / len(likely)
        if gain.max() <= 1 + NEAR:
            break
        prior = prior * gain
        prior = prior / prior.sum()
    return prior
