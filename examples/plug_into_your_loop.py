"""A training loop of your own, and ADS as one line in it: digits with 20 labels.

    python examples/plug_into_your_loop.py

Two labels a class, 1,277 samples without; the same network, labels and noise with and without the line.
"""

import statistics

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from halfsure import ads_loss, sparsemax, sparsemax_loss

STEPS, SEEDS, NOISE = 300, range(100, 110), 0.3


def train(seed: int, ads_weight: float) -> tuple[float, float]:
    """Train once; give the test error and the mean number of candidate classes a test sample keeps."""
    torch.manual_seed(seed)
    images, digits = load_digits(return_X_y=True)
    x, y = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(digits)
    order = torch.randperm(len(y))
    test, pool = order[:500], order[500:]
    labeled = torch.cat([pool[y[pool] == digit][:2] for digit in range(10)])

    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)

    def noisy(samples: Tensor) -> Tensor:
        return samples + NOISE * torch.randn_like(samples)

    for _ in range(STEPS):
        unlabeled = pool[torch.randint(len(pool), (128,))]
        loss = sparsemax_loss(model(noisy(x[labeled])), y[labeled]).mean()
        loss = loss + ads_weight * ads_loss(model(noisy(x[unlabeled])))  # the line
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    with torch.no_grad():
        probs = sparsemax(model(x[test]))  # trained through sparsemax, so read through sparsemax
    error = (probs.argmax(1) != y[test]).double().mean().item()
    return 100 * error, (probs > 0).sum(1).double().mean().item()


if __name__ == "__main__":
    print(f"digits, 20 labels, {STEPS} steps, seeds {SEEDS[0]} to {SEEDS[-1]}\n")
    print("                    test error, %    candidates a sample")
    for name, weight in (("supervised", 0.0), ("with ads_loss", 0.3)):
        errors, candidates = zip(*(train(seed, weight) for seed in SEEDS), strict=True)
        mean, spread = statistics.mean(errors), statistics.stdev(errors)
        print(f"{name:<16}    {mean:5.1f} ± {spread:<4.1f}     {statistics.mean(candidates):.2f}")
