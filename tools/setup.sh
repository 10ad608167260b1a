#!/bin/sh
# Makes a virtual environment and installs acode into it for development: setup.sh VENV EXTRAS
set -eu

venv=$1
extras=$2

is_recent() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
has_venv() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }
version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])'; }

# Prefers a Python that can make environments at once over one that needs a package first.
find_python() {
    found=
    for name in python3 python3.13 python3.12 python3.11; do
        is_recent "$name" || continue
        if has_venv "$name"; then echo "$name"; return; fi
        found=${found:-$name}
    done
    echo "$found"
}

install_venv_module() {
    package="python$(version_of "$1")-venv"
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        echo "setup: installing $package, which Python needs to make environments"
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package"
    else
        echo "setup: $1 cannot make virtual environments; install $package:" >&2
        echo "       sudo apt-get install $package" >&2
        exit 3
    fi
}

make_venv() {
    python=$(find_python)
    if [ -z "$python" ]; then
        echo "setup: Python 3.11 or newer is needed and was not found:" >&2
        echo "       sudo apt-get install python3 python3-venv" >&2
        exit 3
    fi
    has_venv "$python" || install_venv_module "$python"
    echo "setup: making $venv with $(command -v "$python") ($(version_of "$python"))"
    rm -rf "$venv"
    "$python" -m venv "$venv"
}

pip_install() {
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt "$@"
}

# The dashboard is tested in a real browser; without one those tests are skipped and say so.
install_browser() {
    if command -v chromium >/dev/null || command -v google-chrome >/dev/null; then return; fi
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        echo "setup: installing chromium, which tests of the dashboard use"
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
            --no-install-recommends chromium; } >/dev/null || true
    else
        echo "setup: no browser; to test the dashboard: sudo apt-get install chromium"
    fi
}

"$venv/bin/python" -m pip --version >/dev/null 2>&1 || make_venv
echo "setup: installing acode[$extras] with the versions of constraints.txt"
# The build backend first, so that it is pinned like everything else.
pip_install hatchling editables
pip_install --no-build-isolation --editable ".[$extras]"
case ",$extras," in *,test,*) install_browser ;; esac
# Bytecode ahead of time: commands start faster, also where Python may not write it itself.
"$venv/bin/python" -m compileall -q src
