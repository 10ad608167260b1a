#!/bin/sh
# Installs what tests need beside Python, as far as we may: components.sh
# As an ordinary user, or without apt-get, tests that lack a component are skipped and say how to get it.
set -eu

[ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null || exit 0

missing=
need() { # PROGRAM PACKAGE
    command -v "$1" >/dev/null || missing="$missing $2"
}
need git git
need git-lfs git-lfs
need dockerd docker.io
need podman podman
need runc runc
need catatonit catatonit
need busybox busybox-static
need ip iproute2
need mkfs.btrfs btrfs-progs
need gcc gcc
need as binutils
need aarch64-linux-gnu-as binutils-aarch64-linux-gnu
need make make
need node nodejs
need npm npm
need cargo cargo
need iptables iptables
need nsenter util-linux
need pgbouncer pgbouncer
need openssl openssl
[ -e /usr/include/stdlib.h ] || missing="$missing libc6-dev"
# Without it Podman cannot make a network.
[ -e /usr/lib/podman/netavark ] || missing="$missing netavark"

[ -n "$missing" ] || exit 0
echo "components: installing$missing"
# Tests start engines of their own; no service has to run.
apt-get update -qq
# shellcheck disable=SC2086 # a list of words
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
