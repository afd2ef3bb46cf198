# Functions of the scripts that measure in the lab: two hosts in network
# namespaces, and a limited link between them. Sourced after measure.sh, never run.
# shellcheck shell=bash

# The farm's address on the link.
FARM=198.18.0.1
# Where its servers listen, beside the proxy.
LAB_ORIGINS='127.0.0.1:9101 127.0.0.1:9102 127.0.0.1:9103'

# lab_begin NAME TARGET PACKAGE...: as measure_begin, with a farm in which
# everything is started, and a client that replays. TARGET is of the Makefile.
lab_begin() {
    lab=$1
    [ "$(id -u)" = 0 ] || die "the lab is made of network namespaces, which needs root: sudo make $2"
    need ip iproute2
    need ethtool ethtool
    measure_begin "${@:3}"
    within=(ip netns exec "$lab-farm")
    from=(ip netns exec "$lab-client")
    at_end+=(lab_down)
}

# lab_up RATE: a fresh queue; nothing of what was measured before stands in it.
lab_up() { "$target/sprat-loadgen" lab up --name "$lab" --rate "$1" >/dev/null; }
lab_down() { "$target/sprat-loadgen" lab down --name "$lab" >/dev/null 2>&1; }
