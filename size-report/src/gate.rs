//! Whether what was measured may be merged: no measure has grown past the baseline's by more than [`TOLERANCE`], or past its budget.

use std::collections::BTreeMap;

use crate::effort;
use crate::facts::Facts;
use crate::measure::{FILE, Measured};
use crate::table::{change, number, percent};

/// Per cent; growth within it needs no new baseline, so that a compiler's release does not stop everybody.
pub const TOLERANCE: u64 = 1;
/// The same for what [`crate::effort`] measures: keys and signatures are others each time, and take 1 % more or less.
const EFFORT_TOLERANCE: u64 = 5;
/// Kinds of facts in the baseline, beside the measures.
pub const CRATE: &str = "crate";
pub const FUNCTION: &str = "function";
/// Bytes; smaller functions are not in the baseline.
const FUNCTION_FLOOR: u64 = 512;
/// How many crates and functions a message names.
const CULPRITS: usize = 3;

/// A name's bytes in the baseline and now.
pub struct Delta {
    pub name: String,
    pub before: u64,
    pub now: u64,
}

impl Delta {
    pub fn bytes(&self) -> i64 {
        self.now as i64 - self.before as i64
    }
}

/// One line for each reason to refuse. [`culprits`] says who grew.
pub fn check(set: &str, measured: &Measured, baseline: &Facts, limits: &Facts) -> Vec<String> {
    let mut refusals = Vec::new();
    let mut unknown = Vec::new();
    let update = format!("cargo run -p size-report -- --set {set} --update");
    for (measure, now) in &measured.sizes {
        let (tolerance, run) = if effort::is_effort(measure) { (EFFORT_TOLERANCE, " --run") } else { (TOLERANCE, "") };
        match baseline.get(set, measure, "") {
            None => unknown.push(*measure),
            Some(before) if now * 100 > before * (100 + tolerance) => {
                let grown = (now - before) as i64;
                let (by, part) = (change(grown), percent(grown, before));
                let at = number(before);
                refusals.push(format!(
                    "{set}: {measure} grew from {at} by {by} ({part} %). \
                     Cut it, or accept it in the same commit: {update}{run}"
                ));
            }
            Some(_) => {}
        }
        if let Some(limit) = limits.get(set, measure, "").filter(|limit| now > limit) {
            let (now, limit, over) = (number(*now), number(limit), number(now - limit));
            refusals.push(format!("{set}: {measure} is {now}, {over} over its budget of {limit}"));
        }
    }
    if !unknown.is_empty() {
        let measures = unknown.join(", ");
        refusals.push(format!("{set}: no baseline for {measures}; make it: {update}"));
    }
    for what in &measured.findings.wrong {
        refusals.push(format!("{set}: {what}"));
    }
    refusals
}

/// The crates and functions that grew most since the baseline, in a sentence; `None` if none did.
pub fn culprits(set: &str, measured: &Measured, baseline: &Facts) -> Option<String> {
    let grown = |kind: &str, deltas: Vec<Delta>| {
        let worst = deltas.into_iter().filter(|d| d.bytes() > 0).take(CULPRITS);
        let worst: Vec<_> = worst.map(|d| format!("{} {}", d.name, change(d.bytes()))).collect();
        (!worst.is_empty()).then(|| format!("{kind} {}", worst.join(", ")))
    };
    let by_crate = grown(CRATE, crates(set, measured, baseline));
    let by_function = grown(FUNCTION, functions(set, measured, baseline));
    let both: Vec<_> = by_crate.into_iter().chain(by_function).collect();
    (!both.is_empty()).then(|| both.join("; "))
}

/// What changed by crate; the sum is the file's change.
pub fn crates(set: &str, measured: &Measured, baseline: &Facts) -> Vec<Delta> {
    deltas(baseline.all(set, CRATE).collect(), measured.crates())
}

/// What changed by function, of those that the baseline knows or would know.
pub fn functions(set: &str, measured: &Measured, baseline: &Facts) -> Vec<Delta> {
    let before: BTreeMap<_, _> = baseline.all(set, FUNCTION).collect();
    let now =
        measured.functions().into_iter().filter(|(name, size)| *size >= FUNCTION_FLOOR || before.contains_key(name));
    let now = now.collect();
    deltas(before, now)
}

/// By size of the change, then by name; what did not change is left out.
fn deltas(before: BTreeMap<&str, u64>, now: BTreeMap<&str, u64>) -> Vec<Delta> {
    let mut names: Vec<_> = before.keys().chain(now.keys()).collect();
    names.sort();
    names.dedup();
    let of = |sizes: &BTreeMap<&str, u64>, name: &str| sizes.get(name).copied().unwrap_or(0);
    let delta = |name: &&&str| Delta { name: name.to_string(), before: of(&before, name), now: of(&now, name) };
    let mut deltas: Vec<_> = names.iter().map(delta).filter(|d| d.bytes() != 0).collect();
    deltas.sort_by_key(|d| std::cmp::Reverse(d.bytes().unsigned_abs()));
    deltas
}

/// Replaces what the baseline knows of the set. A measure that was not taken stays.
pub fn update(set: &str, measured: &Measured, baseline: &mut Facts) {
    baseline.forget(set, CRATE);
    baseline.forget(set, FUNCTION);
    for (measure, bytes) in &measured.sizes {
        baseline.put(set, measure, "", *bytes);
    }
    for (name, bytes) in measured.crates() {
        baseline.put(set, CRATE, name, bytes);
    }
    for (name, bytes) in measured.functions().into_iter().filter(|(_, bytes)| *bytes >= FUNCTION_FLOOR) {
        baseline.put(set, FUNCTION, name, bytes);
    }
}

/// Whether the baseline is so far above the present that it hides growth.
pub fn is_slack(set: &str, measured: &Measured, baseline: &Facts) -> bool {
    let now = measured.size(FILE);
    baseline.get(set, FILE, "").is_some_and(|before| now * (100 + TOLERANCE) < before * 100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribute::{Kind, Piece};
    use crate::invariants::Findings;

    fn measured(file: u64, parts: &[(&str, &str, u64)]) -> Measured {
        let piece = |(owner, name, size): &(&str, &str, u64)| Piece {
            start: 0,
            end: *size,
            owner: owner.to_string(),
            name: name.to_string(),
            kind: Kind::Code,
        };
        let findings = Findings { wrong: vec![], checked: 1 };
        Measured { sizes: vec![(FILE, file)], pieces: parts.iter().map(piece).collect(), findings, bytes: vec![] }
    }

    fn baseline(measured: &Measured) -> Facts {
        let mut facts = Facts::default();
        update("s", measured, &mut facts);
        facts
    }

    #[test]
    fn growth_within_the_tolerance_passes() {
        let facts = baseline(&measured(1000, &[]));
        assert_eq!(check("s", &measured(1010, &[]), &facts, &Facts::default()), [""; 0]);
        assert_eq!(check("s", &measured(1011, &[]), &facts, &Facts::default()).len(), 1);
        assert_eq!(check("s", &measured(1, &[]), &facts, &Facts::default()), [""; 0]);
    }

    #[test]
    fn the_message_names_who_grew() {
        let facts = baseline(&measured(10_000, &[("a", "a::f", 5000), ("b", "b::g", 5000)]));
        let now = measured(11_000, &[("a", "a::f", 6500), ("b", "b::g", 4500)]);
        let refusals = check("s", &now, &facts, &Facts::default());
        assert_eq!(refusals.len(), 1);
        assert!(refusals[0].contains("file grew from 10,000 by +1,000 (10.0 %)"), "{refusals:?}");
        assert_eq!(culprits("s", &now, &facts).as_deref(), Some("crate a +1,500; function a::f +1,500"));
        assert_eq!(culprits("s", &now, &baseline(&now)), None);
    }

    #[test]
    fn without_a_baseline_nothing_passes() {
        let refusals = check("s", &measured(1, &[]), &Facts::default(), &Facts::default());
        assert!(refusals[0].contains("no baseline"), "{refusals:?}");
    }

    #[test]
    fn budgets_hold_whatever_the_baseline_says() {
        let now = measured(101, &[]);
        let limits = |bytes| Facts::parse(&format!("s file {bytes}")).unwrap();
        assert_eq!(check("s", &now, &baseline(&now), &limits(101)), [""; 0]);
        let refusals = check("s", &now, &baseline(&now), &limits(100));
        assert!(refusals[0].contains("1 over its budget of 100"), "{refusals:?}");
    }

    #[test]
    fn what_is_wrong_with_the_file_is_refused() {
        let mut now = measured(1, &[]);
        now.findings.wrong.push("the stack is executable".into());
        assert_eq!(check("s", &now, &baseline(&now), &Facts::default()), ["s: the stack is executable"]);
    }

    #[test]
    fn deltas_are_sorted_by_size_and_add_up() {
        let facts = baseline(&measured(0, &[("a", "f", 600), ("b", "g", 900), ("c", "h", 5000), ("d", "same", 1)]));
        let now = measured(0, &[("a", "f", 650), ("b", "g", 100), ("e", "i", 700), ("e", "i", 30), ("d", "same", 1)]);
        let crates = crates("s", &now, &facts);
        let list: Vec<_> = crates.iter().map(|d| (&*d.name, d.bytes())).collect();
        assert_eq!(list, [("c", -5000), ("b", -800), ("e", 730), ("a", 50)]);
        let functions = functions("s", &now, &facts);
        let list: Vec<_> = functions.iter().map(|d| (&*d.name, d.before, d.now)).collect();
        // `g` is known though it is small now; both instances of `i` count as one function.
        assert_eq!(list, [("h", 5000, 0), ("g", 900, 100), ("i", 0, 730), ("f", 600, 650)]);
    }

    #[test]
    fn slack() {
        let facts = baseline(&measured(1000, &[]));
        assert!(is_slack("s", &measured(980, &[]), &facts));
        assert!(!is_slack("s", &measured(995, &[]), &facts));
    }
}
