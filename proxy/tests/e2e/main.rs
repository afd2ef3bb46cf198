//! Tests of the proxy over real sockets, with real origins and clients. They are one program,
//! because linking one for each file takes longer than running the tests.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod access;
mod acme;
mod admin;
mod admin_api;
mod affinity;
mod bad_clients;
mod bad_upstreams;
mod binary;
mod buffer;
mod catalogue;
mod check;
mod classes;
mod common;
mod compress;
mod dispatch;
mod dns;
mod endpoints_file;
mod endurance;
mod examples;
mod gain;
mod grpc;
mod half_close;
mod head_probe;
mod health;
mod healthcheck;
mod hostile;
mod http;
mod http2;
mod import;
mod limits;
mod link;
mod logs;
mod marks;
mod metrics;
mod nginx;
mod operation;
mod proxy_protocol;
mod reload;
mod routes;
mod shared_store;
mod spellings;
mod tls;
mod top;
mod traces;
mod unix_sockets;
mod upgrade;
mod uplink;
mod upstream_tls;
mod waiting;
mod websocket;
