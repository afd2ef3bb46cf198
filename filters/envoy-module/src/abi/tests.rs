//! The boundary against functions that stand in for Envoy's.

use std::cell::RefCell;

use super::hooks::*;
use super::*;

/// One stand-in for all that Envoy has: whatever is asked of it is noted.
#[derive(Default)]
struct Noted {
    counted: Vec<(usize, u64)>,
    continued: usize,
    logged: Vec<String>,
    schedulers: i64,
    commits: usize,
    received: usize,
}

thread_local! {
    static NOTED: RefCell<Noted> = RefCell::default();
}

fn noted<T>(read: impl FnOnce(&mut Noted) -> T) -> T {
    NOTED.with_borrow_mut(read)
}

unsafe extern "C" fn log_text(_: u32, text: Buffer) {
    // SAFETY: lent by the caller.
    let text = unsafe { String::from_utf8_lossy(text.bytes()).into_owned() };
    noted(|noted| noted.logged.push(text));
}

unsafe extern "C" fn header(
    _: Envoy,
    map: u32,
    name: Buffer,
    value: *mut Buffer,
    index: usize,
    _: *mut usize,
) -> bool {
    if index > 0 {
        return false;
    }
    // SAFETY: lent by the caller.
    let name = unsafe { name.bytes() };
    let found = match (map, name) {
        (RESPONSE_HEADERS, b":status") => Buffer::of(b"200"),
        (RESPONSE_HEADERS, b"content-length") => Buffer::of(b"500"),
        _ => return false,
    };
    // SAFETY: a place for the answer.
    unsafe { *value = found };
    true
}

unsafe extern "C" fn headers_size(_: Envoy, _: u32) -> usize {
    2
}

unsafe extern "C" fn headers(_: Envoy, _: u32, fields: *mut Field) -> bool {
    for (index, (key, value)) in [(":status", "200"), ("content-length", "500")]
        .into_iter()
        .enumerate()
    {
        // SAFETY: there is room for what headers_size said.
        unsafe {
            *fields.add(index) = Field {
                key_ptr: key.as_ptr().cast(),
                key_length: key.len(),
                value_ptr: value.as_ptr().cast(),
                value_length: value.len(),
            };
        }
    }
    true
}

unsafe extern "C" fn body_size(_: Envoy, kind: u32) -> usize {
    match kind {
        RECEIVED_RESPONSE_BODY => noted(|noted| noted.received),
        _ => 0,
    }
}

unsafe extern "C" fn number(_: Envoy, _: u32, value: *mut u64) -> bool {
    // SAFETY: a place for the answer.
    unsafe { *value = 7 };
    true
}

unsafe extern "C" fn text(_: Envoy, _: u32, value: *mut Buffer) -> bool {
    // SAFETY: a place for the answer.
    unsafe { *value = Buffer::of(b"HTTP/1.1") };
    true
}

unsafe extern "C" fn go_on(_: Envoy) {
    noted(|noted| noted.continued += 1);
}

unsafe extern "C" fn scheduler(stream: Envoy) -> Envoy {
    noted(|noted| noted.schedulers += 1);
    stream
}

unsafe extern "C" fn commit(_: Envoy, _: u64) {
    noted(|noted| noted.commits += 1);
}

unsafe extern "C" fn delete(_: Envoy) {
    noted(|noted| noted.schedulers -= 1);
}

unsafe extern "C" fn define(_: Envoy, _: Buffer, _: *mut Buffer, _: usize, id: *mut usize) -> u32 {
    thread_local! {
        static NEXT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }
    // SAFETY: a place for the answer.
    unsafe { *id = NEXT.replace(NEXT.get() + 1) };
    0
}

unsafe extern "C" fn increment(_: Envoy, id: usize, _: *mut Buffer, _: usize, by: u64) -> u32 {
    noted(|noted| noted.counted.push((id, by)));
    0
}

fn stand_in() {
    CALLBACKS.get_or_init(|| Callbacks {
        log: log_text,
        get_header: header,
        get_headers_size: headers_size,
        get_headers: headers,
        get_body_size: body_size,
        attribute_int: number,
        attribute_string: text,
        continue_encoding: go_on,
        scheduler_new: scheduler,
        scheduler_commit: commit,
        scheduler_delete: delete,
        define_counter: define,
        increment_counter: increment,
    });
}

/// An address that nobody reads.
const STREAM: Envoy = std::ptr::dangling_mut::<u8>().cast();

fn configured(text: &str) -> Ours {
    stand_in();
    // SAFETY: both are there during the call.
    unsafe {
        envoy_dynamic_module_on_http_filter_config_new(
            STREAM,
            Buffer::of(b"boundary"),
            Buffer::of(text.as_bytes()),
        )
    }
}

#[test]
fn a_program_without_envoys_functions_is_refused() {
    let missing = Callbacks::find().err();
    assert_eq!(missing, Some("envoy_dynamic_module_callback_log"));
    // SAFETY: it takes nothing.
    assert!(unsafe { envoy_dynamic_module_on_program_init() }.is_null());
}

#[test]
fn a_bad_configuration_is_null_and_logged() {
    assert!(configured(r#"{"uplink": {"rate": "fast"}}"#).is_null());
    let logged = noted(|noted| noted.logged.join("\n"));
    assert!(logged.contains("boundary:1:"), "{logged}");
    assert!(logged.contains("fast"), "{logged}");
}

#[test]
fn a_response_goes_through_the_hooks() {
    let config = configured(r#"{"uplink": {"rate": "10mbit"}}"#);
    assert!(!config.is_null());
    // SAFETY: each object is used after it was made and before it is destroyed.
    unsafe {
        let stream = envoy_dynamic_module_on_http_filter_new(config, STREAM);
        let status = envoy_dynamic_module_on_http_filter_request_headers(STREAM, stream, true);
        assert_eq!(status, CONTINUE);
        let status = envoy_dynamic_module_on_http_filter_response_headers(STREAM, stream, false);
        assert_eq!(status, STOP_ITERATION);
        assert_eq!(noted(|noted| noted.schedulers), 1);
        noted(|noted| noted.received = 500);
        // The link may still be busy with the connection's own packets.
        let status = envoy_dynamic_module_on_http_filter_response_body(STREAM, stream, true);
        assert!([CONTINUE, STOP_ITERATION_AND_WATERMARK].contains(&status));
        envoy_dynamic_module_on_http_filter_stream_complete(STREAM, stream);
        envoy_dynamic_module_on_http_filter_scheduled(STREAM, stream, 0);
        assert_eq!(noted(|noted| noted.continued), 0, "nothing is held");
        envoy_dynamic_module_on_http_filter_destroy(stream);
        envoy_dynamic_module_on_http_filter_config_destroy(config);
    }
    assert_eq!(
        noted(|noted| noted.schedulers),
        0,
        "what was made is deleted"
    );
}

#[test]
fn a_panic_is_caught_and_counted_and_its_stream_goes_on() {
    let config = configured(r#"{"uplink": {"rate": "10mbit"}}"#);
    // SAFETY: as above.
    unsafe {
        let stream = envoy_dynamic_module_on_http_filter_new(config, STREAM);
        envoy_dynamic_module_on_http_filter_response_headers(STREAM, stream, false);
        let step = hook(STREAM, stream, |_, _| panic!("on purpose"));
        assert_eq!(step, Step::Continue, "what is held goes");
        let panics = noted(|noted| noted.counted.contains(&(Metric::Panics as usize, 1)));
        assert!(panics);
        noted(|noted| noted.received = 500);
        let status = envoy_dynamic_module_on_http_filter_response_body(STREAM, stream, true);
        assert_eq!(status, CONTINUE, "unscheduled");
        envoy_dynamic_module_on_http_filter_destroy(stream);
        envoy_dynamic_module_on_http_filter_config_destroy(config);
    }
}
