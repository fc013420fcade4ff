//! `gpara inspect`: what a file holds and what it would be used as.
