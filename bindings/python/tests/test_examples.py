"""The examples of docs/PYTHON.md run, one after the other."""

import pathlib
import re

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "PYTHON.md"


def test_the_examples_run(tmp_path, monkeypatch):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "one").write_text("1\n")
    (tmp_path / "tree" / "two").write_text("2\n")
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(examples) == 5
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), {})
    assert (tmp_path / "copy" / "two").read_text() == "2\n"
