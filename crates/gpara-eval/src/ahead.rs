//! Where a method is better than ours: what a page must not leave to the reader's eye.

use crate::case::Case;
use crate::pivot::Pivot;
use crate::statistics::{Comparison, compare};
use crate::table::{ResultTable, difference};

/// A method that is better than ours, scene by scene, by an interval that excludes 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Ahead {
    /// What the reader sees of the method.
    pub label: String,
    /// Its name in the results.
    pub method: String,
    /// Ours that it is compared with.
    pub ours: String,
    /// The number compared.
    pub number: String,
    /// How far it is ahead.
    pub comparison: Comparison,
}

impl Ahead {
    /// The method and how far it is ahead, as a line of a list.
    pub fn line(&self) -> String {
        format!("**{}**: {}", self.label, difference(&self.ours, Some(self.comparison)))
    }
}

/// The name of our method at the points of another: `best/random-491` for `kriging/random-491`.
fn counterpart(method: &str, ours: &str) -> String {
    match method.split_once('/') {
        Some((_, points)) => format!("{ours}/{points}"),
        None => ours.to_owned(),
    }
}

/// `method` against ours at the same points, else against `otherwise`.
fn judge(
    cases: &[Case],
    (label, method): (&str, &str),
    ours: &str,
    otherwise: Option<&str>,
    number: &str,
) -> Option<Ahead> {
    let own = |name: &str| name == ours || name.split('/').next() == Some(ours);
    if own(method) {
        return None;
    }
    let names = [Some(counterpart(method, ours)), otherwise.filter(|name| own(name)).map(str::to_owned)];
    let (rival, comparison) = names.into_iter().flatten().find_map(|name| {
        let found = compare(cases, method, &name, number)?;
        Some((name, found))
    })?;
    comparison.is_better().then(|| Ahead {
        label: label.to_owned(),
        method: method.to_owned(),
        ours: rival,
        number: number.to_owned(),
        comparison,
    })
}

impl ResultTable<'_> {
    /// The rows that are ahead of the method called `ours` by the first number: at the same points, or, where ours was not run
    /// there, against `against`.
    pub fn ahead_of(&self, ours: &str) -> Vec<Ahead> {
        let (number, against) = (&self.config.numbers[0], self.config.against.as_deref());
        let rows = self.config.rows.iter();
        rows.filter_map(|row| judge(self.cases, (&row.label, &row.method), ours, against, number)).collect()
    }
}

impl Pivot<'_> {
    /// The cells that are ahead of the method called `ours` at the same points.
    pub fn ahead_of(&self, ours: &str) -> Vec<Ahead> {
        let mut found = Vec::new();
        for row in &self.config.rows {
            for column in &self.config.columns {
                let label = format!("{}, {}", row.label, column.label());
                let method = row.method.replace("{}", column.text());
                found.extend(judge(self.cases, (&label, &method), ours, None, &self.config.number));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pivot::PivotConfig;
    use crate::statistics::tests::case;
    use crate::table::TableConfig;

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for scene in 0..10 {
            let (id, noise) = (format!("{scene}"), 0.01 * f64::from(scene));
            for (method, value) in [
                ("best/random-9", 2.0),
                ("best/active-9", 1.5),
                ("kriging/random-9", 1.0),
                ("linear/random-9", 3.0),
                ("ads/ads-9", 1.2),
            ] {
                cases.push(case(method, &id, "rmse", value + noise));
            }
            // As often better as worse.
            let sign = if scene % 2 == 0 { 1.0 } else { -1.0 };
            cases.push(case("field/random-9", &id, "rmse", 2.0 + noise + sign));
        }
        cases
    }

    #[test]
    fn rows_are_judged_at_their_own_points_else_against_the_tables_rival() {
        let config: TableConfig = toml::from_str(
            r#"
            title = "T"
            against = "best/active-9"
            row = [
                { label = "ours", method = "best/active-9" },
                { label = "K", method = "kriging/random-9" },
                { label = "L", method = "linear/random-9" },
                { label = "F", method = "field/random-9" },
                { label = "A", method = "ads/ads-9" },
                { label = "gone", method = "dps/random-9" },
            ]
            "#,
        )
        .unwrap();
        let found = ResultTable { cases: &cases(), config: &config }.ahead_of("best");
        let names: Vec<(&str, &str)> = found.iter().map(|ahead| (ahead.label.as_str(), ahead.ours.as_str())).collect();
        assert_eq!(names, [("K", "best/random-9"), ("A", "best/active-9")]);
        assert!((found[0].comparison.difference.mean + 1.0).abs() < 1e-12);
        assert_eq!(found[0].comparison.wins, 10);
    }

    #[test]
    fn cells_of_a_pivot_name_their_column() {
        let config: PivotConfig = toml::from_str(
            "title = \"T\"\nvaried = \"points\"\ncolumns = [\"9\"]\n\
             [[row]]\nlabel = \"K\"\nmethod = \"kriging/random-{}\"\n[[row]]\nlabel = \"best\"\nmethod = \"best/random-{}\"\n",
        )
        .unwrap();
        let found = Pivot { cases: &cases(), config: &config }.ahead_of("best");
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].label.as_str(), found[0].method.as_str()), ("K, 9", "kriging/random-9"));
    }
}
