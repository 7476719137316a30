//! `budgets`: the feature sets, how cargo is told to build each, and what each may weigh.
//!
//! `features SET [CARGO ARGUMENTS]` declares a set; `SET KIND BYTES` ([`crate::facts`]) sets a limit, KIND being a measure of
//! [`crate::measure`].

use crate::facts::Facts;

pub struct Budgets {
    pub sets: Vec<Set>,
    pub limits: Facts,
}

pub struct Set {
    pub name: String,
    pub arguments: Vec<String>,
}

impl Budgets {
    pub fn parse(text: &str) -> Result<Budgets, String> {
        let mut sets: Vec<Set> = Vec::new();
        let mut rest = String::new();
        for (number, line) in (1..).zip(text.lines()) {
            let mut words = line.split_whitespace().map(str::to_owned);
            if words.next().as_deref() != Some("features") {
                rest += line;
                rest.push('\n');
                continue;
            }
            let name = words.next().ok_or(format!("line {number}: features of what?"))?;
            if sets.iter().any(|s| s.name == name) {
                return Err(format!("line {number}: {name} is declared twice"));
            }
            sets.push(Set { name, arguments: words.collect() });
            // So that the numbers of the lines after it stay true.
            rest.push('\n');
        }
        let limits = Facts::parse(&rest)?;
        if let Some(name) = limits.sets().find(|name| sets.iter().all(|s| s.name != *name)) {
            return Err(format!("{name} has a limit, but no line `features {name}`"));
        }
        Ok(Budgets { sets, limits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_and_limits() {
        let text =
            "# text\nfeatures default\nfeatures minimal --no-default-features --features zstd\n\ndefault file 655360\n";
        let budgets = Budgets::parse(text).ok().unwrap();
        assert_eq!(budgets.sets[0].arguments.len(), 0);
        assert_eq!(budgets.sets[1].name, "minimal");
        assert_eq!(budgets.sets[1].arguments, ["--no-default-features", "--features", "zstd"]);
        assert_eq!(budgets.limits.get("default", "file", ""), Some(655_360));
    }

    #[test]
    fn bad_input() {
        for (text, message) in [
            ("features", "line 1: features of what?"),
            ("features a\n\nfeatures a", "line 3: a is declared twice"),
            ("features a\na file", "line 2: not `SET KIND [NAME] NUMBER`: a file"),
            ("features a\nb file 1", "b has a limit, but no line `features b`"),
        ] {
            assert_eq!(Budgets::parse(text).err().as_deref(), Some(message));
        }
    }
}
