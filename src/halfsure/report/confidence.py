"""The paper's Fig. 4 to 6 on one's own run: how sure the model becomes, and among how many candidates it wavers."""

from halfsure.report.elements import Figure
from halfsure.report.histogram import histogram
from halfsure.report.panels import Measure, Panel, at, over_steps
from halfsure.report.reading import Line, Record, number
from halfsure.report.study import Study

__all__ = ["confidence"]


def confidence(study: Study) -> dict[str, object] | None:
    """Section: confidence and candidates over steps."""
    part = study.unlabeled
    if part is None:
        return None
    sure, candidates = _dominant(study, part), _candidates(study, part)
    return {"dominant": sure, "candidates": candidates, "histogram": histogram(study, part)}


def _dominant(study: Study, part: str) -> Figure | None:
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
    return over_steps(study, "dominant", [loss, sure])


def _candidates(study: Study, part: str) -> Figure | None:
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
    return over_steps(study, "candidates", [candidates, accuracy])


def _unlabeled_loss(_: Record, line: Line) -> float | None:
    terms = [number(line, "train", term) for term in ("consistency", "distillation")]
    known = [term for term in terms if term is not None]
    return sum(known) if known else None


def _hundred(share: float | None) -> float | None:
    return None if share is None else 100 * share
