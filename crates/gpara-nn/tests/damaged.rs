//! Damaged networks and cards: an error or a network, never a panic. `GPARA_FUZZ_SECONDS=3600 cargo test -p gpara-nn --test damaged`
//! runs longer.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use arbtest::arbitrary::{Result, Unstructured};
use arbtest::arbtest;
use gpara_nn::{Card, Network, sha256_hex};

const ONNX: &[u8] = include_bytes!("data/tiny_mean.onnx");
const CARD: &str = include_str!("data/tiny_mean.toml");

fn budget_ms() -> u64 {
    std::env::var("GPARA_FUZZ_SECONDS").ok().map_or(1500, |text| 1000 * text.parse::<u64>().expect("seconds"))
}

/// Bytes with a few of them replaced, removed or repeated.
fn damaged(u: &mut Unstructured<'_>, whole: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = whole.to_vec();
    for _ in 0..u.int_in_range(1..=5)? {
        if bytes.is_empty() {
            break;
        }
        let at = u.choose_index(bytes.len())?;
        let end = (at + u.int_in_range(1..=12)?).min(bytes.len());
        match u.int_in_range(0..=3)? {
            0 => bytes[at] = u.arbitrary()?,
            1 => bytes.truncate(at),
            2 => {
                bytes.drain(at..end);
            }
            _ => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
    Ok(bytes)
}

#[test]
fn fuzz_damaged_cards_are_refused_without_panic() {
    let (mut runs, mut refused) = (0_u64, 0_u64);
    arbtest(|u| {
        let text = String::from_utf8_lossy(&damaged(u, CARD.as_bytes())?).into_owned();
        runs += 1;
        refused += u64::from(Card::parse(&text).is_err());
        Ok(())
    })
    .budget_ms(budget_ms());
    println!("cards: {runs} files, {refused} refused");
    assert!(refused > 0);
}

/// A damaged network is refused, or it loads and is run once: its golden values tell that it is another one, or a shape does.
fn is_refused(u: &mut Unstructured<'_>) -> Result<bool> {
    let onnx = damaged(u, ONNX)?;
    let card = CARD.replace(&sha256_hex(ONNX), &sha256_hex(&onnx));
    Ok(Network::from_bytes(&onnx, &card, 1).and_then(|network| network.verify()).is_err())
}

#[test]
fn fuzz_damaged_networks_with_a_card_of_their_hash_are_refused_without_panic() {
    let (mut runs, mut refused) = (0_u64, 0_u64);
    arbtest(|u| {
        runs += 1;
        refused += u64::from(is_refused(u)?);
        Ok(())
    })
    .budget_ms(budget_ms());
    println!("networks: {runs} files, {refused} refused");
    assert!(refused > 0);
}

/// Found by the search above: the sizes of a reshape multiply beyond 64 bits while `rten` loads the file.
#[test]
fn network_whose_sizes_overflow_is_refused() {
    arbtest(|u| {
        assert!(is_refused(u)?);
        Ok(())
    })
    .seed(0x8b85_93ad_0001_0000);
}
