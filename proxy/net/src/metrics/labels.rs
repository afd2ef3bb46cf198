//! The labels of a metric, and how many samples they make.

/// The most labels that a metric may have.
pub(super) const MOST_LABELS: usize = 4;

/// A kind of thing that a configuration has several of; a metric can have a sample for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Per {
    /// Each cluster of the configuration.
    Cluster,
    /// Each endpoint of a cluster: each address, where a name has several.
    Endpoint,
    /// Each priority class, the two that are built in among them.
    Class,
    /// Each listener of the configuration.
    Listener,
    /// Each name of endpoints in a cluster.
    Name,
    /// Each manifest of the catalogue.
    Manifest,
    /// Each certificate of a listener.
    Certificate,
    /// Each network of clients that the gain is told of apart.
    Network,
}

impl Per {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Cluster,
        Self::Endpoint,
        Self::Class,
        Self::Listener,
        Self::Name,
        Self::Manifest,
        Self::Certificate,
        Self::Network,
    ];

    /// Returns the kind's symbol in the document's formulas.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Cluster => "C",
            Self::Endpoint => "E",
            Self::Class => "K",
            Self::Listener => "L",
            Self::Name => "N",
            Self::Manifest => "M",
            Self::Certificate => "T",
            Self::Network => "W",
        }
    }
}

/// The names of a metric's labels, and the bound on the combinations of their values.
#[derive(Clone, Copy, Debug)]
pub struct Labels {
    /// The names of the labels; the unused places behind them are empty.
    names: [&'static str; MOST_LABELS],
    /// Whether there are combinations for each thing of a kind, in the order of [`Per::ALL`].
    per: [bool; Per::ALL.len()],
    times: usize,
    plus: usize,
}

impl Labels {
    /// The labels of a metric that has none: one sample.
    pub const NONE: Self = Self {
        names: [""; MOST_LABELS],
        per: [false; Per::ALL.len()],
        times: 1,
        plus: 0,
    };

    /// Adds a label with `values` values for each combination of the others: 1, if the others
    /// determine its value.
    pub const fn and(mut self, name: &'static str, values: usize) -> Self {
        let mut at = 0;
        while !self.names[at].is_empty() {
            at += 1;
        }
        self.names[at] = name;
        self.times *= values;
        self
    }

    /// Adds a label with a value for each thing of a kind in the configuration.
    pub const fn per(self, name: &'static str, per: Per) -> Self {
        let mut own = self.and(name, 1);
        own.per[per as usize] = true;
        own
    }

    /// Adds a number of combinations that are there whatever is configured.
    pub const fn plus(mut self, more: usize) -> Self {
        self.plus += more;
        self
    }

    /// Returns the names of the labels, in order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + Clone + use<> {
        self.names.into_iter().filter(|name| !name.is_empty())
    }

    /// Returns the bound on the combinations.
    pub fn bound(&self) -> SampleBound {
        let per = Per::ALL.into_iter().filter(|per| self.per[*per as usize]);
        SampleBound {
            per: per.collect(),
            times: self.times,
            plus: self.plus,
        }
    }
}

/// The most samples of a metric, as a formula: the numbers of things of each kind in `per`, and
/// `times`, are multiplied, and `plus` is added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleBound {
    /// The kinds of things whose numbers are multiplied.
    pub per: Vec<Per>,
    /// The factor that goes with them.
    pub times: usize,
    /// The number that is added.
    pub plus: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_multiply() {
        let cluster = Labels::NONE.per("cluster", Per::Cluster);
        let all = cluster.per("class", Per::Class).and("code", 6).plus(6);
        let names: Vec<_> = all.names().collect();
        assert_eq!(names, ["cluster", "class", "code"]);
        let bound = |per, times, plus| SampleBound { per, times, plus };
        let both = vec![Per::Cluster, Per::Class];
        assert_eq!(all.bound(), bound(both, 6, 6));
        assert_eq!(Labels::NONE.bound(), bound(vec![], 1, 0));
        for (index, per) in Per::ALL.into_iter().enumerate() {
            assert_eq!(per as usize, index);
        }
    }
}
