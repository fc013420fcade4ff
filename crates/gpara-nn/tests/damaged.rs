//! Damaged networks and cards: an error or a network, never a panic. `GPARA_FUZZ_SECONDS=3600 cargo test -p gpara-nn --test damaged`
//! looks for new ones.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use gpara::{Error, ErrorKind};
use gpara_fuzz::{Search, damaged};
use gpara_nn::{Card, Network, sha256_hex};

const ONNX: &[u8] = include_bytes!("data/tiny_mean.onnx");
const CARD: &str = include_str!("data/tiny_mean.toml");

/// A damaged network with a card of its hash is refused, or it loads and is run once: its golden values tell that it is another
/// one, or a shape does.
fn refusal(onnx: &[u8]) -> Option<Error> {
    let card = CARD.replace(&sha256_hex(ONNX), &sha256_hex(onnx));
    Network::from_bytes(onnx, &card, 1).and_then(|network| network.verify()).err()
}

#[test]
fn fuzz_damaged_cards_are_refused_without_panic() {
    Search::ordinary(10_000, 1).expect_refusals("cards", |u| {
        let text = String::from_utf8_lossy(&damaged(u, &[CARD])?).into_owned();
        Ok(Card::parse(&text).is_err())
    });
}

#[test]
fn fuzz_damaged_networks_with_a_card_of_their_hash_are_refused_without_panic() {
    Search::ordinary(4000, 1).expect_refusals("networks", |u| Ok(refusal(&damaged(u, &[ONNX])?).is_some()));
}

/// Where `ONNX` has what follows `before`.
fn place_after(before: &[u8]) -> usize {
    let found = ONNX.windows(before.len()).position(|bytes| bytes == before);
    found.unwrap() + before.len()
}

/// Found by the search above: the sizes of a reshape multiply beyond 64 bits while `rten` loads the file.
#[test]
fn network_whose_sizes_overflow_is_refused() {
    let mut onnx = ONNX.to_vec();
    // Three sizes of 64 bits behind their length, as raw data (field 9) of the constant.
    onnx[place_after(b"group_shapeJ\x18") + 4] = 0x70;
    assert_eq!(refusal(&onnx).unwrap().kind(), ErrorKind::Incompatible);
}

/// Found by the search above: room is made for a length before it is read. 80 TB are refused by the allocator, which ends the process.
#[test]
fn network_with_a_part_longer_than_the_file_is_refused() {
    let mut onnx = ONNX.to_vec();
    let length = place_after(b"group_shapeJ");
    onnx.splice(length..=length, [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x14]);
    let error = refusal(&onnx).unwrap();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    assert!(error.to_string().contains("where") && error.to_string().contains("are left"), "{error}");
}
