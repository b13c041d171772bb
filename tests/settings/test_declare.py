"""What a declared setting takes: a value of another type is always refused, and the sentence names the setting."""

from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import halfsure.cli.options  # noqa: F401 - so that every part is there
from halfsure import SSLClassifier
from halfsure.bank.opening import DataConfig
from halfsure.settings import Setting, Settings, declared
from halfsure.training import Config
from halfsure.views import StrongImage, WeakImage


def _classes(kind: type[Settings] = Settings) -> list[type[Settings]]:
    below = [found for child in kind.__subclasses__() for found in (child, *_classes(child))]
    return [found for found in below if found.__module__.startswith("halfsure.") and found is not DataConfig]


DECLARED = [(kind, setting) for kind in dict.fromkeys(_classes()) for setting in declared(kind)]
NUMPY = {bool: np.bool_, int: np.int64, float: np.float64, str: np.str_}
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.floats(-5, 5),
    st.text(max_size=5),
    st.sampled_from(["1", "1e-3", "no", "True", "none"]),
    st.binary(max_size=3),
    st.complex_numbers(max_magnitude=3),
    st.booleans().map(np.bool_),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
    st.lists(st.booleans() | st.text(max_size=2), min_size=1, max_size=3),
    st.builds(object),
)


def _taken(kind: Any) -> set[type]:
    """The Python types that an annotation names: what is asked here a second time, by the letter."""
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _taken(inside[0])
    if origin in (Union, UnionType):
        return set().union(*map(_taken, inside))
    if origin is Literal:
        return {type(value) for value in inside}
    if origin is tuple:
        return {list, tuple}
    return {int, float} if kind is float else {kind}


def test_every_room_declares_settings() -> None:
    rooms = {kind.__module__.split(".")[1] for kind, _ in DECLARED}
    assert {"algorithms", "data", "methods", "nets", "targets", "training", "views"} <= rooms
    assert set().union(*(_taken(setting.type) for _, setting in DECLARED)) <= {
        bool, int, float, str, list, tuple, NoneType,
    }  # fmt: skip


@given(st.sampled_from(DECLARED), VALUES)
def test_a_value_of_a_wrong_type_is_refused_by_name(one: tuple[type[Settings], Setting], value: object) -> None:
    kind, setting = one
    # Of lists all items are wrong here: no setting takes lists of truth values or texts but that of column names.
    wrong_list = isinstance(value, list) and "str" not in str(setting.type)
    if type(value) in _taken(setting.type) and not wrong_list:
        return
    with pytest.raises(ValueError, match=rf"\b{setting.name}\b.*, got ") as refusal:
        kind(**{setting.name: value})
    assert str(refusal.value).count("\n") == 0


@pytest.mark.parametrize(("kind", "setting"), DECLARED, ids=[f"{k.__module__}.{s.name}" for k, s in DECLARED])
def test_numpy_has_the_same_numbers_and_texts(kind: type[Settings], setting: Setting) -> None:
    plain = setting.default
    if plain is None or isinstance(plain, bool | tuple):
        return
    found = getattr(kind(**{setting.name: NUMPY[type(plain)](plain)}), setting.name)
    assert found == plain
    assert type(found) is type(plain)


def test_a_whole_number_will_do_for_a_fraction_but_not_the_other_way_round() -> None:
    assert Config(lr=1).lr == 1.0
    assert Config(lr=np.float32(0.5)).lr == 0.5
    assert Config(prior=np.array([0.5, 0.5])).prior == (0.5, 0.5)
    with pytest.raises(ValueError, match=r"steps must be a whole number of at least 1, got 5\.0"):
        Config(steps=5.0)


@pytest.mark.parametrize("view", [WeakImage, StrongImage])
def test_views_take_no_word_for_a_flag(view: type[WeakImage | StrongImage]) -> None:
    with pytest.raises(ValueError, match="flip must be true or false, got 'no'"):
        view(flip="no")  # type: ignore[arg-type]


def test_the_classifier_takes_no_word_for_a_flag() -> None:
    with pytest.raises(ValueError, match="calibrate is True or False, got 'no'"):
        SSLClassifier(calibrate="no").fit([[0.0], [1.0], [0.1], [0.9]], [0, 1, 0, 1])  # type: ignore[arg-type]
