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

# lab_nginx LISTEN KEYS: nginx in front of the farm's servers. LISTEN is what its
# `listen` says more (ssl, http2), KEYS are directives of the server.
lab_nginx() {
    local servers='' each
    for each in $LAB_ORIGINS; do servers+="server $each; "; done
    cat <<CONF
daemon off;
pid $work/nginx.pid;
error_log $work/nginx.log warn;
worker_processes 2;
events { worker_connections 8192; }
http {
    access_log off;
    client_body_temp_path $work/nginx-body;
    proxy_temp_path $work/nginx-proxy;
    fastcgi_temp_path $work/nginx-fastcgi;
    uwsgi_temp_path $work/nginx-uwsgi;
    scgi_temp_path $work/nginx-scgi;
    upstream farm { ${servers}keepalive 64; }
    server {
        listen $FARM:8080 $1 backlog=4096;
        $2
        location / {
            proxy_pass http://farm;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }
    }
}
CONF
}
