#!/usr/bin/env bash
# One trace through nginx and Sprat in many networks, one after the other: what a rate
# that nobody names is worth where the limit is somewhere else. The networks are those of
# loadgen/networks/matrix.csv, each with its topology beside it. A row goes on where it
# was: a run whose results are there is not made again. The environment changes it:
#
#   ONLY="all-2mbit-64k host-10-rtt40"   these networks alone; * stands for anything
#   SEEDS="7 8"                          one trace for each seed
#   REQUESTS=5000                        of each trace
#   SYSTEMS="nginx unlimited named auto"
#   LANES=3                              as many networks at a time, where they are slow
#   FRESH=1                              from the beginning
#   RESULTS=results/networks
#
# `named` is left out where the farm has no link of its own to name. `named-200` has a name
# of 200% of the link's rate; any other number is as good. A network is slow where its links
# carry at most 30 Mbit/s; the others follow, each alone, for they keep the cores busy.
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/measure.sh"
. "$ROOT/scripts/lab.sh"

ONLY=${ONLY:-*}
SEEDS=${SEEDS:-7}
REQUESTS=${REQUESTS:-5000}
SYSTEMS=${SYSTEMS:-nginx unlimited named auto}
LANES=${LANES:-1}
RESULTS=${RESULTS:-results/networks}
RUNS=$RESULTS/runs
NETWORKS=$ROOT/loadgen/networks

cd "$ROOT"
[ "$(id -u)" = 0 ] || die "the networks are made of namespaces and devices, which needs root: sudo make compare-networks"
[[ $LANES =~ ^[1-9][0-9]*$ ]] || die "LANES is a number of networks, not $LANES"
[ -e /dev/net/tun ] || die "there is no /dev/net/tun: modprobe tun"
need ip iproute2
need ethtool ethtool
lab_needs nginx
measure_begin
network=sprat-networks-$$
# The networks that run in lanes, by the processes that run them.
lane_of=()
described=/run/sprat-network/$network.json
# The links are what measures: nothing else goes before them.
ahead=()
if has chrt && chrt -r 30 true 2>/dev/null; then ahead=(chrt -r 30); fi

# network_up TOPOLOGY COUNTERS: a fresh network, whose schedules begin now.
network_up() {
    within=()
    rm -f "$described"
    start_process network "${ahead[@]}" "$target/sprat-loadgen" network --name "$network" --counters "$2" "$1"
    wait_ready "the network" "${pid_of[network]}" test -e "$described" || {
        cat "$work/network.log" >&2
        die "the network $1 cannot be built"
    }
    within=(ip netns exec "$network-farm")
    start_origin "$LAB_ORIGINS"
}

network_down() {
    stop_process origin
    within=()
    # It writes its counters and removes namespaces.
    stop_process network 30
}

# percent RATE NUMBER: 11000kbit for 10mbit and 110.
percent() {
    local number=${1%%[a-z]*}
    case $1 in
        *mbit) echo "$((number * $2 * 10))kbit" ;;
        *kbit) echo "$((number * $2 * 10))bit" ;;
        *) die "a named rate is a whole number of mbit or kbit here, not $1" ;;
    esac
}

# start SYSTEM NAMED INSTANCES: several instances of one system share its port.
start() {
    local each file=$work/$1.conf
    case $1 in
        nginx) lab_nginx "$([ "$3" = 1 ] || echo reuseport)" '' >"$file" ;;
        unlimited) lab_sprat unlimited srpt >"$file" ;;
        named) lab_sprat "$2" srpt >"$file" ;;
        named-*) lab_sprat "$(percent "$2" "${1#named-}")" srpt >"$file" ;;
        auto) lab_sprat auto srpt >"$file" ;;
        *) die "there is no system $1" ;;
    esac
    for ((each = 1; each <= $3; each++)); do
        case $1 in
            nginx) sed "s|nginx\.pid|nginx-$each.pid|" "$file" >"$file-$each" && start_process "$1-$each" nginx -c "$file-$each" ;;
            *) start_process "$1-$each" "$target/sprat" run -c "$file" ;;
        esac
        wait_for "$1-$each" "http://$FARM:8080/size/10/probe"
    done
}

stop() {
    local each
    for ((each = 1; each <= $2; each++)); do stop_process "$1-$each"; done
}

# trace DIRECTORY SEED OFFERED_OF LOAD ARRIVALS: made once, for all systems.
trace() {
    [ ! -e "$1/trace.csv.gz" ] || return 0
    mkdir -p "$1"
    "$target/sprat-loadgen" gen --seed "$2" --requests "$REQUESTS" --uplink "$3" --load "$4" -o "$1/made.csv.gz" >/dev/null
    case $5 in
        poisson) mv "$1/made.csv.gz" "$1/trace.csv.gz" ;;
        bursts)
            # All of five seconds within one: as much on the whole.
            zcat "$1/made.csv.gz" | awk -F , -v OFS=, '
                NR > 1 { span = int($1 / 5) * 5; $1 = sprintf("%.6f", span + ($1 - span) / 5) } { print }' |
                gzip >"$1/trace.csv.gz"
            rm "$1/made.csv.gz"
            ;;
        *) die "there are no arrivals called $5" ;;
    esac
}

# run NETWORK SEED SYSTEM OFFERED_OF LOAD ALONE NAMED ARRIVALS INSTANCES
run() {
    local directory=$RUNS/$1/seed-$2
    trace "$directory" "$2" "$4" "$5" "$8"
    network_up "$NETWORKS/$1.yaml" "$directory/$3-links.csv"
    start "$3" "$7" "$9"
    # In the background, for bash hears no signal while it runs a command.
    "$target/sprat-loadgen" replay --network "$described" --trace "$directory/trace.csv.gz" --name "$3" \
        --seed "$2" --uplink "$6" --target "http://$FARM:8080" -o "$work/run.csv.gz" &
    pid_of[replay]=$!
    started+=(replay)
    wait "${pid_of[replay]}" || die "the replay through $3 in $1 failed"
    unset 'pid_of[replay]'
    stop "$3" "$9"
    network_down
    sed -n '$p' "$work/network.log"
    # Whole, or not there.
    mv "$work/run.json" "$directory/$3.json"
    mv "$work/run.csv.gz" "$directory/$3.csv.gz"
}

# bounds NETWORK SEED RATE: what no system can beat on that one link.
bounds() {
    local directory=$RUNS/$1/seed-$2
    [ ! -e "$directory/ideal-srpt.csv" ] || return 0
    "$target/sprat-loadgen" ideal --trace "$directory/trace.csv.gz" --uplink "$3" -o "$directory" >/dev/null
}

# summarise NETWORK SEED: summary.csv of one row's runs.
summarise() {
    local each directory=$RUNS/$1/seed-$2 found=()
    # Those of former runs, too.
    for each in "$directory"/{nginx,unlimited,named,named-*,auto}.csv.gz; do
        [ ! -e "$each" ] || found+=("$each")
    done
    [ ! -e "$directory/ideal-srpt.csv" ] || found+=("$directory/ideal-srpt.csv")
    "$target/sprat-loadgen" report --summary "${found[@]}" -o "$directory" >/dev/null
}

# collect: every row of all summaries, with its ratios, and the means over the seeds.
collect() {
    local each csv=$RESULTS/summary.csv
    mkdir -p "$RESULTS"
    for each in "$RUNS"/*/seed-*/summary.csv; do
        awk -F , -v network="$(basename "$(dirname "$(dirname "$each")")")" -v seed="${each%/summary.csv}" '
            NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
            { n++; name[n] = $1; mean[$1] = $column["mean_ms"]
              line[n] = $1 "," $column["requests"] "," $column["failed"] "," $column["goodput_bytes_per_s"] "," \
                  $column["mean_ms"] "," $column["slowdown"] "," $column["smallest80_ms"] "," $column["largest1_ms"] }
            function of(a, b) { return (a > 0 && b > 0) ? sprintf("%.4f", a / b) : "" }
            END { sub(/.*seed-/, "", seed)
                best = mean["nginx"]
                if (best == "" || (mean["unlimited"] != "" && mean["unlimited"] + 0 < best + 0)) best = mean["unlimited"]
                for (i = 1; i <= n; i++) {
                    m = mean[name[i]]
                    print network "," seed "," line[i] "," of(m, best) "," of(m, mean["named"]) "," of(m, mean["ideal-srpt"])
                } }' "$each"
    done | {
        echo 'network,seed,system,requests,failed,goodput_bytes_per_s,mean_ms,slowdown,smallest80_ms,largest1_ms,of_better,of_named,of_ideal'
        cat
    } >"$csv"
    awk -F , '
        NR == 1 { next }
        { key = $1 FS $3; if (!(key in seeds)) order[++n] = key; seeds[key]++
          failed[key] += $5; goodput[key] += $6
          for (i = 7; i <= 13; i++) if ($i != "") { sum[key, i] += $i; count[key, i]++ } }
        function cell(key, i, form) { return count[key, i] ? sprintf(form, sum[key, i] / count[key, i]) : "" }
        END {
            print "| network | system | failed | goodput Mbit/s | mean ms | slowdown | smallest 80% ms | largest 1% ms | of the better of nginx and unlimited | of the named rate | of ideal SRPT |"
            print "| --- | --- | --: | --: | --: | --: | --: | --: | --: | --: | --: |"
            for (j = 1; j <= n; j++) { key = order[j]; split(key, part, FS)
                printf "| %s | %s | %d | %.2f | %s | %s | %s | %s | %s | %s | %s |\n", part[1], part[2], failed[key],
                    goodput[key] * 8 / 1e6 / seeds[key], cell(key, 7, "%.1f"), cell(key, 8, "%.2f"), cell(key, 9, "%.1f"),
                    cell(key, 10, "%.0f"), cell(key, 11, "%.2f"), cell(key, 12, "%.2f"), cell(key, 13, "%.2f") }
        }' "$csv" >"$RESULTS/summary.md"
}

# collect_alone: collect, except in a lane: two at once would write the same files, so the run
# that started the lanes collects for all.
collect_alone() { [ -n "${IN_LANE:-}" ] || collect; }

# slow NETWORK OFFERED_OF: whether its links carry at most 30 Mbit/s. A client that is behind
# no limit takes what the cores give.
slow() {
    case $1 in none-* | half-*) return 1 ;; esac
    { echo "rate: $2" && cat "$NETWORKS/$1.yaml"; } | grep -o 'rate: *[0-9.]*[kmg]bit' | awk '
        { mbit = $2 + 0 }
        /kbit/ { mbit /= 1000 }
        /gbit/ { mbit *= 1000 }
        mbit > 30 { fast = 1 }
        END { exit fast + 0 }'
}

# run_lanes NETWORK...: at most LANES at a time. Each is a run of this script of its own, which
# has its own namespaces and files; what it says is shown when it has ended.
run_lanes() {
    local name
    at_end+=(lanes_down)
    for name in "$@"; do
        while [ ${#lane_of[@]} -ge "$LANES" ]; do look_at_lanes; done
        say "== $name, in a lane"
        IN_LANE=1 ONLY=$name LANES=1 FRESH='' SPRAT_BUILT=$target \
            bash "$ROOT/scripts/compare-networks.sh" >"$work/lane-$name.log" 2>&1 &
        lane_of[$!]=$name
        # The next begins later: older `ip netns` cannot make its directory twice at once.
        look_at_lanes
    done
    while [ ${#lane_of[@]} -gt 0 ]; do look_at_lanes; done
}

# look_at_lanes: waits a second, then collects for the lanes that have ended.
look_at_lanes() {
    local pid name
    sleep 1
    for pid in "${!lane_of[@]}"; do
        ! kill -0 "$pid" 2>/dev/null || continue
        name=${lane_of[pid]}
        unset "lane_of[$pid]"
        cat "$work/lane-$name.log"
        wait "$pid" || die "the lane of $name failed"
        collect
    done
}

# lanes_down: ends all lanes at once; each ends first what it has started.
lanes_down() {
    local pid
    for pid in "${!lane_of[@]}"; do stop_pid "$pid" 60 & done
    wait
}

# wanted NETWORK: whether ONLY has it.
wanted() {
    local each
    # shellcheck disable=SC2254  # patterns are meant
    for each in "${patterns[@]}"; do case $1 in $each) return 0 ;; esac; done
    return 1
}

read -r -a patterns <<<"$ONLY"
[ -z "${FRESH:-}" ] || rm -rf "$RUNS"
todo=()
while IFS=, read -r name of load alone named arrivals instances; do
    [ "$name" != network ] && wanted "$name" || continue
    if grep -q 'congestion: bbr' "$NETWORKS/$name.yaml" &&
        ! grep -qw bbr /proc/sys/net/ipv4/tcp_available_congestion_control; then
        say "skipped: $name, for this kernel has no bbr (modprobe tcp_bbr)"
        continue
    fi
    for seed in $SEEDS; do
        for system in $SYSTEMS; do
            [[ $system != named* ]] || [ -n "$named" ] || continue
            [ ! -e "$RUNS/$name/seed-$seed/$system.csv.gz" ] || continue
            # An empty field would be lost between others.
            todo+=("$name $seed $system $of $load $alone ${named:--} $arrivals $instances")
        done
    done
done <"$NETWORKS/matrix.csv"

# grep has to have found one.
[ ${#todo[@]} -gt 0 ] || [ -d "$RUNS" ] || die "ONLY=\"$ONLY\" names no network of $NETWORKS/matrix.csv"
if [ "$LANES" -gt 1 ]; then
    in_lanes=() alone_later=() last=''
    for each in "${todo[@]}"; do
        read -r name _ _ of _ <<<"$each"
        if ! slow "$name" "$of"; then
            alone_later+=("$each")
        elif [ "$name" != "$last" ]; then
            in_lanes+=("$name")
            last=$name
        fi
    done
    run_lanes "${in_lanes[@]}"
    todo=("${alone_later[@]}")
fi
begun=$SECONDS
for ((index = 0; index < ${#todo[@]}; index++)); do
    read -r name seed system of load alone named arrivals instances <<<"${todo[index]}"
    left=unknown
    [ "$index" = 0 ] || left="$(((SECONDS - begun) * (${#todo[@]} - index) / index / 60)) min"
    say "== $((index + 1)) of ${#todo[@]}: $name, seed $seed, $system (left: $left)"
    run "$name" "$seed" "$system" "$of" "$load" "$alone" "$named" "$arrivals" "$instances"
    # The bound is of one link whose rate stays.
    case $name in
        change-* | two-* | own-and-*) ;;
        *) [ "$named" = - ] || bounds "$name" "$seed" "$named" ;;
    esac
    summarise "$name" "$seed"
    collect_alone
done
[ -z "${IN_LANE:-}" ] || exit 0
collect
say "Written: $RESULTS/summary.csv, $RESULTS/summary.md"
