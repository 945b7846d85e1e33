"""Settings as the rules take them."""

from __future__ import annotations

from txmq_lib.config.sections import BrokerPolicy
from txmq_lib.config.settings import Settings
from txmq_lib.rules.policy import Backoff, Limits, Policies


def policies_of(settings: Settings) -> Policies:
    """Limits per broker from the settings."""
    return Policies(
        default=_limits(settings.for_broker("")),
        brokers={name: _limits(settings.for_broker(name)) for name in settings.brokers},
        backoffs={group: Backoff(own.factor, own.longest_ms) for group, own in settings.check_backoff.items()},
    )


def _limits(policy: BrokerPolicy) -> Limits:
    return Limits(
        role=policy.role,
        transaction_timeout_ms=policy.transaction_timeout_ms,
        transaction_check_interval_ms=policy.transaction_check_interval_ms,
        transaction_check_max=policy.transaction_check_max,
        file_reserved_time_ms=policy.file_reserved_time_ms,
    )
