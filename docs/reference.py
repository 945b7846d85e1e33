"""Pages made of the code: every command with its options, every setting, every table with its columns."""

from __future__ import annotations

import enum
import re
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import typer
import yaml
from pydantic.fields import PydanticUndefined

from txmq_lib.cli.app import app
from txmq_lib.config.durations import duration_text
from txmq_lib.config.resolver_settings import RESOLVER_KINDS
from txmq_lib.config.resources import conf_dir
from txmq_lib.config.setting_types import Section
from txmq_lib.config.settings import Settings
from txmq_lib.config.table_specs import RUN_TABLE, SparkType, TableSpec, table_spec, table_specs

EXAMPLE = "   "  # what an example is set in by, in a comment of base.yaml


def commands_page() -> str:
    """Every command under the heading of its full name, with usage, arguments and options."""
    program = typer.main.get_command(app)
    parts = [
        "# Commands",
        "Made of the program itself; `txmq COMMAND --help` says the same. The options of `txmq` may stand before or "
        "after a command.",
        *_command("txmq", program),
    ]
    panels: dict[str, list[str]] = {}
    for name, command in program.commands.items():
        leaves = getattr(command, "commands", {"": command})
        for leaf_name, leaf in leaves.items():
            sections = _command(f"txmq {name} {leaf_name}".rstrip(), leaf)
            panels.setdefault(command.rich_help_panel, []).extend(sections)
    for panel, sections in panels.items():
        parts += [f"## {panel}", *sections]
    return "\n\n".join(parts) + "\n"


def settings_page() -> str:
    """Every setting with its default and the meaning that base.yaml gives, and the keys of each kind of resolver."""
    text = (conf_dir() / "base.yaml").read_text(encoding="utf-8")
    defaults = {key: value for key, value, _ in Settings.load().rows()}
    explained = list(_explained(text))
    plain = [each for each in explained if "." not in each.key and each.key in defaults and not each.example]
    parts = [
        "# Settings",
        "Made of `conf/base.yaml` and the code. Later layers win: `base.yaml`, each `--conf FILE` in order, "
        "`--set KEY=VALUE`, `--warehouse URI`. A duration is a number in the unit named, or a text with its own: "
        "`500ms`, `2s`, `3m`, `72h`, `3d`. RocketMQ's own name and default stand in brackets. `txmq config show` tells "
        "what is in force and which layer set it.",
        "## At the top",
        _settings_table(plain, defaults),
    ]
    for head in explained:
        if "." in head.key or head in plain:
            continue
        parts += [f"## {head.key}", head.meaning]
        if head.example:
            parts.append(f"Default: `{as_yaml(defaults[head.key])}`.")
            parts.append(f"```yaml\n{head.example}\n```")
        inside = [each for each in explained if each.key.startswith(f"{head.key}.")]
        if inside:
            parts.append(_settings_table(inside, defaults))
        if head.key == "resolvers":
            for kind, model in RESOLVER_KINDS.items():
                parts += [f"### kind: {kind}", _keys_table(model)]
    return "\n\n".join(parts) + "\n"


def tables_page() -> str:
    """Every table with its key, owner and columns."""
    parts = [
        "# Tables and columns",
        "Made of `schemas/*.yaml`. Each table is a Delta table in a directory of its name below the warehouse. Views "
        "print its columns under the same names (`--format json`). `required` columns are never null.",
    ]
    for spec in (*table_specs().values(), table_spec(RUN_TABLE)):
        parts += [f"## {spec.table}", spec.doc, _table_facts(spec), _columns_table(spec)]
    return "\n\n".join(parts) + "\n"


PAGES: dict[str, Callable[[], str]] = {"commands": commands_page, "settings": settings_page, "tables": tables_page}


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _command(name: str, command: Any) -> list[str]:  # noqa: ANN401 - Typer's own Click is not public
    arguments = [each for each in command.params if each.param_type_name == "argument" and not each.hidden]
    options = [each for each in command.params if each.param_type_name == "option" and not each.hidden]
    usage = " ".join([name, *(["[OPTIONS]"] if options else []), *(each.metavar or each.name for each in arguments)])
    if hasattr(command, "commands"):
        usage += " COMMAND"
    parts = [f"### {name}", re.sub(r"\s*\n\s*", " ", command.help), f"```text\n{usage}\n```"]
    if arguments:
        rows = [[f"`{each.metavar or each.name}`", each.help or ""] for each in arguments]
        parts.append(_table(("argument", "meaning"), rows))
    if options:
        parts.append(_table(("option", "meaning"), [[_spelling(each), _meaning(each)] for each in options]))
    return parts


def _spelling(option: Any) -> str:  # noqa: ANN401 - Typer's own Click is not public
    choices = _choices(option)
    value = "" if option.is_flag else f" {'|'.join(choices) if choices else option.metavar or 'VALUE'}"
    return ", ".join(f"`{each}{value}`" for each in option.opts)


def _meaning(option: Any) -> str:  # noqa: ANN401 - Typer's own Click is not public
    words = option.help.rstrip(".")
    if option.required:
        words += "; required"
    if option.multiple and "repeated" not in words:
        words += "; may be repeated"
    if option.default is not None and option.default is not False and not option.required:
        words += f"; default `{option.default}`"
    return f"{words}."


def _choices(option: Any) -> list[str]:  # noqa: ANN401 - Typer's own Click is not public
    annotation = option.type_descriptor.annotation
    kinds = [annotation, *typing.get_args(annotation)]
    return [each.value for kind in kinds if isinstance(kind, enum.EnumMeta) for each in kind]


@dataclass
class Explained:
    """A key of base.yaml in full, and what the comment above it says."""

    key: str
    meaning: str
    example: str = field(default="")


def _explained(text: str) -> Iterator[Explained]:
    """Every key of base.yaml with its comment; a key right under another, without one, is told by the other's."""
    above: list[str] = []
    path: list[str] = []
    last = Explained("", "")
    for line in text.splitlines()[text.splitlines().index("") :]:  # the first comment is about the file
        comment = re.match(r" *# ?(.*)", line)
        key = re.match(r"( *)(\w+):", line)
        if comment:
            above.append(comment.group(1))
        elif key:
            path = [*path[: len(key.group(1)) // 2], key.group(2)]
            comments = [each for each in above if not each.startswith(EXAMPLE[1:])]
            example = "\n".join(each[2:] for each in above if each.startswith(EXAMPLE[1:]))
            meaning = " ".join(comments)
            if example:
                meaning = re.sub(r" Examples?\b[^:]*:", "", meaning)
            last = Explained(".".join(path), meaning.strip() if above else last.meaning, example)
            above = []
            yield last


def _settings_table(explained: Sequence[Explained], defaults: dict[str, object]) -> str:
    rows = [[f"`{each.key}`", f"`{as_yaml(defaults[each.key])}`", each.meaning] for each in explained]
    return _table(("setting", "default", "meaning"), rows)


def _keys_table(model: type[Section]) -> str:
    rows = []
    for name, model_field in model.model_fields.items():
        if name == "kind":
            continue
        if model_field.is_required():
            default = "required"
        else:
            value = model_field.get_default(call_default_factory=True)
            assert value is not PydanticUndefined
            is_span = name.endswith("_ms") and value is not None
            default = f"`{duration_text(value) if is_span else as_yaml(value)}`"
        rows.append([f"`{model_field.alias or name}`", default])
    return _table(("key", "default"), rows)


def as_yaml(value: object) -> str:
    """A value as YAML writes it on one line."""
    plain = list(value) if isinstance(value, tuple) else value
    return yaml.safe_dump(plain, default_flow_style=True, width=1000).removesuffix("\n...\n").strip()


def _table_facts(spec: TableSpec) -> str:
    def names(columns: Sequence[str]) -> str:
        return ", ".join(f"`{each}`" for each in columns) or "none"

    words = f"Written by {spec.owner}. Key: {names(spec.key)}. Passes write it by {names(spec.writes)}."
    return words + (f" Partitioned by {names(spec.partition_by)}." if spec.partition_by else "")


def _columns_table(spec: TableSpec) -> str:
    rows = [
        [f"`{each.name}`", f"`{_type_text(each.type)}`", "" if each.nullable else "required", each.comment]
        for each in spec.fields
    ]
    return _table(("column", "type", "", "what it holds"), rows)


def _type_text(type_: SparkType) -> str:
    """A column's type as Spark's SQL writes it."""
    if not isinstance(type_, dict):
        return type_
    match type_["type"]:
        case "array":
            return f"array<{_type_text(type_['elementType'])}>"
        case "map":
            return f"map<{_type_text(type_['keyType'])}, {_type_text(type_['valueType'])}>"
        case _:
            fields = ", ".join(f"{each['name']}: {_type_text(each['type'])}" for each in type_["fields"])
            return f"struct<{fields}>"
