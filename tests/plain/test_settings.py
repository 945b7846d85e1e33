"""Settings: the layers, every fault of them at once, durations, and what a plan records."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from txmq_lib.config.durations import duration_text, milliseconds
from txmq_lib.config.resources import conf_dir
from txmq_lib.config.sections import BrokerPolicy
from txmq_lib.config.setting_types import AUTO
from txmq_lib.config.settings import Settings
from txmq_lib.errors import EXIT_USAGE, SettingsError

DEFAULTS = BrokerPolicy(
    role="engine",
    transaction_timeout_ms=6_000,
    transaction_check_interval_ms=60_000,
    transaction_check_max=15,
    file_reserved_time_ms=259_200_000,
)


def faults_of(*assignments, files=(), warehouse=None):
    with pytest.raises(SettingsError) as raised:
        Settings.load(files, assignments, warehouse)
    assert raised.value.exit_status == EXIT_USAGE
    return list(raised.value.faults)


@pytest.fixture
def conf(tmp_path):
    """Writes one settings file and gives its path."""

    def write(text, name="site.yaml"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def test_the_defaults_are_those_of_rocketmq_and_of_the_design():
    settings = Settings.load()
    assert settings.for_broker("any") == DEFAULTS
    assert settings.persist_consumer_offset_interval_ms == 5_000
    assert (settings.roll_back_given_up, settings.warehouse, settings.land.topics) == (False, "./warehouse", ("*",))
    assert (settings.sources, settings.thresholds.quarantined, settings.spark) == ((), None, {})
    assert (settings.resolvers, settings.end_on_broker, settings.thresholds.unanswered) == ({}, "plan", 0)
    day_ms = 86_400_000
    assert settings.maintain.model_dump() == {
        **{"small_files": 16, "small_file_size": 32, "file_size": 128, "files_per_run": 10_000, "size_per_run": 4096},
        **{"file_retention_ms": 7 * day_ms, "log_retention_ms": 30 * day_ms, "pass_retention_ms": None},
    }


def test_upkeep_decides_no_result_so_no_pass_records_its_settings():
    assert Settings.load(assignments=["maintain.small_files=2"]).fingerprint() == Settings.load().fingerprint()


def test_a_later_layer_wins_and_each_value_knows_the_layer_that_set_it(conf):
    first = conf("transaction_timeout: 2\ntransaction_check_max: 3\nland: {topics: [a, b]}\n", "first.yaml")
    second = conf("transaction_timeout: 3s\nbrokers: {x: {role: audit}}\n", "second.yaml")
    settings = Settings.load([first, second], ["transaction_check_max=5", "brokers.x.transaction_timeout=1m"], "/data")
    assert {key: (value, layer) for key, value, layer in settings.rows() if layer != "base.yaml"} == {
        "transaction_timeout": ("3s", second),
        "transaction_check_max": (5, "--set"),
        "land.topics": (["a", "b"], first),
        "brokers.x.role": ("audit", second),
        "brokers.x.transaction_timeout": ("1m", "--set"),
        "warehouse": ("/data", "--warehouse"),
    }
    assert settings.origin("file_reserved_time") == "base.yaml"


def test_a_broker_has_its_own_limits_and_those_of_all_for_the_rest():
    own = ["brokers.a={transaction_timeout: 500ms, role: audit}", "brokers.dotted.name.transaction_check_max=0"]
    settings = Settings.load(assignments=own)
    assert settings.for_broker("a") == replace(DEFAULTS, transaction_timeout_ms=500, role="audit")
    assert settings.for_broker("dotted.name") == replace(DEFAULTS, transaction_check_max=0)
    assert settings.for_broker("dotted") == DEFAULTS
    assert Settings.load(assignments=["role=audit"]).for_broker("a") == replace(DEFAULTS, role="audit")


def test_every_fault_of_every_layer_is_told_at_once_with_its_layer_and_key(conf):
    wrong = conf(
        """
role: auditt
transactionTimeOut: 6000
transaction_check_max: 15.0
transaction_check_interval: yes
file_reserved_time: 0
brokers: {1: {}, x: {rol: audit, transaction_timeout: 1.00001}}
land: {topic: [a]}
sources: [{kind: hlf, paths: [], broker: 3}, 4]
thresholds: 4
spark: {foo: 1, spark.x: [1]}
""",
        "wrong.yaml",
    )
    torn = conf("land: [\n", "torn.yaml")
    listed = conf("- a\n", "listed.yaml")
    found = faults_of("transaction_check_max=-1", "nothing", "a..b=1", "land.topics=x", files=[wrong, torn, listed])
    sources = "'half', 'op', 'message', 'max-time', 'end', 'trace', 'offset', 'ack', 'store' or 'rocketmq'"
    assert sorted(found) == sorted(
        [
            f"{wrong}: role: must be 'engine' or 'audit', not 'auditt'",
            f"{wrong}: transactionTimeOut: unknown key; did you mean transaction_timeout?",
            f"{wrong}: transaction_check_max: must be a whole number, not 15.0",
            f"{wrong}: transaction_check_interval: must be a number of s or a text such as 500ms, 2s, 3m, 72h or 3d,"
            " not True",
            f"{wrong}: file_reserved_time: must be more than 0 and at most 36500d, not 0",
            f"{wrong}: brokers[1]: must be a text, not 1",
            f"{wrong}: brokers.x.rol: unknown key; did you mean role?",
            f"{wrong}: brokers.x.transaction_timeout: must be whole milliseconds, not 1.00001",
            f"{wrong}: land.topic: unknown key; did you mean topics?",
            f"{wrong}: sources[0].kind: must be {sources}, not 'hlf'",
            f"{wrong}: sources[0].paths: must not be empty, not []",
            f"{wrong}: sources[0].broker: must be a text, not 3",
            f"{wrong}: sources[1]: must be a mapping, not 4",
            f"{wrong}: thresholds: must be a mapping, not 4",
            f"{wrong}: spark.foo: is no Spark setting: their names begin with `spark.`",
            f"{wrong}: spark.spark.x: must be a text, a number or true/false",
            f"{torn}: is not valid YAML: line 2, column 1: expected the node content, but found '<stream end>'",
            f"{listed}: must hold `key: value` lines, not a list",
            "--set: transaction_check_max: must be greater than or equal to 0, not -1",
            "--set nothing: must look like key=value, with dots between nested keys",
            "--set a..b: must look like key=value, with dots between nested keys",
            "--set: land.topics: must be a list, not 'x'",
        ]
    )


SQL = {"kind": "sql", "url_env": "DB", "table": "log", "key_column": "id", "state_column": "s", "commit": ["C"]}


def resolver(**fields):
    return "resolvers.G=" + json.dumps({name: value for name, value in {**SQL, **fields}.items() if value is not None})


def test_faults_of_resolvers_are_told_together_and_what_may_be_a_secret_is_never_repeated(conf):
    wrong = conf(
        """
resolvers:
  A: {kind: sql, url_env: "postgresql://u:hunter2@h/d", tabel: t, key_column: 5, commit: C, timeout: soon}
  B: {url: "postgresql://u:hunter2@h/d"}
  C: {kind: http, endpoints: ["http://u:hunter2@h/", "ftp://h"], headers_env: {X: "Bearer hunter2"}, tries: 0}
  D: hunter2
  E: {kind: delta, uri: u, key_column: k, state_column: s, commit: [], key: hunter2, absent_rollback_after: -1}
end_on_broker: apply
resolve: {checks_per_writes: 1}
""",
        "wrong.yaml",
    )
    found = faults_of(files=[wrong])
    assert "hunter2" not in " ".join(found)
    assert {fault.removeprefix(f"{wrong}: ") for fault in found} >= {
        "resolvers.A.url_env: must be the name of an environment variable in capitals, not what it holds",
        "resolvers.A.tabel: unknown key; did you mean table?",
        "resolvers.A.key_column: must be a text",
        "resolvers.A.commit: must be a list",
        "resolvers.A.state_column: is missing",
        "resolvers.B: kind must be one of sql, delta, http",
        "resolvers.C.endpoints[0]: must not hold a name or password: give them as a header, by headers_env",
        "resolvers.C.endpoints[1]: must be a URL such as https://orders.internal/check",
        "resolvers.C.headers_env.X: must be the name of an environment variable in capitals, not what it holds",
        "resolvers.C.tries: must be greater than or equal to 1",
        "resolvers.D: must be a mapping",
        "resolvers.E.commit: must not be empty",
        "resolvers.E.key: must be transaction_id, keys or `property NAME`",
        "end_on_broker: apply is not possible: no pass sends by itself; take plan, and txmq resolve --to-broker --apply",
        "resolve.checks_per_writes: unknown key; did you mean checks_per_write?",
    }
    assert len([fault for fault in found if "absent_rollback_after" in fault]) == 1


@pytest.mark.parametrize(
    "text",
    [
        *(
            "a: *s3cret",
            "a: !s3cret x",
            "a: !e!s3cret x",
            "a: &s3cret 1\nb: &s3cret 2",
            "a: !<s3cret'> x",
            "a: {s3cret",
        ),
        *(
            "a: !!int s3cret",
            "a: !!float s3cret",
            "a: !!bool s3cret",
            "a: !!timestamp s3cret",
            "a: !!binary s3cret\u20ac",
        ),
        *("a: @s3cret", "a: `s3cret", 'a: "s3cret', "a: s3cret: b", "s3cret", "- s3cret", "%TAG s3cret\n--- a"),
    ],
)
def test_a_password_that_yaml_takes_for_something_else_is_not_repeated(conf, text):
    found = faults_of(files=[conf(text)])
    assert found
    assert "s3cret" not in " ".join(found)


@pytest.mark.parametrize(
    "assignment",
    [
        *(
            "alerts.url_env=https://hooks.a/s3cret",
            "alerts.url_env=ghp_s3cret",
            "alerts.headers_env={X: Bearer s3cret}",
        ),
        *("alerts.headers_env=s3cret", "alerts=s3cret", "alerts.url_env=[s3cret]", "alerts.url_env={s3cret: 1}"),
        *("rocketmq.secret_key_env=s3cret", "rocketmq=s3cret", "rocketmq.access_key_env=[s3cret]"),
        *("resolvers.a=s3cret", "resolvers=s3cret", "spark=s3cret", "spark.spark.x.password=[s3cret]"),
        *("spark.spark.x.password: s3cret", "spark.spark.x.password:s3cret", ".a=s3cret", "a..b=s3cret"),
        *("warehouse=s3a://KEY:S/s3cret@bucket", "warehouse=https://h/x?token=s3cret", "warehouse=[s3a://K:s3cret@b]"),
        "sources=[{kind: half, broker: a, paths: ['s3a://KEY:S/s3cret@bucket']}]",
        "resolvers.a={kind: delta, uri: 's3a://KEY:S/s3cret@b', key_column: k, state_column: s, commit: [C]}",
        "resolvers.a={kind: http, endpoints: ['https://h/x?token=s3cret']}",
        "resolvers.a={kind: sql, url_env: s3cret, table: t, key_column: k, state_column: s, commit: [C]}",
    ],
)
def test_a_secret_where_none_may_be_is_refused_and_not_repeated(assignment):
    found = faults_of(assignment)
    assert found
    assert "s3cret" not in " ".join(found)


def test_a_pass_goes_on_with_settings_as_they_were_recorded_before_they_had_to_be_in_capitals():
    recorded = json.loads(Settings.load(assignments=[resolver()]).to_json())
    recorded["resolvers"]["G"]["url_env"] = "orders_db"
    assert Settings.from_json(json.dumps(recorded)).resolvers["G"].url_env == "orders_db"


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"url_file": "f"}, "give one of url_env and url_file, which name where the database's URL is"),
        ({"url_env": None}, "give one of url_env and url_file, which name where the database's URL is"),
        ({"query": "select :keys"}, "give one of table and query"),
        ({"table": None}, "give one of table and query"),
        (
            {"table": None, "query": "select id, s from log"},
            "query must ask for `in :keys`, or it would read the whole table",
        ),
        ({"commit": ["C", 1], "rollback": ["1"]}, "states listed twice: 1"),
    ],
)
def test_a_resolver_says_each_thing_once(fields, fault):
    assert faults_of(resolver(**fields)) == [f"--set: resolvers.G: {fault}"]


def test_a_resolver_may_be_set_in_parts_by_several_layers_and_is_recorded_whole(conf):
    base = conf("resolvers:\n  G: {kind: sql, url_env: DB, key_column: id, state_column: s, commit: [C]}\n")
    changes = ["resolvers.G.table=log", "resolvers.G.timeout=1m", "resolvers.G.absent_rollback_after=0"]
    settings = Settings.load([base], changes)
    assert (settings.resolvers["G"].timeout_ms, settings.resolvers["G"].absent_rollback_after_ms) == (60_000, 0)
    assert settings.origin("resolvers.G.table") == "--set"
    recorded = Settings.from_json(settings.to_json())
    assert (recorded.resolvers, recorded.to_json()) == (settings.resolvers, settings.to_json())
    assert faults_of("resolvers.G.batch_size=0", files=[base]) == [
        "--set: resolvers.G.batch_size: must be greater than or equal to 1"
    ]
    assert [fault.partition(": ")[0] for fault in faults_of(files=[base])] == [base], "whoever began it is named"


def test_a_group_is_served_by_its_own_name_else_by_the_longest_pattern_that_fits():
    names = ["GID_PAY", "GID_PAY*", "GID_*", "*", "GID_?AY_X"]
    settings = Settings.load(assignments=["resolvers=" + json.dumps(dict.fromkeys(names, SQL))])
    served = {group: settings.resolver_for(group) for group in ("GID_PAY", "GID_PAY_X", "GID_BUY", "gid_pay", None)}
    assert served == {"GID_PAY": "GID_PAY", "GID_PAY_X": "GID_?AY_X", "GID_BUY": "GID_*", "gid_pay": "*", None: None}
    assert Settings.load().resolver_for("GID_PAY") is None


def test_a_group_of_producers_over_grpc_is_served_by_the_name_of_its_topic():
    """R127: PGROUP of their halves is the topic's name, so resolvers and growing intervals are named by it."""
    settings = Settings.load(
        assignments=[
            "resolvers=" + json.dumps({"OrderTopic": SQL, "GID_*": SQL}),
            'check_backoff={"OrderTopic": {"factor": 2, "longest": "1h"}}',
        ]
    )
    assert settings.resolver_for("OrderTopic") == "OrderTopic"
    assert settings.resolver_for("StockTopic") is None
    assert list(settings.check_backoff) == ["OrderTopic"]


def test_off_is_a_word_although_yaml_takes_it_for_false():
    assert [Settings.load(assignments=[f"end_on_broker={word}"]).end_on_broker for word in ("off", "'off'", "plan")] == [
        "off", "off", "plan",
    ]  # fmt: skip


def test_a_fault_that_a_later_layer_would_hide_is_told(conf):
    path = conf("transaction_timeout: soon\n")
    assert [fault.split(":")[1].strip() for fault in faults_of("transaction_timeout=2", files=[path])] == [
        "transaction_timeout"
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("role: audit\nrole: engine\n", "role: is given twice, again in line 2"),
        ("brokers:\n  x: {role: audit}\n  x: {role: audit}\n", "brokers.x: is given twice, again in line 3"),
        ("land: {topics: [a], topics: [b]}\n", "land.topics: is given twice, again in line 1"),
        ('x: "\\ud800"\n', "is not valid YAML: line 1: half of a surrogate pair is no text"),
        ('"\\udfff": 1\n', "is not valid YAML: line 1: half of a surrogate pair is no text"),
        ("brokers: {[a]: 1}\n", "is not valid YAML: line 1, column 11: found unhashable key"),
        ("? {a: 1}\n: 1\n? {a: 1}\n: 2\n", "is not valid YAML: line 1, column 3: found unhashable key"),
        ("brokers: &a {x: *a}\n", "is not valid YAML: line 1: an alias refers to what it is part of"),
        ("role: !!int\n", "is not valid YAML: a value is not what its tag says"),
        ("role: !!bool maybe\n", "is not valid YAML: a value is not what its tag says"),
        (f"role: {':'.join(['59'] * 400)}.5\n", "is not valid YAML: int too large to convert to float"),
        (
            "role: !!python/name:os.system\n",
            "is not valid YAML: line 1, column 7: could not determine a constructor for the tag",
        ),
    ],
)
def test_yaml_that_means_two_things_or_runs_code_is_a_fault(conf, text, fault):
    path = conf(text)
    assert faults_of(files=[path]) == [f"{path}: {fault}"]


def test_files_that_cannot_be_read_are_faults(tmp_path):
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"warehouse: caf\xe9\n")
    missing = tmp_path / "missing.yaml"
    assert faults_of(files=[latin, missing], warehouse="") == [
        f"{latin}: is not UTF-8 at byte 14",
        f"{missing}: cannot be read: No such file or directory",
        "--warehouse: warehouse: must not be empty, not ''",
    ]


def test_a_section_whose_lines_are_all_commented_out_sets_nothing(conf):
    path = conf("land:\n  # topics: [a]\nbrokers:\n  x:\nsources:\nthresholds:\nspark:\n")
    settings = Settings.load([path])
    assert (settings.land.topics, settings.sources, settings.spark) == (("*",), (), {})
    assert settings.for_broker("x") == DEFAULTS


def test_durations_take_the_unit_of_the_key_or_their_own():
    taken = [
        (6, "s"),
        (0.5, "s"),
        ("2s", "h"),
        ("2000ms", "h"),
        ("3m", "s"),
        (72, "h"),
        ("3d", "s"),
        ("1.5h", "s"),
        (0.1, "s"),
    ]
    assert [milliseconds(value, unit) for value, unit in taken] == [
        6_000, 500, 2_000, 2_000, 180_000, 259_200_000, 259_200_000, 5_400_000, 100,
    ]  # fmt: skip
    assert [duration_text(ms) for ms in (1, 1_500, 6_000, 60_000, 259_200_000)] == ["1ms", "1500ms", "6s", "1m", "72h"]


@pytest.mark.parametrize(
    "value",
    [True, None, "", "6", "-1s", "1 week", "1e3s", [1], {}, 0, -1, "0s", float("nan"), float("inf"), 10**12, 0.0001],
)
def test_what_is_no_duration_is_refused(value):
    with pytest.raises(ValueError, match=r"^must be "):
        milliseconds(value, "s")


def test_spark_settings_keep_their_dots_and_become_texts(conf):
    path = conf("spark: {spark.ui.enabled: true, spark.sql.shuffle.partitions: 4}\n")
    settings = Settings.load([path], ["spark.spark.sql.shuffle.partitions=8"])
    assert settings.spark == {"spark.ui.enabled": "true", "spark.sql.shuffle.partitions": "8"}


def test_a_plan_records_what_decides_results_and_no_location_or_secret():
    settings = Settings.load(
        assignments=[
            "transaction_timeout=2000ms",
            "spark.spark.hadoop.fs.s3a.secret.key=hush",
            "sources=[{kind: half, paths: [/in], broker: b}]",
        ],
        warehouse="/here",
    )
    assert json.loads(settings.to_json()) == {
        "role": None,
        "transaction_timeout": "2s",
        "transaction_check_interval": "1m",
        "transaction_check_max": 15,
        "file_reserved_time": "72h",
        "check_backoff": {},
        "roll_back_given_up": False,
        "persist_consumer_offset_interval": "5s",
        "brokers": {},
        "land": {"topics": ["*"], "trace_topic": None, "max_body_size": 16},
        "resolvers": {},
        "resolve": {"checks_per_write": 1000},
        "end_on_broker": "plan",
    }
    elsewhere = Settings.load(
        assignments=["spark.spark.hadoop.fs.s3a.secret.key=other", "thresholds.lag=7"], warehouse="/there"
    )
    again = Settings.from_json(settings.to_json(), running=elsewhere)
    assert again.to_json() == settings.to_json()
    assert (again.warehouse, again.spark, again.thresholds) == (
        elsewhere.warehouse, elsewhere.spark, elsewhere.thresholds
    )  # fmt: skip


def test_a_plan_recorded_with_thresholds_by_an_older_version_is_read():
    older = Settings.from_json('{"thresholds": {"quarantined": 3}}')
    assert (older.thresholds.quarantined, older.thresholds.pending_age_ms) == (3, AUTO)


def test_thresholds_of_time_are_durations():
    assert Settings.load(assignments=["thresholds.pending_age=10m"]).thresholds.pending_age_ms == 600_000


def test_the_fingerprint_follows_the_meaning_not_the_writing():
    def fingerprint(*assignments):
        return Settings.load(assignments=assignments).fingerprint()

    same = {fingerprint("transaction_timeout=2"), fingerprint("transaction_timeout=2000ms", "warehouse=/x")}
    assert same == {fingerprint("transaction_timeout=2s")}
    assert fingerprint("transaction_timeout=3") not in same
    assert len(fingerprint()) == 12


def test_a_record_of_an_older_version_takes_new_keys_from_the_defaults_and_of_a_newer_one_is_refused():
    assert Settings.from_json('{"transaction_timeout": "2s"}').for_broker("b").transaction_timeout_ms == 2_000
    with pytest.raises(SettingsError, match="recorded settings: checked_by: unknown key"):
        Settings.from_json('{"checked_by": "x"}')


def test_settings_are_frozen():
    with pytest.raises(ValueError, match="frozen"):
        Settings.load().role = "audit"


def test_base_yaml_has_every_key_and_explains_each():
    lines = (conf_dir() / "base.yaml").read_text(encoding="utf-8").splitlines()
    keys = [(lines[at - 1], line.split(":")[0]) for at, line in enumerate(lines) if line and line[0] not in "# "]
    assert [key for _, key in keys] == [field.alias or name for name, field in Settings.model_fields.items()]
    assert [key for above, key in keys if not above.startswith("#")] == []


def test_the_example_for_a_cluster_loads():
    settings = Settings.load([conf_dir() / "cluster.example.yaml"])
    assert settings.for_broker("broker-a").transaction_check_interval_ms == 30_000
    assert settings.for_broker("in-house").role == "engine"


def test_settings_are_read_without_loading_spark():
    code = "import sys, txmq_lib.config.settings; print({'pyspark', 'delta', 'pyarrow'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


ALIASES = "a: &a [1]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{above}'] * 10)}]\n" for above, name in zip("abcdefgh", "bcdefghi", strict=True)
)


def test_aliases_that_stand_for_a_hundred_million_values_are_a_fault_and_cost_no_time(conf):
    begun = time.monotonic()
    with pytest.raises(SettingsError, match="more than 100000 values: write fewer aliases"):
        Settings.load([conf(ALIASES)])
    assert time.monotonic() - begun < 5


def test_an_alias_or_two_are_welcome(conf):
    settings = Settings.load([conf("brokers:\n  x: &own {role: audit}\n  y: *own\n")])
    assert settings.for_broker("y").role == "audit"


def test_a_number_too_long_to_be_written_is_a_fault_like_any_other():
    with pytest.raises(SettingsError, match="--set: role: must be 'engine' or 'audit'"):
        Settings.load(assignments=["role=0x" + "f" * 6000])


def test_a_fault_repeats_no_value_that_may_be_a_secret_and_none_at_length():
    with pytest.raises(SettingsError) as raised:
        Settings.load(assignments=["spark.spark.hadoop.fs.s3a.secret.key=[hush]", f"role={'x' * 5000}"])
    assert "spark.spark.hadoop.fs.s3a.secret.key: must be" in str(raised.value)
    assert "hush" not in str(raised.value)
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize("location", ["s3a://id:hush@bucket/w", "HTTPS://:hush@host/w"])
def test_a_location_with_a_password_is_refused_and_not_repeated(location):
    with pytest.raises(SettingsError, match="must not carry a password") as raised:
        Settings.load(assignments=[f"sources=[{{kind: end, paths: ['{location}'], broker: b}}]"], warehouse=location)
    assert str(raised.value).count("must not carry a password") == 2
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize("warehouse", ["/data/a%20b", "file:///data/%41", "C:\\data"])
def test_a_warehouse_where_views_would_look_elsewhere_is_refused(warehouse):
    with pytest.raises(SettingsError, match="warehouse: must not have a backslash"):
        Settings.load(warehouse=warehouse)


@pytest.mark.parametrize("warehouse", ["/data/100%/it's a [w] {1}*?", "s3a://bucket/a%20b"])
def test_a_warehouse_may_have_any_other_name(warehouse):
    assert Settings.load(warehouse=warehouse).warehouse == warehouse


def test_a_container_before_its_account_is_no_password():
    assert Settings.load(warehouse="abfss://lake@account.dfs.core.windows.net/w@x:y").warehouse.startswith("abfss")


def test_a_role_is_what_somebody_said_of_the_broker_or_of_all_and_who_said_so(conf):
    path = conf("role: audit\nbrokers: {in-house: {role: engine}, empty: {role: null}}\n")
    said = Settings.load([path], ["brokers.given.role=engine"])
    assert {name: (said.said_role(name), said.role_origin(name)) for name in ("x", "in-house", "given", "empty")} == {
        "x": ("audit", path), "in-house": ("engine", path), "given": ("engine", "--set"), "empty": ("audit", path)
    }  # fmt: skip
    unsaid = Settings.load(assignments=["brokers.x.transaction_check_max=1"])
    assert (unsaid.said_role("x"), unsaid.role_origin("x"), unsaid.for_broker("x").role) == (None, "", "engine")
    taken_back = Settings.load([path], ["role=null"])
    assert (taken_back.said_role("x"), taken_back.said_role("in-house")) == (None, "engine")
