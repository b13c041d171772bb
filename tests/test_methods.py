"""The notation: what it accepts, what it refuses and with which words, and that names are canonical."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from halfsure.algorithms import VAT, FixMatch, MixMatch, Supervised
from halfsure.methods import catalogue, method, parse
from halfsure.settings import parts
from halfsure.targets import ADS, MinEntropy, NegativeSampling, PseudoLabel, Sharpening, TopM

# name: (algorithm, map, the strategy that makes targets, the added ones)
PAPER = {
    "supervised": (Supervised, "softmax", None, ()),
    "vat": (VAT, "softmax", None, ()),
    "vat+me": (VAT, "softmax", None, (MinEntropy,)),
    "vat+sh": (VAT, "softmax", None, (Sharpening,)),
    "vat+pl": (VAT, "softmax", None, (PseudoLabel,)),
    "vat+ns": (VAT, "softmax", None, (NegativeSampling,)),
    "vat+ads": (VAT, "sparsemax", None, (ADS,)),
    "vat@sparsemax": (VAT, "sparsemax", None, ()),
    "vat@sparsemax+me": (VAT, "sparsemax", None, (MinEntropy,)),
    "vat@sparsemax+pl": (VAT, "sparsemax", None, (PseudoLabel,)),
    "vat@sparsemax+ns": (VAT, "sparsemax", None, (NegativeSampling,)),
    "mixmatch": (MixMatch, "softmax", Sharpening, ()),
    "mixmatch+ns": (MixMatch, "softmax", Sharpening, (NegativeSampling,)),
    "mixmatch-ads": (MixMatch, "sparsemax", ADS, ()),
    "mixmatch-top3": (MixMatch, "softmax", TopM, ()),
    "mixmatch-top2": (MixMatch, "softmax", TopM, ()),
    "fixmatch": (FixMatch, "softmax", PseudoLabel, ()),
    "fixmatch@sparsemax": (FixMatch, "sparsemax", PseudoLabel, ()),
    "fixmatch@sparsemax+pl": (FixMatch, "sparsemax", PseudoLabel, ()),
    "fixmatch@sparsemax+ns": (FixMatch, "sparsemax", PseudoLabel, (NegativeSampling,)),
    "fixmatch-sh": (FixMatch, "softmax", Sharpening, ()),
    "fixmatch-ads": (FixMatch, "sparsemax", ADS, ()),
}


@pytest.mark.parametrize("name", PAPER)
def test_every_row_of_the_papers_tables(name: str) -> None:
    kind, map, target, added = PAPER[name]
    algorithm = method(name)
    assert type(algorithm) is kind
    assert algorithm.map.name == map
    strategy = getattr(algorithm, "strategy", None)
    assert (None if strategy is None else type(strategy)) is target
    assert tuple(type(part) for part in algorithm.added) == added
    assert all(part.map == algorithm.map for part in [*algorithm.added, *([strategy] if strategy else [])])
    assert algorithm.name == ("fixmatch@sparsemax" if name == "fixmatch@sparsemax+pl" else name)


def test_defaults_are_the_papers() -> None:
    def part(name: str) -> str:
        algorithm = method(name)
        return str(getattr(algorithm, "strategy", None) or algorithm.added[0])

    assert part("fixmatch") == "PseudoLabel(threshold=0.95, map=softmax)"
    assert part("fixmatch-ads") == "ADS(r=2, map=sparsemax)"
    assert part("mixmatch") == "Sharpening(temperature=0.5, map=softmax)"
    assert part("mixmatch-top3") == "TopM(m=3, r=2, map=softmax)"
    assert part("vat+ns") == "NegativeSampling(threshold=0.04, map=softmax)"


# Canonical names

MAPS = ["", "@softmax", "@sparsemax", "@entmax1.5", "@entmax1.25", "@entmax1", "@entmax2.0", "@entmax1.50"]
PART = st.sampled_from(["me", "sh", "pl", "ns", "ads", "top2", "top3", "top10", "pl~none", "ads~informed", "sh~fixed"])
SIGNED = st.tuples(st.sampled_from("+-"), PART).map("".join)
NAMES = st.tuples(st.sampled_from([*parts("algorithm")]), st.sampled_from(MAPS), st.lists(SIGNED, max_size=3)).map(
    lambda parts: parts[0] + parts[1] + "".join(parts[2])
)


def accepted(name: str) -> bool:
    try:
        parse(name)
    except ValueError:
        return False
    return True


@given(NAMES.filter(accepted))
@example("fixmatch-pl+pl")
@example("mixmatch-sh+sh")
def test_names_are_idempotent(name: str) -> None:
    parsed = parse(name)
    assert parse(parsed.name) == parsed


@given(NAMES)
def test_methods_have_the_canonical_name_or_are_refused_in_words(name: str) -> None:
    try:
        built = method(name)
    except ValueError as error:
        refusal = str(error)
    else:
        refusal = ""
    if refusal:
        assert len(refusal.split()) > 5
        return
    assert method(built.name).name == built.name


@pytest.mark.parametrize(
    "same",
    [
        ["fixmatch", "fixmatch+pl", "fixmatch-pl", "fixmatch@softmax", "fixmatch@entmax1", "fixmatch@softmax-pl"],
        ["fixmatch@sparsemax", "fixmatch@sparsemax+pl", "fixmatch@entmax2.0", "fixmatch@sparsemax-pl"],
        ["fixmatch-ads", "fixmatch@sparsemax-ads"],
        ["vat+ads", "vat@sparsemax+ads", "vat@entmax2+ads"],
        ["mixmatch", "mixmatch+sh", "mixmatch-sh"],
        ["vat@entmax1.5", "vat@entmax1.50"],
        ["fixmatch+ns", "fixmatch+ns+pl", "fixmatch-pl+ns"],
    ],
    ids=lambda names: names[0],
)
def test_methods_that_are_the_same_have_the_same_name(same: list[str]) -> None:
    assert {method(name).name for name in same} == {same[0]}


def test_methods_that_differ_have_different_names() -> None:
    names = [name for name, refused in catalogue() if not refused]
    names += ["vat@entmax1.5", "vat@entmax1.25", "fixmatch@entmax1.5-ads", "fixmatch-ads+ns", "fixmatch-sh+pl"]
    by_name: dict[str, object] = {}
    for name in names:
        parsed = parse(name)
        assert by_name.setdefault(parsed.name, parsed) == parsed


def test_the_order_of_added_losses_does_not_matter() -> None:
    """A sum is the same in any order, and methods that are the same have the same name."""
    assert parse("vat+me+ns").name == parse("vat+ns+me").name


@pytest.mark.parametrize(
    "name", ["vat+ads", "supervised+ads", "mixmatch-ads", "fixmatch-ads", "mixmatch+ads", "vat+me+ads"]
)
def test_ads_implies_sparsemax(name: str) -> None:
    algorithm = method(name)
    assert algorithm.map.name == "sparsemax"
    assert all(part.map.name == "sparsemax" for part in algorithm.extras)


@pytest.mark.parametrize("name", ["vat@entmax1.5+ads", "fixmatch@entmax1.5-ads"])
def test_a_named_map_goes_before_the_implied_one(name: str) -> None:
    assert method(name).map.name == "entmax1.5"
    assert method(name).name == name


# Settings


def test_settings_reach_the_part_that_has_them() -> None:
    fixmatch = method("fixmatch-ads+ns", r=3.0, threshold=0.1, weight=2.0, distill_weight=0.5, distance="l2")
    assert isinstance(fixmatch, FixMatch)
    assert str(fixmatch.strategy) == "ADS(r=3, map=sparsemax)"
    assert str(fixmatch.added[0]) == "NegativeSampling(threshold=0.1, map=sparsemax)"
    assert (fixmatch.weight, fixmatch.distill_weight) == (2.0, 0.5)
    vat = method("vat+sh", temperature=0.25, epsilon=1.5, xi=1e-3, power_steps=2)
    assert isinstance(vat, VAT)
    assert (vat.epsilon, vat.xi, vat.power_steps) == (1.5, 1e-3, 2)
    assert str(vat.added[0]) == "Sharpening(temperature=0.25, map=softmax)"
    mixmatch = method("mixmatch-top3", r=1.5, copies=3, mixup=0.5)
    assert isinstance(mixmatch, MixMatch)
    assert (mixmatch.copies, mixmatch.mixup, mixmatch.views) == (3, 0.5, ("weak",) * 3)
    assert str(mixmatch.strategy) == "TopM(m=3, r=1.5, map=softmax)"


def test_a_setting_that_two_parts_have_takes_the_name_of_its_part() -> None:
    with pytest.raises(ValueError, match="more than one part has a threshold; say pl_threshold or ns_threshold"):
        method("fixmatch+ns", threshold=0.5)
    fixmatch = method("fixmatch+ns", pl_threshold=0.5, ns_threshold=0.1)
    assert isinstance(fixmatch, FixMatch)
    assert "threshold=0.5" in str(fixmatch.strategy)
    assert "threshold=0.1" in str(fixmatch.added[0])
    tops = method("mixmatch-top2+top3", top2_r=1.5, top3_r=3.0)
    assert isinstance(tops, MixMatch)
    assert [str(tops.strategy), str(tops.added[0])] == ["TopM(m=2, r=1.5, map=softmax)", "TopM(m=3, r=3, map=softmax)"]


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("supervised", "weight"),
        ("supervised", "prior"),
        ("vat", "r"),
        ("vat", "prior"),
        ("vat", "distill_weight"),
        ("vat+ads", "threshold"),
        ("vat+ads", "pl_threshold"),
        ("vat+pl", "ns_threshold"),
        ("fixmatch", "epsilon"),
        ("fixmatch-ads", "threshold"),
        ("fixmatch", "copies"),
        ("mixmatch", "xi"),
        ("mixmatch", "m"),
        ("fixmatch", "map"),
        ("fixmatch", "added"),
        ("fixmatch", ""),
        ("fixmatch", "pl_"),
        ("fixmatch", "_threshold"),
    ],
)
def test_settings_that_no_part_has_are_refused(name: str, setting: str) -> None:
    with pytest.raises(ValueError, match=f"{re.escape(name)} has no setting '{setting}'") as refused:
        method(name, **{setting: 0.5})
    _, _, offered = str(refused.value).partition("it has ")
    if "did you mean" not in str(refused.value):
        assert offered
        assert setting not in offered.split(", ")


def test_a_setting_of_another_part_is_refused_by_name_with_what_there_is() -> None:
    with pytest.raises(ValueError, match=r"no setting 'temperature', which belongs to the strategy sh; it has .*, r, "):
        method("fixmatch-ads", temperature=0.5)
    with pytest.raises(ValueError, match="has no setting 'temprature'; did you mean temperature"):
        method("fixmatch-sh", temprature=0.5)


@pytest.mark.parametrize("name", ["supervised+me", "vat+pl+ns", "mixmatch-top3+ads", "fixmatch+ns", "fixmatch-ads"])
def test_the_settings_a_refusal_lists_are_all_accepted(name: str) -> None:
    good = {
        "weak_grad": True,
        "distance": "l2",
        "class_weight": [1.0, 2.0],
        "prior": [0.5, 0.5],
        "copies": 3,
        "power_steps": 2,
    }
    with pytest.raises(ValueError, match="has no setting") as refused:
        method(name, nothing=1)
    for setting in str(refused.value).split("it has ")[1].split(", "):
        method(name, **{setting: good.get(setting, 1.0)})


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("fixmatch-ads", {"r": 0.5}, "r must be"),
        ("fixmatch", {"threshold": 2}, "threshold must be"),
        ("vat", {"epsilon": -1}, "epsilon must be"),
        ("vat", {"xi": 0}, "xi must be"),
        ("vat", {"power_steps": -1}, "power_steps must be"),
        ("vat", {"power_steps": 1.5}, "power_steps must be"),
        ("mixmatch", {"copies": 0}, "copies must be"),
        ("mixmatch", {"copies": 2.5}, "copies must be"),
        ("mixmatch", {"mixup": 0}, "mixup must be"),
        ("vat", {"distance": "cosine"}, "distance is one of fy, l2, kl, got 'cosine'"),
    ],
)
def test_settings_out_of_range_are_refused(name: str, settings: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        method(name, **settings)


# Refusals


def alternatives(message: str) -> list[str]:
    """The methods that a refusal offers."""
    return [word.rstrip(",.;") for word in message.split() if re.match(r"(supervised|vat|mixmatch|fixmatch)[+-]", word)]


@pytest.mark.parametrize(("name", "reason"), [row for row in catalogue() if row[1]])
def test_refused_combinations_say_why_and_what_to_use(name: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        method(name)
    if name == "mixmatch-pl":
        assert "pl~none" in reason
        method(name, threshold=0)
        method("mixmatch-pl~none")
        return
    assert "has no distillation built in" in reason or "makes no explicit target" in reason
    offered = alternatives(reason)
    assert offered, reason
    for alternative in offered:
        method(alternative)
    algorithm = name.partition("-")[0]
    _, _, replacements = reason.partition("or replace by ")
    for part in filter(None, replacements.split(", ")):
        method(f"{algorithm}-{part.replace('M', '3')}")


def test_the_catalogue_holds_every_pair_once() -> None:
    names = [name for name, _ in catalogue()]
    assert len(names) == len(set(names)) == len(parts("algorithm")) * (2 + 2 * len(parts("strategy")))


@pytest.mark.parametrize(
    "name", ["vat@softmax+ads", "fixmatch@softmax-ads", "mixmatch@entmax1-ads", "supervised@softmax+ads"]
)
def test_ads_in_softmax_is_plain_sharpening(name: str) -> None:
    with pytest.raises(ValueError, match="in softmax it is plain sharpening") as refused:
        method(name)
    offered = alternatives(str(refused.value).removeprefix(f"{name}:"))
    assert offered
    for alternative in offered:
        method(alternative)
    method(re.sub("@[a-z0-9]+", "", name))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fixmach", "did you mean fixmatch"),
        ("", "is not a method"),
        ("FixMatch", "is not a method"),
        ("fixmatch ads", "is not a method"),
        ("fixmatch-ads@sparsemax", "is not a method"),
        ("vat+", "is not a method"),
        ("vat\n", "is not a method"),
        ("vat+adds", "did you mean ads"),
        ("vat+top0", "there is no strategy 'top0'"),
        ("vat+top", "there is no strategy 'top'"),
        ("vat+topM", "is not a method"),
        ("vat+me+me", "added twice"),
        ("fixmatch-ads-sh", "only one strategy can stand in the place of pl"),
        ("vat@hardmax", "a map is softmax, sparsemax or entmax"),
        ("vat@entmax3", "the alpha after entmax"),
        ("vat@entmax", "the alpha after entmax"),
        ("vat@entmax1.2.3", "the alpha after entmax"),
        ("vat@sparsemax2", "a map is softmax, sparsemax or entmax"),
    ],
)
def test_unknown_words_are_refused(name: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        method(name)


ALPHABET = st.text("fixmatchvdspenulrog@+-.0123456789 M_\n", max_size=24)
SPLICED = st.lists(
    st.sampled_from(
        [*parts("algorithm"), "@", "+", "-", "me", "ads", "top", "pl", "entmax", "sparsemax", "1.5", "0", "12", "x"]
    ),
    max_size=8,
).map("".join)


@given(st.text() | ALPHABET | SPLICED)
@example("vat+top" + "9" * 30)
@example("vat+top" + "9" * 400)
@example("vat+top" + "9" * 5000)
@example("vat@entmax" + "1" * 400)
def test_any_text_parses_or_raises_a_value_error(text: str) -> None:
    try:
        built = method(text)
    except ValueError:
        return
    assert text.startswith(re.split("[@+-]", built.name)[0])
    assert not re.search(r"\s", text)


# Gates


def test_a_gate_follows_its_strategy() -> None:
    informed = method("fixmatch-ads~informed")
    assert isinstance(informed, FixMatch)
    assert str(informed.strategy) == "ADS(r=2, map=sparsemax, gate=informed)"
    assert informed.name == "fixmatch-ads~informed"
    gated = method("fixmatch-sh~fixed+ns", sh_threshold=0.8, ns_threshold=0.1)
    assert isinstance(gated, FixMatch)
    assert str(gated.strategy) == "Sharpening(temperature=0.5, threshold=0.8, map=softmax, gate=fixed)"


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("fixmatch-pl~fixed", "fixmatch"),
        ("fixmatch+pl~fixed", "fixmatch"),
        ("fixmatch-ads~none", "fixmatch-ads"),
        ("vat+pl~fixed", "vat+pl"),
        ("mixmatch-sh~none", "mixmatch"),
        ("fixmatch-pl~none", "fixmatch-pl~none"),
    ],
)
def test_the_gate_that_a_strategy_has_anyway_is_not_written(written: str, name: str) -> None:
    assert method(written).name == name


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fixmatch-sh~informed", "in softmax none has: use it in a sparse map"),
        ("vat+me~informed", "in softmax none has"),
        ("fixmatch-ads~informd", "there is no gate 'informd'; did you mean informed"),
        ("fixmatch~informed", "is not a method"),
        ("mixmatch-ads~informed", "leaves samples without a target, and a mixture needs one of every sample"),
        ("fixmatch-ads~informed+ads", "a strategy has two gates"),
    ],
)
def test_gates_without_a_meaning_are_refused(name: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        method(name)
