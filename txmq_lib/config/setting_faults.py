"""What is wrong with settings, as people wrote them: layer, key, what it must be, what was meant."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from txmq_lib.config.resolver_settings import RESOLVER_KINDS, Resolve
from txmq_lib.config.secrets import has_secret, is_secret
from txmq_lib.config.sections import Alerts, Broker, CheckBackoff, Land, Maintain, Mask, Rocketmq, Source, Thresholds
from txmq_lib.config.setting_types import Section
from txmq_lib.config.yaml_layers import Layer, Tree, merge, origins

_LONGEST_SHOWN = 200  # characters of a wrong value that its fault repeats
_PROBLEMS = {
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
    "tuple_type": "must be a list",
    "string_type": "must be a text",
    "invalid_key": "must be a text",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "too_short": "must not be empty",
    "string_too_short": "must not be empty",
    "missing": "is missing",
}
RESOLVERS = "resolvers"
_SECTIONS: dict[str, type[Section]] = {
    "brokers": Broker,
    "check_backoff": CheckBackoff,
    "land": Land,
    "rocketmq": Rocketmq,
    "sources": Source,
    "mask": Mask,
    "alerts": Alerts,
    "thresholds": Thresholds,
    "resolve": Resolve,
    "maintain": Maintain,
}


def faults_of(model: type[Section], base: Tree, layer: Layer, context: str) -> list[str]:
    """Faults of one layer over base.yaml, those of resolvers apart."""
    try:
        model.model_validate(merge(base, layer.values), context=context)
    except ValidationError as error:
        return [
            f"{layer.name}: {_fault(model, details)}"
            for details in error.errors(include_url=False)
            if details["loc"][0] != RESOLVERS
        ]
    return []


def resolver_faults(model: type[Section], merged: Tree, layers: Sequence[Layer], context: str) -> list[str]:
    """Faults of resolvers: one layer may set a part of one only, so they are judged when all layers are together."""
    try:
        model.model_validate(merged, context=context)
    except ValidationError as error:
        faults = [details for details in error.errors(include_url=False) if details["loc"][0] == RESOLVERS]
        return [f"{_layer_of(details['loc'], layers)}: {_fault(model, details)}" for details in faults]
    return []


def _layer_of(place: Sequence[str | int], layers: Sequence[Layer]) -> str:
    path = tuple(str(part) for part in _without_kind(place))
    known = origins(layers)
    for length in range(len(path), 0, -1):
        named = [layer for leaf, layer in known.items() if leaf[:length] == path[:length]]
        if named:
            return named[-1]
    return layers[-1].name


def _without_kind(place: Sequence[str | int]) -> list[str | int]:
    """Where a fault is, as people wrote it: pydantic names the kind of a resolver after its group."""
    path = [part for part in place if part != "[key]"]
    is_of_kind = len(path) > 2 and path[0] == RESOLVERS and path[2] in RESOLVER_KINDS
    return [*path[:2], *path[3:]] if is_of_kind else path


def _fault(settings: type[Section], details: Mapping[str, Any]) -> str:
    path = _without_kind(details["loc"])
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
    if details["type"] == "extra_forbidden":
        return f"{key}: unknown key{_did_you_mean(settings, details['loc'], path)}"
    if "error" in details.get("ctx", {}):
        return f"{key}: {details['ctx']['error']}"
    if details["type"] in ("union_tag_not_found", "union_tag_invalid"):
        return f"{key}: kind must be one of {', '.join(RESOLVER_KINDS)}"
    problem = _PROBLEMS.get(details["type"], details["msg"]).replace("Input should be", "must be", 1)
    return f"{key}: {problem[0].lower()}{problem[1:]}{_instead(path, details['input'])}"


def _instead(path: Sequence[str | int], value: object) -> str:
    """What was given, where that may be shown and can be: not a secret given where its name belongs."""
    if path[0] in ("spark", RESOLVERS, "alerts", "rocketmq") or any(is_secret(str(part)) for part in path):
        return ""
    try:
        shown = repr(value)
    except ValueError:  # Python writes no whole number of thousands of digits
        return ""
    if has_secret(shown) or ("namesrv" in path and "@" in shown):
        return ""
    return f", not {shown if len(shown) <= _LONGEST_SHOWN else shown[:_LONGEST_SHOWN] + '...'}"


def _did_you_mean(settings: type[Section], place: Sequence[str | int], path: Sequence[str | int]) -> str:
    model = settings
    if path[0] == RESOLVERS:
        model = RESOLVER_KINDS[str(place[2])]
    elif len(path) > 1:
        model = _SECTIONS[str(path[0])]
    known = {(field.alias or name).replace("_", ""): field.alias or name for name, field in model.model_fields.items()}
    squeezed = str(path[-1]).replace("_", "").replace("-", "").lower()  # RocketMQ's transactionTimeOut is a near miss
    close = difflib.get_close_matches(squeezed, known, n=1)
    return f"; did you mean {known[close[0]]}?" if close else ""
