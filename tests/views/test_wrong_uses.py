"""What tired people type: each is said in three lines at most, with its status, before a JVM could start."""

from __future__ import annotations

import pytest

from txmq_lib.cli.run.before_spark import OTHER_FILE_SYSTEMS

ID = "C000020246654E0E2F2A6940C2510000"
USES = [  # what is typed; status; what is said of it
    ("show config", 2, "No such command 'show'"),
    ("status --fromat json", 2, "Possible options: --format"),
    ("verdicts --state given_up", 2, "verdicts has no state given_up; there are DUPLICATED, "),
    ("offsets --state rewound", 2, "offsets has no state rewound; there are "),
    ("verdicts --sort colour", 2, "verdicts cannot be sorted by colour: give a column"),
    ("pending --older-than yesterday", 2, "--older-than must be a number of s or a text such as"),
    ("pending --group GID_PAI", 1, "no group GID_PAI has landed; there is GID_PAY"),
    ("status --now tomorrow", 2, "--now tomorrow: give ISO 8601 such as"),
    ("status --format csv", 2, "status has no csv"),
    ("trace", 2, "trace takes one of: an id, --key, --half-offset"),
    ("trace C0", 1, "nothing is known of transaction C0"),
    (f"trace {ID.lower()}", 1, f"; there is {ID}"),
    (f"settle {ID[:-1]} --commit --reason x", 2, f"has landed; there is {ID}"),
    ("groups --group CID_PAY", 1, "no group CID_PAY has landed"),
    ("settle T --commit --rollback --reason x", 2, "settle needs one of --commit and --rollback"),
    ("settle T --commit --reason=", 2, "settle needs a --reason: it is recorded"),
    ("settle T --commit --reason paid", 2, "no half message of transaction T has landed"),
    ("settle T --commit --reason paid --to-broker", 2, "--to-broker needs a name server"),
    ("resume", 2, "resume needs transaction ids, or --group, or --all"),
    ("resume --group GID_PAI", 2, "no half message of group GID_PAI has landed; there is GID_PAY"),
    ("runs --since 24", 2, "--since 24: a span needs its unit, such as 24h"),
    ("resume T --apply --dry-run", 2, "give one of them"),
    ("resend T --reason x --namesrv nowhere", 2, "--namesrv must be host:port, not 'nowhere'"),
    ("release T", 2, "no half message of transaction T has landed"),
    ("land half gone.jsonl --broker b", 2, "nothing to land at gone.jsonl"),
    ("land store /gone --broker b --set role=audit", 3, "store /gone is no directory"),
    ("land store . --broker b --set role=audit", 3, "commit log commitlog: No such file or directory"),
    ("land sources", 2, "the settings name no sources"),
    ("land rocketmq --namesrv localhost --set role=audit", 2, "--namesrv must be host:port, not 'localhost'"),
    ("take-back --broker nope", 2, "no row of broker nope has landed"),
    ("--conf gone.yaml status", 2, "gone.yaml: cannot be read: No such file or directory"),
    ("--conf tab.yaml status", 2, "tab.yaml: is not valid YAML: line 2"),
    ("--set rol=audit status", 2, "rol: unknown key; did you mean role?"),
    ("--set role=both status", 2, "role: must be 'engine' or 'audit', not 'both'"),
    ("--warehouse . status", 2, "let a first txmq run, or txmq init, make it"),
    ("report --out /gone/r.html", 2, "--out /gone/r.html cannot be written: No such file or directory"),
    ("metrics --out /gone/x.prom", 2, "--out /gone/x.prom cannot be written: No such file or directory"),
    ("--conf live.yaml run", 2, "the environment variable NO_SUCH_KEY is not set"),
    ("--conf live.yaml serve", 2, "the environment variable NO_SUCH_KEY is not set"),
    ("--conf live.yaml land sources", 2, "the environment variable NO_SUCH_KEY is not set"),
    ("--conf gone-store.yaml run", 3, "store /gone is no directory"),
    ("--conf gone-store.yaml land sources", 3, "store /gone is no directory"),
    ("--conf all-gone.yaml run", 3, "no source can be read: store /gone is no directory: give a store directory"),
    ("--conf all-gone.yaml run", 3, "; no name server answers: 127.0.0.1:1"),
    ("resolve", 0, "nobody is asked: the settings name no resolvers"),
    ("--conf asks.yaml resolve", 2, "resolvers.GID_PAY.url_env: the environment variable NO_SUCH_URL is not set"),
    ("--warehouse tab.yaml status", 2, "tab.yaml is a file; a settings file is given by --conf"),
    ("verdicts --conf", 2, "--conf needs a value: --conf FILE"),
    ("stuck", 2, "No such command 'stuck'; txmq verdicts --state stuck lists what is"),
    ("lag", 2, "No such command 'lag'; txmq groups tells which group is behind"),
    ("runs --failed", 2, "No such option: --failed; txmq runs --state failed"),
    ("verdict", 2, "Did you mean 'verdicts'; txmq --help tells more"),
    ("resend T --reason x", 2, "resend needs a name server: give --namesrv"),
    (f"settle {ID} --commit --reason x --to-broker --namesrv 127.0.0.1:1 --apply", 3, "no name server answers"),
    (f"resume {ID} --to-broker --namesrv 127.0.0.1:1 --apply", 3, "no name server answers"),
    (f"resend {ID} --reason x --namesrv 127.0.0.1:1 --apply", 3, "no name server answers"),
    ("resolve --to-broker --namesrv 127.0.0.1:1 --apply", 3, "no name server answers"),
    ("passes --job reconsile", 1, "no job reconsile has run"),
    ("alert", 2, "alerts.url_env: is needed"),
    ("wakeup", 2, "nobody serves: there is no health file txmq-serve.json"),
    ("serve --listen 0.0.0.0", 2, "--listen 0.0.0.0: give PORT, which is on 127.0.0.1, or HOST:PORT"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory, empty_tables) -> str:
    """A warehouse, made once: nothing here writes."""
    import shutil

    from views.conftest import append

    directory = tmp_path_factory.mktemp("used") / "w"
    shutil.copytree(empty_tables, directory)
    append(directory, "half_message", [{"transaction_id": ID, "producer_group": "GID_PAY", "broker_name": "b"}])
    append(directory, "pending_half", [{"transaction_id": ID, "producer_group": "GID_PAY", "broker_name": "b"}])
    return str(directory)


@pytest.mark.parametrize(("words", "status", "said"), USES, ids=[use[0] for use in USES])
def test_a_wrong_use_is_said_in_three_lines_at_most_without_a_jvm(
    txmq_as_it_is, place, tmp_path, monkeypatch, words, status, said
):
    def no_jvm(*_: object) -> None:
        raise AssertionError("a JVM would have started")

    monkeypatch.chdir(tmp_path)
    for name in ("TXMQ_CONF", *OTHER_FILE_SYSTEMS):  # a session of another test may have set some
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("txmq_lib.cli.run.passes.build_session", no_jvm)
    (tmp_path / "tab.yaml").write_text("role: audit\n\twarehouse: x\n")
    (tmp_path / "live.yaml").write_text(
        "role: audit\nrocketmq: {access_key_env: NO_SUCH_KEY, secret_key_env: NO_SUCH_KEY}\n"
        "sources: [{kind: rocketmq, namesrv: ['127.0.0.1:1']}]\n"
    )
    gone = "{kind: store, paths: [/gone], broker: b}"
    (tmp_path / "gone-store.yaml").write_text(f"role: audit\nsources: [{gone}]\n")
    (tmp_path / "all-gone.yaml").write_text(
        f"role: audit\nsources: [{{kind: rocketmq, namesrv: ['127.0.0.1:1']}}, {gone}]\n"
    )
    (tmp_path / "asks.yaml").write_text(
        "resolvers: {GID_PAY: {kind: sql, url_env: NO_SUCH_URL, table: t, key_column: k, state_column: s, commit: [x]}}"
    )
    ended, out, err = txmq_as_it_is("--warehouse", place, *words.split())
    lines = (out + err).splitlines()
    assert (ended, len(lines) <= 3) == (status, True), lines
    assert said in out + err


CHANGED = "broker c: its rows were made in the role audit, and its role here is engine"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("reconcile", CHANGED),
        ("reconcile --dry-run", CHANGED),
        ("audit", CHANGED),
        ("--conf asks.yaml resolve", CHANGED),
        ("--conf files.yaml run", CHANGED),
        ("serve", CHANGED),
        ("land half half.jsonl --broker c", CHANGED),
        ("land store store --broker c", CHANGED),
        ("land half half.jsonl --broker d", "a JVM would have started"),
        ("land offset half.jsonl --broker c", "a JVM would have started"),
        ("take-back --broker c --apply", "a JVM would have started"),
        ("rollup", "a JVM would have started"),
    ],
)
def test_a_role_that_differs_from_the_recorded_one_is_said_without_a_jvm(
    txmq_as_it_is, warehouse, tmp_path, monkeypatch, words, said
):
    def no_jvm(*_: object) -> None:
        raise AssertionError("a JVM would have started")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("txmq_lib.cli.run.passes.build_session", no_jvm)
    for name in OTHER_FILE_SYSTEMS:
        monkeypatch.delenv(name, raising=False)
    uri = warehouse({"broker": [{"broker_name": "c", "role": "audit"}], "half_message": [{"broker_name": "c"}]})
    (tmp_path / "half.jsonl").write_text("{}\n")
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    (tmp_path / "store" / "commitlog" / ("0" * 20)).write_bytes(bytes(100))
    (tmp_path / "asks.yaml").write_text(
        "resolvers: {G: {kind: delta, uri: t, key_column: k, state_column: s, commit: [x]}}"
    )
    (tmp_path / "files.yaml").write_text("sources: [{kind: half, paths: [half.jsonl], broker: c}]")
    _, out, err = txmq_as_it_is("--warehouse", uri, "--set", "role=engine", *words.split())
    assert said in out + err
