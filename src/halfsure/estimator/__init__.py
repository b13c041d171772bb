"""`SSLClassifier`: semi-supervised classification in scikit-learn's conventions."""

from halfsure.estimator.answer import FallbackWarning, Report
from halfsure.estimator.classifier import SSLClassifier

__all__ = ["FallbackWarning", "Report", "SSLClassifier"]
