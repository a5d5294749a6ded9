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
#   tools/test.sh            the check: what to run before a change is proposed
#   tools/test.sh all        every stage but long, as CI does
#   tools/test.sh long       what takes hours by itself: before a release
#   tools/test.sh STAGE...   these stages only
#   tools/test.sh --release RELEASE [STAGE...]
#                            with an earlier release of OpenStack, such as
#                            2025.1; STAGE: unit, functional, both by default
#
# Stages: pep8 docs packaging unit functional oldest e2e testbed. A part of
# one is unit/PATH, functional/PACKAGE, e2e/MODULE, testbed/SUITE/MODULE or
# long/MODULE.
# oldest runs what touches Nova and Cinder, and a few functional tests of
# nova-scheduler on eventlet, on the oldest release that is supported.
#
# e2e and testbed take root: others leave them out. They go on beside the
# other stages and print when they have ended: they wait a lot. testbed has
# priority, as some of it looks at how much of a disk's throughput servers get.
# e2e comes next: its services take the processors as long as they are there.
# What tests log is printed where one of them fails. The last lines show the
# ends of the texts of failed tests, name what failed and say how many checks
# and tests passed and failed; the exit status is 0 only if none failed.
#
# A run that is ended (HUP, INT, TERM) kills its stages and removes what they
# have made, see lib/contain.sh.

set -u -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
. tools/lib/env.sh
. tools/lib/contain.sh
env_help "$@"
# where it is set, each process would compile what it imports
unset PYTHONDONTWRITEBYTECODE

STAGES='pep8 docs packaging unit functional oldest e2e testbed'
LONG=long
CHECK='pep8 docs packaging unit functional/nova functional/cinder/test_driver
    functional/cinder/test_migration functional/cinder/test_scheduler
    functional/cinder/test_snapshots functional/agent functional/vendordata
    e2e/test_path testbed/lvm/test_volumes'
OLDEST=2025.1
OLDEST_STAGES='unit/cinder_vdisk_mapper unit/nova_diskplacer
    functional/eventlet'
# what kills a model at each of its steps calls neither Nova nor Cinder, nor
# does the rest of nova_diskplacer; one run, as each imports all anew
OLDEST_EXCLUDE='_walk\.|unit\.nova_diskplacer\.(?!api\.|client\.|cmd\.test_profile\.|placement\.|scheduler\.|test_flavor\.|test_http_retries\.|vendordata\.)'
# functional tests of minutes, which the stage long has
IN_LONG='functional\.(crash\.test_walk\.WalkTestCase\.test_.*Drain|nova\.test_race\.|nova\.test_server_moves\.(SecondMove|Race)Test\.)'
IN_TESTBED='tests\.e2e\.test_testbed'
# stages that go on beside the others, by their nice value
declare -A BESIDE=([e2e]=-5 [testbed]=-10)
# stages that need root
declare -A ROOT=([e2e]=1 [testbed]=1 [$LONG]=1)
# failed tests whose last lines are shown at the end, and how many lines
SHOWN=8
SHOWN_LINES=25
passed=0
failed=0
shown=0
declare -A beside=()

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

# Keep the last lines of each failed test's text for the end, without its log.
keep_texts() {
    awk -v most=$((SHOWN - shown)) -v lines=$SHOWN_LINES '
        function say(    i) {
            for (i = n > lines ? n - lines : 0; i < n; i++)
                print substr(text[i % lines], 1, 300)
            n = inside = 0
        }
        /^[{][0-9]+} / || (/^=+$/ && length($0) < 60) { say() }
        /^([{][0-9]+} .* [.]{3} FAILED$|Failed to import test )/ && most-- > 0 {
            sub(/^[{][0-9]+} /, "")
            print "\n" $0
            inside = 1
            next
        }
        /^Captured / { logged = /^Captured pythonlogging:/; next }
        /^~+$/ { next }
        inside && NF && !logged { text[n++ % lines] = $0 }
        END { say() }' "$1" >> "$texts"
    shown=$((shown + $(grep -Ec \
        '^([{][0-9]+} .* \.\.\. FAILED$|Failed to import test module: )' "$1")))
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
    # none of its package has run then, and stestr counts nothing
    while read -r name; do
        note "$name cannot be imported"
        bad=$((bad + 1))
    done < <(sed -n 's/^Failed to import test module: //p' "$log")
    if [ $((status != 0 || good == 0)) -eq 1 ] && [ $bad -eq 0 ]; then
        note "stestr ended with $status after $good tests of $path"
        bad=1
    fi
    if [ $bad -ne 0 ]; then
        tail -n 500 "$errors"
        keep_texts "$log"
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

# Run the unit tests, or those of a directory or module.
stage_unit() {
    run_tests "tests/unit${1:+/$1}" 2 \
        ${DISKPLACER_EXCLUDE:+--exclude-regex "$DISKPLACER_EXCLUDE"}
}

# Run the functional tests, or those of a package.
stage_functional() {
    # they wait for each other, and for disks: four at once keep two processors
    # busy, of two packages if there are more
    local workers=2
    if [ -n "${1:-}" ]; then
        workers=4
    fi
    PACKAGES_AT_ONCE=2 run_tests "tests/functional${1:+/$1}" $workers \
        --exclude-regex "$IN_LONG"
}

stage_oldest() {
    local printed=$directory/oldest
    # shellcheck disable=SC2086
    DISKPLACER_VENV='' DISKPLACER_EXCLUDE=$OLDEST_EXCLUDE \
        tools/test.sh --release $OLDEST $OLDEST_STAGES | tee "$printed"
    add_up "$printed"
}

# Run the end-to-end tests, or those of a module.
stage_e2e() {
    run_tests tests/e2e 1 --exclude-regex "$IN_TESTBED" \
        ${1:+"tests\.e2e\.$1\."}
}

# Run the suites of the testbed, or those tests of one that a word names.
stage_testbed() {
    if [ -n "${1:-}" ]; then
        check "testbed/$1" tools/testbed.sh test "${1%%/*}" "${1#*/}"
    else
        run_tests tests/e2e 1 "$IN_TESTBED"
    fi
}

# Run what takes too long for every change.
stage_long() {
    if [ -z "${1:-}" ]; then
        run_tests tests/functional/crash 3 "$IN_LONG"
        run_tests tests/functional/nova 3 "$IN_LONG"
    fi
    run_tests "tests/long${1:+/$1}" 1
}

# Begin a stage beside the others.
begin_beside() {
    local stage=$1 name=${1%%/*}
    mkdir -p "$directory/$stage"
    # shellcheck disable=SC2016
    DISKPLACER_VENV=$VENV STESTR_REPOSITORY=$directory/$stage \
        setsid nice -n "${BESIDE[$name]}" bash -c '
            # the kernel may share processors out by session
            echo "$1" > /proc/self/autogroup
            exec tools/test.sh "$2"
        ' beside "${BESIDE[$name]}" "$stage" \
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
    keep_texts "$printed"
    grep '^FAILED: ' "$printed" | sort -u >> "$failures"
}

# Print the stages that the arguments name.
stages_of() {
    local stage stages="$*"
    case $stages in
        '') stages=$CHECK ;;
        all) stages=$STAGES ;;
    esac
    for stage in $stages; do
        if [[ " $STAGES $LONG " != *" ${stage%%/*} "* ]]; then
            echo "tools/test.sh: $stage is not one of: all $STAGES $LONG" >&2
            return 2
        fi
        if [[ $(id -u) -eq 0 || -z "${ROOT[${stage%%/*}]:-}" ]]; then
            echo "$stage"
        else
            echo "not root: $stage is left out" >&2
        fi
    done
}

# Have what stages need.
prepare() {
    local stages=$1 profiles='' cloud=''
    if [[ $stages =~ functional|$LONG && $(id -u) -eq 0 ]]; then
        profiles=functional
    fi
    if [[ $stages =~ e2e|testbed|$LONG ]]; then
        profiles+=' cloud testbed'
        cloud=cloud
    fi
    # shellcheck disable=SC2086
    env_packages $profiles && env_make $cloud
}

main() {
    local stage name stages begun before times arguments=("$@")
    if [ "${1:-}" = --release ]; then
        ENV_RELEASE=${2:-}
        STAGES='unit functional'
        CHECK=$STAGES
        shift 2 || shift
    fi
    stages=$(stages_of "$@") || exit
    prepare "$stages" || exit 1
    if [ -z "${DISKPLACER_RUN:-}" ]; then
        export DISKPLACER_PREPARED=$SECONDS
        CONTAIN_KEEP=("$ENV_TOP" "$VENV")
        contain tools/test.sh "${arguments[@]}"
        exit
    fi
    directory=$(mktemp -d)
    log=$directory/log
    errors=$directory/errors
    failures=$directory/failures
    texts=$directory/texts
    touch "$failures" "$texts"
    times=$(printf '\n%-24s %4d s' environment "${DISKPLACER_PREPARED:-0}")
    unset DISKPLACER_PREPARED
    if [[ $stages == *$'\n'* ]]; then
        for stage in $stages; do
            if [ -n "${BESIDE[${stage%%/*}]:-}" ]; then
                begin_beside "$stage"
            fi
        done
    fi
    for stage in $stages; do
        name=${stage%%/*}
        if [ -n "${beside[$stage]:-}" ]; then
            continue
        fi
        echo "== $stage"
        begun=$SECONDS
        before=$failed
        case $stage in
            */*) "stage_$name" "${stage#*/}" ;;
            *) "stage_$name" ;;
        esac
        times+=$(printf '\n%-24s %4d s  %s' "$stage" $((SECONDS - begun)) \
            "$([ $failed -eq $before ] && echo ok || echo FAILED)")
    done
    for stage in "${!beside[@]}"; do
        begun=$SECONDS
        end_beside "$stage"
        times+=$(printf '\n%-24s %4d s  waited for at the end' \
            "$stage" $((SECONDS - begun)))
    done
    echo "${times#$'\n'}"
    cat "$texts" "$failures"
    echo "$passed passed, $failed failed"
    [ $passed -gt 0 ] && [ $failed -eq 0 ]
}

main "$@"
