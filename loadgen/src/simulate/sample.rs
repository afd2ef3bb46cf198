//! A recorded sample of a site's requests: the sizes that were asked for, and pages of them.

use std::fmt;
use std::io::Read;
use std::path::Path;

use crate::recorded::{COLUMNS, RecordedReply};
use crate::table::{self, TableError, TableReader};

/// The requests of a recorded trace (`t_s,bytes,status,url`), without their times: a sample of a
/// site's requests has its sizes, and not its bursts.
#[derive(Clone, PartialEq)]
pub(crate) struct RecordedSample {
    /// The bytes of all bodies, smallest first.
    sizes: Vec<u64>,
    /// The pages, each as the bytes of its objects.
    pages: Vec<Vec<u64>>,
}

impl RecordedSample {
    /// Reads a recorded trace; a name that ends in `.gz` is decompressed.
    ///
    /// # Errors
    /// Names file and line when a field does not parse, or no request has a body.
    pub(crate) fn read(file: &Path) -> Result<Self, TableError> {
        Self::from_reader(table::open(file)?, file)
    }

    /// Reads like [`RecordedSample::read`], but from any input; `file` is for the messages.
    ///
    /// Pages are as SFD02 finds them in its trace (4.4): a request for HTML begins one. The paper
    /// does so for each client by itself. A sample without clients is taken as if one client had
    /// made all requests: a page has as many objects as on average then, and objects of the site,
    /// but not always its own.
    fn from_reader(input: impl Read, file: &Path) -> Result<Self, TableError> {
        let mut table = TableReader::new(input, file, &COLUMNS, &[])?;
        let mut sizes = Vec::new();
        let mut pages: Vec<Vec<u64>> = Vec::new();
        while let Some(row) = table.next_row()? {
            let reply: RecordedReply<'_> = row.read()?;
            let bytes = reply.body_bytes();
            if is_html(reply.url) {
                pages.push(Vec::new());
            }
            if bytes == 0 {
                continue;
            }
            sizes.push(bytes);
            if let Some(page) = pages.last_mut() {
                page.push(bytes);
            }
        }
        if sizes.is_empty() {
            return Err(TableError::whole(file, "no request has a body"));
        }
        sizes.sort_unstable();
        // All objects of such a page were in the client's cache.
        pages.retain(|page| !page.is_empty());
        Ok(Self { sizes, pages })
    }

    /// Returns the bytes of all bodies, smallest first.
    pub(crate) fn sizes(&self) -> &[u64] {
        &self.sizes
    }

    /// Returns the pages, each as the bytes of its objects.
    pub(crate) fn pages(&self) -> &[Vec<u64>] {
        &self.pages
    }

    /// Returns the size, in bytes, below which the share `p` (0 to 1) of the requests lies.
    pub(crate) fn quantile_bytes(&self, p: f64) -> u64 {
        let place = (p * self.sizes.len() as f64) as usize;
        self.sizes[place.min(self.sizes.len() - 1)]
    }

    /// Returns the share of the requests that are for more than so many bytes.
    pub(crate) fn share_above(&self, bytes: u64) -> f64 {
        let above = self.sizes.len() - self.sizes.partition_point(|&own| own <= bytes);
        above as f64 / self.sizes.len() as f64
    }
}

/// Writes how much there is, by which a record tells one sample from another.
impl fmt::Debug for RecordedSample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedSample")
            .field("requests", &self.sizes.len())
            .field("bytes", &self.sizes.iter().sum::<u64>())
            .field("pages", &self.pages.len())
            .finish()
    }
}

/// Returns whether a URL is that of HTML, by its end: a file's, or a directory's.
fn is_html(url: &str) -> bool {
    let path = url.split(['?', '#']).next().unwrap_or(url);
    let name = path.rsplit('/').next().unwrap_or(path);
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    name.is_empty()
        || ending
            .is_some_and(|own| own.eq_ignore_ascii_case("html") || own.eq_ignore_ascii_case("htm"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Makes a sample of the rows of a recorded trace, without their header.
    pub(crate) fn sample(rows: &str) -> RecordedSample {
        let text = format!("t_s,bytes,status,url\n{rows}");
        RecordedSample::from_reader(text.as_bytes(), Path::new("r.csv")).unwrap()
    }

    #[test]
    fn html_begins_a_page_and_what_has_no_body_is_no_object() {
        let own = sample(
            "4,700,200,/images/before.gif\n\
             5,0,304,/english/index.html\n\
             5,20,200,/a.gif\n\
             5,9,304,/b.gif\n\
             6,300,200,/english/\n\
             6,0,304,/french/index.htm\n\
             7,50,-,/french/NEWS.HTM?day=6\n\
             7,10,200,/a.htmlx\n",
        );
        assert_eq!(own.sizes(), [10, 20, 50, 300, 700]);
        assert_eq!(own.pages(), [vec![20], vec![300], vec![50, 10]]);
        assert_eq!(
            format!("{own:?}"),
            "RecordedSample { requests: 5, bytes: 1080, pages: 3 }"
        );
    }

    #[test]
    fn quantiles_are_sizes_of_the_sample() {
        let own = sample("1,10,200,/a\n1,30,200,/b\n2,20,200,/a\n2,40,200,/c\n");
        let quantiles = [0.0, 0.24, 0.25, 0.5, 0.99, 1.0].map(|p| own.quantile_bytes(p));
        assert_eq!(quantiles, [10, 10, 20, 30, 40, 40]);
        let shares = [9, 10, 39, 40].map(|bytes| own.share_above(bytes));
        assert_eq!(shares, [1.0, 0.75, 0.25, 0.0]);
        assert!(own.pages().is_empty());
    }

    #[test]
    fn errors_name_file_and_line() {
        let read = |text: &str| {
            let text = format!("t_s,bytes,status,url\n{text}");
            let read = RecordedSample::from_reader(text.as_bytes(), Path::new("r.csv"));
            read.unwrap_err().to_string()
        };
        assert!(read("1,x,200,/a\n").starts_with("r.csv:2: `x` in column `bytes`"));
        assert_eq!(read("1,0,200,/a\n"), "r.csv: no request has a body");
    }
}
