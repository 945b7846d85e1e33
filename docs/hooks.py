"""Adds the generated pages to the site, made anew at every build, and a search that works from files as well."""

from __future__ import annotations

from pathlib import Path

import reference
from properdocs.config.defaults import ProperDocsConfig
from properdocs.structure.files import File, Files


def on_files(files: Files, config: ProperDocsConfig) -> Files:
    """The pages of `docs/pages`, and those made of the code."""
    for name, page in reference.PAGES.items():
        files.append(File.generated(config, f"reference/{name}.md", content=page()))
    return files


def on_post_build(config: ProperDocsConfig) -> None:
    """Put our search in the place of the theme's, which fetches its index: browsers refuse that to a file."""
    folder = Path(config.site_dir) / "search"
    index = (folder / "search_index.json").read_text(encoding="utf-8")
    (folder / "index.js").write_text(f"window.txmqIndex = {index}.docs;\n", encoding="utf-8")
    ours = Path(__file__).with_name("search.js").read_text(encoding="utf-8")
    (folder / "main.js").write_text(ours, encoding="utf-8")
    for name in ("search_index.json", "lunr.js", "worker.js"):
        (folder / name).unlink(missing_ok=True)
