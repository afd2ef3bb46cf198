//! Pages of other origins (the Fetch standard, CORS protocol).

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, HeaderValue, ORIGIN, VARY,
};
use http::{Method, StatusCode};
use sprat_config::resolved::{self, AllowedOrigin};
use sprat_net::error::Reason;

/// The rules on which pages may use what a route leads to.
#[derive(Debug)]
pub(crate) struct Cors {
    origins: Vec<AllowedOrigin>,
    methods: HeaderValue,
    headers: Option<HeaderValue>,
    exposed: Option<HeaderValue>,
    credentials: bool,
    max_age: HeaderValue,
}

/// The outcome for a request: the origin whose pages may use the response, if any may.
#[derive(Clone, Debug)]
pub(crate) struct Granted {
    /// The origin whose pages may use the response; none where no page may.
    origin: Option<HeaderValue>,
    exposed: Option<HeaderValue>,
    credentials: bool,
    /// Whether the answer is the same for every origin.
    is_for_all: bool,
}

impl Cors {
    pub(super) fn of(cors: &resolved::Cors) -> anyhow::Result<Self> {
        let list = |list: &[String]| match list.is_empty() {
            true => Ok(None),
            false => HeaderValue::try_from(list.join(", ")).map(Some),
        };
        let simple = ["GET", "HEAD", "POST"].map(str::to_owned);
        let methods = [&simple[..], &cors.methods].concat();
        Ok(Self {
            origins: cors.origins.clone(),
            methods: HeaderValue::try_from(methods.join(", "))?,
            headers: list(&cors.headers)?,
            exposed: list(&cors.exposed)?,
            credentials: cors.credentials,
            max_age: HeaderValue::from(cors.max_age.as_secs()),
        })
    }

    /// Returns what the response to a request is to tell of pages that may use it.
    pub(crate) fn grant(&self, request: &HeaderMap) -> Granted {
        let origin = request.get(ORIGIN);
        let text = origin.and_then(|own| own.to_str().ok());
        let is_for_all = self.origins.contains(&AllowedOrigin::Any);
        let is_granted = text.is_some_and(|text| self.origins.iter().any(|own| own.is(text)));
        let origin = match is_for_all {
            true => Some(HeaderValue::from_static("*")),
            false => origin.cloned(),
        };
        Granted {
            origin: origin.filter(|_| is_granted),
            exposed: self.exposed.clone(),
            credentials: self.credentials,
            is_for_all,
        }
    }

    /// Returns the status of the answer to a browser's question of what a page of another origin
    /// may do, or the reason to refuse it. None for any other request, which goes the way of all.
    pub(crate) fn preflight(
        &self,
        method: &Method,
        request: &HeaderMap,
    ) -> Option<Result<StatusCode, Reason>> {
        let asks = *method == Method::OPTIONS
            && request.contains_key(ORIGIN)
            && request.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        asks.then(|| match self.grant(request).is_granted() {
            true => Ok(StatusCode::NO_CONTENT),
            false => Err(Reason::Forbidden),
        })
    }

    /// Adds the fields that tell a browser what a page may do, before it does it.
    pub(crate) fn answer_preflight(&self, response: &mut HeaderMap) {
        response.insert(ACCESS_CONTROL_ALLOW_METHODS, self.methods.clone());
        if let Some(headers) = &self.headers {
            response.insert(ACCESS_CONTROL_ALLOW_HEADERS, headers.clone());
        }
        response.insert(ACCESS_CONTROL_MAX_AGE, self.max_age.clone());
    }
}

impl Granted {
    /// Returns whether the page may use the response.
    fn is_granted(&self) -> bool {
        self.origin.is_some()
    }

    /// Writes into a response's head which page may use it; what an endpoint has said of
    /// that is replaced.
    pub(crate) fn tell(&self, response: &mut HeaderMap) {
        response.remove(ACCESS_CONTROL_ALLOW_ORIGIN);
        response.remove(ACCESS_CONTROL_ALLOW_CREDENTIALS);
        response.remove(ACCESS_CONTROL_EXPOSE_HEADERS);
        if !self.is_for_all {
            response.append(VARY, HeaderValue::from_static("Origin"));
        }
        let Some(origin) = &self.origin else { return };
        response.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        if self.credentials {
            let yes = HeaderValue::from_static("true");
            response.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, yes);
        }
        if let Some(exposed) = &self.exposed {
            response.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed.clone());
        }
    }
}
