"""The paper's Fig. 4 to 6 on one's own run: how sure the model becomes, and among how many candidates it wavers."""

from halfsure.report.histogram import histogram
from halfsure.report.markup import section
from halfsure.report.panels import Measure, Panel, at, over_steps
from halfsure.report.reading import Line, Record, number
from halfsure.report.study import Study

__all__ = ["confidence"]

WHERE = {"test": "test samples", "val": "validation samples", "unlabeled": "unlabeled samples"}


def confidence(study: Study) -> str:
    """Section: confidence and candidates over steps."""
    part = study.unlabeled
    if part is None:
        return ""
    parts = (_dominant(study, part), _candidates(study, part), histogram(study, part, WHERE[part]))
    return section("confidence", "Confidence and candidates", "\n".join(parts))


def _dominant(study: Study, part: str) -> str:
    unlabeled = Measure("Loss on unlabeled samples", _unlabeled_loss)
    loss = Panel(unlabeled.name, "C + D", (unlabeled,), keep_zero=False)
    sure = Panel(
        "Mean largest probability",
        "probability",
        (
            Measure("Largest probability, own map", at(part, "dominant")),
            Measure("Largest probability, softmax", at(part, "softmax_dominant")),
        ),
        top=1.02,
    )
    return over_steps(
        study,
        "dominant",
        "Loss and confidence (Fig. 4 of the paper)",
        [loss, sure],
        f"The loss on unlabeled samples, and the mean largest probability over {WHERE[part]}: in the map the model was "
        "trained in, and as softmax would read the same logits. Confidence should rise no further than accuracy does. "
        "A model trained in sparsemax looks unsure through softmax; that reading is not its own.",
    )


def _candidates(study: Study, part: str) -> str:
    def support(record: Record, line: Line) -> float | None:
        return number(line, part, f"{record.own}support")

    def hit(record: Record, line: Line) -> float | None:
        return _hundred(number(line, part, f"{record.own}top_m_accuracy"))

    def right(_: Record, line: Line) -> float | None:
        error = number(line, part, "error")
        return None if error is None else 100 * (1 - error)

    candidates = Panel("Mean number of candidates", "candidates a sample", (Measure("Candidates a sample", support),))
    accuracy = Panel(
        "Accuracy",
        "samples, %",
        (Measure("Truth among the candidates", hit), Measure("Best class is right", right)),
        top=102,
    )
    return over_steps(
        study,
        "candidates",
        "Candidates and accuracy (Fig. 5 of the paper)",
        [candidates, accuracy],
        f"Over {WHERE[part]}: how many classes have a probability above zero, how often the true class is among them "
        "(top-m accuracy), and how often the best one is right. Good training lowers the number of candidates and "
        f"keeps the truth among them.{_through(study)}",
    )


def _through(study: Study) -> str:
    if not any(group.first.own for group in study.groups):
        return ""
    return " In softmax every class is a candidate, so models trained in it are read through sparsemax here."


def _unlabeled_loss(_: Record, line: Line) -> float | None:
    terms = [number(line, "train", term) for term in ("consistency", "distillation")]
    known = [term for term in terms if term is not None]
    return sum(known) if known else None


def _hundred(share: float | None) -> float | None:
    return None if share is None else 100 * share
