# How the figure of each check is read; sourced by checks.sh, never run. Each function
# prints words NAME=NUMBER, from the check's log ($log) and its results ($out).
# shellcheck shell=bash

# cell FILE ROW COLUMN: of a CSV in the results, by the beginning of the row.
cell() {
    awk -F , -v row="$2," -v column="$3" '
        NR == 1 { for (i = 1; i <= NF; i++) if ($i == column) c = i; next }
        index($0, row) == 1 { print $c; exit }' "$out/$1"
}

# ratio FILE A B COLUMN: the one row's over the other's.
ratio() {
    awk -v a="$(cell "$1" "$2" "$4")" -v b="$(cell "$1" "$3" "$4")" 'BEGIN { printf "%.2f", a / b }'
}

# sum FILE COLUMN: over all rows that have it; nothing where no column has that name.
sum() {
    awk -F , -v column="$2" '
        NR == 1 { for (i = 1; i <= NF; i++) if ($i == column) c = i; next }
        c { sum += $c }
        END { if (c) print sum + 0 }' "$out/$1"
}

# said PATTERN/REPLACEMENT/: what sed makes of the lines of the log that fit.
said() { sed -n "s/$1p" "$log"; }

# rounded NUMBER: to three digits after the point.
rounded() { awk -v number="$1" 'BEGIN { if (number != "") printf "%.3f", number }'; }

figure_manifests() { echo "manifests=$(grep -c '^config/ku.*: .* (.*)$' "$log")"; }

figure_packaged() {
    said '^sprat_.*\.deb: \([0-9]*\) checks passed$/checks=\1/'
    said '^ok: the program has \([0-9]*\) bytes, the package \([0-9]*\)$/bytes=\1 package_bytes=\2/'
}

figure_static() { said '^.*\/static\/sprat: \([0-9]*\) bytes$/bytes=\1/'; }

figure_booked() { said '^\([0-9]*\) pages, \([0-9]*\) links within the book$/pages=\1 links=\2/'; }

figure_bytes_of_module() { said '^.*: \([0-9]*\) bytes; loads in .*$/bytes=\1/'; }

figure_hash_of_filter() { said '^The same bytes twice: sha256 \(............\).*$/sha256=\1/'; }

figure_rates_found() {
    # The slowest step of all, and how many steps ended before their rate was found.
    awk -F , 'NR > 1 { if ($5 == "never") never++; else if ($5 > slowest) { slowest = $5; of = $1 "-" $2 "-" $3 } }
        END { if (NR > 1) printf "never=%d\nslowest_s=%s\nin=%s\n", never, slowest, of }' "$out/summary.csv"
}

figure_simulated_networks() {
    said '^Simulated: \([0-9]*\) of \([0-9]*\) runs within 15% in mean and goodput, \([0-9]*\) of \([0-9]*\) networks.*$/runs=\1 of_runs=\2 networks=\3 of_networks=\4/'
}

figure_random_networks() {
    said '^.*Breaches in \([0-9]*\) networks:$/networks=\1/'
    said '^- auto: \([0-9]*\), goodput \([0-9]*\), mean \([0-9]*\), largest 1% \([0-9]*\); mean .* \([0-9.]*\) on geometric average.*$/breaches=\1 of_goodput=\2 of_mean=\3 of_largest=\4 mean_of_better=\5/'
}

figure_simulated() {
    awk -F , '$1 == "srpt" { printf "srpt_of_theory_at_%s=%.3f\n", $2, $3 / $5 }' "$out/link.csv"
    echo "sita_slowdown=$(rounded "$(cell dispatch.csv sita slowdown)")"
}

figure_reproduced() { said '^Reproduced: \(reproduced=[0-9]* differs=[0-9]* not_comparable=[0-9]* not_run=[0-9]* of=[0-9]*\)$/\1/'; }

figure_idle_memory() {
    echo "plain=$(cell idle-memory.csv plain bytes_each)"
    echo "tls=$(cell idle-memory.csv tls bytes_each)"
}

figure_http2_memory() {
    said '^[0-9]* connections with \([0-9]*\) streams each: .*, \(-*[0-9]*\) kB each$/kb_with_\1=\2/'
}

figure_passed_tests() { awk '/^test result:/ { passed += $4 } END { print "passed=" passed + 0 }' "$log"; }

figure_fuzzed() {
    awk '/^stat::number_of_executed_units:/ { runs += $2; targets++ }
        END { printf "targets=%d\nruns=%d\n", targets, runs }' "$log"
}

figure_failover() {
    # Two columns have that name: in the first second, and later.
    awk -F , 'NR > 1 { first += $3; later += $5; asked += $4 }
        END { printf "failed_first=%d\nfailed_later=%d\nof=%d\n", first, later, asked }' "$out/summary.csv"
}

figure_reloads() {
    said '^\([0-9]*\) reloads, \([0-9]*\) requests, \([0-9]*\) WebSockets in .*; memory \([0-9]*\) kB after .*, \([0-9]*\) kB at the end$/reloads=\1 requests=\2 websockets=\3 kb_before=\4 kb_after=\5/'
}

figure_config_load() { said '^load_ms=\([0-9.]*\) delay_ms=\([0-9.]*\) reloads=\([0-9]*\)$/load_ms=\1 delay_ms=\2 reloads=\3/'; }

figure_demos() { said '^Tried: \([a-z-]*\), .* counts \([0-9]*\)$/\1=\2/'; }

figure_browser() {
    # The mean of the rounds.
    sed -n 's/^\([a-z]*\) \([a-z]*\): {"page_ms":\([0-9]*\),"mean_ms":\([0-9]*\),.*$/\1_\2 \4/p' "$log" |
        awk '{ if (!($1 in of)) order[++count] = $1; sum[$1] += $2; of[$1]++ }
            END { for (i = 1; i <= count; i++) printf "mean_ms_%s=%.0f\n", order[i], sum[order[i]] / of[order[i]] }'
}

figure_dashboard() {
    said '^dashboard: {"moved":\([0-9]*\),"wrong":\([0-9]*\)}$/moved=\1 wrong=\2/'
}

figure_composed() {
    said '^docker-compose.yml: \([0-9]*\) checks passed$/checks=\1/'
    said '^the image has \([0-9.]*\) MB, the program in it \([0-9.]*\) MB$/image_mb=\1 program_mb=\2/'
}

# nanoseconds NAME: criterion's estimate of a benchmark, whose name may have a line of
# its own.
nanoseconds() {
    awk -v name="$1" '
        $1 == name { here = 1 }
        here && /time:/ {
            sub(/.*\[/, "")
            split($0, part, " ")
            unit["ns"] = 1; unit["ps"] = 0.001; unit["ms"] = 1000000; unit["s"] = 1e9
            print part[3] * (part[4] in unit ? unit[part[4]] : 1000)
            exit
        }' "$log"
}

figure_benches() {
    echo "look_up_ns=$(nanoseconds catalogue/look_up/1000000)"
    echo "fast_path_ns=$(nanoseconds fast_path)"
}

figure_mutated() { said '^Mutants: \([0-9]*\) caught, \([0-9]*\) missed, .*$/caught=\1 missed=\2/'; }

figure_slow_clients() {
    awk '/^[a-z]* at [a-z0-9]*: [0-9.]*$/ { if ($4 > worst) worst = $4 } END { print "worst=" worst }' "$log"
}

figure_buffering() {
    awk '/^buffer in [a-z]*: [0-9.]*$/ { if ($4 > worst) worst = $4 } END { print "worst=" worst }' "$log"
}

figure_starved() {
    said '^first: \(.*\)$/\1/'
}

figure_background() {
    local foreground variant
    for foreground in light heavy; do
        for variant in rate idle; do
            echo "${foreground}_$variant=$(cell summary.csv "$foreground,$variant" median_over_none)"
        done
        echo "${foreground}_idle_share=$(cell summary.csv "$foreground,idle" background_share)"
    done
}

# of_ideal NAME SYSTEM: its mean over ideal SRPT's, where it was measured.
of_ideal() {
    local mean
    mean=$(cell summary.csv "$2" mean_of_ideal_srpt)
    [ -z "$mean" ] || echo "$1=$(rounded "$mean")"
}

# goodput NAME SYSTEM: over that of the first system.
goodput() {
    local goodput
    goodput=$(cell summary.csv "$2" goodput_of_baseline)
    [ -z "$goodput" ] || echo "$1=$(rounded "$goodput")"
}

figure_compared() {
    of_ideal nginx nginx
    of_ideal srpt sprat-srpt
    of_ideal auto sprat-auto
    goodput srpt_goodput sprat-srpt
    goodput auto_goodput sprat-auto
    [ -z "$(cell summary.csv sprat-kernel mean_ms)" ] ||
        echo "kernel_of_nginx=$(ratio summary.csv sprat-kernel nginx mean_ms)"
    echo "failed=$(sum summary.csv failed)"
}

figure_counterfactual() {
    awk -F , 'NR > 1 { printf "told_gain_of_measured_at_%s=%.2f\n", $1, $7 / $6 }' "$out/told.csv"
    echo "failed=$(sum told.csv failed)"
}

figure_compression() {
    # The farthest from what the bytes predict, either way.
    awk -F , 'NR > 1 {
            printf "saved_at_%s=%.2f\nof_plain_at_%s=%.2f\n", $1, $2, $1, $6
            off = $7 < 1 ? 1 / $7 : $7
            if (off > worst) worst = off }
        END { printf "worst=%.2f\n", worst }' "$out/compression.csv"
}

figure_demonstrated() {
    said '^demo: .*"moved":\([0-9]*\),"factor":\([0-9.]*\).*$/moved=\1 factor=\2/'
    said '^.* requests, mean .*, \([0-9]*\) failed$/\1/' | awk '{ failed += $1 } END { print "failed=" failed }'
}

figure_networks() {
    # The worst of all networks, and which it was; goodput and the largest 1% are over those of
    # `unlimited` in the same network.
    awk -F , '
        NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
        {
            run = $column["network"] "," $column["seed"]
            failed += $column["failed"]
            goodput[run, $column["system"]] = $column["goodput_bytes_per_s"]
            largest[run, $column["system"]] = $column["largest1_ms"]
            if ($column["system"] == "auto") {
                runs[run] = $column["network"]
                worst("better", $column["of_better"], $column["network"])
                worst("named", $column["of_named"], $column["network"])
            }
        }
        function worst(what, value, network) {
            if (value != "" && value + 0 > most[what]) { most[what] = value + 0; where[what] = network }
        }
        # What was not measured has no figure, and is over its bar.
        function told(what, value, network) {
            if (value > 0) printf "%s=%.4f\nin=%s\n", what, value, network
        }
        END {
            for (run in runs) {
                if (goodput[run, "unlimited"] > 0)
                    worst("loss", goodput[run, "unlimited"] / goodput[run, "auto"], runs[run])
                if (largest[run, "unlimited"] > 0)
                    worst("largest", largest[run, "auto"] / largest[run, "unlimited"], runs[run])
            }
            told("auto_of_better", most["better"], where["better"])
            told("auto_of_named", most["named"], where["named"])
            if (most["loss"] > 0) told("auto_goodput", 1 / most["loss"], where["loss"])
            told("auto_largest", most["largest"], where["largest"])
            printf "failed=%d\n", failed
        }' "$out/summary.csv"
}

figure_compared_envoy() {
    local each
    of_ideal envoy envoy
    for each in module-1 module-2 wasm-bodies-1 wasm-bodies-2; do of_ideal "${each//-/_}" "$each"; done
    goodput module_goodput module-1
    goodput wasm_goodput wasm-bodies-1
}

figure_farm() {
    local each
    echo "size=$(ratio waiting/summary.csv fcfs size mean_ms)"
    echo "probe=$(ratio waiting/summary.csv fcfs probe mean_ms)"
    for each in sita least_work least_request; do
        echo "$each=$(ratio dispatch/summary.csv round_robin "$each" mean_slowdown)"
    done
    echo "failed=$(($(sum waiting/summary.csv failed) + $(sum dispatch/summary.csv failed) + $(sum shared/summary.csv failed)))"
}

figure_peers() {
    said '^sprat-unlimited  *\([0-9]*\) B .*(\([0-9.]*\)).*$/b\1=\2/'
    said '^sprat-unlimited  *\([0-9]*\) B per idle connection$/idle=\1/'
    # What scheduling costs over `unlimited`, at the size where it costs most.
    awk '
        /^sprat-.* B .*\([0-9.]*\)/ { split($0, part, /[()]/); of[$1, $2] = part[2]; sizes[$2] = 1 }
        END {
            for (size in sizes) if (of["sprat-unlimited", size] > 0) {
                ratio = of["sprat-100gbit", size] / of["sprat-unlimited", size]
                if (ratio > most) most = ratio
            }
            printf "scheduling=%.2f\n", most
        }' "$log"
}

figure_observed() {
    said '^CPU time per request.*, ratio \([0-9.]*\)$/ratio=\1/'
}

figure_envoy_farm() {
    echo "of_round_robin=$(ratio dispatch/summary.csv envoy-round-robin wasm mean_slowdown)"
    echo "of_least_request=$(ratio dispatch/summary.csv envoy-least-request wasm mean_slowdown)"
    echo "held=$(ratio held/summary.csv envoy wasm mean_ms)"
    echo "failed=$(($(sum dispatch/summary.csv failed) + $(sum held/summary.csv failed)))"
}

figure_envoy_cost() {
    echo "none_again=$(cell summary.csv none-again of_none)"
    echo "module_off=$(cell summary.csv module-off of_none)"
    echo "wasm_off=$(cell summary.csv wasm-off of_none)"
}

figure_soaked_envoy() {
    awk -F , 'NR > 1 { runs++; requests += $3; wrong += $4 != "ok" }
        END { printf "runs=%d\nrequests=%d\nwrong=%d\n", runs, requests, wrong }' "$out/summary.csv"
}

figure_soaked() {
    awk '$1 == "rss_kb" { printf "kb_first=%d\nkb_last=%d\n", $2, $4 }' "$out/quarters.txt"
}
