//! The settings that hold at a place: those of the innermost block around it that has any.

use super::parse::Directive;

/// The blocks around a place, the outermost first.
#[derive(Clone, Debug)]
pub(super) struct Scope<'a> {
    levels: Vec<&'a [Directive]>,
}

impl<'a> Scope<'a> {
    pub(super) fn new(outermost: &'a [Directive]) -> Self {
        Self {
            levels: vec![outermost],
        }
    }

    /// Returns the scope of a block within this one.
    pub(super) fn within(&self, block: &'a [Directive]) -> Self {
        let mut levels = self.levels.clone();
        levels.push(block);
        Self { levels }
    }

    /// Returns the scope of the server that the place is in.
    pub(super) fn of_server(&self) -> Self {
        Self {
            levels: self.levels.iter().copied().take(2).collect(),
        }
    }

    /// Returns the innermost block.
    pub(super) fn own(&self) -> &'a [Directive] {
        self.levels.last().copied().unwrap_or_default()
    }

    /// Returns the directives of these names in the innermost block that has any.
    pub(super) fn all(&self, names: &[&str]) -> Vec<&'a Directive> {
        let of = |level: &&'a [Directive]| -> Vec<&'a Directive> {
            let level: &'a [Directive] = level;
            level
                .iter()
                .filter(|own| names.contains(&&*own.name))
                .collect()
        };
        let mut levels = self.levels.iter().rev().map(of);
        levels.find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// Returns the directive of this name that holds: the last one in the innermost block that has
    /// any.
    pub(super) fn one(&self, name: &str) -> Option<&'a Directive> {
        self.all(&[name]).last().copied()
    }

    /// Returns whether a directive of this name is `on`.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.one(name).is_some_and(|own| own.arg(0) == "on")
    }

    /// Returns the directives of this name in the innermost block alone.
    pub(super) fn here(&self, name: &str) -> impl Iterator<Item = &'a Directive> {
        self.own().iter().filter(move |own| own.name == name)
    }
}
