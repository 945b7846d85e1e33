"""txmq from Python: `import txmq_lib as txmq`, then `txmq.open(...)`. What `__all__` does not name is private.

Nothing is imported before it is asked for: the command line starts quickly, and a look at tables needs no Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from txmq_lib.api.opened import Txmq
    from txmq_lib.api.opened import open_warehouse as open
    from txmq_lib.api.own_frames import Records, pending_of, records_of, verdicts_of
    from txmq_lib.api.rows import Rows
    from txmq_lib.errors import TxmqError
    from txmq_lib.rocketmq.own_reads import register
    from txmq_lib.rules.policy import Limits

    __version__: str

__all__ = [
    "Limits",
    "Records",
    "Rows",
    "Txmq",
    "TxmqError",
    "__version__",
    "open",
    "pending_of",
    "records_of",
    "register",
    "verdicts_of",
]

_PLACES = {
    "Limits": ("txmq_lib.rules.policy", "Limits"),
    "Records": ("txmq_lib.api.own_frames", "Records"),
    "Rows": ("txmq_lib.api.rows", "Rows"),
    "Txmq": ("txmq_lib.api.opened", "Txmq"),
    "TxmqError": ("txmq_lib.errors", "TxmqError"),
    "open": ("txmq_lib.api.opened", "open_warehouse"),
    "pending_of": ("txmq_lib.api.own_frames", "pending_of"),
    "records_of": ("txmq_lib.api.own_frames", "records_of"),
    "register": ("txmq_lib.rocketmq.own_reads", "register"),
    "verdicts_of": ("txmq_lib.api.own_frames", "verdicts_of"),
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever is asked for
    from importlib import import_module

    if name == "__version__":
        from txmq_lib.config.resources import txmq_version

        return txmq_version()
    if name not in _PLACES:
        raise AttributeError(f"txmq has no {name}; it offers {', '.join(__all__)}")
    module, attribute = _PLACES[name]
    return getattr(import_module(module), attribute)
