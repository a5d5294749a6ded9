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

# Run a command so that nothing of it stays. Source this file.
#
#   contain COMMAND...   run it; returns its exit status
#
# As root the command has processes, mounts, /tmp and /var/tmp of its own. When
# it has ended, or this shell gets HUP, INT or TERM, all its processes are
# killed, and its loop devices, cgroups and files removed. A killed shell takes
# the processes with it, and the next call removes the rest. Without root, or
# where the kernel refuses namespaces, processes that leave the command's group
# and what is mounted may stay.
#
# DISKPLACER_RUN is set in it, and names the cgroups that are its own.
# DISKPLACER_HOST_PROC is the /proc of the machine: the kernel's traces have
# its process IDs. A command inside a command is run as it is.

# directories below /tmp and /var/tmp that the command sees, beside its own
CONTAIN_KEEP=()

_contain_place=/var/tmp

contain() {
    if [ -n "${DISKPLACER_RUN:-}" ]; then
        "$@"
        return
    fi
    local directory status signal='' isolate=()
    _contain_remove_killed
    directory=$(mktemp -d $_contain_place/diskplacer-test-XXXXXX) || return
    # held as long as this shell lives, and from the moment it is seen
    exec 9> "$directory/new" && flock 9 &&
        mv "$directory/new" "$directory/lock" || return
    if [ "$(id -u)" -eq 0 ] && unshare --mount --pid --fork \
        --mount-proc true 2> /dev/null; then
        isolate=(setpriv --pdeathsig KILL unshare --mount --pid --fork
            --kill-child bash -c
            '. "$0" && _contain_enter "$@"' "${BASH_SOURCE[0]}" "$directory"
            $((1 + ${#CONTAIN_KEEP[@]})) "$PWD" "${CONTAIN_KEEP[@]}")
    else
        mkdir "$directory/tmp"
        isolate=(env TMPDIR="$directory/tmp")
    fi
    trap 'signal=1' HUP
    trap 'signal=2' INT
    trap 'signal=15' TERM
    DISKPLACER_RUN=${directory##*/} setsid "${isolate[@]}" "$@" 9>&- &
    wait $!
    status=$?
    if [ -n "$signal" ]; then
        status=$((128 + signal))
    fi
    _contain_kill $!
    _contain_remove "$directory"
    trap - HUP INT TERM
    exec 9>&-
    return $status
}

# Go on with a command in the namespaces that were made for it.
_contain_enter() {
    local directory=$1 number=$2 place kept
    shift 2
    for place in /tmp /var/tmp; do
        mkdir -p "$directory$place" && chmod 1777 "$directory$place" || return
        for kept in "${@:1:number}"; do
            if [[ $kept == $place/* ]]; then
                mkdir -p "$directory$kept" &&
                    mount --rbind "$kept" "$directory$kept" || return
            fi
        done
    done
    contain_drop_mounts "$directory"
    for place in /tmp $_contain_place; do
        mount --rbind "$directory$place" $place || return
    done
    export DISKPLACER_HOST_PROC=/tmp/host-proc
    mkdir $DISKPLACER_HOST_PROC &&
        mount --bind /proc $DISKPLACER_HOST_PROC &&
        mount -t proc -o nosuid,nodev,noexec proc /proc || return
    shift "$number"
    cd "$PWD" && exec "$@"
}

# In a mount namespace that was just made, unmount what others have mounted
# below /tmp and /var/tmp: a copy keeps their filesystems mounted. What is in
# the directories that are named, and what they are in, stays.
contain_drop_mounts() {
    local target kept stays
    while read -r target; do
        stays=''
        for kept in "$@"; do
            case $target/ in "$kept"/*) stays=1 ;; esac
            case $kept/ in "$target"/*) stays=1 ;; esac
        done
        if [[ -z $stays && $target =~ ^(/var)?/tmp/ ]]; then
            umount --lazy "$target"
        fi
    done < <(findmnt --raw --noheadings --output TARGET | tac)
}

# Kill whoever is left of a process group, and of its namespace.
_contain_kill() {
    local first count
    first=$(cat "/proc/$1/task/$1/children" 2> /dev/null)
    kill -KILL -- "-$1" 2> /dev/null
    # the first process of a namespace is the last that ends; what a disk
    # keeps from ending is left to the next run
    for count in {1..80}; do
        if _contain_is_over "$1" && _contain_is_over "${first% }"; then
            # without a message that it was killed
            wait "$1" 2> /dev/null
            return
        fi
        sleep 0.1
    done
    echo "process $1 $first has not ended after $count tries" >&2
}

# Tell whether a process has ended, be it that nobody has noticed.
_contain_is_over() {
    ! grep -qs '^State:[[:space:]]*[^XZ]' "/proc/${1:-none}/status"
}

# Remove what a run has left: its processes have been killed.
_contain_remove() {
    local directory=$1 run=${1##*/} device number inode names name path
    while read -r device number inode; do
        if find "$directory" -xdev -inum "${inode:-0}" | grep -q .; then
            # devices over files on it keep its filesystem in use
            _contain_loops NAME,BACK-MAJ:MIN |
                awk -v number="$number" '$2 == number { print $1 }' |
                xargs --no-run-if-empty losetup --detach
            losetup --detach "$device"
        fi
    done < <(_contain_loops NAME,MAJ:MIN,BACK-INO)
    # of the run itself, and of the guests of its clouds
    names=$(find "$directory" -maxdepth 4 -name cloud.json \
        -exec sed -n 's/.*"token": "\(mc[0-9]*\)".*/\1/p' {} + 2> /dev/null)
    for name in "$run" $names; do
        while read -r path; do
            rmdir "$path" 2> /dev/null
        done < <(find /sys/fs/cgroup -depth -type d -path "*$name-*")
    done
    rm -rf --one-file-system "$directory"
}

# Print columns of the loop devices.
_contain_loops() {
    losetup --noheadings --list --output "$1" 2> /dev/null
}

# Remove what runs have left that were killed themselves.
_contain_remove_killed() {
    local directory
    for directory in $_contain_place/diskplacer-test-*; do
        # one that has no lock yet begins
        if [ -e "$directory/lock" ]; then
            flock --nonblock "$directory/lock" true &&
                _contain_remove "$directory"
        fi
    done
}
