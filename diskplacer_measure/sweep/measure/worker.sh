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

# Measures cells with fio, in a server or on bare metal, and prints a line for
# each. It needs a POSIX shell, awk and fio. These settings precede it:
#
#   token     marks the lines
#   device    the measured file or device; '' in a server, which looks for its
#             vdisk, fills it, and prints on the serial console
#   bytes     size of the vdisk
#   mib       what the threads of a cell move together
#   kib       size of a request
#   seconds   what a cell may take
#   launch    command that runs fio
#   cells     a line for each cell: id, start in seconds since the epoch,
#             engine, operation, jobs, depth, I/O scheduler and read-ahead in
#             KiB of the vdisk, - for what stays as it is

# A line that another one runs into is not understood, so there are two.
say() {
    echo "sweep $token $*"
    echo "sweep $token $*"
}

fail() {
    say "error $*"
    exit 1
}

find_console() {
    for console in /dev/ttyS0 /dev/ttyAMA0 /dev/hvc0 /dev/console; do
        [ -c "$console" ] && (echo > "$console") 2> /dev/null && return
    done
}

# The vdisk is the only disk of its size without partitions and mounts.
find_vdisk() {
    for block in /sys/block/*; do
        name=${block##*/}
        [ "$(cat "$block/size")" = $((bytes / 512)) ] || continue
        ls -d "$block/$name"?* > /dev/null 2>&1 && continue
        grep -q "^/dev/$name " /proc/mounts && continue
        [ -z "$device" ] ||
            fail "$device and /dev/$name both have the size of the vdisk"
        device=/dev/$name
    done
    [ -n "$device" ] || fail "no disk has the size of the vdisk, $bytes bytes"
}

run_fio() {
    # shellcheck disable=SC2086 # it may be several words, or none
    $launch fio --name=sweep --thread --filename="$device" "$@" \
        --allow_file_create=0 \
        --output-format=terse --terse-version=3 < /dev/null 2>&1
}

fill_space() {
    printed=$(run_fio --rw=write --bs=1024k --size="${mib}m" --direct=1 \
        --ioengine=psync --end_fsync=1) || fail "fio: $(brief "$printed")"
}

# What fio says, without its figures.
brief() {
    echo "$1" | grep -v '^3;' | tr -s '\n' ' ' | cut -c 1-300
}

centiseconds() {
    read -r up _ < /proc/uptime
    echo "${up%.*}${up#*.}"
}

# Wait for a time, by 0.1 s if this sleep can.
wait_until() {
    while left=$(($1 - $(date +%s))) && [ "$left" -gt 0 ]; do
        if [ "$left" -gt 1 ]; then
            sleep $((left - 1))
        else
            sleep 0.1 2> /dev/null || sleep 1
        fi
    done
}

# Change a setting of the vdisk's queue; the scheduler in use has brackets if
# there are others.
set_queue() {
    [ "$2" = - ] && return
    file=/sys/block/${device##*/}/queue/$1
    echo "$2" > "$file" 2> /dev/null
    case $(cat "$file") in
    "$2" | *"[$2]"*) ;;
    *) return 1 ;;
    esac
}

processors() {
    read -r line < /proc/stat
    echo "$line"
}

# The figures of all threads: a line of fio for each, and two of processors.
figures() {
    awk -F ';' -v column="$1" '
        /^3;/ && NF > 90 {
            count++
            failed += $5
            size = $column
            kib = kib (count > 1 ? "," : "") size
            ms = ms (count > 1 ? "," : "") $(column + 3)
            total += size
            latency += size * $(column + 10)
            usr += $88
            sys += $89
            switches += $90
        }
        /^cpu / {
            split($0, field, " ")
            sign = seen++ ? 1 : -1
            part["user"] += sign * field[2]
            part["system"] += sign * (field[4] + field[7] + field[8])
            # niced processes give way to all others
            part["idle"] += sign * (field[3] + field[5])
            part["iowait"] += sign * field[6]
            part["steal"] += sign * field[9]
        }
        END {
            if (!total || failed)
                exit 1
            printf "kib=%s ms=%s latency=%.3f usr=%.4f sys=%.4f ctx=%d", kib,
                ms, latency / total, usr / count, sys / count, switches
            printf " cpu=%d,%d,%d,%d,%d\n", part["user"], part["system"],
                part["idle"], part["iowait"], part["steal"]
        }'
}

run_cell() {
    id=$1 start=$2 engine=$3 operation=$4 jobs=$5 depth=$6
    if [ "$(date +%s)" -gt $((start + 1)) ] && [ "$start" -gt 0 ]; then
        say "late $id"
        return
    fi
    for setting in "scheduler $7" "read_ahead_kb $8"; do
        # shellcheck disable=SC2086 # these are two words
        if ! set_queue $setting; then
            say "failed $id the vdisk cannot have $setting"
            return
        fi
    done
    case $engine in
    sync_direct) set -- --ioengine=psync --direct=1 ;;
    sync_cached) set -- --ioengine=psync --direct=0 ;;
    async) set -- --ioengine=libaio --direct=1 --iodepth="$depth" ;;
    esac
    share=$((mib * 1024 / jobs / kib * kib))
    # fio itself drops no more than what is cached of the device
    $server && [ "$engine" = sync_cached ] &&
        echo 3 > /proc/sys/vm/drop_caches
    wait_until "$start"
    began=$(date +%s) before=$(processors) from=$(centiseconds)
    printed=$(run_fio "$@" --rw="$operation" --bs="${kib}k" \
        --size="${share}k" --offset_increment="${share}k" \
        --numjobs="$jobs" --runtime="$seconds" --end_fsync=1)
    took=$(($(centiseconds) - from)) after=$(processors)
    column=6
    [ "$operation" = write ] && column=47
    if found=$(printf '%s\n' "$before" "$printed" "$after" |
        figures "$column"); then
        say "cell $id began=$began took=$took $found end"
    else
        say "failed $id fio: $(brief "$printed")"
    fi
}

server=false
if [ -z "$device" ]; then
    server=true
    find_console
    exec > "$console"
    # messages of the kernel would run into the lines
    echo 1 > /proc/sys/kernel/printk
fi
booted=$(date +%s)
command -v fio > /dev/null || fail 'fio is not installed'
command -v awk > /dev/null || fail 'awk is not installed'
if $server; then
    find_vdisk
    from=$(centiseconds)
    fill_space
    took=$(($(centiseconds) - from))
    say "ready booted=$booted now=$(date +%s) fill=$took end"
fi
echo "$cells" | while read -r id start engine operation jobs depth \
    scheduler read_ahead; do
    run_cell "$id" "$start" "$engine" "$operation" "$jobs" "$depth" \
        "$scheduler" "$read_ahead"
done
say "done end"
