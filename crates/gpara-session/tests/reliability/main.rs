//! What must hold when processes die, share a file, or find no room: everything acknowledged is there.
//!
//! The tests start this binary again as a child that asks and tells; see `child`.

#![allow(clippy::unwrap_used, clippy::exit, reason = "a test may panic, and the child of a test may end itself")]

mod child;
mod damaged;
mod kill;
mod no_room;
mod schema;
mod size;
mod writers;
