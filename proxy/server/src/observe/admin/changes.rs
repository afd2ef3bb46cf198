//! Changes that clients ask of the admin listener: draining, weights, the log's level.

use std::ops::RangeInclusive;

use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use serde::Deserialize;
use tracing::level_filters::LevelFilter;

use super::Desk;
use super::answer::{AdminAnswer, plain, typed};
use super::seats::Answering;
use crate::observe::log_level;

/// The most bytes of a request's body.
const MOST_BYTES: usize = 4096;

/// The path that stops the process as SIGTERM does.
const DRAIN: &str = "/drain";

/// The path that changes the level of the process's log.
const LOG_LEVEL: &str = "/log-level";

/// The paths that stop requests to an endpoint, and begin them again.
const DRAIN_ENDPOINT: &str = "/endpoints/drain";
const UNDRAIN_ENDPOINT: &str = "/endpoints/undrain";

/// The path that gives an endpoint another share of the requests.
const WEIGH_ENDPOINT: &str = "/endpoints/weight";

/// The weights that an endpoint may have, as in the configuration.
const WEIGHTS: RangeInclusive<u32> = 1..=1000;

/// Returns whether a path is for changes.
pub(super) fn is_change(path: &str) -> bool {
    matches!(
        path,
        DRAIN | LOG_LEVEL | DRAIN_ENDPOINT | UNDRAIN_ENDPOINT | WEIGH_ENDPOINT
    )
}

/// A request's body that names an endpoint, as `/endpoints` has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    cluster: String,
    endpoint: String,
}

/// A request's body that names an endpoint, and its share of the requests.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Weighed {
    cluster: String,
    endpoint: String,
    weight: u32,
}

/// A request's body with the level that the log is to have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Level {
    level: ChangeName,
}

/// The names of the log's levels.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ChangeName {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl From<ChangeName> for LevelFilter {
    fn from(name: ChangeName) -> Self {
        match name {
            ChangeName::Off => Self::OFF,
            ChangeName::Error => Self::ERROR,
            ChangeName::Warn => Self::WARN,
            ChangeName::Info => Self::INFO,
            ChangeName::Debug => Self::DEBUG,
            ChangeName::Trace => Self::TRACE,
        }
    }
}

impl Desk {
    /// Makes the change that a request asks for; the client may ask for it.
    pub(super) async fn change(
        &self,
        request: Request<Incoming>,
        answering: Answering,
    ) -> Response<AdminAnswer> {
        let path = request.uri().path().to_owned();
        let Ok(body) = Limited::new(request.into_body(), MOST_BYTES)
            .collect()
            .await
        else {
            let too_long = "a change is asked for in 4096 bytes at most\n";
            return plain(StatusCode::PAYLOAD_TOO_LARGE, too_long, answering);
        };
        match path.as_str() {
            DRAIN => {
                tracing::info!("the admin listener is asked to drain");
                (self.drain)();
                json(
                    "{\"stage\": \"draining\"}\n",
                    StatusCode::ACCEPTED,
                    answering,
                )
            }
            DRAIN_ENDPOINT => self.drain_endpoint(&body.to_bytes(), true, answering),
            UNDRAIN_ENDPOINT => self.drain_endpoint(&body.to_bytes(), false, answering),
            WEIGH_ENDPOINT => self.weigh_endpoint(&body.to_bytes(), answering),
            _ => set_level(&body.to_bytes(), answering),
        }
    }

    fn drain_endpoint(
        &self,
        body: &[u8],
        drains: bool,
        answering: Answering,
    ) -> Response<AdminAnswer> {
        let Ok(Named { cluster, endpoint }) = serde_json::from_slice(body) else {
            let unknown =
                "wanted: {\"cluster\": C, \"endpoint\": E}, both as /endpoints has them\n";
            return plain(StatusCode::UNPROCESSABLE_ENTITY, unknown, answering);
        };
        if !self.metrics.set_draining(&cluster, &endpoint, drains) {
            return plain(StatusCode::NOT_FOUND, NO_ENDPOINT, answering);
        }
        let said = match drains {
            true => "{\"draining\": true}\n",
            false => "{\"draining\": false}\n",
        };
        json(said, StatusCode::OK, answering)
    }

    fn weigh_endpoint(&self, body: &[u8], answering: Answering) -> Response<AdminAnswer> {
        let asked = serde_json::from_slice(body).ok();
        let asked = asked.filter(|own: &Weighed| WEIGHTS.contains(&own.weight));
        let Some(Weighed {
            cluster,
            endpoint,
            weight,
        }) = asked
        else {
            let unknown = "wanted: {\"cluster\": C, \"endpoint\": E, \"weight\": W}, the first two as \
                           /endpoints has them, the last from 1 to 1000; /endpoints/drain has an \
                           endpoint get nothing\n";
            return plain(StatusCode::UNPROCESSABLE_ENTITY, unknown, answering);
        };
        match self.metrics.set_weight(&cluster, &endpoint, weight) {
            true => json("{}\n", StatusCode::OK, answering),
            false => plain(StatusCode::NOT_FOUND, NO_ENDPOINT, answering),
        }
    }
}

/// The answer where there is no endpoint of that name.
const NO_ENDPOINT: &str = "there is no such endpoint; /endpoints lists them\n";

fn set_level(body: &[u8], answering: Answering) -> Response<AdminAnswer> {
    let Ok(Level { level }) = serde_json::from_slice(body) else {
        let unknown = "wanted: {\"level\": L}, where L is off, error, warn, info, debug or trace\n";
        return plain(StatusCode::UNPROCESSABLE_ENTITY, unknown, answering);
    };
    if !log_level::set(level.into()) {
        let none = "this process has no log of its own\n";
        return plain(StatusCode::CONFLICT, none, answering);
    }
    tracing::info!(level = %LevelFilter::from(level), "the log's level is changed");
    json("{}\n", StatusCode::OK, answering)
}

fn json(text: &'static str, status: StatusCode, answering: Answering) -> Response<AdminAnswer> {
    let mut response = typed(
        plain(status, text, answering).into_body(),
        "application/json",
    );
    *response.status_mut() = status;
    response
}
