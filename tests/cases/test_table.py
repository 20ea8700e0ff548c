"""The table in README.md and the tests name each other."""

import ast
import importlib
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROW = re.compile(r"^\| (B\d\d) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
REPORT = re.compile(r"[\w.-]+/[\w.-]+#\d+")


def table():
    """Tests by case, as the table names them."""
    rows = ROW.findall((HERE / "README.md").read_text(encoding="utf-8"))
    assert len({case for case, *_ in rows}) == len(rows)
    return {case: set(re.findall(r"`([^`]+::[^`]+)`", tests)) for case, _, _, tests in rows}


def decorated():
    """Tests by case, as the tests in this folder say themselves."""
    found: dict[str, set[str]] = {}
    for file in HERE.glob("test_*.py"):
        module = importlib.import_module(f"tests.cases.{file.stem}")
        for name, test in vars(module).items():
            for case in getattr(test, "cases", ()):
                found.setdefault(case, set()).add(f"cases/{file.name}::{name}")
    return found


def test_every_test_of_a_case_is_in_the_table_and_back():
    """What a test says it stands for, the table says too; and nothing more of this folder."""
    here = {case: {test for test in tests if test.startswith("cases/")} for case, tests in table().items()}
    assert {case: tests for case, tests in here.items() if tests} == decorated()


def test_every_case_has_a_test():
    """Here or beside the part of the product it belongs to."""
    assert [case for case, tests in table().items() if not tests] == []


@pytest.mark.parametrize("test", sorted({t for tests in table().values() for t in tests}))
def test_the_tests_in_the_table_exist(test):
    """File and function, so that a renamed test does not leave a row without one."""
    file, _, name = test.partition("::")
    tree = ast.parse((HERE.parent / file).read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert name in {function.name for function in functions}


def test_every_row_names_a_public_report():
    """By repository and number."""
    rows = ROW.findall((HERE / "README.md").read_text(encoding="utf-8"))
    assert len(rows) >= 29
    for case, reports, fault, _ in rows:
        assert REPORT.findall(reports), case
        assert fault.strip()
