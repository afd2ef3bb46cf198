//! HEAD probes to an endpoint, which pass the station by: asking for a size is cheap, and of use
//! when all places are taken.

use std::rc::Rc;
use std::time::Duration;

use http::header::HOST;
use http::{HeaderMap, Request, StatusCode, Version};
use sprat_net::error::Reason;
use sprat_net::upload::RequestBody;
use tokio::time::{Instant, timeout};

use super::connect;
use super::upstream::Upstream;

/// The time within which an answered connection must be ready for the next request.
const READY_BOUND: Duration = Duration::from_millis(100);

impl Upstream {
    /// Sends a request whose answer has no body, to the endpoint that `number` falls to, or the
    /// next one in use. The caller bounds the time.
    ///
    /// # Errors
    ///
    /// There is no endpoint in use, or it does not answer.
    pub async fn head(
        self: &Rc<Self>,
        number: u64,
        mut request: Request<RequestBody>,
    ) -> Result<(StatusCode, HeaderMap), Reason> {
        let in_use = self.station.in_use(number);
        let endpoint = self.endpoint(in_use.ok_or(Reason::NoHealthyEndpoint)?);
        // Where endpoints are told of clients, this is for none of them.
        let mut sender = match endpoint.take_idle(&self.config, None, Instant::now()) {
            Some(sender) => sender,
            None => connect::connect(self, &endpoint, None).await?,
        };
        if !request.headers().contains_key(HOST) {
            let host = endpoint.member.authority.clone();
            request.headers_mut().insert(HOST, host);
        }
        sender.prepare(&mut request)?;
        let (_, answer) = sender.try_send_request(request);
        let answer = answer.await;
        let (parts, _) = answer
            .map_err(|_| Reason::ConnectionTerminated)?
            .into_parts();
        // A connection that is not soon ready is closed; so is one of HTTP/1.0, on
        // which no body could follow that has no length.
        let is_old = parts.version == Version::HTTP_10;
        if !is_old && timeout(READY_BOUND, sender.ready()).await.is_ok() {
            endpoint.keep(&self.config, sender, None, Instant::now());
        }
        Ok((parts.status, parts.headers))
    }
}
