//! The ends of a search.

use super::*;

#[test]
fn a_search_at_its_ceiling_gives_up() {
    // Half a hundredth below 1 Gbit/s.
    for (found, named, patience, ends) in [
        (9.94e8, None, 10, false),
        (9.95e8, None, 10, true),
        (9.96e8, None, 10, true),
        (1e9, None, 9, false),
        (1e7, None, 60, false),
        (1e9, Some(1000 * MBIT), 59, false),
        (1e9, Some(1000 * MBIT), 60, true),
    ] {
        let mut gate = engaged(9e8, found);
        gate.named_bits_per_s = named;
        assert!(lasts(&mut gate, SECOND, false));
        let after = (1 + patience) * SECOND;
        assert_eq!(lasts(&mut gate, after, false), !ends, "{found}: {patience}");
    }
}

#[test]
fn time_at_the_ceiling_begins_anew_below_it() {
    let mut gate = engaged(9e8, 1e9);
    assert!(lasts(&mut gate, SECOND, false));
    gate.control.restart(at(105_000), 9e8);
    assert!(lasts(&mut gate, 5 * SECOND, false));
    gate.control.restart(at(106_000), 1e9);
    assert!(lasts(&mut gate, 6 * SECOND, false));
    assert!(lasts(&mut gate, 12 * SECOND, false));
    assert!(!lasts(&mut gate, 16 * SECOND, false));
}

#[test]
fn a_search_that_has_left_its_link_gives_up() {
    for (anchor, found, stays) in [
        (1e7, 2.5e7, true),
        (1e7, 2.500_001e7, false),
        (1e7, 9.94e8, false),
        (1e7, 9.95e8, true),
        (1e7, 9.96e8, true),
    ] {
        let mut gate = engaged(anchor, found);
        gate.fails = 1;
        assert_eq!(lasts(&mut gate, SECOND, false), stays, "{found}");
        assert_eq!(gate.fails, if stays { 1 } else { 2 });
    }
}

#[test]
fn a_search_that_hears_nothing_gives_up() {
    for (after, backlogged, stays) in [
        (DEAF - NANO, true, true),
        (DEAF, true, false),
        (DEAF, false, true),
    ] {
        let mut gate = engaged(1e7, 1e7);
        gate.fails = 1;
        assert_eq!(lasts(&mut gate, after, backlogged), stays, "{after:?}");
        assert_eq!(gate.fails, if stays { 1 } else { 2 });
    }
}

#[test]
fn a_search_amid_noise_gives_up() {
    // 1 ms, three segments of 1 ms each, and twice the noise at first.
    let segment_s = bank::SEGMENT * 8.0 / 12_112_000.0;
    let most_s = 0.001 + 3.0 * segment_s + 2.0 * 0.002;
    for (noise_s, stays) in [(0.007_9, true), (most_s, true), (0.008_1, false)] {
        let mut gate = engaged(12_112_000.0, 12_112_000.0);
        if let GateState::Engaged { noise_s, .. } = &mut gate.state {
            *noise_s = 0.002;
        }
        gate.noise_s = noise_s;
        gate.fails = 1;
        assert_eq!(lasts(&mut gate, SECOND, false), stays, "{noise_s}");
        assert_eq!(gate.fails, 1, "no mistake");
    }
}

#[test]
fn what_lasted_long_was_no_mistake() {
    for (after, fails) in [(MISTAKE - NANO, 4), (MISTAKE, 0), (MISTAKE + SECOND, 0)] {
        let mut gate = engaged(1e7, 1e8);
        gate.fails = 3;
        assert!(!lasts(&mut gate, after, false));
        assert_eq!(gate.fails, fails, "{after:?}");
    }
    let mut gate = engaged(1e7, 1e7);
    gate.fails = 3;
    assert!(lasts(&mut gate, MISTAKE - NANO, false));
    assert_eq!(gate.fails, 3);
}
