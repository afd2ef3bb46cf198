# Functions of the scripts that measure; sourced after lib.sh, never run.
# shellcheck shell=bash

READY_WITHIN_S=${READY_WITHIN_S:-20}

# A prefix of what is started, and of what replays: lab.sh has network
# namespaces there.
within=() from=()

# measure_begin: builds the programs (build_programs) and makes a scratch directory
# ($work). Whatever happens, the end stops what was started, last first, then runs what
# stands in `at_end`, last first.
measure_begin() {
    need curl curl
    build_programs
    # As many open connections as this machine allows, in every system alike.
    ulimit -n "$(ulimit -H -n)"
    work=$(mktemp -d)
    # Some of what is measured gives up root, and writes below it.
    chmod 755 "$work"
    declare -gA pid_of=()
    started=() at_end=()
    trap measure_end EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

# cores_awake: for times of a tenth of a millisecond. What else changes them is the same
# in every measurement: the proxy has a core ($sprat_core, before its command), what talks to
# it has the rest, and no core ever sleeps, for to wake it takes as long as to answer.
cores_awake() {
    local cores core
    need taskset util-linux
    sprat_core=() cores=$(nproc)
    if [ "$cores" -gt 1 ]; then
        sprat_core=(taskset -c $((cores - 1)))
        from=(taskset -c "0-$((cores - 2))")
        within=("${from[@]}")
    fi
    for core in $(seq 0 $((cores - 1))); do
        start_process "awake-$core" taskset -c "$core" chrt --idle 0 bash -c 'while :; do :; done'
    done
}

measure_end() {
    local status=$? index
    trap - EXIT
    for ((index = ${#started[@]} - 1; index >= 0; index--)); do stop_process "${started[index]}" || true; done
    for ((index = ${#at_end[@]} - 1; index >= 0; index--)); do "${at_end[index]}" || true; done
    rm -rf "$work"
    exit "$status"
}

# start_process NAME COMMAND...: in the background, in place of the one of that
# name, as ${pid_of[NAME]}; what it says is in $work/NAME.log.
start_process() {
    stop_process "$1"
    "${within[@]}" "${@:2}" >"$work/$1.log" 2>&1 &
    pid_of[$1]=$!
    started+=("$1")
}

# stop_process NAME [SECONDS]: the one of that name, if there is one.
stop_process() {
    [ -n "${pid_of[$1]:-}" ] || return 0
    stop_pid "${pid_of[$1]}" "${2:-5}"
    unset "pid_of[$1]"
}

# self_signed NAME: a certificate for that name, $work/chain.pem and $work/key.pem.
self_signed() {
    need openssl openssl
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 \
        -subj "/CN=$1" -addext "subjectAltName=DNS:$1" \
        -keyout "$work/key.pem" -out "$work/chain.pem" 2>/dev/null
}

# nginx_config WORKERS HTTP: nginx in the foreground, which writes below $work alone.
# HTTP is what its block `http` has beside that.
nginx_config() {
    cat <<CONF
daemon off;
pid $work/nginx.pid;
error_log $work/nginx.log warn;
worker_processes $1;
events { worker_connections 8192; }
http {
    access_log off;
    client_body_temp_path $work/nginx-body;
    proxy_temp_path $work/nginx-proxy;
    fastcgi_temp_path $work/nginx-fastcgi;
    uwsgi_temp_path $work/nginx-uwsgi;
    scgi_temp_path $work/nginx-scgi;
    $2
}
CONF
}

# answers URL: whether a GET succeeds, where what is measured runs.
answers() { "${within[@]}" curl -fsSk --max-time 5 -o /dev/null "$1" 2>/dev/null; }

# wait_for NAME URL: until the process of that name answers there.
wait_for() {
    wait_ready "$1" "${pid_of[$1]}" answers "$2" && return 0
    cat "$work/$1.log" >&2
    die "$1 does not answer at $2"
}

# start_origin "HOST:PORT ..." [OPTION...]: the load generator's servers, in place
# of those before.
start_origin() {
    local each listen=()
    for each in $1; do
        listen+=(--listen "$each")
        [ -n "${pid_of[origin]:-}" ] || ! answers "http://$each/size/0/probe" ||
            die "something answers at $each already"
    done
    start_process origin "$target/sprat-loadgen" origin "${listen[@]}" "${@:2}"
    for each in $1; do wait_for origin "http://$each/size/0/probe"; done
}

# replay NAME OPTION...: a replay through the system of that name; what it said is
# in $work/replay-NAME.log.
replay() {
    "${from[@]}" "$target/sprat-loadgen" replay --name "$1" "${@:2}" >"$work/replay-$1.log" 2>&1 && return 0
    cat "$work/replay-$1.log" >&2
    die "the replay through $1 failed"
}

# none_failed CSV: whether every request of a replay was answered in whole.
none_failed() { awk -F , 'NR > 1 && $NF != "" { failed = 1 } END { exit failed }' "$1"; }

# times CSV_GZ: "bytes ms" of each response that came in whole.
times() {
    zcat "$1" | awk -F , '
        NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
        $column["error"] == "" { print $column["bytes"], $column["response_ms"] }'
}

# mean_ms CSV_GZ: the mean of these response times.
mean_ms() { times "$1" | awk '{ sum += $2 } END { printf "%.3f", sum / NR }'; }

# failures CSV_GZ: how many did not.
failures() {
    zcat "$1" | awk -F , '
        NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
        $column["error"] != "" { n++ }
        END { print n + 0 }'
}

# family PID: it, and what it started (nginx's workers).
family() {
    echo "$1"
    cat "/proc/$1/task/$1/children"
}

# cpu_ms PID: its CPU time so far and its children's, in milliseconds.
cpu_ms() {
    local pid total=0 fields
    for pid in $(family "$1"); do
        # The fields after the name, which may hold spaces: utime and stime.
        read -r -a fields <<<"$(sed 's/.*) //' "/proc/$pid/stat")"
        total=$((total + fields[11] + fields[12]))
    done
    echo $((total * 1000 / $(getconf CLK_TCK)))
}

# resident_kb PID: its memory and its children's.
resident_kb() {
    local pid
    for pid in $(family "$1"); do
        sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$pid/status"
    done | awk '{ total += $1 } END { print total + 0 }'
}
