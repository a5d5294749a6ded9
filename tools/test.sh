#!/bin/bash
#
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


# Run the project's tests in an environment that this script makes itself.
#
#   tools/test.sh            every stage; end-to-end tests only as root
#   tools/test.sh STAGE...   these stages only
#   tools/test.sh --release RELEASE [STAGE...]
#                            with an earlier release of OpenStack, such as
#                            2025.1; STAGE: unit, functional, both by default
#
# functional/NAME is a package of the functional tests.
#
# Stages: pep8 docs packaging unit functional oldest e2e testbed. oldest runs
# the unit tests, and a few functional ones of nova-scheduler on eventlet, on
# the oldest release that is supported. The last two stages go on
# beside the others and print when they have ended: they wait a lot. testbed,
# the suites of tests/testbed, has priority, as some of it looks at how much of
# a disk's throughput servers get. What tests log is printed where one of them
# fails. The last lines name what failed and say how many checks and tests
# passed and failed; the exit status is 0 only if none failed.

set -u -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
. tools/lib/env.sh

STAGES='pep8 docs packaging unit functional oldest e2e testbed'
OLDEST=2025.1
OLDEST_STAGES='unit functional/eventlet'
IN_TESTBED='tests\.e2e\.test_testbed'
# stages that go on beside the others, by their nice value
declare -A BESIDE=([e2e]=0 [testbed]=-10)
passed=0
failed=0
declare -A beside=()
directory=$(mktemp -d)
log=$directory/log
errors=$directory/errors
failures=$directory/failures
touch "$failures"
trap clean EXIT

# shellcheck disable=SC2317
clean() {
    local process
    for process in "${beside[@]}"; do
        kill -- "-$process" 2> /dev/null
        wait "$process"
    done
    rm -rf "$directory"
}

# Run a command as one check.
check() {
    local name=$1
    shift
    if "$@"; then
        echo "ok: $name"
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        note "$name"
    fi
}

# Say that something failed, now and at the end.
note() {
    echo "FAILED: $1" | tee -a "$failures"
}

# Sum up what stestr says about one kind of result.
count() {
    awk -v kind=" - $1" -F: '$1 == kind { sum += $2 } END { print sum + 0 }' \
        "$log"
}

# Run the tests of the packages below a directory with so many workers.
run_tests() {
    local status good bad name path=$1 workers=$2
    shift 2
    tools/stestr.sh "$path" --concurrency "$workers" "$@" 2> "$errors" |
        tee "$log"
    status=$?
    good=$(($(count Passed) + $(count 'Expected Fail')))
    bad=$(($(count Failed) + $(count 'Unexpected Success')))
    while read -r name; do
        note "$name"
    done < <(sed -n 's/^{[0-9]*} \(.*\) \.\.\. FAILED$/\1/p' "$log")
    if [ $((status != 0 || good == 0)) -eq 1 ] && [ $bad -eq 0 ]; then
        note "stestr ended with $status after $good tests of $path"
        bad=1
    fi
    if [ $bad -ne 0 ]; then
        tail -n 500 "$errors"
    fi
    passed=$((passed + good))
    failed=$((failed + bad))
}

stage_pep8() {
    check 'ruff check' ruff check .
    check 'ruff format' ruff format --check .
    check 'hacking' flake8
    check 'mypy' mypy
    check 'import-linter' lint-imports --no-cache
    check 'bashate' tools/bashate.sh
}

stage_docs() {
    check 'documentation' \
        sphinx-build -q -E -W --keep-going -b html doc/source doc/build/html
    check 'release notes' \
        sphinx-build -q -E -W --keep-going -b html \
        releasenotes/source releasenotes/build/html
}

stage_packaging() {
    run_tests tests/packaging 1
}

stage_unit() {
    run_tests tests/unit 2
}

# Run the functional tests of a package, or of all.
stage_functional() {
    # they wait for each other, and for disks
    run_tests "tests/functional${1:+/$1}" 3
}

stage_oldest() {
    local printed=$directory/oldest
    # shellcheck disable=SC2086
    DISKPLACER_VENV='' tools/test.sh --release $OLDEST $OLDEST_STAGES |
        tee "$printed"
    add_up "$printed"
}

stage_e2e() {
    run_tests tests/e2e 1 --exclude-regex "$IN_TESTBED"
}

stage_testbed() {
    run_tests tests/e2e 1 "$IN_TESTBED"
}

# Begin a stage beside the others.
begin_beside() {
    local stage=$1
    mkdir "$directory/$stage"
    # shellcheck disable=SC2016
    DISKPLACER_VENV=$VENV STESTR_REPOSITORY=$directory/$stage \
        setsid nice -n "${BESIDE[$stage]}" bash -c '
            # the kernel may share processors out by session
            echo "$1" > /proc/self/autogroup
            exec tools/test.sh "$2"
        ' beside "${BESIDE[$stage]}" "$stage" \
        > "$directory/$stage/printed" 2>&1 &
    beside[$stage]=$!
}

# Wait for it, print what it printed and add up.
end_beside() {
    local stage=$1 printed=$directory/$1/printed
    wait "${beside[$stage]}"
    unset "beside[$stage]"
    cat "$printed"
    add_up "$printed"
}

# Add up what a run of this script printed.
add_up() {
    local good bad printed=$1
    read -r good bad < <(awk '
        /^[0-9]+ passed, [0-9]+ failed$/ { good = $1; bad = $3 }
        END { print good + 0, (good == "") ? 1 : bad }' "$printed")
    passed=$((passed + good))
    failed=$((failed + bad))
    grep '^FAILED: ' "$printed" | sort -u >> "$failures"
}

main() {
    local stage stages profiles='' cloud='' begun before times
    if [ "${1:-}" = --release ]; then
        ENV_RELEASE=${2:-}
        STAGES='unit functional'
        shift 2 || shift
    fi
    stages="$*"
    for stage in $stages; do
        if [[ " $STAGES " != *" ${stage%%/*} "* ]]; then
            echo "tools/test.sh: $stage is not one of: $STAGES" >&2
            exit 2
        fi
    done
    if [ -z "$stages" ]; then
        stages=$STAGES
        if [ "$(id -u)" -ne 0 ]; then
            echo 'not root: the end-to-end tests are left out'
            stages=${STAGES% e2e *}
        fi
    fi
    if [[ " $stages " =~ ' functional'[\ /] && $(id -u) -eq 0 ]]; then
        profiles=functional
    fi
    if [[ " $stages " == *' e2e '* || " $stages " == *' testbed '* ]]; then
        profiles+=' cloud testbed'
        cloud=cloud
    fi
    # shellcheck disable=SC2086
    env_packages $profiles && env_make $cloud || exit 1
    times=$(printf '%-12s %4d s' environment $SECONDS)
    if [[ $stages == *' '* ]]; then
        for stage in $stages; do
            if [ -n "${BESIDE[$stage]:-}" ]; then
                begin_beside "$stage"
            fi
        done
    fi
    for stage in $stages; do
        if [ -n "${beside[$stage]:-}" ]; then
            continue
        fi
        echo "== $stage"
        begun=$SECONDS
        before=$failed
        case $stage in
            functional/*) stage_functional "${stage#*/}" ;;
            *) "stage_$stage" ;;
        esac
        times+=$(printf '\n%-12s %4d s  %s' "$stage" $((SECONDS - begun)) \
            "$([ $failed -eq $before ] && echo ok || echo FAILED)")
    done
    for stage in "${!beside[@]}"; do
        begun=$SECONDS
        end_beside "$stage"
        times+=$(printf '\n%-12s %4d s  waited for at the end' \
            "$stage" $((SECONDS - begun)))
    done
    echo "$times"
    cat "$failures"
    echo "$passed passed, $failed failed"
    [ $passed -gt 0 ] && [ $failed -eq 0 ]
}

main "$@"
