//! The way from a request to its reply, in either version of HTTP.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{Either, Full};
use hyper::body::Incoming;

use super::body::{ContentBody, TRAILER};
use super::recipe::{Recipe, RecipeError};
use super::service;

pub(super) type Reply = Response<Either<ContentBody, Full<Bytes>>>;

/// Adds the configured header fields to a reply.
pub(super) fn add<B>(reply: &mut Response<B>, headers: &HeaderMap) {
    for (name, value) in headers {
        reply.headers_mut().append(name, value.clone());
    }
}

/// Reads the recipe of a request's URL, for the attempt that the request says it is.
pub(super) fn recipe_of(request: &Request<Incoming>) -> Result<Recipe, RecipeError> {
    let attempt = request.headers().get("x-envoy-attempt-count");
    let attempt = attempt.and_then(|count| count.to_str().ok()?.parse().ok());
    Ok(Recipe::of_uri(request.uri())?.at_attempt(attempt.unwrap_or(1)))
}

/// Waits for the time that the request takes before its head.
pub(super) async fn serve_work(
    recipe: &Recipe,
    method: &Method,
    work: Option<&service::WorkingServer>,
) {
    match work {
        // A head alone is no work.
        Some(server) if *method != Method::HEAD => {
            server.serve(recipe.content.bytes, recipe.delay).await;
        }
        _ if recipe.delay.is_zero() => {}
        _ => tokio::time::sleep(recipe.delay).await,
    }
}

/// Makes the reply that a recipe describes.
pub(super) fn made_to_order(recipe: &Recipe, method: &Method) -> Reply {
    let bodiless = matches!(
        recipe.status,
        StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED
    );
    let mut reply = if bodiless {
        Response::new(Either::Right(Full::default()))
    } else {
        Response::new(Either::Left(ContentBody::new(recipe)))
    };
    *reply.status_mut() = recipe.status;
    let headers = reply.headers_mut();
    if !bodiless {
        let media_type = HeaderValue::from_static(recipe.content.media_type());
        headers.insert(header::CONTENT_TYPE, media_type);
    }
    if recipe.close {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if recipe.trailers {
        headers.insert(header::TRAILER, HeaderValue::from_static(TRAILER));
    }
    // Without it, hyper leaves out the length of an empty body for HEAD.
    if method == Method::HEAD && !bodiless && !recipe.chunked && !recipe.trailers {
        headers.insert(header::CONTENT_LENGTH, recipe.content.bytes.into());
    }
    reply
}

/// Makes the reply that says why a URL is no recipe.
pub(super) fn explain(error: &RecipeError) -> Reply {
    let mut reply = Response::new(Either::Right(Full::from(format!("{error}\n"))));
    *reply.status_mut() = match error {
        RecipeError::Path(_) => StatusCode::NOT_FOUND,
        RecipeError::Knob { .. } | RecipeError::Value { .. } => StatusCode::BAD_REQUEST,
    };
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    reply.headers_mut().insert(header::CONTENT_TYPE, text);
    reply
}
