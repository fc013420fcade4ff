//! `--set key=value`: one value of a configuration from the command line.

use std::str::FromStr;

use crate::failure::{Failure, Outcome};

/// A dotted key and the value it gets. An entry of a list is named by its number, or by its `name`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Override {
    key: String,
    value: toml::Value,
}

impl FromStr for Override {
    type Err = String;

    /// `key=value`, the value as in TOML; what is not TOML is a string.
    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = text.split_once('=').ok_or_else(|| format!("`{text}` has no `=`, as in data.first=20"))?;
        let key = key.trim();
        if key.is_empty() || key.split('.').any(str::is_empty) {
            return Err(format!("`{key}` is not a dotted key, as in data.first"));
        }
        let parsed = toml::from_str::<toml::Table>(&format!("value = {value}"));
        let value = match parsed.ok().and_then(|mut table| table.remove("value")) {
            Some(value) => value,
            None => toml::Value::String(value.trim().to_owned()),
        };
        Ok(Self { key: key.to_owned(), value })
    }
}

impl Override {
    /// Sets the value. Whether the key exists and fits is checked when the table is read into its type.
    pub(crate) fn apply(&self, table: &mut toml::Table) -> Outcome {
        let (parents, last) = match self.key.rsplit_once('.') {
            Some((parents, last)) => (parents.split('.').collect(), last),
            None => (Vec::new(), self.key.as_str()),
        };
        let mut place = table;
        let mut path = String::new();
        let mut parents = parents.into_iter().peekable();
        while let Some(part) = parents.next() {
            path = if path.is_empty() { part.to_owned() } else { format!("{path}.{part}") };
            let entry = place.entry(part).or_insert_with(|| toml::Value::Table(toml::Table::new()));
            place = match entry {
                toml::Value::Table(inner) => inner,
                toml::Value::Array(list) => {
                    let name = parents.next().unwrap_or(last);
                    path = format!("{path}.{name}");
                    find(list, name).ok_or_else(|| {
                        Failure::input(
                            format!("--set {}: there is no `{path}`", self.key),
                            "an entry of a list is named by its number from 0, or by its `name`",
                        )
                    })?
                }
                _ => {
                    let message = format!("--set {}: `{path}` is a value, it has no keys", self.key);
                    return Err(Failure::input(message, "configs/eval_radio.toml shows every key"));
                }
            };
        }
        place.insert(last.to_owned(), self.value.clone());
        Ok(())
    }
}

fn find<'a>(list: &'a mut [toml::Value], name: &str) -> Option<&'a mut toml::Table> {
    let place = match name.parse::<usize>() {
        Ok(place) => place,
        Err(_) => list.iter().position(|entry| entry.get("name").and_then(toml::Value::as_str) == Some(name))?,
    };
    list.get_mut(place)?.as_table_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_toml_or_a_string() {
        let value = |text: &str| text.parse::<Override>().unwrap().value;
        assert_eq!(value("a=5"), toml::Value::Integer(5));
        assert_eq!(value("a=[1, 2]").as_array().map(Vec::len), Some(2));
        assert_eq!(value("a=/some/folder"), toml::Value::String("/some/folder".into()));
        assert!("a".parse::<Override>().is_err() && "a..b=1".parse::<Override>().is_err());
    }
}
