"""Grey images without their one channel: what can be trained on can be predicted too."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import halfsure
from halfsure.data import DataError, from_arrays
from halfsure.runs import start
from halfsure.training import preset


def test_a_run_trained_on_grey_images_predicts_them_with_and_without_the_channel() -> None:
    images = load_digits().images.astype(np.uint8)[:40]
    data = from_arrays(images, load_digits().target[:40])
    run = start(data, preset(data, "supervised", "quick", 0).replace(steps=2, net="mlp-8"))
    bare, whole = images[:7], images[:7, :, :, None]
    np.testing.assert_array_equal(run.predict_proba(bare), run.predict_proba(whole))
    assert run.predict(bare) == run.predict(whole)
    assert run.predict_set(bare) == run.predict_set(whole)
    takes = r"X has samples of shape \(7, 8, 1\), but the model takes \(8, 8, 1\)"
    for wrong, message in (
        (images[:7, :7], takes),
        (images[:7, :, :, None, None], "or uint8 images of shape"),
        (images[0], r"X has samples of shape \(8,\), but the model takes"),
    ):
        with pytest.raises(DataError, match=message):
            run.predict(wrong)


def test_the_estimator_agrees() -> None:
    images = load_digits().images.astype(np.uint8)[:40]
    model = halfsure.SSLClassifier("supervised", steps=2, folds=0, net="mlp-8").fit(images, load_digits().target[:40])
    np.testing.assert_array_equal(model.predict(images[:5]), model.predict(images[:5, :, :, None]))
