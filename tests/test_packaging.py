"""The files that describe the package agree with each other."""

import re
import tomllib
from pathlib import Path

import pytest

import pymc_pmala

ROOT = Path(__file__).parents[1]
# conda-forge has packages without their heavier parts.
CONDA_NAMES = {"pymc": "pymc-base", "pytensor": "pytensor-base", "matplotlib": "matplotlib-base"}


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def recipe():
    yaml = pytest.importorskip("yaml")
    path = ROOT / "recipe" / "recipe.yaml"
    if not path.exists():
        pytest.skip("the recipe is part of the repository, not of the package")
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def split(requirement):
    """Split a requirement into its name and its bounds."""
    return re.fullmatch(r"([\w-]+)\s*(.*)", requirement).groups()


def test_the_recipe_requires_what_the_package_requires(project, recipe):
    # A noarch recipe has no bounds for some Pythons only.
    everywhere = [r for r in project["dependencies"] if ";" not in r]
    expected = {(CONDA_NAMES.get(n, n), b) for n, b in map(split, everywhere)}
    python, *others = recipe["requirements"]["run"]
    assert {split(requirement) for requirement in others} == expected
    assert python == "python >=${{ python_min }}"
    assert project["requires-python"] == f">={recipe['context']['python_min']}"


def test_the_recipe_describes_the_same_package(project, recipe):
    assert recipe["context"]["name"] == project["name"]
    assert recipe["context"]["version"] == project["version"]
    about = recipe["about"]
    assert about["summary"] == project["description"]
    assert about["license"] == project["license"]
    assert about["homepage"] == project["urls"]["Source"]
    assert about["documentation"] == project["urls"]["Documentation"]


def test_the_changelog_has_a_section_for_the_version(project):
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{project['version']}]" in changelog
    assert pymc_pmala.__version__ == project["version"]


def test_all_addresses_are_of_one_repository(project):
    urls = project["urls"]
    assert all(urls[name].startswith(urls["Source"]) for name in ("Issues", "Changelog"))


def test_the_workflow_runs_on_every_python_that_is_promised(project):
    workflow = ROOT / ".github" / "workflows" / "tests.yml"
    if not workflow.exists():
        pytest.skip("the workflows are part of the repository, not of the package")
    promised = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    tested = re.search(r"python-version: \[(.*)\]", workflow.read_text(encoding="utf-8"))[1]
    assert re.findall(r"3\.\d+", tested) == promised
