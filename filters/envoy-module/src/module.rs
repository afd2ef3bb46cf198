//! The module's configurations, and the uplinks and desks that they share.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use sprat_config::resolved;
use sprat_scheduler::Discipline;
use sprat_scheduler::catalogue::KeyHasher;

use crate::desk::Desk;
use crate::filter::Filter;
use crate::link::{Link, Settings};
use crate::timer::{self, Ticking};

/// A configuration of the filter, as one listener has it.
pub(crate) struct Config {
    uplink: Option<Arc<Ticking<Link>>>,
    desk: Option<Arc<Ticking<Desk>>>,
    classes: Vec<String>,
    settings: Option<Settings>,
    /// The configuration's number in the order of loading; later ones are higher.
    generation: u64,
    in_use: AtomicBool,
}

/// A configuration that can be used, and the warnings about it.
pub(crate) type Configured = (Arc<Config>, Option<String>);

/// Reads a configuration of the filter. The `name` is the filter's in Envoy's configuration;
/// configurations of one name share one uplink, across listeners, workers and reloads.
///
/// # Errors
///
/// The errors in the configuration, with their places.
pub(crate) fn configure(name: &str, text: &str) -> Result<Configured, String> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    let loaded = sprat_config::parse_filter(text, name, &sprat_config::process_env)
        .map_err(|errors| errors.to_string())?;
    let mut filter = loaded.config;
    if filter.uplink.hold == Some(resolved::Hold::Heads) {
        return Err(format!(
            "{name}: uplink.hold: the dynamic module holds bodies: remove it, or use the wasm filter"
        ));
    }
    static GENERATION: AtomicU64 = AtomicU64::new(1);
    let generation = GENERATION.fetch_add(1, Ordering::Relaxed);
    let no_thread = |error| format!("{name}: no thread for the timer: {error}");
    let paced = uplink(name, &mut filter, generation).map_err(no_thread)?;
    let (uplink, settings) = paced.unzip();
    let desk = desk(name, &filter, &uplink).map_err(no_thread)?;
    let classes = filter.classes.list.iter().map(|class| class.name.clone());
    let config = Config {
        uplink,
        desk,
        classes: classes.collect(),
        settings,
        generation,
        in_use: AtomicBool::new(false),
    };
    let warnings = (!loaded.warnings.is_empty()).then(|| loaded.warnings.to_string());
    Ok((Arc::new(config), warnings))
}

/// An uplink, and the classes of its last configuration.
type KnownUplink = (Weak<Ticking<Link>>, resolved::Classes);

/// Returns the uplink of that name, with the settings that a configuration wants; none if it paces
/// nothing. The settings in use change only when the new configuration is used, since Envoy may
/// still refuse its listener. Known classes keep their numbers, because responses under way have
/// them.
fn uplink(
    name: &str,
    filter: &mut resolved::Filter,
    generation: u64,
) -> io::Result<Option<(Arc<Ticking<Link>>, Settings)>> {
    static UPLINKS: Mutex<BTreeMap<String, KnownUplink>> = Mutex::new(BTreeMap::new());
    let Some(rate_bits_per_s) = filter.uplink.rate_bits_per_s else {
        return Ok(None);
    };
    let mut uplinks = UPLINKS.lock().unwrap_or_else(PoisonError::into_inner);
    uplinks.retain(|_, (uplink, _)| uplink.strong_count() > 0);
    let known = uplinks.get(name);
    let known = known.and_then(|(uplink, classes)| Some((uplink.upgrade()?, classes)));
    if let Some((_, classes)) = &known {
        filter.classes.keep_numbers(classes);
    }
    let settings = Settings {
        rate_bits_per_s,
        policy: filter.uplink.policy.clone(),
        max_flows: filter.uplink.max_flows,
        floor_percent: filter.uplink.floor_percent,
        classes: filter.classes.list.iter().map(|c| c.spec.clone()).collect(),
    };
    let uplink = match known {
        Some((uplink, _)) => uplink,
        None => Ticking::new(Link::new(settings.clone(), generation))?,
    };
    let known = (Arc::downgrade(&uplink), filter.classes.clone());
    uplinks.insert(name.to_owned(), known);
    Ok(Some((uplink, settings)))
}

/// The requests' part of a configuration, and the desk that was set up for it.
type Known = (resolved::Filter, Weak<Ticking<Desk>>);

/// Returns the desk of that name for the requests' part of a configuration; none if that switches
/// nothing on. Equal parts share one desk, or its places would be given away twice. A new desk
/// learns the sizes that the last one knew.
fn desk(
    name: &str,
    filter: &resolved::Filter,
    uplink: &Option<Arc<Ticking<Link>>>,
) -> io::Result<Option<Arc<Ticking<Desk>>>> {
    static DESKS: Mutex<BTreeMap<String, Vec<Known>>> = Mutex::new(BTreeMap::new());
    static HASHER: OnceLock<KeyHasher> = OnceLock::new();
    let own = requests_alone(filter);
    let drawn = || KeyHasher::new(timer::chance(1), timer::chance(2));
    let new = sprat_filter::Filter::of_all_workers(&own, *HASHER.get_or_init(drawn));
    if new.is_passive() {
        return Ok(None);
    }
    let mut desks = DESKS.lock().unwrap_or_else(PoisonError::into_inner);
    for desks in desks.values_mut() {
        desks.retain(|(_, desk)| desk.strong_count() > 0);
    }
    desks.retain(|_, desks| !desks.is_empty());
    let known = desks.entry(name.to_owned()).or_default();
    let same = known.iter().filter(|(config, _)| *config == own);
    if let Some(desk) = same.filter_map(|(_, desk)| desk.upgrade()).next() {
        return Ok(Some(desk));
    }
    let desk = Desk::new(new, uplink.clone());
    let last = known.last().and_then(|(_, last)| last.upgrade());
    if let Some(last) = last {
        desk.learn_from(timer::now(), &last);
    }
    let desk = Ticking::new(desk)?;
    known.push((own, Arc::downgrade(&desk)));
    Ok(Some(desk))
}

/// Returns a configuration without the settings of the uplink, which may change under a desk. It
/// keeps only whether there is an uplink.
fn requests_alone(filter: &resolved::Filter) -> resolved::Filter {
    let mut own = filter.clone();
    own.uplink.rate_bits_per_s = own.uplink.rate_bits_per_s.map(|_| 1);
    own.uplink.policy = Discipline::Fcfs;
    own.uplink.max_flows = 0;
    own
}

impl Config {
    /// Returns the names of the classes, in the order of their numbers.
    pub(crate) fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Returns the uplink that the configuration's streams share.
    #[cfg(test)]
    pub(crate) fn uplink(&self) -> Option<Arc<Ticking<Link>>> {
        self.uplink.clone()
    }

    /// Returns the desk that the configuration's streams share.
    #[cfg(test)]
    pub(crate) fn desk(&self) -> Option<Arc<Ticking<Desk>>> {
        self.desk.clone()
    }

    /// Creates the filter of a new stream. The first stream puts the configuration into use.
    pub(crate) fn filter(&self) -> Filter {
        if !self.in_use.swap(true, Ordering::Relaxed)
            && let (Some(uplink), Some(settings)) = (&self.uplink, &self.settings)
        {
            uplink.arm(uplink.apply(timer::now(), settings, self.generation));
        }
        Filter::new(self.uplink.clone(), self.desk.clone())
    }
}

#[cfg(test)]
mod tests {
    use sprat_scheduler::Size;

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
            assert!(config.desk.is_none(), "{text}");
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
    fn an_uplink_is_one_though_its_classes_change() {
        let config = |classes: &str| {
            let text = format!(r#"{{"uplink": {{"rate": "10mbit"}}, "classes": {{{classes}}}}}"#);
            configure("classes", &text).unwrap().0
        };
        let uplink = |config: &Config| config.uplink.clone().unwrap();
        let names = |config: &Config| config.classes().join(" ");
        let old = config(r#""gold": {"level": 0}, "bulk": {"level": 9}"#);
        let new = config(r#""bulk": {"level": 8}, "iron": {"level": 5}, "gold": {"level": 0}"#);
        assert!(Arc::ptr_eq(&uplink(&old), &uplink(&new)));
        assert_eq!(names(&old), "gold bulk default background");
        assert_eq!(names(&new), "gold bulk default background iron");
        // What goes under the old one goes by the new one's levels.
        let flow = uplink(&old).open(timer::now(), 1, Size::Unknown);
        new.filter();
        assert!(flow.is_some() && uplink(&old).open_flows() == 1);
        assert_eq!(uplink(&old).levels(), [0, 8, 3, 15, 5]);
    }

    #[test]
    fn errors_say_where_and_what() {
        let text = error("{\"uplink\": {\n  \"rat\": \"10mbit\"}}");
        assert!(text.contains("test:2:3"), "{text}");
        assert!(text.contains("rate"), "{text}");
        let text = error(r#"{"uplink": {"rate": "auto"}}"#);
        assert!(text.contains("auto"), "{text}");
        let text = error(r#"{"uplink": {"hold": "heads"}}"#);
        assert!(text.contains("holds bodies"), "{text}");
    }

    #[test]
    fn configurations_that_say_the_same_of_requests_share_a_desk() {
        let config = |rate: &str, places: u32| {
            let text = format!(
                r#"{{"uplink": {{"rate": "{rate}"}},
                    "clusters": {{"farm": {{"pools": ["a"], "max_requests": {places}}}}}}}"#
            );
            configure("desks", &text).unwrap().0
        };
        let desk = |config: &Config| config.desk.clone().unwrap();
        let (slow, fast) = (config("10mbit", 1), config("20mbit", 1));
        assert!(Arc::ptr_eq(&desk(&slow), &desk(&fast)));
        let other = config("20mbit", 2);
        assert!(!Arc::ptr_eq(&desk(&slow), &desk(&other)));
        // One that Envoy has refused meanwhile has changed nothing.
        assert!(Arc::ptr_eq(&desk(&slow), &desk(&config("10mbit", 1))));
    }
}
