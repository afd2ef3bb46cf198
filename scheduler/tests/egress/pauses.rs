//! What comes after a pause of its source is a flow of its own.

use crate::driver::{Driver, UNIT, ms};
use sprat_scheduler::{Discipline, Size};

/// A stream that has sent 50 bytes, and a download.
fn stream_and_download(size: Size) -> (Driver, usize) {
    let mut driver = Driver::new(Discipline::Srpt, UNIT);
    let stream = driver.arrive_as(0, size, 100);
    while driver.clients[stream].left > 50 {
        driver.serve_one();
    }
    driver.pause(stream);
    driver.arrive(30);
    (driver, stream)
}

#[test]
fn an_event_goes_ahead_of_what_is_smaller_than_its_stream() {
    let (mut driver, stream) = stream_and_download(Size::Unknown);
    driver.egress.pause(driver.now, driver.clients[stream].id);
    driver.run_until(driver.now + std::time::Duration::from_millis(10));
    // Less than a pause: it is what it was.
    driver.resume(stream);
    assert_eq!(driver.serve(2), "BB");

    let (mut driver, stream) = stream_and_download(Size::Unknown);
    driver.egress.pause(driver.now, driver.clients[stream].id);
    driver.pause(1);
    driver.run_until(driver.now + std::time::Duration::from_millis(60));
    // Told again, it has paused since the first time.
    driver.egress.pause(driver.now, driver.clients[stream].id);
    driver.run_until(driver.now + std::time::Duration::from_millis(50));
    driver.resume(1);
    driver.resume(stream);
    // Ranked by what it has had since.
    assert_eq!(&driver.serve(31), "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB");
}

/// A stream that has sent 50 bytes, and then `bytes` after each of four pauses of 20 ms,
/// the last beside a download of 30 bytes: which of them then has the link.
fn after_short_pauses(size: Size, bytes: u64) -> String {
    let mut driver = Driver::new(Discipline::Srpt, UNIT);
    let stream = driver.arrive_as(0, size, 50 + 4 * bytes);
    for message in (0..4).rev() {
        while driver.clients[stream].left > (message + 1) * bytes {
            driver.serve_one();
        }
        driver.pause(stream);
        let id = driver.clients[stream].id;
        driver.egress.pause(driver.now, id);
        driver.run_until(driver.now + std::time::Duration::from_millis(20));
        if message == 0 {
            driver.arrive(30);
        }
        driver.resume(stream);
    }
    driver.serve(3)
}

#[test]
fn a_stream_of_little_has_new_messages_after_short_pauses() {
    // A tenth of the link, and more.
    assert_eq!(after_short_pauses(Size::Unknown, 2), "AAB");
    assert_eq!(after_short_pauses(Size::Unknown, 5), "BBB");
    // An estimate stands: a page may come in pieces.
    let size = Size::Estimate {
        bytes: 1000,
        confidence: 0.9,
    };
    assert_eq!(after_short_pauses(size, 2), "BBB");
}

#[test]
fn an_estimate_holds_until_the_first_pause() {
    let size = Size::Estimate {
        bytes: 60,
        confidence: 0.9,
    };
    let (mut driver, stream) = stream_and_download(size);
    driver.resume(stream);
    assert_eq!(driver.serve(3), "AAA");
    driver.pause(stream);
    driver.egress.pause(driver.now, driver.clients[stream].id);
    driver.run_until(driver.now + std::time::Duration::from_millis(20));
    driver.pause(1);
    driver.run_until(driver.now + std::time::Duration::from_millis(90));
    driver.resume(stream);
    driver.resume(1);
    assert_eq!(driver.serve(3), "AAA");
}

/// Checks the case of a body of no announced length all of whose rest comes at once.
#[test]
fn a_size_that_is_known_exactly_before_a_pause_ends_stays_known() {
    let (mut driver, stream) = stream_and_download(Size::Unknown);
    driver.egress.pause(driver.now, driver.clients[stream].id);
    driver.pause(1);
    driver.run_until(driver.now + std::time::Duration::from_millis(110));
    driver.resize(stream, Size::Exact(100));
    driver.resume(1);
    driver.resume(stream);
    // It has 50 left, the download 30.
    assert_eq!(driver.serve(31), format!("{}A", "B".repeat(30)));
}

/// Checks the case of a backend that sends a head early.
#[test]
fn an_estimate_outlasts_what_the_source_takes_before_its_first_byte() {
    let mut driver = Driver::new(Discipline::Srpt, UNIT);
    let size = Size::Estimate {
        bytes: 50,
        confidence: 0.9,
    };
    let page = driver.arrive_as(0, size, 50);
    driver.pause(page);
    driver.egress.pause(driver.now, driver.clients[page].id);
    driver.run_until(ms(150));
    driver.arrive(30);
    driver.resume(page);
    assert_eq!(driver.serve(31), format!("{}A", "B".repeat(30)));
}

#[test]
fn a_client_that_takes_nothing_is_no_pause_and_an_exact_size_stays() {
    let (mut driver, stream) = stream_and_download(Size::Unknown);
    driver.pause(1);
    driver.run_until(driver.now + std::time::Duration::from_millis(500));
    driver.resume(1);
    driver.resume(stream);
    assert_eq!(driver.serve(2), "BB");

    let (mut driver, stream) = stream_and_download(Size::Exact(100));
    driver.egress.pause(driver.now, driver.clients[stream].id);
    driver.pause(1);
    driver.run_until(driver.now + std::time::Duration::from_millis(500));
    driver.resume(1);
    driver.resume(stream);
    assert_eq!(driver.serve(2), "BB");
    assert!(driver.now > ms(500));
}

#[test]
fn a_size_that_is_known_after_a_pause_has_nothing_of_what_was_before() {
    let (mut driver, stream) = stream_and_download(Size::Unknown);
    driver.egress.pause(driver.now, driver.clients[stream].id);
    // The download is over by then.
    driver.run_until(driver.now + std::time::Duration::from_millis(110));
    driver.resume(stream);
    assert_eq!(driver.serve(10), "AAAAAAAAAA");
    driver.resize(stream, Size::Exact(100));
    assert_eq!(driver.egress.unsent_bytes(), 40);
    // It has more left than it has sent since.
    driver.arrive(45);
    driver.arrive(35);
    assert_eq!(driver.serve(36), format!("{}A", "D".repeat(35)));
}
