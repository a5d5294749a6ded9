#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.


# The environment of the scripts in tools/: Debian packages and a Python
# environment inside the checkout. Source this file.
#
#   env_help ARGUMENT...       print the script's help if one asks for it
#   env_packages [PROFILE...]  have bindep.txt's packages of these profiles
#   env_make [cloud]           have the Python environment; sets VENV and PATH
#   env_cloud [PROFILE...]     have all that a whole cloud needs, or exit
#
# ENV_RELEASE names an earlier release of OpenStack, of tools/lib/releases.
# DISKPLACER_VENV names an environment to use as it is instead.

ENV_TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
ENV_LIB=$ENV_TOP/tools/lib
ENV_RELEASE=${ENV_RELEASE:-}
ENV_NEWEST=2026.2
ENV_PYTHONS='/usr/bin/python3 python3.13 python3.12 python3.11'

env_say() {
    echo "== $*" >&2
}

# Print the comment that follows the licence of the script in tools/, and exit,
# if an argument is -h or --help: before anything is installed.
env_help() {
    local argument
    for argument; do
        case $argument in
            -h | --help)
                awk '!NF { if (printed) exit; licence_ended = 1 }
                    /^#/ && licence_ended {
                        sub(/^# ?/, ""); print; printed = 1
                    }' "$ENV_TOP/tools/${0##*/}"
                exit
                ;;
        esac
    done
}

# Print the packages of the profiles that are not installed, one per line.
_env_missing_packages() {
    awk -v wanted=" $* " '
        /^[^#]/ && match($0, /\[[^]]*\]/) {
            profiles = split(substr($0, RSTART + 1, RLENGTH - 2), words, " ")
            listed = profiles == 1
            for (i = 1; i <= profiles; i++)
                if (index(wanted, " " words[i] " ")) listed = 1
            if (listed) print $1
        }' "$ENV_TOP/bindep.txt" |
    while read -r package; do
        dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null |
            grep -qx installed || echo "$package"
    done
}

# Install packages, without starting the services that come with them.
_env_install_packages() {
    local policy=/usr/sbin/policy-rc.d
    (
        if [ ! -e $policy ]; then
            trap 'rm -f $policy' EXIT
            printf '#!/bin/sh\nexit 101\n' > $policy
            chmod +x $policy
        fi
        if [[ " $* " == *' cloud-init '* ]]; then
            # nor at the next boot
            mkdir -p /etc/cloud && touch /etc/cloud/cloud-init.disabled
        fi
        export DEBIAN_FRONTEND=noninteractive
        apt-get -q update &&
            apt-get -q -y --no-install-recommends install "$@"
    ) < /dev/null >&2
}

# Have the packages of bindep.txt that belong to every profile or to one of
# the arguments. Installs as root; anyone else is told what is missing.
env_packages() {
    local missing
    if ! command -v dpkg-query > /dev/null; then
        env_say 'not Debian or Ubuntu: bindep.txt names the packages needed'
        return 0
    fi
    mapfile -t missing < <(_env_missing_packages "$@")
    if [ ${#missing[@]} -eq 0 ]; then
        return 0
    fi
    if [ "$(id -u)" -ne 0 ]; then
        env_say "missing packages; as root: apt-get install ${missing[*]}"
        return 1
    fi
    env_say "installing ${#missing[@]} packages: ${missing[*]}"
    _env_install_packages "${missing[@]}"
}

# Print the Python to use: 3.11 to 3.13, the distribution's own if it can be.
_env_python() {
    local python
    for python in $ENV_PYTHONS; do
        if "$python" -c 'import sys
sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2> /dev/null; then
            command -v "$python"
            return 0
        fi
    done
    env_say "no Python 3.11, 3.12 or 3.13 among: $ENV_PYTHONS"
    return 1
}

# Print the directory with openstack.txt and constraints.txt of the release.
_env_pins() {
    local pins=$ENV_LIB
    if [ -n "$ENV_RELEASE" ] && [ "$ENV_RELEASE" != $ENV_NEWEST ]; then
        pins+=/releases/$ENV_RELEASE
    fi
    if [ ! -e "$pins/openstack.txt" ]; then
        env_say "release $ENV_RELEASE is not one of:" \
            "$(cd "$ENV_LIB/releases" && echo *) $ENV_NEWEST"
        return 1
    fi
    echo "$pins"
}

# Guests that are emulated read it, and take long to compile.
_env_pip() {
    "$VENV/bin/uv" pip install -q --compile-bytecode \
        --python "$VENV/bin/python" "$@" ||
        "$VENV/bin/python" -m pip install -q "$@"
}

_env_install_base() {
    local pins files
    pins=$(_env_pins) || return
    files=(-r "$pins/openstack.txt" -r "$ENV_TOP/requirements.txt"
        -r "$ENV_TOP/test-requirements.txt")
    if [ "$pins" = "$ENV_LIB" ]; then
        # what checks the code, and the documentation
        files+=(-r "$ENV_LIB/pep8.txt" -r "$ENV_TOP/doc/requirements.txt")
    fi
    # a directory without its stamp is what an interrupted run left
    rm -rf "$VENV"
    "$1" -m venv "$VENV" && "$VENV/bin/python" -m pip install -q uv &&
        _env_pip -c "$pins/constraints.txt" pbr setuptools wheel \
            "${files[@]}" &&
        _env_pip --no-deps -r "$ENV_LIB/nodeps.txt"
}

_env_install_cloud() {
    local libvirt
    libvirt=$(pkg-config --modversion libvirt) &&
        _env_pip -c "$(_env_pins)/constraints.txt" -r "$ENV_LIB/cloud.txt" \
            "libvirt-python<=$libvirt"
}

_env_install_project() {
    # a build leaves it, and Python reads entry points of the current directory
    # first
    rm -rf "$ENV_TOP"/*.egg-info
    cd "$ENV_TOP" && SKIP_GENERATE_AUTHORS=1 SKIP_WRITE_GIT_CHANGELOG=1 \
        "$VENV/bin/python" -m pip install -q --no-deps \
        --no-build-isolation -e .
}

# Run the command once per environment and stamp.
_env_once() {
    local stamp=$VENV/.done-$1
    shift
    if [ ! -e "$stamp" ]; then
        env_say "${stamp##*.done-} in ${VENV#"$ENV_TOP"/}"
        "$@" && touch "$stamp"
    fi
}

_env_fill() {
    local python=$1 cloud=$2 metadata
    metadata=$(cat "$ENV_TOP"/{setup.cfg,pyproject.toml} |
        sha256sum | cut -c1-12)
    _env_once base _env_install_base "$python" || return
    _env_once "project-$metadata" _env_install_project || return
    if [ -n "$cloud" ]; then
        _env_once cloud _env_install_cloud || return
    fi
}

# Have the Python environment, made once for each set of requirement files,
# and put it first in PATH. With the argument "cloud" it can run the services.
env_make() {
    local python pins key
    # pbr asks git for the version, whoever owns the checkout
    export GIT_CONFIG_COUNT=1
    export GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0=$ENV_TOP
    # uv does not read pip's settings
    if [ -n "${PIP_INDEX_URL:-}" ]; then
        export UV_DEFAULT_INDEX=$PIP_INDEX_URL
    fi
    if [ -n "${PIP_CERT:-}" ]; then
        export SSL_CERT_FILE=$PIP_CERT
    fi
    if [ -n "${DISKPLACER_VENV:-}" ]; then
        VENV=$DISKPLACER_VENV
    else
        python=$(_env_python) || return
        pins=$(_env_pins) || return
        key=$({
            "$python" --version
            cat "$ENV_LIB"/*.txt "$pins"/*.txt \
                "$ENV_TOP"/{,test-,doc/}requirements.txt
        } | sha256sum | cut -c1-12)
        VENV=$ENV_TOP/.venv/$key
        mkdir -p "$ENV_TOP/.venv"
        (
            flock 9
            _env_fill "$python" "${1:-}" 9>&-
        ) 9> "$ENV_TOP/.venv/lock" || return
    fi
    export VENV PATH=$VENV/bin:$PATH
}

# Have the packages of a cloud and of further profiles, and the Python
# environment with the services, for modules below tools/. Takes root.
env_cloud() {
    if [ "$(id -u)" -ne 0 ]; then
        echo "tools/${0##*/}: needs root" >&2
        exit 2
    fi
    env_packages cloud "$@" && env_make cloud || exit 1
    export PYTHONPATH=$ENV_TOP
}
