"""The examples of docs/PYTHON.md and of the guide for programs run, one after the other."""

import pathlib
import re

DOCS = pathlib.Path(__file__).parents[3] / "docs"


def test_the_examples_run(tmp_path, monkeypatch):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "one").write_text("1\n")
    (tmp_path / "tree" / "two").write_text("2\n")
    monkeypatch.chdir(tmp_path)
    for name, count in [("PYTHON.md", 5), ("guides/embedding.md", 1)]:
        page = DOCS / name
        examples = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
        assert len(examples) == count
        for example in examples:
            exec(compile(example, str(page), "exec"), {})
    assert (tmp_path / "copy" / "two").read_text() == "2\n"
