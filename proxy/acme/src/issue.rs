//! The way of one certificate, from the order to the chain (RFC 8555 7.4).

use std::time::Duration;

use instant_acme::{
    Account, AuthorizationStatus, ChallengeType, Error, Identifier, NewAccount, NewOrder, Order,
    OrderStatus, RetryPolicy,
};
use sprat_config::resolved::{Acme, Challenge, IssuedCertificate};
use tokio::time::{sleep, timeout};

use crate::answers;
use crate::command::{self, Action, TxtRecord};
use crate::https::Https;
use crate::schedule::Cause;
use crate::storage::{Answer, Storage};

/// The time that an answer stands in the storage before the authority is asked to look. Each
/// process that shares the storage looks there every second.
const SETTLES_FOR: Duration = Duration::from_secs(2);

/// The time that the authority has to check the proofs, and then again to issue.
const POLLED_FOR: Duration = Duration::from_secs(120);

/// The time for a whole attempt, without what commands take.
const TIMEOUT: Duration = Duration::from_secs(600);

/// The reason why a certificate is not issued.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) cause: Cause,
    pub(crate) error: String,
}

impl Failure {
    fn local(error: impl Into<anyhow::Error>) -> Self {
        Self {
            cause: Cause::Local,
            error: format!("{:#}", error.into()),
        }
    }

    fn refused(error: impl Into<String>) -> Self {
        Self {
            cause: Cause::Refused,
            error: error.into(),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let cause = match error {
            Error::Api(_) | Error::Timeout(_) => Cause::Refused,
            _ => Cause::Unreachable,
        };
        let error = format!("{:#}", anyhow::Error::from(error));
        Self { cause, error }
    }
}

/// A proof that Sprat controls a name, for as long as the authority looks.
enum Proof {
    /// An answer in the storage, which is removed when this is dropped.
    Stored(#[expect(dead_code, reason = "to be dropped")] Answer),
    /// A record in a name's zone, which the command removes.
    Record(TxtRecord),
}

/// Asks the authority to issue a certificate, and returns its key and its chain in PEM.
///
/// # Errors
///
/// The authority cannot be reached, refuses, or cannot be shown that the names are ours.
pub(crate) async fn issue(
    acme: &Acme,
    certificate: &IssuedCertificate,
    storage: &Storage,
) -> Result<String, Failure> {
    let commands = match &acme.challenge {
        Challenge::Dns01(own) => {
            let runs = u32::try_from(2 * certificate.names.len()).unwrap_or(u32::MAX);
            own.timeout.saturating_mul(runs)
        }
        _ => Duration::ZERO,
    };
    let mut proofs = Vec::new();
    let work = order(acme, certificate, storage, &mut proofs);
    let issued = timeout(TIMEOUT.saturating_add(commands), work).await;
    let issued = issued.unwrap_or_else(|_| Err(Failure::refused("it takes too long")));
    if let Challenge::Dns01(own) = &acme.challenge {
        for proof in &proofs {
            let Proof::Record(record) = proof else {
                continue;
            };
            if let Err(error) = command::run(own, Action::Cleanup, record).await {
                let domain = &record.domain;
                tracing::warn!(
                    domain,
                    "a record for ACME may be left in the zone: {error:#}"
                );
            }
        }
    }
    issued
}

async fn order(
    acme: &Acme,
    certificate: &IssuedCertificate,
    storage: &Storage,
    proofs: &mut Vec<Proof>,
) -> Result<String, Failure> {
    let account = account(acme, storage).await?;
    let identifiers = certificate.names.iter().cloned().map(Identifier::Dns);
    let identifiers: Vec<_> = identifiers.collect();
    let order = account.new_order(&NewOrder::new(&identifiers)).await;
    if let Err(Error::Api(problem)) = &order
        && (problem.r#type.as_deref()).is_some_and(|kind| kind.ends_with(":accountDoesNotExist"))
    {
        storage.forget_account();
    }
    let mut order = order?;
    prove(acme, storage, &mut order, proofs).await?;
    let polled = RetryPolicy::new().backoff(1.5).timeout(POLLED_FOR);
    let status = match order.state().status {
        OrderStatus::Ready => Ok(OrderStatus::Ready),
        _ => order.poll_ready(&polled).await,
    };
    match status {
        Ok(OrderStatus::Ready) => {}
        Ok(_) => return Err(refusal(&mut order, None).await),
        Err(Error::Api(problem)) => return Err(refusal(&mut order, Some(problem)).await),
        Err(error) => return Err(error.into()),
    }
    let key = order.finalize().await?;
    let chain = order.poll_certificate(&polled).await?;
    Ok(key + &chain)
}

/// Returns the account from the storage, or creates one.
async fn account(acme: &Acme, storage: &Storage) -> Result<Account, Failure> {
    let client = Account::builder_with_http(Box::new(Https::new(acme).map_err(Failure::local)?));
    if let Some(text) = storage.account().map_err(Failure::local)? {
        match serde_json::from_slice(&text) {
            Ok(saved) => return Ok(client.from_credentials(saved).await?),
            Err(error) => {
                tracing::warn!(%error, "the account for ACME is damaged: another is made");
            }
        }
    }
    let contact = acme.email.as_ref().map(|email| format!("mailto:{email}"));
    let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
    let wanted = NewAccount {
        contact: &contact,
        terms_of_service_agreed: true,
        only_return_existing: false,
    };
    let url = acme.directory_url.clone();
    let (account, credentials) = client.create(&wanted, url, None).await?;
    let text = serde_json::to_vec(&credentials).map_err(Failure::local)?;
    storage.save_account(&text).map_err(Failure::local)?;
    Ok(account)
}

/// Places the proofs that the names are ours, and tells the authority to look.
async fn prove(
    acme: &Acme,
    storage: &Storage,
    order: &mut Order,
    proofs: &mut Vec<Proof>,
) -> Result<(), Failure> {
    let kind = match &acme.challenge {
        Challenge::Http01 => ChallengeType::Http01,
        Challenge::TlsAlpn01 => ChallengeType::TlsAlpn01,
        Challenge::Dns01(_) => ChallengeType::Dns01,
    };
    let before = proofs.len();
    let mut all = order.authorizations();
    while let Some(authorization) = all.next().await {
        let mut authorization = authorization?;
        match authorization.status {
            // Proven for another certificate a while ago.
            AuthorizationStatus::Valid => continue,
            AuthorizationStatus::Pending => {}
            other => return Err(Failure::refused(format!("an authorization is {other:?}"))),
        }
        let challenge = authorization.challenge(kind.clone()).ok_or_else(|| {
            Failure::refused("the authority does not offer the challenge that is configured")
        })?;
        let Identifier::Dns(domain) = challenge.identifier().identifier else {
            return Err(Failure::refused(
                "the authority asks for what is not a name",
            ));
        };
        let (domain, answer) = (domain.clone(), challenge.key_authorization());
        let proof = match &acme.challenge {
            Challenge::Http01 => {
                answers::put_token(storage, &challenge.token, &answer).map(Proof::Stored)
            }
            Challenge::TlsAlpn01 => {
                answers::put_certificate(storage, &domain, &answer).map(Proof::Stored)
            }
            Challenge::Dns01(own) => {
                let value = answer.dns_value();
                let record = TxtRecord { domain, value };
                // To be taken away also if it came to half of its end.
                proofs.push(Proof::Record(record.clone()));
                let run = command::run(own, Action::Present, &record).await;
                run.map_err(Failure::local)?;
                continue;
            }
        };
        proofs.push(proof.map_err(Failure::local)?);
    }
    if proofs.len() == before {
        return Ok(());
    }
    if kind != ChallengeType::Dns01 {
        sleep(SETTLES_FOR).await;
    }
    let mut all = order.authorizations();
    while let Some(authorization) = all.next().await {
        let mut authorization = authorization?;
        if authorization.status == AuthorizationStatus::Pending
            && let Some(mut challenge) = authorization.challenge(kind.clone())
        {
            challenge.set_ready().await?;
        }
    }
    Ok(())
}

/// Returns the authority's reason to refuse the order, from the first authorisation that has one.
async fn refusal(order: &mut Order, told: Option<instant_acme::Problem>) -> Failure {
    let mut all = order.authorizations();
    while let Some(Ok(mut authorization)) = all.next().await {
        let Ok(state) = authorization.refresh().await else {
            continue;
        };
        let name = state.identifier().to_string();
        let error = state.challenges.iter().find_map(|own| own.error.as_ref());
        if let Some(problem) = error {
            return Failure::refused(format!("{name}: {problem}"));
        }
    }
    Failure::refused(told.map_or_else(
        || "the authority calls the order invalid".to_owned(),
        |problem| problem.to_string(),
    ))
}
