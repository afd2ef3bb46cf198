#!/usr/bin/env bash
# One trace through nginx and through Sprat, on one limited link, one system
# after the other; then the bounds and the report. By default at the load where
# order counts most; the environment changes it:
#
#   UPLINK=10mbit LOADS="0.5 0.7 0.9" REQUESTS=18338 SEED=7 RESULTS=results/compare
#   SYSTEMS="nginx haproxy sprat-fair sprat-srpt ..."
#   TLS=1: over TLS 1.3, a handshake for each request, no tickets
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/measure.sh"
. "$ROOT/scripts/lab.sh"

UPLINK=${UPLINK:-10mbit}
LOADS=${LOADS:-0.9}
REQUESTS=${REQUESTS:-18338}
SEED=${SEED:-7}
TLS=${TLS:-}
RESULTS=${RESULTS:-results/compare${TLS:+-tls}}
SYSTEMS=${SYSTEMS:-nginx haproxy sprat-fair sprat-srpt sprat-bands sprat-two-class sprat-auto sprat-kernel}

cd "$ROOT"
lab_needs nginx
if ! has haproxy; then
    case " $SYSTEMS " in *" haproxy "*) say "haproxy is left out: it is not installed" ;; esac
    SYSTEMS=${SYSTEMS/haproxy/}
fi
lab_begin "sprat-compare${TLS:+-tls}" compare

url=http://$FARM:8080 connection=new tls_of_nginx='' tls_of_sprat=''
if [ -n "$TLS" ]; then
    url=https://$FARM:8080 connection=new-tls
    # nginx gives up root before it reads them again.
    self_signed farm.example
    cat "$work/chain.pem" "$work/key.pem" >"$work/both.pem"
    tls_of_nginx="ssl_certificate $work/chain.pem; ssl_certificate_key $work/key.pem;
        ssl_protocols TLSv1.3; ssl_session_tickets off; ssl_session_cache off;"
    tls_of_sprat="tls: {certificates: [{certificate_chain: $work/chain.pem, private_key: $work/key.pem}],
      minimum_version: TLSv1_3, session_tickets: 0}"
fi

linked=''
remove_link() {
    [ -n "$linked" ] || return 0
    "${within[@]}" "$target/sprat" link remove -c "$linked"
    linked=''
}
at_end+=(remove_link)

# sprat_config RATE POLICY [ENGINE]
sprat_config() { lab_sprat "$1" "$2" "${3:-pace}" "$tls_of_sprat"; }

# start SYSTEM: in the farm's namespace.
start() {
    local file=$work/$1.conf
    ! answers "$url/size/10/probe" || die "something answers at $FARM:8080 before $1 is started"
    case $1 in
        nginx) lab_nginx "${TLS:+ssl}" "$tls_of_nginx" >"$file" ;;
        haproxy) lab_haproxy "${TLS:+ssl crt $work/both.pem ssl-min-ver TLSv1.3 no-tls-tickets}" >"$file" ;;
        sprat-fair) sprat_config "$UPLINK" fair >"$file" ;;
        sprat-srpt) sprat_config "$UPLINK" srpt >"$file" ;;
        sprat-bands) sprat_config "$UPLINK" bands >"$file" ;;
        sprat-two-class) sprat_config "$UPLINK" '{name: bands, cutoffs: two-class}' >"$file" ;;
        sprat-auto) sprat_config auto srpt >"$file" ;;
        sprat-kernel) sprat_config "$UPLINK" bands '{name: kernel, qdisc: htb, device: uplink}' >"$file" ;;
        *) die "there is no system $1" ;;
    esac
    case $1 in
        nginx) start_process nginx nginx -c "$file" ;;
        haproxy) start_process haproxy haproxy -db -f "$file" ;;
        sprat-kernel)
            "${within[@]}" "$target/sprat" link apply --replace -c "$file"
            linked=$file
            start_process "$1" "$target/sprat" run -c "$file"
            ;;
        *) start_process "$1" "$target/sprat" run -c "$file" ;;
    esac
    wait_for "$1" "$url/size/10/probe"
}

lab_up "$UPLINK"
start_origin "$LAB_ORIGINS"

results=()
for load in $LOADS; do
    directory=$RESULTS/load-$load
    lab_trace "$directory" "$load" "$connection"
    for system in $SYSTEMS; do
        lab_up "$UPLINK"
        start "$system"
        say "== $system at $load"
        lab_replay "$system" "$directory" "$load" --target "$url"
        stop_process "$system"
        remove_link
    done
    lab_bounds "$directory" "$connection"
done
lab_report "Response times on a $UPLINK link${TLS:+, a TLS handshake for each}"
