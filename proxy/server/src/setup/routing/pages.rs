//! Bodies that the configuration gives to answers: direct responses and error pages.

use std::path::Path;

use anyhow::Context as _;
use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use sprat_config::resolved::{self, Action, Config, FileAt, PageSource};
use sprat_net::problem::Problem;

/// The most bytes of a page's file.
const MAX_BYTES: u64 = 1 << 20;

/// A body that is sent as it is.
#[derive(Clone, Debug)]
pub struct Page {
    /// The bytes of the body.
    pub body: Bytes,
    /// The value of `Content-Type`.
    pub(crate) content_type: HeaderValue,
}

impl Page {
    /// Reads a page of the configuration.
    ///
    /// # Errors
    ///
    /// Fails if the page's file cannot be read, or is too large.
    pub(crate) fn of(page: &resolved::Page) -> anyhow::Result<Self> {
        let body = match &page.source {
            PageSource::Text(text) => Bytes::copy_from_slice(text.as_bytes()),
            PageSource::File(file) => read(&file.path)?,
        };
        Ok(Self {
            body,
            content_type: HeaderValue::from_str(&page.content_type)?,
        })
    }
}

fn read(path: &Path) -> anyhow::Result<Bytes> {
    let read = || {
        let bytes = std::fs::metadata(path)?.len();
        anyhow::ensure!(bytes <= MAX_BYTES, "it has {bytes} bytes: 1 MB is the most");
        Ok(std::fs::read(path)?.into())
    };
    read().with_context(|| format!("cannot read the page {}", path.display()))
}

/// The pages that clients get in place of answers.
#[derive(Debug)]
pub(crate) struct ErrorPages(Box<[ErrorPage]>);

#[derive(Debug)]
struct ErrorPage {
    statuses: Vec<(u16, u16)>,
    instead: Instead,
    intercept: bool,
}

/// The page and the status that a client gets in place of an answer.
#[derive(Clone, Debug)]
pub(crate) struct Instead {
    /// The new body; none leaves the answer's as it is.
    pub(crate) page: Option<Page>,
    /// The new status; none leaves the answer's as it is.
    pub(crate) status: Option<StatusCode>,
}

impl ErrorPages {
    /// Reads the pages of a route.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read.
    pub(super) fn of(pages: &[resolved::ErrorPage]) -> anyhow::Result<Self> {
        let page = |own: &resolved::ErrorPage| {
            anyhow::Ok(ErrorPage {
                statuses: own.statuses.clone(),
                instead: Instead {
                    page: own.page.as_ref().map(Page::of).transpose()?,
                    status: own.status.map(StatusCode::from_u16).transpose()?,
                },
                intercept: own.intercept,
            })
        };
        Ok(Self(pages.iter().map(page).collect::<Result<_, _>>()?))
    }

    /// Returns what a client gets in place of an answer of Sprat's own; none if that stays.
    pub(crate) fn in_place_of(&self, status: StatusCode) -> Option<&Instead> {
        let page = self.0.iter().find(|own| own.is_for(status))?;
        Some(&page.instead)
    }

    /// Returns what a client gets in place of an endpoint's answer; none if that stays.
    pub(crate) fn in_place_of_upstream(&self, status: StatusCode) -> Option<&Instead> {
        let mut pages = self.0.iter();
        let page = pages.find(|own| own.intercept && own.is_for(status))?;
        Some(&page.instead)
    }
}

impl ErrorPage {
    fn is_for(&self, status: StatusCode) -> bool {
        let status = status.as_u16();
        (self.statuses.iter()).any(|&(from, to)| (from..=to).contains(&status))
    }
}

/// Returns the problems with the files of all pages.
pub(super) fn inspect(config: &Config) -> impl Iterator<Item = Problem> {
    let files = config.routes.iter().flat_map(|route| {
        let direct = match &route.action {
            Action::Respond(direct) => direct.page.as_ref(),
            Action::Forward(_) | Action::Redirect(_) => None,
        };
        let errors = route.error_pages.iter().filter_map(|own| own.page.as_ref());
        direct.into_iter().chain(errors)
    });
    files.filter_map(|page| match &page.source {
        PageSource::File(FileAt { path, span }) => {
            let error = read(path).err()?;
            let help = "put the page there, or give its text as `body`";
            Some(Problem::at(span, format!("{error:#}")).help(help))
        }
        PageSource::Text(_) => None,
    })
}
