"""What `conf/deploy` holds is read by the parsers of those who run it, and every command in it is one of txmq's."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
import typer
import yaml

from txmq_lib.cli.app import app, globals_first
from txmq_lib.config.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "conf" / "deploy"
UNITS = sorted(DEPLOY.glob("txmq-*.*"))
MANIFESTS = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")))
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


def dockerfile() -> list[tuple[str, str]]:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split()[0], line.partition(" ")[2]) for line in lines]


def of_kind(kind: str) -> dict:
    return next(each for each in MANIFESTS if each["kind"] == kind)


def containers() -> list[dict]:
    cron = of_kind("CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return [*of_kind("Deployment")["spec"]["template"]["spec"]["containers"], *cron["containers"]]


def commands() -> list[list[str]]:
    of_units = [
        shlex.split(line.partition("=")[2])[1:]
        for unit in UNITS
        for line in unit.read_text(encoding="utf-8").splitlines()
        if line.startswith("ExecStart=")
    ]
    by_default = yaml.safe_load(next(words for name, words in dockerfile() if name == "CMD"))
    return [*of_units, by_default, *(each["args"] for each in containers())]


def test_every_command_in_it_is_one_with_options_that_it_has():
    program = typer.main.get_command(app)
    for words in commands():
        arguments = globals_first(words)
        while arguments[0] in ("--conf", "--set", "--warehouse"):
            arguments = arguments[2:]
        name, *rest = arguments
        command = program.commands[name]
        command.make_context(name, rest, parent=program.make_context("txmq", [], resilient_parsing=True))
    assert {words[-1] for words in commands()} >= {"run", "maintain", "9190", "0.0.0.0:9190"}


@pytest.mark.parametrize("text", [
    (DEPLOY / "settings.yaml").read_text(encoding="utf-8"), of_kind("ConfigMap")["data"]["settings.yaml"],
], ids=["container", "kubernetes"])  # fmt: skip
def test_the_settings_in_it_are_settings_and_lie_where_they_are_mounted(tmp_path, text):
    (tmp_path / "settings.yaml").write_text(text, encoding="utf-8")
    settings = Settings.load([tmp_path / "settings.yaml"])
    assert settings.warehouse.startswith("/var/lib/txmq/")
    mounts = {mount["mountPath"] for each in containers() for mount in each["volumeMounts"]}
    assert mounts == {"/etc/txmq", "/var/lib/txmq", "/tmp"}
    assert ("ENV", "PATH=/opt/txmq/bin:$PATH TXMQ_CONF=/etc/txmq/settings.yaml") in dockerfile()


def test_probes_look_at_the_port_and_path_that_are_served():
    (service,) = of_kind("Deployment")["spec"]["template"]["spec"]["containers"]
    assert service["ports"] == [{"name": "http", "containerPort": 9190}]
    assert service["readinessProbe"]["httpGet"] == {"path": "/health", "port": "http"}
    assert "/health" in COMPOSE["services"]["txmq"]["healthcheck"]["test"][-1]
    assert COMPOSE["services"]["txmq"]["ports"] == ["127.0.0.1:9190:9190"]


def test_what_the_image_copies_and_installs_is_there():
    for name in re.findall(r"supply/\w+\.txt", (DEPLOY / "Dockerfile").read_text(encoding="utf-8")):
        assert (ROOT / name).is_file()
    for mount in [*COMPOSE["services"]["broker"]["volumes"], *COMPOSE["services"]["txmq"]["volumes"]]:
        source = mount.split(":")[0]
        assert not source.startswith("./") or (DEPLOY / source).is_file()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_reads_the_units(tmp_path):
    program = tmp_path / "txmq"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for unit in UNITS:
        text = unit.read_text(encoding="utf-8")
        text = text.replace("/opt/txmq/.venv/bin/txmq", str(program)).replace("User=txmq", "User=root")
        (tmp_path / unit.name).write_text(text.replace("/var/lib/txmq", str(tmp_path)), encoding="utf-8")
    units = [str(tmp_path / unit.name) for unit in UNITS]
    ended = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True)
    about_ours = [line for line in ended.stderr.splitlines() if "txmq" in line]
    assert (ended.returncode, about_ours) == (0, []), ended.stderr
    for timer in DEPLOY.glob("*.timer"):
        when = re.search(r"^OnCalendar=(.*)$", timer.read_text(encoding="utf-8"), re.MULTILINE)[1]
        subprocess.run(["systemd-analyze", "calendar", when], check=True, capture_output=True)


@pytest.fixture(scope="module")
def parsers(tmp_path_factory):
    """An environment with the parsers, which txmq itself does not need."""
    place = tmp_path_factory.mktemp("parsers")
    venv.create(place, with_pip=True)
    install = [place / "bin" / "pip", "install", "--quiet", "kubernetes-validate==1.37.0", "check-jsonschema==0.39.0"]
    subprocess.run(install, check=True, timeout=300)
    return place / "bin"


@pytest.mark.real
def test_kubernetes_takes_the_manifests(parsers, tmp_path):
    path = tmp_path / "all.yaml"
    path.write_text((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    check = [parsers / "kubernetes-validate", "--strict", path]
    ended = subprocess.run(check, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    path.write_text(yaml.dump_all(MANIFESTS).replace("readinessProbe", "readynessProbe"), encoding="utf-8")
    assert subprocess.run(check, capture_output=True).returncode != 0


@pytest.mark.real
def test_compose_takes_its_file(parsers):
    check = [parsers / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.yaml"]
    ended = subprocess.run(check, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.real
@pytest.mark.long
def test_each_step_of_the_image_runs(tmp_path):
    """Without a daemon that builds images: the Python steps of its first stage, in a directory for /opt/txmq."""
    source = tmp_path / "src"
    subprocess.run(["git", "clone", "--quiet", ROOT, source], check=True)
    for name, words in dockerfile():
        if name == "RUN" and "/opt/txmq" in words.replace("python -m venv ", "") and "apt-get" not in words:
            step = words.replace("/opt/txmq", str(tmp_path / "opt")).replace(
                "python -m venv", f"{sys.executable} -m venv"
            )
            subprocess.run(step, shell=True, check=True, cwd=source, timeout=900)
    ended = subprocess.run(
        [tmp_path / "opt" / "bin" / "txmq", "--version"], capture_output=True, text=True, cwd=tmp_path
    )
    assert ended.stdout.startswith("txmq "), ended.stderr
