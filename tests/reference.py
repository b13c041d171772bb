"""Naive twins of the mathematics: plain loops over one sample's list of floats, for tests to compare against.

Logits of -inf are masks: their class has probability 0. Every sample needs at least one finite logit.
"""

import math
from collections.abc import Callable


def dot(a: list[float], b: list[float]) -> float:
    """Inner product in which a zero on either side wipes out its term, even against an infinity."""
    return sum(x * y for x, y in zip(a, b, strict=True) if x != 0.0 and y != 0.0)


def shift(z: list[float]) -> list[float]:
    """Logits moved so that the largest is 0."""
    top = max(z)
    if not math.isfinite(top):
        raise ValueError(f"The largest logit must be finite, got {top}.")
    return [x - top for x in z]


def bisect(total: Callable[[float], float]) -> tuple[float, float]:
    """Neighbouring floats low < high in [-1, 0] with total(low) >= 1 > total(high), for a decreasing total."""
    low, high = -1.0, 0.0
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            return low, high
        if total(middle) >= 1.0:
            low = middle
        else:
            high = middle


def softmax(z: list[float]) -> list[float]:
    """Exponentials of the logits, normalised."""
    weights = [math.exp(x) for x in shift(z)]
    total = sum(weights)
    return [w / total for w in weights]


def sparsemax(z: list[float]) -> list[float]:
    """Euclidean projection of the logits on the simplex."""
    x = shift(z)
    _, above = bisect(lambda tau: sum(max(0.0, v - tau) for v in x))
    support = [v for v in x if v > above]
    tau = (sum(support) - 1.0) / len(support)
    return [max(0.0, v - tau) if v > above else 0.0 for v in x]


def entmax(z: list[float], alpha: float) -> list[float]:
    """Alpha-entmax: softmax at alpha 1, sparsemax at alpha 2, the family joining them in between."""
    if not 1.0 <= alpha <= 2.0:
        raise ValueError(f"alpha must lie in [1, 2], got {alpha}.")
    if alpha == 1.0:
        return softmax(z)
    if alpha == 2.0:
        return sparsemax(z)
    x = [(alpha - 1.0) * v for v in shift(z)]

    def probabilities(tau: float) -> list[float]:
        return [math.pow(max(0.0, v - tau), 1.0 / (alpha - 1.0)) for v in x]

    tau, _ = bisect(lambda candidate: sum(probabilities(candidate)))
    return probabilities(tau)


def negentropy(p: list[float], alpha: float) -> float:
    """Omega(p): Shannon's negative entropy at alpha 1, Tsallis's otherwise."""
    if alpha == 1.0:
        return sum(v * math.log(v) for v in p if v > 0.0)
    return (sum(math.pow(v, alpha) for v in p) - 1.0) / (alpha * (alpha - 1.0))


def fenchel_young(z: list[float], y: list[float], alpha: float) -> float:
    """Fenchel-Young loss Omega*(z) + Omega(y) - <z, y>, with Omega*(z) = <z, p> - Omega(p) at p = entmax(z)."""
    p = entmax(z, alpha)
    conjugate = dot(z, p) - negentropy(p, alpha)
    return conjugate + negentropy(y, alpha) - dot(z, y)


def sparsemax_loss(z: list[float], y: list[float]) -> float:
    """Half of ||y - z||^2 - ||p - z||^2 with p = sparsemax(z), for finite logits."""
    p = sparsemax(z)
    to_target = sum((b - a) * (b - a) for a, b in zip(z, y, strict=True))
    to_projection = sum((b - a) * (b - a) for a, b in zip(z, p, strict=True))
    return (to_target - to_projection) / 2


def kl(q: list[float], p: list[float]) -> float:
    """KL(q || p), infinite where q puts mass on a class that p rules out."""
    total = 0.0
    for a, b in zip(q, p, strict=True):
        if a > 0.0:
            if b == 0.0:
                return math.inf
            total += a * math.log(a / b)
    return total


def cross_entropy(z: list[float], y: list[float]) -> float:
    """KL(y || softmax(z)): the cross-entropy less the entropy of the target."""
    return kl(y, softmax(z))


def jacobian(z: list[float], alpha: float) -> list[list[float]]:
    """Matrix dp/dz of entmax: diag(s) - s s^T / sum(s), with s = p^(2 - alpha) on the support and 0 off it."""
    s = [math.pow(v, 2.0 - alpha) if v > 0.0 else 0.0 for v in entmax(z, alpha)]
    total = sum(s)
    size = len(s)
    return [[(s[i] if i == j else 0.0) - s[i] * s[j] / total for j in range(size)] for i in range(size)]


def sharpen(p: list[float], r: float) -> list[float]:
    """Powers p^r, normalised; ratios to the largest entry keep them from all underflowing."""
    top = max(p)
    powers = [math.pow(v / top, r) if v > 0.0 else 0.0 for v in p]
    total = sum(powers)
    return [v / total for v in powers]


def min_entropy(z: list[float], alpha: float) -> float:
    """Shannon entropy of the prediction."""
    return -negentropy(entmax(z, alpha), 1.0)


def sharpening_target(z: list[float], alpha: float, temperature: float) -> list[float]:
    """Prediction sharpened by a temperature."""
    return sharpen(entmax(z, alpha), 1.0 / temperature)


def sharpening(z: list[float], alpha: float, temperature: float) -> float:
    """Fenchel-Young loss against the sharpened prediction."""
    return fenchel_young(z, sharpening_target(z, alpha, temperature), alpha)


def pseudo_label_target(z: list[float], alpha: float, threshold: float) -> tuple[list[float], float]:
    """One-hot vector at the first most probable class, and weight 1 if that class reaches the threshold, else 0."""
    p = entmax(z, alpha)
    best = p.index(max(p))
    target = [1.0 if i == best else 0.0 for i in range(len(p))]
    return target, 1.0 if p[best] >= threshold else 0.0


def pseudo_label(z: list[float], alpha: float, threshold: float) -> float:
    """Weighted Fenchel-Young loss against the pseudo-label."""
    target, weight = pseudo_label_target(z, alpha, threshold)
    return weight * fenchel_young(z, target, alpha)


def negative_sampling(z: list[float], alpha: float, threshold: float) -> float:
    """Loss -log(1 - mass of the classes below the threshold), 0 when that would be every class."""
    p = entmax(z, alpha)
    if all(v < threshold for v in p):
        return 0.0
    return -math.log(1.0 - sum(v for v in p if v < threshold))


def ads_target(z: list[float], alpha: float, r: float) -> list[float]:
    """Prediction raised to the power r and normalised."""
    return sharpen(entmax(z, alpha), r)


def ads(z: list[float], alpha: float, r: float) -> float:
    """KL divergence of the prediction from its sharpened self."""
    return kl(ads_target(z, alpha, r), entmax(z, alpha))


def ads_gradient(z: list[float], r: float) -> list[float]:
    """Gradient in z of KL(q || sparsemax(z)) with the target q held fixed."""
    p = sparsemax(z)
    q = sharpen(p, r)
    ratios = [b / a for a, b in zip(p, q, strict=True) if a > 0.0]
    mean = sum(ratios) / len(ratios)
    return [mean - b / a if a > 0.0 else 0.0 for a, b in zip(p, q, strict=True)]


def top_m_logits(z: list[float], m: int) -> list[float]:
    """Logits with all but the m largest masked, for logits without ties."""
    order = sorted(range(len(z)), key=lambda i: z[i], reverse=True)
    kept = order[:m]
    return [v if i in kept else -math.inf for i, v in enumerate(z)]


def top_m_target(z: list[float], alpha: float, m: int, r: float) -> list[float]:
    """Sharpened prediction among the m most likely classes."""
    return ads_target(top_m_logits(z, m), alpha, r)


def top_m(z: list[float], alpha: float, m: int, r: float) -> float:
    """Fenchel-Young loss of the m largest logits against their sharpened prediction."""
    return fenchel_young(top_m_logits(z, m), top_m_target(z, alpha, m, r), alpha)


def numerical_gradient(f: Callable[[list[float]], float], z: list[float], step: float = 1e-6) -> list[float]:
    """Central differences of f at z, one coordinate at a time."""
    gradient = []
    for i in range(len(z)):
        up = [v + step if j == i else v for j, v in enumerate(z)]
        down = [v - step if j == i else v for j, v in enumerate(z)]
        gradient.append((f(up) - f(down)) / (2 * step))
    return gradient
