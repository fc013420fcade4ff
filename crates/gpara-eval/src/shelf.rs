//! Things that several methods of a scene need, made once and charged to each method that uses them.

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use gpara::Result;

use crate::networks::CountedNetworks;

/// What something cost to make.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cost {
    /// Wall-clock seconds.
    pub seconds: f64,
    /// Network evaluations.
    pub network_calls: u64,
}

struct Item {
    value: Arc<dyn Any + Send + Sync>,
    cost: Cost,
}

/// Keeps values by key for the methods of one scene.
///
/// A method that finds a value which another one made is charged what it cost, once, as if it had made it itself: sharing
/// makes the evaluation faster, not the method.
#[derive(Default)]
pub struct Shelf {
    items: Mutex<HashMap<String, Item>>,
    paid: Mutex<HashSet<String>>,
    owed: Mutex<Cost>,
}

impl Shelf {
    /// The value of that key; made now if nobody did before.
    ///
    /// # Errors
    /// Those of `make`; nothing is kept then.
    ///
    /// # Panics
    /// If the key was made with another type.
    #[track_caller]
    pub fn get<T: Any + Send + Sync>(
        &self,
        key: &str,
        networks: &CountedNetworks<'_>,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        let known = |shelf: &Self| {
            let items = shelf.items.lock().expect("reading does not panic");
            items.get(key).map(|item| (Arc::clone(&item.value), item.cost))
        };
        let first_use = !self.is_used(key);
        if let Some((value, cost)) = known(self) {
            self.paid.lock().expect("noting does not panic").insert(key.to_owned());
            if first_use {
                let mut owed = self.owed.lock().expect("adding does not panic");
                owed.seconds += cost.seconds;
                owed.network_calls += cost.network_calls;
            }
            return Ok(value.downcast().expect("a key has one type"));
        }
        let (started, calls) = (Instant::now(), networks.network_calls());
        let value = Arc::new(make()?);
        let cost = Cost { seconds: started.elapsed().as_secs_f64(), network_calls: networks.network_calls() - calls };
        let kept: Arc<dyn Any + Send + Sync> = Arc::<T>::clone(&value);
        self.items.lock().expect("adding does not panic").insert(key.to_owned(), Item { value: kept, cost });
        self.paid.lock().expect("noting does not panic").insert(key.to_owned());
        Ok(value)
    }

    /// Whether the method at work has used that key already.
    pub fn is_used(&self, key: &str) -> bool {
        self.paid.lock().expect("reading does not panic").contains(key)
    }

    /// A new method begins: it has paid for nothing.
    pub(crate) fn begin_method(&self) {
        self.paid.lock().expect("noting does not panic").clear();
        *self.owed.lock().expect("adding does not panic") = Cost::default();
    }

    /// What the method owes for values that others made, since the last call.
    pub(crate) fn take_owed(&self) -> Cost {
        std::mem::take(&mut *self.owed.lock().expect("adding does not panic"))
    }
}

#[cfg(test)]
mod tests {
    use gpara::{ErrorKind, Grid};

    use super::*;
    use crate::networks::NoNetworks;

    #[test]
    fn value_is_made_once_and_charged_once_to_each_later_method() {
        let (shelf, networks) = (Shelf::default(), CountedNetworks::new(&NoNetworks));
        let make = || {
            networks.count(7);
            Ok(41)
        };
        shelf.begin_method();
        assert_eq!(*shelf.get("a", &networks, make).unwrap(), 41);
        assert_eq!(*shelf.get("a", &networks, make).unwrap(), 41);
        assert_eq!((networks.network_calls(), shelf.take_owed().network_calls), (7, 0));
        shelf.begin_method();
        assert!(!shelf.is_used("a"));
        shelf.get("a", &networks, make).unwrap();
        shelf.get("a", &networks, make).unwrap();
        assert_eq!((networks.network_calls(), shelf.take_owed().network_calls), (7, 7));
    }

    #[test]
    fn failure_is_not_kept() {
        let (shelf, networks) = (Shelf::default(), CountedNetworks::new(&NoNetworks));
        let error = shelf.get("a", &networks, || Grid::new(0, 1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(shelf.get("a", &networks, || Grid::new(1, 1)).unwrap().num_nodes(), 1);
    }
}
