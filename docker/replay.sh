#!/bin/bash
# Replays the trace through Sprat and writes the report, beside the bounds that
# no scheduler can beat on the same trace.
set -euo pipefail

UPLINK=10mbit
trace=/srv/files/trace.csv
results=/results

sprat-loadgen replay --trace "$trace" --target http://sprat:8080 \
    --name sprat --uplink "$UPLINK" --seed "$SEED" -o "$results/sprat.csv"
sprat-loadgen ideal --trace "$trace" --uplink "$UPLINK" -o "$results"
sprat-loadgen report "$results"/sprat.csv "$results"/ideal-*.csv -o "$results" \
    --title "Sprat in front of three nginx (docker-compose.yml)"
