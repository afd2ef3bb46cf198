//! Values in slots that are used again, and keys that are good for one value each.

use std::ops::{Index, IndexMut, Range};

/// A key to one value in a slot. Once the value is removed, the key opens nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SlotKey {
    slot: u32,
    generation: u32,
}

impl SlotKey {
    /// A key that opens nothing.
    #[cfg(test)]
    pub(crate) const NONE: Self = Self {
        slot: u32::MAX,
        generation: 0,
    };

    /// Returns the number of the slot.
    pub(crate) fn slot(self) -> u32 {
        self.slot
    }

    /// Returns the number of the slot as an index, for tables of the same length.
    pub(crate) fn index(self) -> usize {
        self.slot as usize
    }
}

/// A table of values, by the numbers of their slots and by keys.
#[derive(Clone, Debug)]
pub(crate) struct Slots<T> {
    values: Vec<T>,
    /// The generation of each slot, odd while the slot has a value. Generations stand beside the
    /// values, most of which are aligned to more bytes.
    generations: Vec<u32>,
    /// The slots without a value, to be used again.
    vacant: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            generations: Vec::new(),
            vacant: Vec::new(),
        }
    }
}

impl<T> Slots<T> {
    /// Returns how many values there are.
    pub(crate) fn len(&self) -> usize {
        self.values.len() - self.vacant.len()
    }

    /// Puts a value into a vacant or new slot, and returns its key.
    pub(crate) fn insert(&mut self, value: T) -> SlotKey {
        match self.reuse() {
            Some(key) => {
                self[key.slot] = value;
                key
            }
            None => self.push(value),
        }
    }

    /// Takes up a vacant slot with what was left in it, or a new slot with the default; returns its
    /// key.
    pub(crate) fn insert_left(&mut self) -> SlotKey
    where
        T: Default,
    {
        self.reuse().unwrap_or_else(|| self.push(T::default()))
    }

    fn reuse(&mut self) -> Option<SlotKey> {
        let slot = self.vacant.pop()?;
        let generation = &mut self.generations[slot as usize];
        *generation = generation.wrapping_add(1);
        Some(self.key(slot))
    }

    fn push(&mut self, value: T) -> SlotKey {
        self.values.push(value);
        self.generations.push(1);
        self.key(self.values.len() as u32 - 1)
    }

    /// Removes a slot's value, which is left in it until the slot is used again.
    pub(crate) fn remove(&mut self, slot: u32) {
        let generation = &mut self.generations[slot as usize];
        debug_assert!(*generation % 2 == 1, "slot {slot} has no value");
        *generation = generation.wrapping_add(1);
        self.vacant.push(slot);
    }

    /// Returns the value of a key, unless it was removed.
    pub(crate) fn get(&self, key: SlotKey) -> Option<&T> {
        self.opens(key).then(|| &self.values[key.index()])
    }

    /// Returns the value of a key to change it, unless it was removed.
    pub(crate) fn get_mut(&mut self, key: SlotKey) -> Option<&mut T> {
        self.opens(key).then(|| &mut self.values[key.index()])
    }

    fn opens(&self, key: SlotKey) -> bool {
        self.generations.get(key.index()) == Some(&key.generation)
    }

    /// Returns the key to a slot's value.
    pub(crate) fn key(&self, slot: u32) -> SlotKey {
        let generation = self.generations[slot as usize];
        SlotKey { slot, generation }
    }

    /// Returns whether a slot has a value.
    pub(crate) fn is_taken(&self, slot: u32) -> bool {
        self.generations[slot as usize] % 2 == 1
    }

    /// Returns the numbers of all slots, also of those without a value.
    pub(crate) fn numbers(&self) -> Range<u32> {
        0..self.values.len() as u32
    }

    /// Iterates over the contents of all slots: values, and what was left in the other slots.
    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.values.iter_mut()
    }

    /// Iterates over the values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let all = self.values.iter().zip(&self.generations);
        all.filter_map(|(value, generation)| (generation % 2 == 1).then_some(value))
    }
}

impl<T> Index<u32> for Slots<T> {
    type Output = T;

    fn index(&self, slot: u32) -> &T {
        &self.values[slot as usize]
    }
}

impl<T> IndexMut<u32> for Slots<T> {
    fn index_mut(&mut self, slot: u32) -> &mut T {
        &mut self.values[slot as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_good_for_one_value() {
        let mut slots = Slots::default();
        let [first, second] = ["first", "second"].map(|value| slots.insert(value));
        assert_eq!([first, second].map(SlotKey::slot), [0, 1]);
        assert_eq!([first, second].map(SlotKey::index), [0, 1]);
        slots.remove(0);
        assert_eq!((slots.len(), slots.get(first)), (1, None));
        assert_eq!((slots.is_taken(0), slots.is_taken(1)), (false, true));
        assert_eq!(slots[0], "first", "what was left");
        assert!(slots.iter().eq(&["second"]));
        let third = slots.insert("third");
        assert_eq!((third.slot(), slots.key(0)), (0, third));
        assert!(slots.get(first).is_none() && slots.get_mut(first).is_none());
        assert_eq!(slots.get(third), Some(&"third"));
        *slots.get_mut(second).unwrap() = "changed";
        assert!(slots.iter().eq(&["third", "changed"]));
        assert_eq!(slots.numbers(), 0..2);
    }

    #[test]
    fn a_slot_may_be_taken_up_with_what_was_left_in_it() {
        let mut slots = Slots::<Vec<u8>>::default();
        let key = slots.insert_left();
        slots[key.slot()].push(7);
        slots.remove(key.slot());
        let again = slots.insert_left();
        assert_eq!((slots.get(key), slots.get(again)), (None, Some(&vec![7])));
        slots.all_mut().for_each(Vec::clear);
        assert!(slots[0].is_empty());
    }

    #[test]
    fn generations_go_on_from_the_last_to_the_first() {
        let mut slots = Slots::default();
        slots.insert(());
        slots.generations[0] = u32::MAX;
        let last = slots.key(0);
        slots.remove(0);
        let next = slots.insert(());
        assert_eq!((slots.get(last), slots.get(next)), (None, Some(&())));
    }
}
