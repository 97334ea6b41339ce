"""The table of draws, seeders and factories: what it answers, and that mistakes in it are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from detlint.errors import RuleError
from detlint.randomness import LIBRARIES, load_sources
from detlint.tables import RULES_FOLDER


@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("torch.randn", "torch"),
        ("torch.Tensor.normal_", "torch"),
        ("torch.distributions.normal.Normal.rsample", "torch"),
        ("torch.distributions.Categorical.sample", "torch"),
        ("numpy.random.shuffle", "numpy"),
        ("scipy.stats.norm.rvs", "numpy"),
        ("random.choices", "random"),
        ("torch.nn.functional.dropout", None),
        ("torch.initial_seed", None),
        ("numpy.random.default_rng", None),
        ("random.Random", None),
        ("jax.random.normal", None),
    ],
)
def test_draws(name: str, library: str | None) -> None:
    draw = load_sources().draws.get(name)
    assert (None if draw is None else draw.library) == library


@pytest.mark.parametrize(
    ("name", "libraries", "seed"),
    [
        ("torch.manual_seed", ("torch",), "seed"),
        ("torch.seed", ("torch",), None),
        ("random.seed", ("random",), "a"),
        ("lightning.pytorch.seed_everything", LIBRARIES, "seed"),
        ("recbole.utils.init_seed", LIBRARIES, "seed"),
        ("pykeen.pipeline.pipeline", LIBRARIES, "random_seed"),
    ],
)
def test_seeders(name: str, libraries: tuple[str, ...], seed: str | None) -> None:
    seeder = load_sources().seeders.get(name)
    assert seeder is not None
    assert (seeder.libraries, seeder.seed) == (libraries, seed)


@pytest.mark.parametrize(
    ("identifier", "fits", "fits_a_method"),
    [
        ("set_seed", True, False),
        ("seedEverything", True, True),
        ("seed_everything", True, True),
        ("set_random_seed", True, True),
        ("fix_all_seeds", True, True),
        ("manual_seed", True, False),
        ("make_reproducible", True, True),
        ("get_seed", False, False),
        ("seed_worker", False, False),
        ("seed_env", False, False),
        ("proceed", False, False),
        ("reset", False, False),
    ],
)
def test_names_of_helpers(identifier: str, fits: bool, fits_a_method: bool) -> None:
    helpers = load_sources().helpers
    assert (helpers.fits(identifier), helpers.fits(identifier, wide=True)) == (fits, fits_a_method)


def test_helpers_of_other_libraries_seed_other_things() -> None:
    helpers = load_sources().helpers
    assert helpers.covers("utils.set_seed")
    assert not helpers.covers("tensorflow.random.set_seed")
    assert not helpers.covers("set_seed")


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("transformers.AutoModel.from_pretrained", "eval"),
        ("transformers.AutoModel.from_config", "train"),
        ("torchvision.models.resnet50", "train"),
        ("timm.create_model", "train"),
        ("diffusers.UNet2DModel.from_pretrained", "eval"),
        ("mylib.create_model", None),
    ],
)
def test_factories(name: str, mode: str | None) -> None:
    assert load_sources().factories.get(name) == mode


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('library = "torch"', 'library = "tourch"', "draw[1].library: 'tourch' is not one of"),
        ('seeds = ["numpy"]', 'seeds = ["nunpy"]', "seeder[2].seeds: 'nunpy' is not one of"),
        ('mode = "eval"', 'mode = "evil"', "factory[1].mode: 'evil' is not one of eval, train; did you mean 'eval'"),
        ("[indifferent]", "[indiferent]", "indifferent: missing"),
        ("implicit = true", "implicitly = true", "implicitly: unknown key; did you mean 'implicit'"),
        ("entries = '(?i)", "entries = '(?i)(", "smoke_test.entries"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    text = (RULES_FOLDER / "sources.toml").read_text("utf-8")
    assert old in text
    broken = tmp_path / "sources.toml"
    broken.write_text(text.replace(old, new, 1), "utf-8")
    with pytest.raises(RuleError) as caught:
        load_sources(broken)
    assert complaint in str(caught.value)
    assert str(broken) in str(caught.value)
