//! Tests of the boundary, with functions that stand in for Envoy's.

use std::cell::RefCell;
use std::ffi::c_void;

use super::callbacks::{CALLBACKS, Callbacks, SUCCESS};
use super::guard::hook;
use super::hooks::*;
use super::lent::{Buffer, Envoy, Field, Ours};
use super::stream::{RECEIVED_RESPONSE_BODY, REQUEST_HEADERS, RESPONSE_HEADERS};
use crate::filter::{Step, Woken};
use crate::host::Metric;

/// A record of the calls to the functions that stand in for Envoy's.
#[derive(Default)]
struct Noted {
    /// The names of the counters and gauges that were defined.
    defined: Vec<String>,
    counted: Vec<(usize, u64)>,
    continued: usize,
    logged: Vec<String>,
    schedulers: i64,
    commits: usize,
    received: usize,
    /// The fields that were set in requests' heads.
    set: Vec<(String, String)>,
    resumed: usize,
    /// The filter of a stream whose response comes while its request is released, if there is one.
    /// The next field has the status that its head's hook returns.
    replies: Option<usize>,
    replied: Option<u32>,
    /// Whether requests bring the field that names a pool, with a value that is no text.
    forged: bool,
    /// The filter of a stream whose request is a GET, and whose callout Envoy itself answers before
    /// it is sent.
    answers_within: Option<usize>,
    answered: Vec<(u32, String)>,
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
        (REQUEST_HEADERS, b":method") if noted(|noted| noted.answers_within.is_some()) => {
            Buffer::of(b"GET")
        }
        (REQUEST_HEADERS, b"x-sprat-cluster") if noted(|noted| noted.forged) => Buffer::of(b"\xff"),
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

unsafe extern "C" fn define(
    _: Envoy,
    name: Buffer,
    _: *mut Buffer,
    _: usize,
    id: *mut usize,
) -> u32 {
    thread_local! {
        static NEXT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }
    // SAFETY: lent by the caller.
    let name = unsafe { String::from_utf8_lossy(name.bytes()).into_owned() };
    noted(|noted| noted.defined.push(name));
    // SAFETY: a place for the answer.
    unsafe { *id = NEXT.replace(NEXT.get() + 1) };
    0
}

unsafe extern "C" fn increment(_: Envoy, id: usize, _: *mut Buffer, _: usize, by: u64) -> u32 {
    noted(|noted| noted.counted.push((id, by)));
    0
}

unsafe extern "C" fn set_header(_: Envoy, map: u32, name: Buffer, value: Buffer) -> bool {
    // SAFETY: lent by the caller.
    let text = |own: Buffer| unsafe { String::from_utf8_lossy(own.bytes()).into_owned() };
    if map != RESPONSE_HEADERS {
        noted(|noted| noted.set.push((text(name), text(value))));
    }
    true
}

unsafe extern "C" fn set_metadata(_: Envoy, space: Buffer, key: Buffer, value: Buffer) {
    // SAFETY: lent by the caller.
    let text = |own: Buffer| unsafe { String::from_utf8_lossy(own.bytes()).into_owned() };
    let key = format!("{}.{}", text(space), text(key));
    noted(|noted| noted.set.push((key, text(value))));
}

unsafe extern "C" fn callout(
    envoy: Envoy,
    _: *mut u64,
    _: Buffer,
    _: *mut Field,
    _: usize,
    _: Buffer,
    _: u64,
) -> u32 {
    if let Some(stream) = noted(|noted| noted.answers_within.take()) {
        let ours = std::ptr::without_provenance::<c_void>(stream);
        let fields = [Field::of(":status", "503")];
        let (fields, count) = (fields.as_ptr(), fields.len());
        // SAFETY: the test has put a stream there that exists; the fields are there during the call.
        unsafe {
            envoy_dynamic_module_on_http_filter_http_callout_done(
                envoy,
                ours,
                0,
                SUCCESS,
                fields,
                count,
                std::ptr::null(),
                0,
            );
        }
    }
    SUCCESS
}

unsafe extern "C" fn resume_request(envoy: Envoy) {
    noted(|noted| noted.resumed += 1);
    if let Some(stream) = noted(|noted| noted.replies.take()) {
        let ours = std::ptr::without_provenance::<c_void>(stream);
        // SAFETY: the test has put a stream there that exists.
        let status =
            unsafe { envoy_dynamic_module_on_http_filter_response_headers(envoy, ours, false) };
        noted(|noted| noted.replied = Some(status));
    }
}

unsafe extern "C" fn send_response(
    _: Envoy,
    status: u32,
    _: *mut Field,
    _: usize,
    _: Buffer,
    details: Buffer,
) {
    // SAFETY: lent by the caller.
    let details = unsafe { String::from_utf8_lossy(details.bytes()).into_owned() };
    noted(|noted| noted.answered.push((status, details)));
}

unsafe extern "C" fn route_anew(_: Envoy) {}

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
        define_gauge: define,
        set_gauge: increment,
        set_header,
        set_metadata,
        clear_route_cache: route_anew,
        callout,
        continue_decoding: resume_request,
        send_response,
    });
}

/// An address that stands for a stream of Envoy, and is never read.
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
fn only_what_the_module_counts_is_defined() {
    let config = configured("{}");
    let defined = noted(|noted| std::mem::take(&mut noted.defined));
    assert!(defined.iter().any(|name| name == "sprat.waiting"));
    let elsewhere = ["sprat.held", "sprat.shared", "sprat.unscheduled"];
    let of_the_wasm_filter = |name: &&String| elsewhere.iter().any(|own| name.starts_with(own));
    assert_eq!(defined.iter().find(of_the_wasm_filter), None);
    // SAFETY: it was made above.
    unsafe { envoy_dynamic_module_on_http_filter_config_destroy(config) };
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
        let step = hook::<Step>(STREAM, stream, |_, _| panic!("on purpose"));
        assert_eq!(step, Err(Woken::Response), "what is held goes");
        let panics = noted(|noted| noted.counted.contains(&(Metric::Panics as usize, 1)));
        assert!(panics);
        noted(|noted| noted.received = 500);
        let status = envoy_dynamic_module_on_http_filter_response_body(STREAM, stream, true);
        assert_eq!(status, CONTINUE, "unscheduled");
        envoy_dynamic_module_on_http_filter_destroy(stream);
        envoy_dynamic_module_on_http_filter_config_destroy(config);
    }
}

const ONE_PLACE: &str = r#"{"uplink": {"rate": "10mbit"}, "catalogue": "off", "clusters": {"farm":
    {"pools": ["one"], "metadata_key": "pool", "max_requests": 1,
     "wait_queue": {"max_requests": 1}}}}"#;

/// Creates streams of such a configuration. Returns each with the status of its request.
fn asking<const N: usize>(config: Ours) -> [(Ours, u32); N] {
    // SAFETY: the configuration is there.
    std::array::from_fn(|_| unsafe {
        let stream = envoy_dynamic_module_on_http_filter_new(config, STREAM);
        let status = envoy_dynamic_module_on_http_filter_request_headers(STREAM, stream, true);
        (stream, status)
    })
}

#[test]
fn a_request_waits_and_goes_on_and_its_reply_within_that_is_not_held() {
    let config = configured(ONE_PLACE);
    let [(first, goes), (second, waits), (third, refused)] = asking(config);
    assert_eq!(
        (goes, waits, refused),
        (CONTINUE, STOP_ALL_AND_WATERMARK, STOP_ITERATION)
    );
    let pool = [("x-sprat-cluster", "one"), ("envoy.lb.pool", "one")];
    let pool = pool.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(noted(|noted| std::mem::take(&mut noted.set)), pool);
    let answered = noted(|noted| noted.answered.clone());
    assert_eq!(answered, [(503, "sprat_queue_full".to_owned())]);
    // SAFETY: as above.
    unsafe {
        envoy_dynamic_module_on_http_filter_scheduled(STREAM, second, 0);
        assert_eq!(noted(|noted| noted.resumed), 0, "there is no place yet");
        envoy_dynamic_module_on_http_filter_stream_complete(STREAM, first);
        assert_eq!(noted(|noted| noted.commits), 1);
        noted(|noted| noted.replies = Some(second.addr()));
        envoy_dynamic_module_on_http_filter_scheduled(STREAM, second, 0);
        assert_eq!(noted(|noted| noted.resumed), 1);
        assert_eq!(noted(|noted| noted.set.clone()), pool);
        assert_eq!(noted(|noted| noted.replied), Some(CONTINUE));
        for stream in [first, second, third] {
            envoy_dynamic_module_on_http_filter_destroy(stream);
        }
        envoy_dynamic_module_on_http_filter_config_destroy(config);
    }
    assert_eq!(noted(|noted| noted.schedulers), 0);
}

#[test]
fn a_panic_lets_a_held_request_go_on_and_frees_its_place() {
    let config = configured(&ONE_PLACE.replace("farm", "other"));
    let [(first, _), (second, waits)] = asking(config);
    assert_eq!(waits, STOP_ALL_AND_WATERMARK);
    // SAFETY: as above.
    unsafe {
        let step = hook::<()>(STREAM, second, |_, _| panic!("on purpose"));
        assert_eq!(step, Err(Woken::Request));
        let [(third, waits)] = asking(config);
        assert_eq!(waits, STOP_ALL_AND_WATERMARK, "the queue has room again");
        for stream in [first, second, third] {
            envoy_dynamic_module_on_http_filter_destroy(stream);
        }
        envoy_dynamic_module_on_http_filter_config_destroy(config);
    }
}

#[test]
fn a_forged_field_whose_value_is_no_text_is_gone() {
    let config = configured(&ONE_PLACE.replace("farm", "forged"));
    noted(|noted| noted.forged = true);
    let [(stream, goes)] = asking(config);
    assert_eq!(goes, CONTINUE);
    let Noted { set, .. } = noted(std::mem::take);
    assert_eq!(
        set[0],
        ("x-sprat-cluster".to_owned(), String::new()),
        "removed first"
    );
    // SAFETY: as above.
    unsafe {
        envoy_dynamic_module_on_http_filter_destroy(stream);
        envoy_dynamic_module_on_http_filter_config_destroy(config);
    }
}

#[test]
fn a_callout_that_is_answered_within_its_call_is_none() {
    let config = configured(
        r#"{"clusters": {"within": {
            "pools": [{"name": "small", "size_range": {"to": "10KB"}},
                      {"name": "large", "size_range": {"from": "10KB"}}],
            "dispatch": "sita", "head_probe": {"budget": "5ms"}}}}"#,
    );
    // SAFETY: as above.
    unsafe {
        let stream = envoy_dynamic_module_on_http_filter_new(config, STREAM);
        noted(|noted| noted.answers_within = Some(stream.addr()));
        let status = envoy_dynamic_module_on_http_filter_request_headers(STREAM, stream, true);
        assert_eq!(noted(|noted| noted.answers_within), None, "it was asked");
        assert_eq!(status, CONTINUE, "nobody waits for another answer");
        let Noted { set, .. } = noted(std::mem::take);
        let pool = ("x-sprat-cluster".to_owned(), "small".to_owned());
        assert_eq!(set, [pool]);
        envoy_dynamic_module_on_http_filter_destroy(stream);
        envoy_dynamic_module_on_http_filter_config_destroy(config);
    }
}
