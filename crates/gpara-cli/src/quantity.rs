//! What people type: quantities with units, cells, sizes.

use std::str::FromStr;

use gpara_tasks::units::Unit;

use crate::failure::{Failure, Outcome};

/// A number with an optional unit behind it, e.g. `0.5dB`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Quantity {
    number: f64,
    unit: String,
}

impl FromStr for Quantity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        // The longest beginning that is a number; `1e3m` and `2e` both occur.
        let ends = (1..=text.len()).rev().filter(|&end| text.is_char_boundary(end));
        for end in ends {
            if let Ok(number) = text[..end].parse::<f64>()
                && number.is_finite()
            {
                return Ok(Self { number, unit: text[end..].trim().to_owned() });
            }
        }
        Err(format!("`{text}` is not a number with an optional unit, e.g. 0.5 or 0.5dB"))
    }
}

impl Quantity {
    /// A difference, such as a standard deviation, in the session's unit: those of dBm may be said in dB.
    pub(crate) fn difference_in_unit(&self, name: &str, unit: &str) -> Outcome<f64> {
        let difference = unit.parse::<Unit>().unwrap_or_default().difference();
        if difference.name() == self.unit {
            return Ok(self.number);
        }
        self.in_unit(name, unit)
    }

    /// The number in the session's unit.
    pub(crate) fn in_unit(&self, name: &str, unit: &str) -> Outcome<f64> {
        if self.unit.is_empty() || self.unit == unit {
            return Ok(self.number);
        }
        let own = if unit.is_empty() { "has none".to_string() } else { format!("is `{unit}`") };
        Err(Failure::input(
            format!("--{name} is in `{}`, the unit of the session {own}", self.unit),
            "leave the unit away, or convert the number",
        ))
    }
}

/// A unit as it follows a number: nothing where there is none.
pub(crate) fn unit_suffix(unit: &str) -> String {
    if unit.is_empty() { String::new() } else { format!(" {unit}") }
}

/// A cell, `ROW,COL`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) row: usize,
    pub(crate) col: usize,
}

impl FromStr for Cell {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match numbers(text, ',')?[..] {
            [row, col] => Ok(Self { row, col }),
            _ => Err(format!("`{text}` is not ROW,COL, e.g. 88,120")),
        }
    }
}

/// A grid's size, `ROWSxCOLS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match numbers(text, 'x')?[..] {
            [rows, cols] => Ok(Self { rows, cols }),
            _ => Err(format!("`{text}` is not ROWSxCOLS, e.g. 100x130")),
        }
    }
}

/// A rectangle of cells, both corners inside, and what it counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Region {
    pub(crate) first: Cell,
    pub(crate) last: Cell,
    pub(crate) weight: f64,
}

impl FromStr for Region {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (corners, weight) = match text.split_once('=') {
            Some((corners, weight)) => {
                (corners, weight.trim().parse().map_err(|_| format!("weight `{weight}` is not a number"))?)
            }
            None => (text, 1.0),
        };
        match numbers(corners, ',')?[..] {
            [top, left, bottom, right] if top <= bottom && left <= right => {
                let (first, last) = (Cell { row: top, col: left }, Cell { row: bottom, col: right });
                Ok(Self { first, last, weight })
            }
            _ => {
                Err(format!("`{text}` is not TOP,LEFT,BOTTOM,RIGHT or TOP,LEFT,BOTTOM,RIGHT=WEIGHT, e.g. 0,0,31,63=2"))
            }
        }
    }
}

fn numbers(text: &str, separator: char) -> Result<Vec<usize>, String> {
    text.split(separator)
        .map(|part| part.trim().parse().map_err(|_| format!("`{part}` in `{text}` is not a whole number")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantity_splits_number_and_unit_and_refuses_another_unit() {
        let quantity: Quantity = "0.5dB".parse().unwrap();
        assert_eq!(quantity.in_unit("sigma", "dB").unwrap(), 0.5);
        assert!(
            quantity.in_unit("sigma", "m").unwrap_err().to_string().contains("`dB`, the unit of the session is `m`")
        );
        assert_eq!(quantity.difference_in_unit("sigma", "dBm").unwrap(), 0.5);
        assert!(quantity.in_unit("value", "dBm").is_err());
        assert_eq!("1e-3 m".parse::<Quantity>().unwrap().in_unit("sigma", "m").unwrap(), 1e-3);
        assert_eq!("2".parse::<Quantity>().unwrap().in_unit("sigma", "").unwrap(), 2.0);
        for bad in ["", "dB", "nan", "inf m"] {
            assert!(bad.parse::<Quantity>().is_err(), "{bad}");
        }
    }

    #[test]
    fn cells_sizes_and_regions_are_read_or_refused() {
        assert_eq!("3, 4".parse(), Ok(Cell { row: 3, col: 4 }));
        assert_eq!("10x20".parse(), Ok(Size { rows: 10, cols: 20 }));
        let region: Region = "0,1,2,3=2.5".parse().unwrap();
        assert_eq!((region.first, region.last, region.weight), (Cell { row: 0, col: 1 }, Cell { row: 2, col: 3 }, 2.5));
        assert!("3".parse::<Cell>().is_err() && "-1,2".parse::<Cell>().is_err() && "3x".parse::<Size>().is_err());
        assert!("2,0,1,3".parse::<Region>().is_err() && "0,0,1,1=a".parse::<Region>().is_err());
    }
}
