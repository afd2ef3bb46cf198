//! The module's configurations, and the uplinks that they share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use sprat_config::classify::Classifier;
use sprat_config::resolved;

use crate::filter::Filter;
use crate::link::{Link, Settings};
use crate::timer::{self, Ticking};

/// One configuration of the filter, as a listener has it.
pub(crate) struct Config {
    uplink: Option<Arc<Ticking>>,
    classifier: Arc<Classifier>,
    settings: Option<Settings>,
    /// Later configurations have higher numbers.
    generation: u64,
    in_use: AtomicBool,
}

/// A configuration that can be used, and what is odd about it.
pub(crate) type Configured = (Arc<Config>, Option<String>);

/// Reads a configuration. `name` is the filter's in Envoy's configuration:
/// those of one name share one uplink, across listeners, workers and reloads.
///
/// # Errors
///
/// What is wrong with it, and where.
pub(crate) fn configure(name: &str, text: &str) -> Result<Configured, String> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    let loaded = sprat_config::parse_filter(text, name, &sprat_config::process_env)
        .map_err(|errors| errors.to_string())?;
    let filter = loaded.config;
    refuse_what_is_missing(name, &filter)?;
    let settings = filter
        .uplink
        .rate_bits_per_s
        .map(|rate_bits_per_s| Settings {
            rate_bits_per_s,
            policy: filter.uplink.policy.clone(),
            max_flows: filter.uplink.max_flows,
            classes: filter.classes.list.iter().map(|c| c.spec.clone()).collect(),
        });
    static GENERATION: AtomicU64 = AtomicU64::new(1);
    let generation = GENERATION.fetch_add(1, Ordering::Relaxed);
    let uplink = match &settings {
        None => None,
        Some(settings) => Some(
            uplink(name, settings, generation)
                .map_err(|error| format!("{name}: no thread for the uplink: {error}"))?,
        ),
    };
    let config = Config {
        uplink,
        classifier: Arc::new(Classifier::new(&filter.classes)),
        settings,
        generation,
        in_use: AtomicBool::new(false),
    };
    let warnings = (!loaded.warnings.is_empty()).then(|| loaded.warnings.to_string());
    Ok((Arc::new(config), warnings))
}

/// What the configuration can say and this filter does not do: an error rather
/// than a key without effect.
fn refuse_what_is_missing(name: &str, filter: &resolved::Filter) -> Result<(), String> {
    let nothing = sprat_config::parse_filter("{}", name, &|_| None)
        .map_err(|errors| errors.to_string())?
        .config;
    if filter.uplink.hold == Some(resolved::Hold::Heads) {
        return Err(format!(
            "{name}: uplink.hold: the dynamic module holds bodies: remove it, or use the wasm filter"
        ));
    }
    let missing = [
        (filter.catalogue != nothing.catalogue, "catalogue"),
        (filter.admission != nothing.admission, "admission"),
        (filter.clusters != nothing.clusters, "clusters"),
        (
            filter.response_header != nothing.response_header,
            "response_header",
        ),
    ];
    match missing.iter().find(|(given, _)| *given) {
        Some((_, key)) => Err(format!(
            "{name}: the dynamic module classifies and paces responses and does nothing else: \
             remove `{key}`, or use the wasm filter"
        )),
        None => Ok(()),
    }
}

/// The uplink of that name. What is in use is changed only when the new
/// configuration is: Envoy may yet refuse the listener that it is part of.
fn uplink(name: &str, settings: &Settings, generation: u64) -> std::io::Result<Arc<Ticking>> {
    static UPLINKS: Mutex<BTreeMap<String, Weak<Ticking>>> = Mutex::new(BTreeMap::new());
    let mut uplinks = UPLINKS.lock().unwrap_or_else(PoisonError::into_inner);
    uplinks.retain(|_, uplink| uplink.strong_count() > 0);
    let known = uplinks.get(name).and_then(Weak::upgrade);
    if let Some(uplink) = known.filter(|uplink| uplink.has_classes(&settings.classes)) {
        return Ok(uplink);
    }
    let uplink = Ticking::new(Link::new(settings.clone(), generation))?;
    uplinks.insert(name.to_owned(), Arc::downgrade(&uplink));
    Ok(uplink)
}

impl Config {
    /// The uplink that its streams share.
    #[cfg(test)]
    pub(crate) fn uplink(&self) -> Option<Arc<Ticking>> {
        self.uplink.clone()
    }

    /// A new stream's filter. With the first stream the configuration is in
    /// use.
    pub(crate) fn filter(&self) -> Filter {
        if !self.in_use.swap(true, Ordering::Relaxed)
            && let (Some(uplink), Some(settings)) = (&self.uplink, &self.settings)
        {
            uplink.apply(timer::now(), settings, self.generation);
        }
        Filter::new(self.uplink.clone(), Some(Arc::clone(&self.classifier)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        match configure("test", text) {
            Ok(_) => panic!("{text} was taken"),
            Err(error) => error,
        }
    }

    #[test]
    fn nothing_is_paced_without_a_rate() {
        for text in ["", "{}", r#"{"uplink": {"rate": "unlimited"}}"#] {
            let (config, warnings) = configure("nothing", text).unwrap();
            assert!(config.uplink.is_none(), "{text}");
            assert_eq!(warnings, None);
        }
    }

    #[test]
    fn configurations_of_one_name_share_an_uplink() {
        let (one, _) = configure("shared", r#"{"uplink": {"rate": "10mbit"}}"#).unwrap();
        let (two, _) = configure("shared", r#"{"uplink": {"rate": "20mbit"}}"#).unwrap();
        let (other, _) = configure("alone", r#"{"uplink": {"rate": "10mbit"}}"#).unwrap();
        let [one, two, other] = [one, two, other].map(|c| c.uplink.clone().unwrap());
        assert!(Arc::ptr_eq(&one, &two));
        assert!(!Arc::ptr_eq(&one, &other));
    }

    #[test]
    fn a_configuration_changes_the_uplink_when_it_is_in_use() {
        let rate = |config: &Config| config.uplink.as_ref().unwrap().rate_bits_per_s();
        let (old, _) = configure("reload", r#"{"uplink": {"rate": "10mbit"}}"#).unwrap();
        old.filter();
        let (new, _) = configure("reload", r#"{"uplink": {"rate": "20mbit"}}"#).unwrap();
        assert_eq!(rate(&new), 10_000_000, "it may yet be refused");
        new.filter();
        assert_eq!(rate(&old), 20_000_000);
        let (late, _) = configure("reload", r#"{"uplink": {"rate": "30mbit"}}"#).unwrap();
        late.filter();
        // A stream of a listener that drains.
        new.filter();
        assert_eq!(rate(&old), 30_000_000);
    }

    #[test]
    fn errors_say_where_and_what() {
        let text = error("{\"uplink\": {\n  \"rat\": \"10mbit\"}}");
        assert!(text.contains("test:2:3"), "{text}");
        assert!(text.contains("rate"), "{text}");
        let text = error(r#"{"uplink": {"rate": "auto"}}"#);
        assert!(text.contains("auto"), "{text}");
    }

    #[test]
    fn what_this_filter_does_not_do_is_refused() {
        let text = error(r#"{"uplink": {"hold": "heads"}}"#);
        assert!(text.contains("holds bodies"), "{text}");
        for (key, value) in [
            ("catalogue", r#""off""#),
            ("response_header", r#""x-sprat""#),
        ] {
            let text = error(&format!("{{\"{key}\": {value}}}"));
            assert!(text.contains(&format!("`{key}`")), "{text}");
        }
    }
}
