"""Settings: the tree, the file, the variables, and what is said when something is wrong."""

import os
import re
import subprocess
import sys
from contextlib import suppress

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from acode.errors import ConfigError
from acode.model.task import Mode
from acode.reading.shape import field_names, struct_info
from acode.settings import Agent, Settings, Workers, load, template

# What the public contract shows, apart from workers.count, which depends on the machine.
DOCUMENTED = yaml.safe_load("""
workers:
  min: 1
  max: 32
  mode: process
  pollIntervalMs: 1000
  idleBackoffMaxMs: 30000
  heartbeatIntervalMs: 10000
  leaseSeconds: 30
  healthCheckIntervalMs: 30000
  drainTimeoutSeconds: 60
  onDaemonExit: keep
  limits: { cpuPercent: 25, memoryMb: 512, diskMb: 1024, maxProcesses: 50, maxOpenFiles: 1024 }
  resources: { overLimitAction: warn }
  poolLimits: { totalMemoryMb: 4096, totalCpuPercent: 200, concurrentTasks: 20 }
  process: { restartDelayMs: 1000, maxRestartDelayMs: 60000, maxRestarts: 10,
             killTimeoutSeconds: 10, keepWorktrees: false }
  worktree: { baseDir: .agent/worktrees, strategy: auto, cleanupOnExit: true, warm: 2,
              copyIgnored: [] }
  docker:
    image: null
    pullPolicy: ifNotPresent
    keepContainers: false
    fallbackToLocal: true
    network: bridge
    host: null
    startTimeoutSeconds: 30
    stopTimeoutSeconds: 10
    pullTimeoutSeconds: 300
    maxPullRetries: 3
    statsIntervalSeconds: 5
    resources: { cpus: 1.0, memoryMb: 512, pidsLimit: 100, readOnlyRootFs: false }
    mounts: []
    ports: []
    dns: []
    extraHosts: []
    secrets: []
autoscale: { enabled: false, min: 2, max: 20, initial: 5, scaleUpThreshold: 0.8,
             scaleDownThreshold: 0.2, scaleUpStep: 2, scaleDownStep: 1, intervalMs: 30000,
             cooldownMs: 60000 }
tasks: { timeoutSeconds: 3600, retryLimit: 3, ageingMinutes: 10, queueSize: 100000, artifacts: [],
         buildCommand: null, testCommand: null, checkpointMaxAgeDays: 7, keepHistoryDays: 30 }
retry: { initialDelayMs: 1000, maxDelayMs: 30000, multiplier: 2, jitter: 0.1 }
breaker: { failureThreshold: 5, recoveryTimeoutMs: 30000, halfOpenRequests: 2 }
sandbox: { level: write, network: inherit, writePaths: [], readPaths: [], blockedCommands: [] }
environment: { deny: [], pass: [], set: {} }
tools: { required: [git] }
agents:
  claude-code:
    command: [claude, -p, "{prompt}", --output-format, stream-json, --verbose]
    pass: [ANTHROPIC_API_KEY]
    format: auto
    idleTimeoutSeconds: 900
    resultGraceSeconds: 10
    verify: null
    writePaths: [~/.claude]
results: { author: acode <acode@localhost>, push: null, keepBranchDays: 0, keepArtifactDays: 0 }
store: { url: null }
api: { enabled: true, host: 127.0.0.1, port: 8470 }
logging: { level: info, maxSizeMb: 10, maxFiles: 5, retentionDays: 7 }
governance: { enabled: true, path: .agent/governance.json }
""")


@pytest.fixture
def config(tmp_path):
    """Writes a config.yml and loads it."""
    path = tmp_path / "config.yml"

    def write_and_load(text: str = "", **environ: str) -> Settings:
        path.write_text(text, encoding="utf-8")
        return load(str(path), environ)

    return write_and_load


@pytest.fixture
def refused(config, tmp_path):
    """The problems of a config.yml, without the directory it lies in."""

    def lines(text: str = "", **environ: str) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            config(text, **environ)
        return str(caught.value).replace(f"{tmp_path}{os.sep}", "").splitlines()

    return lines


def test_the_defaults_are_those_of_the_contract():
    shown = msgspec.json.decode(msgspec.json.encode(Settings()))
    del shown["workers"]["count"]
    assert shown == DOCUMENTED


def test_settings_are_frozen():
    with pytest.raises(AttributeError):
        Settings().workers.count = 3  # type: ignore[misc]


@pytest.mark.req("027-FR-007")
def test_as_many_workers_as_processors_by_default(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 12)
    assert load(None, {}).workers.count == 12


def test_the_default_count_stays_within_min_and_max(monkeypatch, config):
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert load(None, {}).workers.count == 32
    assert config("workers: {max: 8}").workers.count == 8
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert Workers().count == 1
    assert config("workers: {min: 3}").workers.count == 3


@pytest.mark.req("027-FR-006")
def test_the_count_can_be_set_in_the_file_and_by_a_variable(config):
    assert config("workers: {count: 7}").workers.count == 7
    assert config("workers: {count: 7}", ACODE_WORKERS__COUNT="9").workers.count == 9


@pytest.mark.req("027-FR-009")
@pytest.mark.parametrize("count", ["0", "-1"])
def test_there_is_at_least_one_worker(refused, count):
    assert Settings().workers.min == 1
    for key in ("count", "min", "max"):
        (line,) = refused(f"workers: {{{key}: {count}}}")
        assert line.startswith(f"config.yml:1: workers.{key}: found {count}, expected a whole")


@pytest.mark.req("027-FR-032", "027-FR-033")
def test_the_poll_interval_is_a_second_and_can_be_set(config):
    assert Settings().workers.poll_interval_ms == 1000
    assert config("workers: {pollIntervalMs: 50}").workers.poll_interval_ms == 50


def plain(settings):
    """Without the difference between a port that was set and the same one by default."""
    return msgspec.to_builtins(settings)


def test_it_is_known_whether_a_port_was_set(config):
    assert Settings().api.port_may_move
    assert config("api: {host: localhost}").api.port_may_move
    assert not config("api: {port: 8470}").api.port_may_move
    assert not load(None, {"ACODE_API__PORT": "8470"}).api.port_may_move


def test_every_documented_key_can_be_set_to_its_default(config):
    assert plain(config(yaml.safe_dump(DOCUMENTED))) == plain(Settings())


def test_the_template_uncommented_gives_exactly_the_defaults(config):
    assert plain(config(re.sub(r"(?m)^#", "", template()))) == plain(Settings())


def test_the_template_shows_every_key():
    shown = yaml.safe_load(re.sub(r"(?m)^#", "", template()))
    assert _keys(shown) == _keys(msgspec.to_builtins(Settings()))


def _keys(tree):
    return {key: _keys(value) for key, value in tree.items()} if isinstance(tree, dict) else None


def test_the_template_as_it_is_sets_nothing(config):
    assert all(line.startswith("#") for line in template().splitlines() if line)
    assert config(template()) == Settings()


def test_off_means_off(config):
    assert config("sandbox: {level: off}").sandbox.level == "off"


def test_values_of_every_kind_reach_their_place(config):
    settings = config("""
workers:
  mode: docker
  docker:
    image: python:3.12
    resources: {cpus: 2, readOnlyRootFs: true}
    mounts: [{source: /data, target: /data, readOnly: true}]
    secrets: [{name: token, file: /t}]
    ports: [8080, "1:2"]
environment: {set: {A: 1.10, B: text}}
store: {url: postgresql://u:p@host/db}
""")
    docker = settings.workers.docker
    assert settings.workers.mode is Mode.DOCKER
    assert (docker.image, docker.resources.cpus, docker.resources.memory_mb) == (
        "python:3.12",
        2.0,
        512,
    )
    assert docker.mounts[0].read_only
    assert docker.secrets[0].file == "/t"
    assert docker.ports == ("8080", "1:2")
    assert settings.environment.set == {"A": "1.10", "B": "text"}
    assert settings.store.url == "postgresql://u:p@host/db"


def test_the_spellings_of_the_seeds_are_aliases(config):
    settings = config("""
workers:
  limits: {memory_mb: 1, cpu_percent: 2, max_processes: 3, max_open_files: 4}
  pool_limits: {total_memory_mb: 5, total_cpu_percent: 6, concurrent_tasks: 7}
""")
    limits, pool = settings.workers.limits, settings.workers.pool_limits
    assert (limits.memory_mb, limits.cpu_percent) == (1, 2)
    assert (limits.max_processes, limits.max_open_files) == (3, 4)
    assert (pool.total_memory_mb, pool.total_cpu_percent, pool.concurrent_tasks) == (5, 6, 7)


def test_a_section_with_everything_commented_out_is_empty(config):
    assert config("workers:\n  # count: 3\ntools:\n") == Settings()


def test_an_agent_is_added_to_those_that_come_with_acode(config):
    agents = config("agents: {codex: {command: [codex, '{prompt}']}}").agents
    assert agents == {**Settings().agents, "codex": Agent(command=("codex", "{prompt}"))}


def test_a_known_agent_is_changed_only_where_the_file_says_so(config):
    claude = config("agents: {claude-code: {pass: [OTHER_KEY]}}").agents["claude-code"]
    assert claude.pass_ == ("OTHER_KEY",)
    assert claude.command == Settings().agents["claude-code"].command


def test_every_problem_is_listed_with_file_line_key_found_and_allowed(refused):
    assert refused("""\
workers:
  count: many
  limits: {memoryMb: 0}
sandbox: {level: paranoid}
retries: 3
""") == [
        'config.yml:2: workers.count: found "many", expected a whole number from 1 to 1,000,000',
        "config.yml:3: workers.limits.memoryMb: found 0, "
        "expected a whole number from 1 to 1,000,000,000",
        'config.yml:4: sandbox.level: found "paranoid", expected one of off, strict, write',
        "config.yml:5: retries: found an unknown key, expected one of workers, autoscale, tasks, "
        "retry, breaker, sandbox, environment, tools, agents, results, store, api, logging, "
        "governance (did you mean retry?)",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("workers: {min: 9, max: 4}", "workers.max: found 4, expected at least workers.min (9)"),
        ("workers: {min: 40}", "workers.min: found 40, expected at most workers.max (32)"),
        ("workers: {count: 33}", "workers.count: found 33, expected at most workers.max (32)"),
        (
            "workers: {min: 5, count: 4}",
            "workers.count: found 4, expected at least workers.min (5)",
        ),
        (
            "workers: {process: {max_restart_delay_ms: 5}}",
            "workers.process.maxRestartDelayMs: found 5, "
            "expected at least workers.process.restartDelayMs (1,000)",
        ),
        (
            "autoscale: {initial: 30}",
            "autoscale.initial: found 30, expected at most autoscale.max (20)",
        ),
        (
            "autoscale: {scaleDownThreshold: 0.8}",
            "autoscale.scaleDownThreshold: found 0.8, "
            "expected less than autoscale.scaleUpThreshold (0.8)",
        ),
        (
            "retry: {maxDelayMs: 999}",
            "retry.maxDelayMs: found 999, expected at least retry.initialDelayMs (1,000)",
        ),
        (
            "store: {url: mysql://host}",
            "store.url: found an address that begins with mysql://, "
            "expected sqlite:///FILE, postgresql://… or null",
        ),
        (
            "agents: {shell: {command: [x]}}",
            'agents.shell: found "shell", expected the name of an agent: '
            "small letters, digits, - and _, and not shell, script or python",
        ),
        (
            "agents: {codex: {command: []}}",
            "agents.codex.command: found 0 entries, expected at least 1",
        ),
        ("agents: {codex: {}}", "agents.codex.command: found nothing, expected a list"),
        (
            "environment: {set: {A-B: x}}",
            'environment.set.A-B: found "A-B", '
            "expected the name of a variable: letters, digits and _",
        ),
    ],
)
def test_values_that_do_not_go_together_are_refused(refused, text, problem):
    assert refused(text) == [f"config.yml:1: {problem}"]


def test_a_wrong_value_is_not_blamed_on_its_neighbour_as_well(refused):
    (line,) = refused("workers: {min: 50, max: lots}")
    assert line.startswith("config.yml:1: workers.max: ")


@pytest.mark.parametrize(
    "text",
    [
        "store: {url: mysql://u:geheim@host}",
        "store: {url: 'u:geheim@host'}",
        "store: {url: [postgresql://u:geheim@host]}",
        "store: postgresql://u:geheim@host",
        "store: {url: postgresql://u:geheim@host, url: postgresql://u:geheim@host}",
        "store: {urll: postgresql://u:geheim@host}",
        "store: {url: 'postgresql://u:geheim@host}",
    ],
)
def test_a_password_is_never_shown(refused, text):
    assert "geheim" not in "\n".join(refused(text))


@pytest.mark.parametrize(
    "value", ["mysql://u:geheim@h", "[postgresql://u:geheim@h]", "{a: 'geheim'", "geheim"]
)
def test_a_password_in_a_variable_is_never_shown(refused, value):
    assert "geheim" not in "\n".join(refused(ACODE_STORE__URL=value))


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("ACODE_TASKS__QUEUESIZE", "10", lambda s: s.tasks.queue_size == 10),
        ("ACODE_TASKS__QUEUE_SIZE", "10", lambda s: s.tasks.queue_size == 10),
        ("ACODE_tasks__queueSize", "10", lambda s: s.tasks.queue_size == 10),
        ("ACODE_WORKERS__LIMITS__MEMORY_MB", "64", lambda s: s.workers.limits.memory_mb == 64),
        ("ACODE_RETRY", "x", lambda s: s.retry.jitter == 0.1),
        ("ACODE_RETRY__JITTER", "0.5", lambda s: s.retry.jitter == 0.5),
        ("ACODE_SANDBOX__LEVEL", "off", lambda s: s.sandbox.level == "off"),
        ("ACODE_API__ENABLED", "false", lambda s: s.api.enabled is False),
        ("ACODE_RETRY__JITTER", "0", lambda s: s.retry.jitter == 0),
        ("ACODE_TOOLS__REQUIRED", "[git, make]", lambda s: s.tools.required == ("git", "make")),
        ("ACODE_TOOLS__REQUIRED", "make", lambda s: s.tools.required == ("make",)),
        ("ACODE_TASKS__BUILDCOMMAND", "a: b # c", lambda s: s.tasks.build_command == "a: b # c"),
        ("ACODE_TASKS__BUILDCOMMAND", "'[ -f x ]'", lambda s: s.tasks.build_command == "[ -f x ]"),
        ("ACODE_TASKS__BUILDCOMMAND", "", lambda s: s.tasks.build_command is None),
        ("ACODE_ENVIRONMENT__SET__A_B", "1.10", lambda s: s.environment.set == {"A_B": "1.10"}),
        ("ACODE_ENVIRONMENT__SET", "{A: 1.10}", lambda s: s.environment.set == {"A": "1.10"}),
        ("ACODE_AGENTS__CLAUDE_CODE__PASS", "A", lambda s: s.agents["claude-code"].pass_ == ("A",)),
        ("ACODE_AGENTS__codex__COMMAND", "[x]", lambda s: s.agents["codex"].command == ("x",)),
        ("ACODE_STORE__URL", "sqlite:///x.db", lambda s: s.store.url == "sqlite:///x.db"),
    ],
)  # fmt: skip
def test_a_variable_overrides_a_key(config, name, value, read):
    assert read(load(None, {name: value}))
    assert read(config("tasks: {queue_size: 5, build_command: x}\nsandbox:\n", **{name: value}))


def test_a_variable_changes_nothing_but_its_key(config):
    text = "workers: {count: 5, max: 10}\ntasks: {retryLimit: 1}\n"
    assert (
        msgspec.structs.replace(config(text, ACODE_TASKS__QUEUESIZE="7").tasks, queue_size=100_000)
        == config(text).tasks
    )
    assert config(text, ACODE_TASKS__QUEUESIZE="7").workers == config(text).workers


def test_a_key_of_a_section_wins_over_the_whole_section():
    environ = {
        "ACODE_WORKERS__LIMITS__MEMORYMB": "1",
        "ACODE_WORKERS__LIMITS": "{memoryMb: 2, diskMb: 3}",
    }
    limits = load(None, environ).workers.limits
    assert (limits.memory_mb, limits.disk_mb) == (1, 3)


def test_variables_that_are_no_settings_are_left_alone():
    environ = {"ACODE_PROJECT": "x", "ACODE_TASK_ID": "y", "ACODE_WORKERS": "z", "MY__COUNT": "4"}
    assert load(None, environ) == Settings()


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        (
            "ACODE_WORKERS__COUNT",
            "many",
            'workers.count: found "many", expected a whole number from 1 to 1,000,000',
        ),
        ("ACODE_NOPE__COUNT", "1", "nope: found an unknown key, expected one of workers, "),
        ("ACODE_WORKERS__KOUNT", "1", "workers.kount: found an unknown key, expected one of"),
        ("ACODE_WORKERS__", "1", 'workers."": found an unknown key, expected one of count,'),
        ("ACODE_API__PORT__X", "1", "api.port.x: found an unknown key, expected nothing below"),
        ("ACODE_WORKERS__MAX", "0", "workers.max: found 0, expected"),
        ("ACODE_AUTOSCALE__MAX", "1", "autoscale.max: found 1, expected at least autoscale."),
        ("ACODE_API__HOST", "a\udc80", "api.host: found text that is not UTF-8, expected text"),
        ("ACODE_API__PORT", "9" * 5000, 'api.port: found "99'),
    ],
)  # fmt: skip
def test_a_problem_names_the_variable(name, value, problem):
    with pytest.raises(ConfigError) as caught:
        load(None, {name: value})
    assert str(caught.value).startswith(f"{name}: {problem}")


def test_bad_yaml_in_a_variable_is_a_problem_of_that_variable():
    with pytest.raises(ConfigError, match=r"\AACODE_TOOLS__REQUIRED: .*well-formed YAML"):
        load(None, {"ACODE_TOOLS__REQUIRED": "[git"})


def test_two_variables_for_one_key_are_a_problem():
    with pytest.raises(ConfigError, match=r"ACODE_API__POR_T: .*found ACODE_API__PORT as well"):
        load(None, {"ACODE_API__PORT": "1", "ACODE_API__POR_T": "2"})


def test_a_file_that_is_not_there_is_a_problem(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere\.yml: No such file or directory"):
        load(str(tmp_path / "nowhere.yml"), {})


@pytest.mark.parametrize("data", [b"\xff\xfe", b"a: \0", b"- a", b"text", b"x: [", b"5"])
def test_a_file_that_is_no_settings_file_is_refused(tmp_path, data):
    path = tmp_path / "config.yml"
    path.write_bytes(data)
    with pytest.raises(ConfigError):
        load(str(path), {})


def test_no_settings_cost_no_yaml(tmp_path):
    config = tmp_path / "config.yml"
    config.write_text(template())
    code = (
        "import sys; from acode.settings import load;"
        "load(sys.argv[1], {}); load(None, {'ACODE_WORKERS__COUNT': '3'});"
        "print([name for name in ('yaml', 'json', 'asyncio', 'difflib') if name in sys.modules])"
    )
    command = [sys.executable, "-c", code, str(config)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


WORDS = st.sampled_from(
    [*field_names(struct_info(Settings)), *field_names(struct_info(Workers)), "", "x", "__", "\0"]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["off", "kill", "claude-code", "postgresql://u:p@h"])
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=20,
)


def loads_or_is_refused(path, data: bytes, environ: dict[str, str]) -> None:
    path.write_bytes(data)
    with suppress(ConfigError):
        assert isinstance(load(str(path), environ), Settings)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "config.yml"


@given(data=st.binary(max_size=200))
def test_no_bytes_give_a_traceback(scratch, data):
    loads_or_is_refused(scratch, data, {})


@given(tree=TREES)
def test_no_structure_gives_a_traceback(scratch, tree):
    loads_or_is_refused(scratch, yaml.safe_dump(tree).encode(), {})


SOUND = re.sub(r"(?m)^#", "", template())


@given(
    at=st.integers(0, len(SOUND)),
    length=st.integers(0, 30),
    put=st.text(max_size=10) | st.sampled_from([": ", "- ", *"[{'", "\n", "*x", "&x ", "!!int "]),
)  # fmt: skip
def test_no_mutation_of_a_sound_file_gives_a_traceback(scratch, at, length, put):
    mutated = SOUND[:at] + put + SOUND[at + length :]
    loads_or_is_refused(scratch, mutated.encode(), {})


@given(
    environ=st.dictionaries(
        st.lists(WORDS | st.text(max_size=5), min_size=1, max_size=4).map(
            lambda words: "ACODE_" + "__".join(words)
        ),
        st.text(max_size=10) | TREES.map(yaml.safe_dump) | TREES.map(str),
        max_size=3,
    ),
)
def test_no_variable_gives_a_traceback(scratch, environ):
    loads_or_is_refused(scratch, b"workers: {count: 3}", environ)
