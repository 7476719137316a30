//! The format of `baseline` and `budgets`: one fact a line, `SET KIND [NAME] NUMBER`, so that a diff reads as a sentence and a merge
//! conflict is about one fact. `#` begins a comment line. The name may hold spaces, as functions' names do; set and kind may not.

use std::collections::BTreeMap;

/// By set, kind, name. The name is empty for what is there once, such as the file's size.
#[derive(Debug, Default, PartialEq)]
pub struct Facts(BTreeMap<(String, String, String), u64>);

impl Facts {
    /// The message of an error has the number of the line.
    pub fn parse(text: &str) -> Result<Facts, String> {
        let mut facts = Facts::default();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (set, kind, name, value) =
                fact(line).ok_or(format!("line {number}: not `SET KIND [NAME] NUMBER`: {line}"))?;
            if facts.0.insert((set.into(), kind.into(), name.into()), value).is_some() {
                return Err(format!("line {number}: given twice: {line}"));
            }
        }
        Ok(facts)
    }

    pub fn get(&self, set: &str, kind: &str, name: &str) -> Option<u64> {
        self.0.get(&(set.to_owned(), kind.to_owned(), name.to_owned())).copied()
    }

    pub fn put(&mut self, set: &str, kind: &str, name: &str, value: u64) {
        self.0.insert((set.to_owned(), kind.to_owned(), name.to_owned()), value);
    }

    /// Name and number of all facts of a kind, by name.
    pub fn all<'f>(&'f self, set: &'f str, kind: &'f str) -> impl Iterator<Item = (&'f str, u64)> {
        let wanted = move |key: &(String, String, String)| key.0 == set && key.1 == kind;
        self.0.iter().filter(move |(key, _)| wanted(key)).map(|(key, value)| (&*key.2, *value))
    }

    pub fn sets(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|key| &*key.0)
    }

    pub fn forget(&mut self, set: &str, kind: &str) {
        self.0.retain(|key, _| key.0 != set || key.1 != kind);
    }

    /// Sorted, so that the same facts are the same bytes.
    pub fn print(&self) -> String {
        let mut out = String::new();
        for ((set, kind, name), value) in &self.0 {
            let gap = if name.is_empty() { "" } else { " " };
            out += &format!("{set} {kind}{gap}{name} {value}\n");
        }
        out
    }
}

fn fact(line: &str) -> Option<(&str, &str, &str, u64)> {
    let (set, rest) = line.split_once(' ')?;
    let (rest, value) = rest.trim_start().rsplit_once(' ')?;
    let (kind, name) = rest.trim().split_once(' ').unwrap_or((rest.trim(), ""));
    let value = value.bytes().all(|b| b.is_ascii_digit()).then(|| value.parse().ok())??;
    (!kind.is_empty()).then_some((set, kind, name.trim(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_again() {
        let mut facts = Facts::default();
        facts.put("default", "file", "", 2920);
        facts.put("default", "function", "<a::B as c::D>::e", 17);
        facts.put("minimal", "file", "", 1);
        let text = "default file 2920\ndefault function <a::B as c::D>::e 17\nminimal file 1\n";
        assert_eq!(facts.print(), text);
        assert_eq!(Facts::parse(text), Ok(facts));
    }

    #[test]
    fn comments_blank_lines_and_columns() {
        let facts = Facts::parse("# made by hand\n\n  default   zstd-19    327680  \n").unwrap();
        assert_eq!(facts.get("default", "zstd-19", ""), Some(327_680));
        assert_eq!(facts.get("default", "file", ""), None);
        assert_eq!(facts.all("default", "zstd-19").collect::<Vec<_>>(), [("", 327_680)]);
    }

    #[test]
    fn bad_lines_are_named() {
        for bad in [
            "default",
            "default file",
            "default 12",
            "default file twelve",
            "default file -1",
            "default file +1",
            "default file 0x10",
            "default file 1.5",
            "default file 640 KB",
            "default file 99999999999999999999999",
        ] {
            let text = format!("default file 1\n{bad}\n");
            let error = Facts::parse(&text).unwrap_err();
            assert!(error.starts_with("line 2: "), "{bad}: {error}");
        }
    }

    #[test]
    fn no_fact_twice() {
        let error = Facts::parse("a file 1\na file 2\n").unwrap_err();
        assert!(error.contains("line 2: given twice"), "{error}");
    }
}
