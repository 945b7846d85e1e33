"""Adds the generated pages to the site; they are made anew at every build and lie in no directory."""

from __future__ import annotations

import reference
from properdocs.config.defaults import ProperDocsConfig
from properdocs.structure.files import File, Files


def on_files(files: Files, config: ProperDocsConfig) -> Files:
    """The pages of `docs/pages`, and those made of the code."""
    for name, page in reference.PAGES.items():
        files.append(File.generated(config, f"reference/{name}.md", content=page()))
    return files
