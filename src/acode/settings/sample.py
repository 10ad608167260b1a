"""The config.yml of a new project. Taking one `#` off every line gives exactly the defaults."""

TEXT = """\
## Settings of acode for this project. Every key is optional and stands here with its default:
## take the # away from a key, and from the section above it, to change it.
## ACODE_<SECTION>__<KEY> in the environment overrides a key: ACODE_WORKERS__COUNT=8

#workers:
#  count: <cpu count>             # workers to start; as many as the machine has processors
#  min: 1                         # never fewer
#  max: 32                        # never more
#  mode: process                  # process | docker; a task may ask for the other one
#  pollIntervalMs: 1000           # how often an idle pool looks for tasks
#  idleBackoffMaxMs: 30000        # and at least this often, after many looks in vain
#  heartbeatIntervalMs: 10000     # how often a worker says that it is alive
#  leaseSeconds: 30               # how long a silent machine keeps its tasks
#  healthCheckIntervalMs: 30000   # how often the pool looks after its workers
#  drainTimeoutSeconds: 60        # how long a stop waits for running tasks
#  onDaemonExit: keep             # keep | drain | kill: running tasks when the daemon dies
#  limits:                        # of one task
#    cpuPercent: 25               # percent of one processor
#    memoryMb: 512
#    diskMb: 1024
#    maxProcesses: 50
#    maxOpenFiles: 1024
#  resources:
#    overLimitAction: warn        # warn | throttle | kill
#  poolLimits:                    # of all tasks together
#    totalMemoryMb: 4096
#    totalCpuPercent: 200
#    concurrentTasks: 20
#  process:
#    restartDelayMs: 1000         # before a crashed worker is started again, doubled each time
#    maxRestartDelayMs: 60000
#    maxRestarts: 10              # then the worker is given up
#    killTimeoutSeconds: 10       # between asking a task to end and killing it
#    keepWorktrees: false         # keep workspaces to look into them
#  worktree:
#    baseDir: .agent/worktrees
#    strategy: auto               # auto | overlay | warm | plain
#    cleanupOnExit: true
#    warm: 2                      # workspaces that are kept ready
#    copyIgnored: []              # ignored files that tasks need: [.env, node_modules]
#  docker:
#    image: null                  # null: chosen from the project's files
#    pullPolicy: ifNotPresent     # always | never | ifNotPresent
#    keepContainers: false        # keep containers to look into them
#    fallbackToLocal: true        # run as a process where there is no docker
#    network: bridge              # bridge | host | none
#    host: null                   # the engine's socket; null: DOCKER_HOST, docker, then podman
#    startTimeoutSeconds: 30
#    stopTimeoutSeconds: 10
#    pullTimeoutSeconds: 300
#    maxPullRetries: 3            # tries in all
#    statsIntervalSeconds: 5
#    resources:                   # of one container
#      cpus: 1.0
#      memoryMb: 512
#      pidsLimit: 100
#      readOnlyRootFs: false
#    mounts: []                   # [{source: /data, target: /data, readOnly: true}]
#    ports: []                    # ["8080:80"]
#    dns: []                      # [10.0.0.2]
#    extraHosts: []               # ["db:10.0.0.3"]
#    secrets: []                  # [{name: token, file: ~/.token}]: files under /run/secrets

#autoscale:                       # the pool grows and shrinks by itself
#  enabled: false
#  min: 2
#  max: 20
#  initial: 5
#  scaleUpThreshold: 0.8          # share of busy workers above which workers are added
#  scaleDownThreshold: 0.2        # and below which they are taken away
#  scaleUpStep: 2
#  scaleDownStep: 1
#  intervalMs: 30000
#  cooldownMs: 60000              # nothing changes for so long after a change

#tasks:                           # for tasks that say nothing else
#  timeoutSeconds: 3600
#  retryLimit: 3                  # retries after timeouts and crashes
#  ageingMinutes: 10              # waiting this long raises the priority by one; 0: never
#  queueSize: 100000              # waiting tasks; more are refused
#  artifacts: []                  # files to keep: ["dist/*.whl"]
#  buildCommand: null             # runs after a task; the task fails if it fails
#  testCommand: null              # runs after the build
#  checkpointMaxAgeDays: 7
#  keepHistoryDays: 30            # then finished tasks are archived

#retry:                           # how long a failed task waits for its next attempt
#  initialDelayMs: 1000
#  maxDelayMs: 30000
#  multiplier: 2
#  jitter: 0.1                    # share of the delay that is left to chance

#breaker:                         # one for each type of task in each workstream
#  failureThreshold: 5            # failures in a row until its tasks are held back
#  recoveryTimeoutMs: 30000       # until it is tried again
#  halfOpenRequests: 2            # with so many tasks

#sandbox:
#  level: write                   # off | write | strict
#  network: inherit               # inherit | none
#  writePaths: []                 # more directories that tasks may write to
#  readPaths: []                  # and, under strict, read
#  blockedCommands: []            # patterns added to the built-in list

#environment:                     # which variables tasks see
#  deny: []                       # patterns added to those that look secret
#  pass: []                       # pass these although they look secret: [NPM_TOKEN]
#  set: {}                        # {CI: "1"}

#tools:
#  required: [git]                # programs that must be there

#agents:                          # each is a type of task; {prompt} stands for its command
#  claude-code:
#    command: [claude, -p, "{prompt}", --output-format, stream-json, --verbose]
#    pass: [ANTHROPIC_API_KEY]
#    format: auto                 # auto | stream-json | text: how its output is read
#    idleTimeoutSeconds: 900      # ended when it prints nothing for so long; 0: never
#    resultGraceSeconds: 10       # ended when it stays so long after its result; 0: never
#    writePaths: [~/.claude]      # where it keeps its own files; made if it is not there
#    verify: null                 # runs after it, like testCommand: what it did is good if this is

#results:                         # what tasks have changed
#  author: acode <acode@localhost>   # of the commits on the branches acode/<task-id>
#  push: null                     # a remote, e.g. origin: branches are pushed there
#  keepBranchDays: 0              # branches of finished tasks; 0: until you remove them
#  keepArtifactDays: 0            # patches and artifacts likewise

#store:
#  url: null                      # null: .agent/queue.db; or postgresql://user@host/database

#api:
#  enabled: true
#  host: 127.0.0.1
#  port: 8470                     # the next free one if another project has it

#logging:
#  level: info                    # debug | info | warning | error
#  maxSizeMb: 10
#  maxFiles: 5
#  retentionDays: 7

#governance:                      # the published state of the pool
#  enabled: true
#  path: .agent/governance.json
"""
